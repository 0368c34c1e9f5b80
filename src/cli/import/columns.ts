/** A key from columns that are named like the fields of an import, dotted where nested: `credits.refill.amount`. */
import { importedKey } from "../../keyring/schemas/imports.js";
import { type JsonSchema, toJsonSchema } from "../../keyring/schemas/json-schema.js";
import { tryJson } from "../io/input.js";
import { timeOf } from "./values.js";

/** Fields of an import. */
const KEY = toJsonSchema(importedKey);
/** Free-form: below it every cell is text. */
const META = "meta";
const TEXT: JsonSchema = { type: "string" };

/** How the text of a cell is read, by the type of its field; what cannot be read stays text, which is refused later. */
const READERS: Readonly<Record<string, (text: string) => unknown>> = {
  string: (text) => text,
  integer: (text) => (/^-?\d+$/.test(text) ? Number(text) : (timeOf(text) ?? text)),
  boolean: (text) => ({ true: true, false: false })[text] ?? text,
  object: (text) => tryJson(text).value ?? text,
  array: (text) => (text.startsWith("[") ? (tryJson(text).value ?? text) : text.split(",").map((one) => one.trim())),
};

/** The schema of a field; `undefined`: an import has none of this name. */
export function fieldOf(name: string): JsonSchema | undefined {
  const [first, ...rest] = name.split(".");
  if (first === META && rest.length > 0) return rest.includes("") ? undefined : TEXT;
  return name.split(".").reduce<JsonSchema | undefined>((schema, part) => {
    if (schema?.items !== undefined) return /^\d{1,2}$/.test(part) ? schema.items : undefined;
    return Object.hasOwn(schema?.properties ?? {}, part) ? schema?.properties?.[part] : undefined;
  }, KEY);
}

/** Sets a field of a key. @param name that {@link fieldOf} knows @param value of a cell that is no text: as it is */
export function setField(key: object, name: string, value: unknown): void {
  const parts = name.split(".");
  const last = parts.pop() as string;
  let place = key as Record<string, unknown>;
  parts.forEach((part, i) => {
    const isList = /^\d+$/.test(parts[i + 1] ?? last) && parts[0] !== META;
    if (typeof place[part] !== "object" || place[part] === null) place[part] = isList ? [] : Object.create(null);
    place = place[part] as Record<string, unknown>;
  });
  place[last] = typeof value === "string" ? readCell(fieldOf(name) ?? TEXT, value) : value;
}

function readCell({ type = "string" }: JsonSchema, text: string): unknown {
  const types = typeof type === "string" ? [type] : type;
  if (text === "null" && types.includes("null")) return null;
  return READERS[types[0] as string]?.(text);
}
