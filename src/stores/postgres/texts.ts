/** What PostgreSQL's `text` can hold: any well-formed text without U+0000. */

/** Whether a text can be stored and asked for. Another one is in no row, so that reads need not ask. */
export function isStorable(text: string): boolean {
  return !text.includes("\0") && text.isWellFormed();
}

/** @throws RangeError: PostgreSQL cannot store it exactly */
export function assertStorable(text: string, what: string): void {
  if (!isStorable(text))
    throw new RangeError(`${what} must be well-formed text without U+0000, to be kept in PostgreSQL`);
}

/** JSON of what is for people, such as an entry of the audit trail, with what cannot be stored left out. */
export function jsonForPeople(value: unknown): string {
  return JSON.stringify(value, (_name, part: unknown) => (typeof part === "string" ? forPeople(part) : part));
}

/** A text for people, with what cannot be stored left out. */
export function forPeople(text: string): string {
  return text.toWellFormed().replaceAll("\0", "");
}

/**
 * A field of a body, in SQL. `json` reads no `\u0000` and no half of a surrogate pair, which free-form data may hold:
 * first escaped backslashes go, then the backslashes of such escapes.
 */
export function fieldOf(row: string, name: string): string {
  return String.raw`(pg_catalog.replace(pg_catalog.replace(${row}.body, E'\\\\', ''), E'\\u', '')::json ->> '${name}'::text)`;
}
