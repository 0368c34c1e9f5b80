/** Requests of imports. Contract 2.3, 4.2; `migration-requests.ts` has their types. */
import * as v from "valibot";
import type { V2KeysMigrateKeyData } from "../../contracts/types.js";
import { MAX_DATE_MS } from "../../lib/check-options.js";
import { credits } from "./credits.js";
import { described } from "./json-schema.js";
import type * as M from "./migration-requests.js";
import * as atom from "./primitives.js";
import { migratedLimits, ratelimits } from "./ratelimits.js";

const { body, integer, optional, optionalOr, text } = atom;

/** Id of a migration. */
export const migrationId = text(3, 255);

/** The fields of an import besides its keys, which are validated one by one. */
export const migrateKeys = body<M.V2KeysMigrateKeysRequestBody>()({
  migrationId,
  apiId: text(3, 255),
  keys: described(
    v.custom<M.V2KeysMigrateKeysRequestBody["keys"]>(isIterable, "must be an array of at least 1 item, or an iterable"),
    { type: "array", minItems: 1 },
  ),
});

const migratedFields = {
  hash: text(3, Infinity),
  name: optional(atom.name),
  externalId: optional(atom.anyExternalId),
  meta: optional(atom.meta),
  roles: optional(atom.roleNames(0)),
  permissions: optional(atom.slugs(0)),
  // Contract 2.3 sets no latest time; a JavaScript date does.
  expires: optional(integer(0, MAX_DATE_MS)),
  enabled: optionalOr(atom.boolean, true),
  credits: optional(credits),
  ratelimits: optional(migratedLimits),
};
/** A key of an import. */
export const migratedKey = body<V2KeysMigrateKeyData>()(migratedFields);
/** With what the library takes besides. */
export const importedKey = body<M.ImportedKeyData>()({
  ...migratedFields,
  createdAt: optional(integer(0, MAX_DATE_MS)),
  prefix: optional(atom.prefix),
  start: optional(atom.start),
  keyId: optional(atom.keyId),
  identity: optional(body<M.ImportedIdentityData>()({ meta: optional(atom.meta), ratelimits: optional(ratelimits) })),
});

function isIterable(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return typeof value === "object" && value !== null && (Symbol.iterator in value || Symbol.asyncIterator in value);
}
