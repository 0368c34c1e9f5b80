/**
 * Access checks of what keys and roles are given: permissions, roles and an identity, which the caller has to be
 * allowed to give to a key with `strictDelegation`, and permissions that a request makes.
 */
import type { Caller } from "../../contracts/caller.js";
import type { KeyRow } from "../../contracts/store.js";
import { type Context, pause } from "../../keyring/context.js";
import { IDENTITIES, type Kind, mayBecomeSlug, PERMISSIONS, readIds, ROLES } from "../../keyring/rbac/resolve-names.js";
import { forbidden } from "../../keyring/rows.js";
import {
  type Access,
  type AccessContext,
  both,
  byIdOrName,
  formsOf,
  type FurtherPermission,
  onKey,
  onKeyspaceOfKey,
  requireOnNamed,
  type Resolve,
} from "./access.js";

/** Of whatever names permissions that may not exist. */
const createPermission: FurtherPermission = {
  permission: "rbac.*.create_permission",
  where: "a permission does not exist yet",
};

/** Of look-ups of many names. */
const TURNS = { next: () => pause(0) };

/** What a request about keys may name besides. */
export interface Named {
  readonly permissions?: readonly string[];
  readonly roles?: readonly string[];
  readonly externalId?: string | null;
}

const READ_IDENTITY = { action: "read_identity", type: "identity", id: "identity_id" } as const;
const ADD_PERMISSION = { action: "add_permission_to_key", type: "rbac", id: "permission_id" } as const;
const ADD_ROLE = { action: "add_role_to_key", type: "rbac", id: "role_id" } as const;
const FURTHER: Readonly<Record<keyof Named, FurtherPermission>> = {
  permissions: {
    permission: "rbac.*.add_permission_to_key",
    where: "a key is given permissions and `strictDelegation` is on",
  },
  externalId: {
    permission: "identity.*.read_identity",
    where: "a key is given an identity and `strictDelegation` is on",
  },
  roles: { permission: "rbac.*.add_role_to_key", where: "a key is given roles and `strictDelegation` is on" },
};

/**
 * An access check that also looks at what a key is given.
 * @param fields of the request, for the documentation
 */
export function naming<B>(access: Access<B>, fields: readonly (keyof Named)[]): Access<B & Named> {
  const created = fields.includes("permissions") ? [createPermission] : [];
  return {
    ...access,
    also: [...(access.also ?? []), ...created, ...fields.map((field) => FURTHER[field])],
    async allow(context, caller, request) {
      await access.allow(context, caller, request);
      await needForNew(context, caller, request.permissions ?? []);
      await needForNamed(context, caller, () => [request]);
    },
  };
}

/** What {@link requireGivable} asks for, for the documentation. */
const givingAll = [FURTHER.permissions, FURTHER.externalId, FURTHER.roles];

/** The same for an import, which may create permissions: contract 4.2 asks for `create_key` alone. */
export function namingInKeys<B>(access: Access<B>, namedBy: (request: B) => readonly Named[]): Access<B> {
  return {
    ...access,
    also: [...(access.also ?? []), ...givingAll],
    async allow(context, caller, request) {
      await access.allow(context, caller, request);
      await needForNamed(context, caller, () => namedBy(request));
    },
  };
}

/**
 * With `strictDelegation`: whoever gives a key a permission, an identity or a role needs a permission for that one.
 * @param namedBy what the request names, called with `strictDelegation` alone
 */
async function needForNamed(context: AccessContext, caller: Caller, namedBy: () => readonly Named[]): Promise<void> {
  if (!context.strictDelegation) return;
  const named = namedBy();
  const permissions = named.flatMap(({ permissions = [] }) => permissions);
  await requireOnNamed(context, caller, ADD_PERMISSION, as(PERMISSIONS), permissions);
  const externalIds = named.flatMap(({ externalId }) => externalId ?? []);
  await requireOnNamed(context, caller, READ_IDENTITY, as(IDENTITIES), externalIds);
  const roles = named.flatMap(({ roles = [] }) => roles);
  await requireOnNamed(context, caller, ADD_ROLE, as(ROLES), roles);
}

/**
 * Replacing a key: it makes a key in the keyspace, and ends the one that the request names. Why both: whoever may only
 * make keys could retire anybody's.
 */
export const onReplacedKey = both(onKeyspaceOfKey("create_key"), onKey("update_key"), [
  { permission: "api.*.update_key" },
  ...givingAll,
]);

/**
 * With `strictDelegation`: whoever makes a key that has what another has needs the permissions that giving all of it
 * would take.
 * @throws KeystileError CALLER_FORBIDDEN
 */
export async function requireGivable(
  { store, strictDelegation, caller }: Pick<Context, "store" | "caller"> & Pick<AccessContext, "strictDelegation">,
  { permissions, roles, identityId }: KeyRow,
): Promise<void> {
  if (!strictDelegation || caller === undefined) return;
  const identities = identityId === undefined ? [] : [identityId];
  await requireOnNamed({ store }, caller, ADD_PERMISSION, existing("permissions"), permissions);
  await requireOnNamed({ store }, caller, READ_IDENTITY, existing("identities"), identities);
  await requireOnNamed({ store }, caller, ADD_ROLE, existing("roles"), roles);
}

/** For ids of a row, some of which may have been deleted since: these give nothing. */
function existing(table: "permissions" | "identities" | "roles"): Resolve {
  return async ({ store }, ids) => (await store.readMany(table, ids)).flatMap((row) => row?.id ?? []);
}

/** With the look-up that the operation uses. */
function as(kind: Kind): Resolve {
  return async (of, texts) => {
    const ids = await readIds({ ...of, turns: TURNS }, kind, texts);
    return texts.map((text) => ids.get(text));
  };
}

/* Of roles. */

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

function need(caller: Caller, action: string): void {
  if (!caller.may(action, { type: "rbac" })) throw forbidden([`rbac.*.${action}`]);
}

/** @throws KeystileError CALLER_FORBIDDEN: one of these does not exist, and the caller may make none */
async function needForNew({ store }: AccessContext, caller: Caller, texts: readonly string[]): Promise<void> {
  if (texts.length === 0 || caller.may("create_permission", { type: "rbac" })) return;
  const { workspaceId } = caller;
  const known = await readIds({ store, workspaceId, turns: TURNS }, PERMISSIONS, texts);
  if (texts.some((text) => !known.has(text) && mayBecomeSlug(text))) need(caller, "create_permission");
}
