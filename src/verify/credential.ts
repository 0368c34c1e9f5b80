/** Reads the presented key from the headers of a request. */
import { hasLength, MAX_KEY_LENGTH } from "../lib/copy-json.js";

const BEARER = /^bearer(?=[ \t]|$)/i;
/** The compact form of a signed or encrypted token: three or five parts, the first of them base64url of `{"…`. */
const TOKEN = /^eyJ[\w-]*\.[\w-]*\.[\w-]*(?:\.[\w-]*\.[\w-]*)?$/;

/** Headers searched by default; the first that holds a key counts. */
export const DEFAULT_HEADERS: readonly string[] = ["authorization", "x-api-key"];

/**
 * What a request presents: a key; `undefined`: no credential; `null`: a credential that can't be a key, because it is
 * empty, too long or malformed.
 */
export type Presented = string | null | undefined;

/**
 * Reads the first of these headers that has a value. `authorization` counts only with the scheme Bearer.
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
    // Not one pattern: on a header full of spaces it would take quadratic time.
    const value = header(name)?.trim() ?? "";
    if (value === "") continue;
    if (name !== "authorization") return { presented: toKey(value), skipped };
    if (!BEARER.test(value)) continue;
    const key = value.slice("bearer".length).replace(/^ +/, "");
    // After a scheme without a value, the other headers are still searched.
    if (key === "") presented = null;
    else if (skipTokens && TOKEN.test(key)) skipped = true;
    // A space or comma means several values, or several headers joined. A tab must not follow the scheme.
    else return { presented: /[ \t,]/.test(key) ? null : toKey(key), skipped };
  }
  return { presented, skipped };
}

/** A text that a verification accepts as a key, or null. */
export function toKey(value: string): string | null {
  return hasLength(value, 1, MAX_KEY_LENGTH) && value.isWellFormed() ? value : null;
}
