/** Example values for the documentation and the help of the command line, made from the schemas. */
import type { Json } from "../../contracts/types.js";
import type { JsonSchema } from "../../keyring/schemas/json-schema.js";
import { fieldAt } from "../operations/fields.js";
import type { Operation } from "../operations/operation.js";

/** Optional properties of requests that an example shows, because the operation is about them. */
const SHOWN: ReadonlySet<string> = new Set(["credits", "permissions", "ratelimits", "refillDay", "value"]);

/** An example request of an operation. */
export function requestSample({ request }: Pick<Operation, "request">): Json {
  return sampleOf(request, "request", true);
}

/** An example of the property at `path`. In requests optional properties are left out, but for those worth seeing. */
export function sampleOf(schema: JsonSchema, path: string, isRequest: boolean): Json {
  if (schema.properties !== undefined) return objectOf(schema, path, isRequest);
  if (schema.items !== undefined) return [sampleOf(schema.items, path, isRequest)];
  return valueOf(schema, path);
}

function valueOf(schema: JsonSchema, path: string): Json {
  const [, prefix] = /^\^([a-z]+_)/.exec(schema.pattern ?? "") ?? [];
  const sample = prefix === undefined ? fieldAt(path)?.[1] : `${prefix}5Yh8vD2n`;
  if (sample !== undefined && (schema.enum === undefined || schema.enum.includes(sample))) return sample;
  return schema.const ?? schema.default ?? schema.enum?.[0] ?? (schema.type === "boolean" ? true : {});
}

function objectOf({ properties = {}, required = [] }: JsonSchema, path: string, isRequest: boolean): Json {
  const isShown = (name: string): boolean => !isRequest || required.includes(name) || SHOWN.has(name);
  return Object.fromEntries(
    Object.entries(properties)
      .filter(([name]) => isShown(name))
      .map(([name, schema]) => [name, sampleOf(schema, `${path}.${name}`, isRequest)]),
  );
}
