/** Operations that change the permissions and roles of a key. Each returns all that the key has afterwards. */
import type { JsonSchema } from "../../keyring/schemas/json-schema.js";
import { changePermissions, changeRoles, setPermissions, setRoles } from "../../keyring/schemas/keys.js";
import type { Schema } from "../../keyring/schemas/parse.js";
import { type Access, onKey } from "./access.js";
import { define, type Operation, type Services } from "./operation.js";
import * as answer from "./responses.js";
import { naming } from "./role-access.js";

type GrantVerb = "addPermissions" | "removePermissions" | "setPermissions" | "addRoles" | "removeRoles" | "setRoles";
type Act<B> = (services: Services, request: B) => Promise<unknown>;

const update = onKey("update_key");
const givePermissions = naming(update, ["permissions"]);
const giveRoles = naming(update, ["roles"]);

const grant = <B extends { readonly keyId: string }>(
  name: GrantVerb,
  summary: string,
  schema: Schema<B>,
  answer: JsonSchema,
  act: Act<B>,
  access: Access<NoInfer<B>>,
): Operation => define({ name: `keys.${name}`, summary, schema, answer, access, act });

/** Permissions and roles of a key. */
export const keyGrants = [
  grant(
    "addPermissions",
    "Grants permissions directly; those that do not exist are made.",
    changePermissions,
    answer.permissions,
    (s, r) => s.keyring.addPermissions(r),
    givePermissions,
  ),
  grant(
    "removePermissions",
    "Takes direct permissions away.",
    changePermissions,
    answer.permissions,
    (s, r) => s.keyring.removePermissions(r),
    update,
  ),
  grant(
    "setPermissions",
    "Replaces the direct permissions; those that do not exist are made.",
    setPermissions,
    answer.permissions,
    (s, r) => s.keyring.setPermissions(r),
    givePermissions,
  ),
  grant(
    "addRoles",
    "Gives roles, which must exist.",
    changeRoles,
    answer.roles,
    (s, r) => s.keyring.addRoles(r),
    giveRoles,
  ),
  grant("removeRoles", "Takes roles away.", changeRoles, answer.roles, (s, r) => s.keyring.removeRoles(r), update),
  grant(
    "setRoles",
    "Replaces the roles, which must exist.",
    setRoles,
    answer.roles,
    (s, r) => s.keyring.setRoles(r),
    giveRoles,
  ),
];
