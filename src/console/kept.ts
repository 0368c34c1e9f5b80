/**
 * What was typed into a form that could not be taken: kept in the page that answers it, and nowhere else, so that it
 * can be sent again after signing in, or once the store answers.
 */
import { hasChecksum } from "../lib/hash.js";
import { ONCE, TOKEN } from "../view/form.js";

/** Most characters of kept fields, encoded as a form sends them. The sign-in form carries them, in at most 16 kB. */
const MAX_KEPT = 12_000;
/** Of the form that was sent, not of who typed. */
const OWN: readonly string[] = [TOKEN, ONCE];

/** The fields that somebody typed, without keys. @returns as a form sends them; undefined: none, or too many */
export function toKept(form: URLSearchParams): string | undefined {
  const typed = [...form].filter(([name, value]) => !OWN.includes(name) && !hasChecksum(value.trim()));
  const text = new URLSearchParams(typed).toString();
  return text === "" || text.length > MAX_KEPT ? undefined : text;
}
