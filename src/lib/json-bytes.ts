/** How many bytes a value has as JSON in UTF-8. */

const encoder = new TextEncoder();

/** @param value plain data, which JSON can represent */
export function jsonBytes(value: unknown): number {
  return encoder.encode(JSON.stringify(value)).length;
}
