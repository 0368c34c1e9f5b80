/**
 * The fields of a key that requests give as they are stored: of a new key, and of a change. The compiler refuses one
 * that the table of fields lacks, one that is missing here, and null where it may not be given.
 */
import { KEY_FIELDS } from "../../contracts/key-fields.js";
import { boolean, ipAllowlist, meta, name, nullable, optional, optionalOr, time } from "./primitives.js";

/** Of a new key: any may be left out. */
export const newKeyFields = {
  name: optional(name),
  meta: optional(meta),
  expires: optional(time),
  enabled: optionalOr(boolean, KEY_FIELDS.enabled.usual),
  ipAllowlist: optional(ipAllowlist),
};

/** Of a change: any may be left out, and null removes what may be removed. */
export const changedKeyFields = {
  name: optional(nullable(name)),
  meta: optional(nullable(meta)),
  expires: optional(nullable(time)),
  enabled: optional(boolean),
  ipAllowlist: optional(nullable(ipAllowlist)),
};
