/** Operations `permissions.*`: permissions and roles. */
import * as schemas from "../../keyring/schemas/keys.js";
import { onAll, onNamed } from "./access.js";
import { define } from "./operation.js";
import * as answer from "./responses.js";
import { onNewRole, onRolePermissions } from "./role-access.js";

const onPermission = (action: string) =>
  onNamed<{ readonly permission: string }>(action, "rbac", {
    table: "permissions",
    id: "permission_id",
    given: ({ permission }) => permission,
  });
const onRole = (action: string) =>
  onNamed<{ readonly role: string }>(action, "rbac", { table: "roles", id: "role_id", given: ({ role }) => role });

/** Permissions and roles of the workspace. */
export const permissions = [
  define({
    name: "permissions.createPermission",
    summary: "Makes a permission.",
    schema: schemas.createPermission,
    answer: answer.createdPermission,
    access: onAll("create_permission", "rbac"),
    statuses: [409],
    act: ({ keyring }, request) => keyring.createPermission(request),
  }),
  define({
    name: "permissions.getPermission",
    summary: "Shows a permission.",
    schema: schemas.getPermission,
    answer: answer.permission,
    access: onPermission("read_permission"),
    act: ({ keyring }, request) => keyring.getPermission(request),
  }),
  define({
    name: "permissions.listPermissions",
    summary: "Lists permissions, by id.",
    schema: schemas.listPermissions,
    answer: answer.permission,
    isList: true,
    access: onAll("read_permission", "rbac"),
    statuses: [],
    act: ({ keyring }, request) => keyring.listPermissions(request),
  }),
  define({
    name: "permissions.deletePermission",
    summary: "Deletes a permission; keys and roles that had it lose it at once.",
    schema: schemas.getPermission,
    answer: answer.empty,
    access: onPermission("delete_permission"),
    act: ({ keyring }, request) => keyring.deletePermission(request),
  }),
  define({
    name: "permissions.createRole",
    summary: "Makes a role, and those of its permissions that do not exist.",
    schema: schemas.createRole,
    answer: answer.createdRole,
    access: onNewRole,
    statuses: [409],
    act: ({ keyring }, request) => keyring.createRole(request),
  }),
  define({
    name: "permissions.getRole",
    summary: "Shows a role and its permissions.",
    schema: schemas.getRole,
    answer: answer.role,
    access: onRole("read_role"),
    act: ({ keyring }, request) => keyring.getRole(request),
  }),
  define({
    name: "permissions.listRoles",
    summary: "Lists roles, by id.",
    schema: schemas.listRoles,
    answer: answer.role,
    isList: true,
    access: onAll("read_role", "rbac"),
    act: ({ keyring }, request) => keyring.listRoles(request),
  }),
  define({
    name: "permissions.deleteRole",
    summary: "Deletes a role; keys that had it lose it at once.",
    schema: schemas.getRole,
    answer: answer.empty,
    access: onRole("delete_role"),
    act: ({ keyring }, request) => keyring.deleteRole(request),
  }),
  define({
    name: "permissions.setRolePermissions",
    summary: "Replaces the permissions of a role; those that do not exist are made.",
    schema: schemas.setRolePermissions,
    answer: answer.permissions,
    access: onRolePermissions,
    act: ({ keyring }, request) => keyring.setRolePermissions(request),
  }),
];
