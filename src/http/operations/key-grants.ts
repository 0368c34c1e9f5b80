/** Operations that change the permissions and roles of a key. Each returns all that the key has afterwards. */
import * as grants from "../../keyring/keys/key-grants.js";
import { onKey } from "./access.js";
import { naming } from "./delegation.js";
import { group } from "./operation.js";
import { permissionList, roleList } from "./responses.js";

const define = group("keys", ({ keyring }) => keyring);

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
