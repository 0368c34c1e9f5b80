/** Operations `keys.*` except verification and imports (contract 4.3). */
import type { Context } from "../../keyring/context.js";
import { changeKeys } from "../../keyring/keys/change-keys.js";
import { countKeys } from "../../keyring/keys/count-keys.js";
import { createKey, createSpecifiedKey, specifiedKey } from "../../keyring/keys/create-key.js";
import * as grants from "../../keyring/keys/key-grants.js";
import { getKey, getKeys, listKeys, whoami } from "../../keyring/keys/read-keys.js";
import { replaceKey, rerollKey, specifiedRotation } from "../../keyring/keys/reroll-key.js";
import { searchKeys } from "../../keyring/keys/search-keys.js";
import { deleteKey, specifiedChange, updateKey } from "../../keyring/keys/update-key.js";
import { operation } from "../../keyring/operation.js";
import type { GetKeysResponseData, V2KeysCreateKeyResponseData } from "../../keyring/schemas/responses.js";
import { updateCredits } from "../../keyring/update-credits.js";
import { type AccessContext, onKey, onKeyspace, onKeyText } from "./access.js";
import { naming, onReplacedKey, requireGivable } from "./delegation.js";
import { countedKeys, foundKeys, keysChanged, keysOfApi } from "./list-keys.js";
import { byExternalIds, group } from "./operation.js";
import { ownerCreditOperations } from "./owner-credits.js";
import { arrayOf, changedCredits, object, text, texts, permissionList, roleList } from "./responses.js";
import { key, toWireCredits, toWireKey, wholeKey } from "./wire-key.js";

const define = group("keys", ({ keyring }) => keyring);
const defineStrictly = group("keys", ({ keyring, strictDelegation }) => ({ ...keyring, strictDelegation }));

const asSpecified = { name: createKey.name, act: createSpecifiedKey };
type Strict = Pick<AccessContext, "strictDelegation">;
const rotation = operation(rerollKey.name, specifiedRotation, (context: Context & Strict, request) =>
  replaceKey(context, request, (old) => requireGivable(context, old)),
);

const GIVEN = ["permissions", "externalId", "roles"] as const;
/** The only time that a key is shown. */
const createdKey = object<V2KeysCreateKeyResponseData>({
  keyId: text,
  key: { ...text, description: "The key itself, shown this once: only its digest is kept." },
});

/** Keys one by one. */
export const keyOperations = [
  define(asSpecified, {
    reading: byExternalIds(specifiedKey),
    summary: "Makes a key and shows its text this once.",
    answer: createdKey,
    access: naming(onKeyspace("create_key"), GIVEN),
  }),
  define(getKey, { summary: "Shows a key by its id.", answer: key, access: onKey("read_key"), show: toWireKey }),
  define(getKeys, {
    summary: "Shows keys by their ids, those of them that the caller may read.",
    answer: object<GetKeysResponseData>({ keys: arrayOf(wholeKey), rest: texts }),
    access: { ...onKey("read_key"), allow: () => undefined },
    statuses: [],
  }),
  define(whoami, { summary: "Shows a key by its text.", answer: key, access: onKeyText("read_key"), show: toWireKey }),
  define(listKeys, keysOfApi),
  define(searchKeys, foundKeys),
  define(countKeys, countedKeys),
  define(changeKeys, keysChanged),
  define(updateKey, {
    reading: byExternalIds(specifiedChange),
    summary: "Changes a key: an absent field keeps, null clears, a given list replaces.",
    access: naming(onKey("update_key"), GIVEN),
  }),
  define(updateCredits, {
    summary: "Sets, raises or lowers the credits of a key, and returns the balance.",
    answer: changedCredits,
    access: onKey("update_key"),
    show: toWireCredits,
  }),
  ...ownerCreditOperations("keys", ["a key", "keyId"], { update: onKey("update_key"), read: onKey("read_key") }),
  define(deleteKey, {
    summary: "Revokes a key: hides it, or removes it for good.",
    access: onKey("delete_key"),
  }),
  defineStrictly(rotation, {
    summary: "Rotates a key: a new id and text; the old one expires after a while.",
    answer: createdKey,
    access: onReplacedKey,
    statuses: [404, 409],
  }),
];

/* Operations that change the permissions and roles of a key. Each returns all that the key has afterwards. */

const update = onKey("update_key");
const givePermissions = naming(update, ["permissions"]);
const giveRoles = naming(update, ["roles"]);

/** Permissions and roles of a key. */
export const grantOperations = [
  define(grants.addPermissions, {
    summary: "Grants permissions directly; those that do not exist are made.",
    answer: permissionList,
    access: givePermissions,
  }),
  define(grants.removePermissions, {
    summary: "Takes direct permissions away.",
    answer: permissionList,
    access: update,
  }),
  define(grants.setPermissions, {
    summary: "Replaces the direct permissions; those that do not exist are made.",
    answer: permissionList,
    access: givePermissions,
  }),
  define(grants.addRoles, { summary: "Gives roles, which must exist.", answer: roleList, access: giveRoles }),
  define(grants.removeRoles, { summary: "Takes roles away.", answer: roleList, access: update }),
  define(grants.setRoles, { summary: "Replaces the roles, which must exist.", answer: roleList, access: giveRoles }),
];
