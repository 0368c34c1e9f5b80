/** Access checks of what changes roles, and of permissions that a request makes. */
import type { Caller } from "../../contracts/caller.js";
import { pause } from "../../keyring/context.js";
import { mayBecomeSlug, PERMISSIONS, readIds } from "../../keyring/rbac/resolve-names.js";
import { forbidden } from "../../keyring/rows.js";
import {
  type Access,
  type AccessContext,
  byIdOrName,
  formsOf,
  type FurtherPermission,
  requireOnNamed,
} from "./access.js";

/** Of whatever names permissions that may not exist. */
export const createPermission: FurtherPermission = {
  permission: "rbac.*.create_permission",
  where: "a permission does not exist yet",
};

/** A role with permissions also requires adding them, and creating those that do not exist. */
export const onNewRole: Access<{ readonly permissions?: readonly string[] }> = {
  action: "create_role",
  type: "rbac",
  permissions: ["rbac.*.create_role"],
  also: [{ permission: "rbac.*.add_permission_to_role", where: "the role is given permissions" }, createPermission],
  async allow(context, caller, { permissions = [] }) {
    need(caller, "create_role");
    if (permissions.length === 0) return;
    need(caller, "add_permission_to_role");
    await needForNew(context, caller, permissions);
  },
};

const ADD = { action: "add_permission_to_role", type: "rbac", id: "role_id" } as const;
const REMOVE = { ...ADD, action: "remove_permission_from_role" } as const;

/** Replacing permissions requires adding and removing them: of all roles, or of this one. */
export const onRolePermissions: Access<{ readonly roleId: string; readonly permissions: readonly string[] }> = {
  ...ADD,
  permissions: formsOf(ADD.action, "rbac", ADD.id),
  also: [{ permission: "rbac.*.remove_permission_from_role" }, createPermission],
  async allow(context, caller, { roleId, permissions }) {
    for (const asked of [ADD, REMOVE]) await requireOnNamed(context, caller, asked, byIdOrName("roles"), [roleId]);
    await needForNew(context, caller, permissions);
  },
};

/** Of look-ups of many names. */
export const TURNS = { next: () => pause(0) };

function need(caller: Caller, action: string): void {
  if (!caller.may(action, { type: "rbac" })) throw forbidden([`rbac.*.${action}`]);
}

/** @throws KeystileError CALLER_FORBIDDEN: one of these does not exist, and the caller may make none */
export async function needForNew({ store }: AccessContext, caller: Caller, texts: readonly string[]): Promise<void> {
  if (texts.length === 0 || caller.may("create_permission", { type: "rbac" })) return;
  const { workspaceId } = caller;
  const known = await readIds({ store, workspaceId, turns: TURNS }, PERMISSIONS, texts);
  if (texts.some((text) => !known.has(text) && mayBecomeSlug(text))) need(caller, "create_permission");
}
