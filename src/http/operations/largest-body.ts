/** How long the longest body is that an operation accepts, and from it what is read and parsed of one. */
import type { JsonSchema } from "../../keyring/schemas/json-schema.js";
import type { BodyShape } from "../long-json.js";

/** Read of any body: the longest legal one of most operations is far shorter. */
export const SMALL_BODY_BYTES = 131_072;
/** Read where the longest legal body is longer. */
export const LARGE_BODY_BYTES = 1_048_576;

/** Bytes of a character written as `\u0041`, and of one beyond U+FFFF, which takes two of these. */
const ESCAPED = 6;
const ESCAPED_PAIR = 12;
/** Free-form data may have so many bytes as UTF-8 (`meta`), each of which may be escaped. */
const FREE_FORM_BYTES = 65_536;
/** Of which each value takes two at least. */
const FREE_FORM_VALUES = FREE_FORM_BYTES / 2;
/** The longest number, and the longest of the other words of JSON. */
const NUMBER_BYTES = 24;

/** The bytes that are read of a body with this schema. */
export function bodyBytesOf(schema: JsonSchema): number {
  return longestBytes(schema) <= SMALL_BODY_BYTES ? SMALL_BODY_BYTES : LARGE_BODY_BYTES;
}

/**
 * Bytes of the longest JSON text of a value that the schema accepts, with every character escaped and without blanks;
 * `Infinity` where the schema sets no bound.
 */
export function longestBytes(schema: JsonSchema): number {
  const { enum: values, properties, items, maxItems = Infinity, maxLength = Infinity, pattern } = schema;
  if (values !== undefined) return Math.max(...values.map((value) => JSON.stringify(value).length * ESCAPED));
  if (properties !== undefined)
    return Object.entries(properties).reduce(
      (sum, [name, part]) => sum + escapedBytes(name) + 2 + longestBytes(part),
      2,
    );
  if (items !== undefined) return 2 + maxItems * (longestBytes(items) + 1);
  const types = [schema.type].flat();
  if (types.includes("object")) return FREE_FORM_BYTES * ESCAPED;
  return types.includes("string") ? 2 + maxLength * (pattern === undefined ? ESCAPED_PAIR : ESCAPED) : NUMBER_BYTES;
}

/** What a body with this schema may have: one with an endless list of objects lists keys. */
export function bodyShapeOf(schema: JsonSchema): BodyShape {
  const keys = Object.values(schema.properties ?? {}).find(
    ({ items, maxItems }) => items?.properties !== undefined && maxItems === undefined,
  )?.items;
  return { maxValues: mostValues(keys ?? schema), isImport: keys !== undefined };
}

/** Values in the largest value that the schema accepts, itself included; `Infinity` where it sets no bound. */
function mostValues({ properties, items, maxItems = Infinity, type }: JsonSchema): number {
  if (properties !== undefined) return Object.values(properties).reduce((sum, part) => sum + mostValues(part), 1);
  if (items !== undefined) return 1 + maxItems * mostValues(items);
  return [type].flat().includes("object") ? FREE_FORM_VALUES : 1;
}

const escapedBytes = (text: string): number => text.length * ESCAPED + 2;
