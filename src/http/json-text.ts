/** What both readers of JSON bodies use. */
import { badRequest, type KeystileError } from "../contracts/errors.js";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** The error of a body that cannot be read at all. */
export const badBody = (message: string, fix?: string): KeystileError =>
  badRequest([fix === undefined ? { location: "body", message } : { location: "body", message, fix }]);

/** Index of the closing quote of the JSON string that contains `from`; the text's length if it has none. */
export function endOfText(text: string, from: number): number {
  for (let i = from; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === QUOTE) return i;
    if (unit === BACKSLASH) i++;
  }
  return text.length;
}
