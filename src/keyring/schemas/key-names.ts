/** Which fields of a key requests give and answers show under the fields' own names, out of the table of fields. */
import { fieldsThat } from "../../contracts/key-fields.js";

/** Given as they are stored; null takes them away, or makes them usual again. */
export const CLEARABLE = fieldsThat({ given: "clearable" });
/** Given as they are stored, and never null. */
export const SETTABLE = fieldsThat({ given: "set" });
/** Shown of every key. */
export const ALWAYS_SHOWN = fieldsThat({ shown: "always" });
/** Shown where they are there and not as most keys have them. */
export const SHOWN_UNLESS_USUAL = fieldsThat({ shown: "unusual" });
