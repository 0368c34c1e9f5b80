/** Operations `permissions.*`: permissions and roles. */
import * as permissions from "../../keyring/rbac/permissions.js";
import * as roles from "../../keyring/rbac/roles.js";
import type * as A from "../../keyring/schemas/responses.js";
import { onAll, onNamed } from "./access.js";
import { onNewRole, onRolePermissions } from "./delegation.js";
import { group } from "./operation.js";
import { id, object, permission, permissionList, role } from "./responses.js";

const define = group("permissions", ({ keyring }) => keyring);

const onPermission = (action: string) =>
  onNamed<{ readonly permission: string }>(action, "rbac", {
    table: "permissions",
    id: "permission_id",
    given: ({ permission }) => permission,
  });
const onRole = (action: string) =>
  onNamed<{ readonly role: string }>(action, "rbac", { table: "roles", id: "role_id", given: ({ role }) => role });

/** Permissions and roles of the workspace. */
export const permissionOperations = [
  define(permissions.createPermission, {
    summary: "Makes a permission.",
    answer: object<A.V2PermissionsCreatePermissionResponseData>({ permissionId: id }),
    access: onAll("create_permission", "rbac"),
    statuses: [409],
  }),
  define(permissions.getPermission, {
    summary: "Shows a permission.",
    answer: permission,
    access: onPermission("read_permission"),
  }),
  define(permissions.listPermissions, {
    summary: "Lists permissions, by id.",
    answer: permission,
    isList: true,
    access: onAll("read_permission", "rbac"),
    statuses: [],
  }),
  define(permissions.deletePermission, {
    summary: "Deletes a permission; keys and roles that had it lose it at once.",
    access: onPermission("delete_permission"),
  }),
  define(roles.createRole, {
    summary: "Makes a role, and those of its permissions that do not exist.",
    answer: object<A.V2PermissionsCreateRoleResponseData>({ roleId: id }),
    access: onNewRole,
    statuses: [409],
  }),
  define(roles.getRole, { summary: "Shows a role and its permissions.", answer: role, access: onRole("read_role") }),
  define(roles.listRoles, {
    summary: "Lists roles, by id.",
    answer: role,
    isList: true,
    access: onAll("read_role", "rbac"),
  }),
  define(roles.deleteRole, {
    summary: "Deletes a role; keys that had it lose it at once.",
    access: onRole("delete_role"),
  }),
  define(roles.setRolePermissions, {
    summary: "Replaces the permissions of a role; those that do not exist are made.",
    answer: permissionList,
    access: onRolePermissions,
  }),
];
