/** Access checks for changing the permissions of a role: the request decides which permissions the caller needs. */
import type { Caller } from "../../contracts/caller.js";
import type { Store } from "../../contracts/store.js";
import { type Access, forbidden, type FurtherPermission } from "./access.js";

interface StoreAccess {
  readonly store: Store;
}

const createPermission: FurtherPermission = {
  permission: "rbac.*.create_permission",
  where: "a permission does not exist yet",
};

/** A role with permissions also requires adding them, and creating those that do not exist. */
export const onNewRole: Access<{ readonly permissions?: readonly string[] }> = {
  action: "create_role",
  type: "rbac",
  permissions: ["rbac.*.create_role"],
  also: [{ permission: "rbac.*.add_permission_to_role", where: "the role is given permissions" }, createPermission],
  async allow(access, caller, { permissions = [] }) {
    need(caller, "create_role");
    if (permissions.length === 0) return;
    need(caller, "add_permission_to_role");
    await needForNew(access, caller, permissions);
  },
};

/** Replacing permissions requires adding and removing them. */
export const onRolePermissions: Access<{ readonly permissions: readonly string[] }> = {
  action: "add_permission_to_role",
  type: "rbac",
  permissions: ["rbac.*.add_permission_to_role"],
  also: [{ permission: "rbac.*.remove_permission_from_role" }, createPermission],
  async allow(access, caller, { permissions }) {
    need(caller, "add_permission_to_role");
    need(caller, "remove_permission_from_role");
    await needForNew(access, caller, permissions);
  },
};

function need(caller: Caller, action: string): void {
  if (!caller.may(action, { type: "rbac" })) throw forbidden([`rbac.*.${action}`]);
}

async function needForNew({ store }: StoreAccess, caller: Caller, slugs: readonly string[]): Promise<void> {
  if (slugs.length === 0 || caller.may("create_permission", { type: "rbac" })) return;
  const names = [...new Set(slugs)];
  const existing = await store.readNames("permissions", caller.workspaceId, names);
  if (existing.length < names.length) need(caller, "create_permission");
}
