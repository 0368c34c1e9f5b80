/**
 * The JSON Schema of a request schema, for documentation and for the command line: derived from what validates, so the
 * two agree.
 */
import type * as v from "valibot";
import type { Json } from "../../contracts/types.js";

/** A JSON Schema (2020-12) of the few keywords that requests and responses need. */
export interface JsonSchema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly default?: Json;
  readonly enum?: readonly Json[];
  readonly const?: Json;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean;
  readonly maxProperties?: number;
  readonly items?: JsonSchema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly format?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly if?: JsonSchema;
  readonly then?: JsonSchema;
  readonly else?: JsonSchema;
  readonly not?: JsonSchema;
}

/** A part of a schema with its JSON Schema as a property, so that validation costs nothing more. */
export interface Described {
  readonly json: JsonSchema;
}

/** Describes in JSON Schema what a schema checks by a function, which cannot be derived. */
export function described<S extends object>(schema: S, json: JsonSchema): S & Described {
  return Object.assign(schema, { json });
}

/** The parts of valibot's schemas that are read here. */
interface Anatomy extends Partial<Described> {
  readonly type: string;
  readonly pipe?: readonly Anatomy[];
  readonly entries?: Readonly<Record<string, Anatomy>>;
  readonly item?: Anatomy;
  readonly wrapped?: Anatomy;
  readonly options?: readonly string[];
}

/**
 * The JSON Schema of a request schema.
 * @throws TypeError for a part without a description: wrap it in {@link described}
 */
export function toJsonSchema(schema: v.GenericSchema): JsonSchema {
  const json = convert(schema);
  if (json === undefined) throw new TypeError(`a part of type ${schema.type} has no JSON Schema`);
  return json;
}

function convert(part: Anatomy): JsonSchema | undefined {
  const structure = readPipe(part) ?? readStructure(part);
  if (structure === undefined) return part.json;
  return part.json === undefined ? structure : { ...structure, ...part.json };
}

function readPipe({ pipe }: Anatomy): JsonSchema | undefined {
  for (const part of pipe ?? []) {
    const json = convert(part);
    if (json !== undefined) return json;
  }
  return undefined;
}

function readStructure({ type, entries, item, wrapped, options }: Anatomy): JsonSchema | undefined {
  if (type === "strict_object" && entries !== undefined) return readObject(entries);
  if (type === "array" && item !== undefined) return { type: "array", items: toJsonSchema(item as never) };
  if (type === "picklist" && options !== undefined) return { type: "string", enum: options };
  if (type === "exact_optional" && wrapped !== undefined) return toJsonSchema(wrapped as never);
  if (type === "nullable" && wrapped !== undefined) return orNull(toJsonSchema(wrapped as never));
  return undefined;
}

function readObject(entries: Readonly<Record<string, Anatomy>>): JsonSchema {
  const properties: Record<string, JsonSchema> = {};
  for (const [name, part] of Object.entries(entries)) properties[name] = toJsonSchema(part as never);
  const required = Object.keys(entries).filter((name) => entries[name]?.type !== "exact_optional");
  return { type: "object", properties, ...(required.length > 0 && { required }), additionalProperties: false };
}

function orNull(json: JsonSchema): JsonSchema {
  return { ...json, type: [json.type as string, "null"] };
}
