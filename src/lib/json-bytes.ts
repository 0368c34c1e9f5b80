/** How many bytes a value has as JSON in UTF-8. */

const encoder = new TextEncoder();
/** Longer texts are counted a part at a time, since their bytes would be garbage at once: a page of 4 MiB makes 4. */
const LONG = 65_536;

/** @param value plain data, which JSON can represent */
export function jsonBytes(value: unknown): number {
  const text = JSON.stringify(value);
  if (text.length <= LONG) return encoder.encode(text).length;
  const part = new Uint8Array(LONG);
  let bytes = 0;
  for (let at = 0; at < text.length;) {
    const { read, written } = encoder.encodeInto(text.slice(at, at + LONG), part);
    at += read;
    bytes += written;
  }
  return bytes;
}
