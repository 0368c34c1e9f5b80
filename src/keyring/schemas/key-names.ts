/**
 * The fields of a key that requests give and responses contain under their own names, taken from the table of fields.
 */
import { fieldsThat } from "../../contracts/key-fields.js";

/** Given as they are stored; null removes them, or resets them to the default. */
export const CLEARABLE = fieldsThat({ given: "clearable" });
/** Given as they are stored, and never null. */
export const SETTABLE = fieldsThat({ given: "set" });
/** Present in every response. */
export const ALWAYS_SHOWN = fieldsThat({ shown: "always" });
/** Present unless absent or equal to the default. */
export const SHOWN_UNLESS_USUAL = fieldsThat({ shown: "unusual" });
