/** Reads the presented key from the headers of a request. */
import { hasLength, MAX_KEY_LENGTH } from "../lib/copy-json.js";

const BEARER = /^bearer(?=[ \t]|$)/i;
/** The compact form of a signed or encrypted token: three or five parts, the first of them base64url of `{"…`. */
const TOKEN = /^eyJ[\w-]*\.[\w-]*\.[\w-]*(?:\.[\w-]*\.[\w-]*)?$/;

/** Where keys are looked for by default; the first header that holds one counts. */
export const DEFAULT_HEADERS: readonly string[] = ["authorization", "x-api-key"];

/**
 * What a request presents: a key; `undefined`, no credential; `null`, one that can't be a key: empty, too long or
 * malformed, which is the client's mistake.
 */
export type Presented = string | null | undefined;

/**
 * Reads the first of these headers that has a value. `authorization` counts if its scheme is Bearer.
 * @param header returns a header's value by its name in lower case
 * @param skipTokens pass over a Bearer value in the form of a JWT
 */
export function readHeaders(
  names: readonly string[],
  header: (name: string) => string | undefined,
  skipTokens: boolean,
): { readonly presented: Presented; readonly skipped: boolean } {
  let skipped = false;
  let presented: Presented;
  for (const name of names) {
    // Not one pattern for all of it: with a header full of spaces that would take quadratic time.
    const value = header(name)?.trim() ?? "";
    if (value === "") continue;
    if (name !== "authorization") return { presented: toKey(value), skipped };
    if (!BEARER.test(value)) continue;
    const key = value.slice("bearer".length).replace(/^ +/, "");
    // A scheme alone hides no key in another header.
    if (key === "") presented = null;
    else if (skipTokens && TOKEN.test(key)) skipped = true;
    // A space or a comma: several values, or several headers that were joined. A tab separates no scheme from its
    // value.
    else return { presented: /[ \t,]/.test(key) ? null : toKey(key), skipped };
  }
  return { presented, skipped };
}

/** A text that a verification accepts as a key, or null. */
export function toKey(value: string): string | null {
  return hasLength(value, 1, MAX_KEY_LENGTH) && value.isWellFormed() ? value : null;
}
