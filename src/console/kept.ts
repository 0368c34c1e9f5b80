/**
 * What was typed into a form that could not be taken: kept in the page that answers it, and nowhere else, so that it
 * can be sent again after signing in, or once the store answers.
 */
import { hasChecksum } from "../lib/hash.js";
import { ONCE, TOKEN } from "../view/form.js";

/** Most characters of kept fields, encoded as a form sends them. The sign-in form carries them, in at most 16 kB. */
const MAX_KEPT = 12_000;

/**
 * The fields that somebody typed, without keys, and the id of the form: it may have been taken before, and is taken
 * once. @returns as a form sends them; undefined: nothing was typed, or too much
 */
export function toKept(form: URLSearchParams): string | undefined {
  const kept = [...form].filter(([name, value]) => name !== TOKEN && !hasChecksum(value.trim()));
  const text = new URLSearchParams(kept).toString();
  return kept.every(([name]) => name === ONCE) || text.length > MAX_KEPT ? undefined : text;
}
