/** Typical rows and small helpers for the suites of stores. */
import type * as Port from "../../contracts/store.js";

export const WS = "ws_1";
export const NOW = 1_700_000_000_000;

export const api = (over: Partial<Port.ApiRow> = {}): Port.ApiRow => ({
  id: "api_1",
  workspaceId: WS,
  version: 0,
  name: "docs",
  enabled: true,
  ipAllowlist: [],
  deleted: false,
  createdAt: NOW,
  ...over,
});
export const keyRow = (n: number, over: Partial<Port.KeyRow> = {}): Port.KeyRow => ({
  id: `key_${String(n).padStart(6, "0")}`,
  workspaceId: WS,
  version: 0,
  apiId: "api_1",
  digest: `digest-${n}`,
  start: "abcd",
  enabled: true,
  permissions: [],
  roles: [],
  ratelimits: [],
  ipAllowlist: [],
  hasCredits: false,
  generation: 0,
  deleted: false,
  createdAt: NOW,
  ...over,
});
export const permission = (slug: string, over: Partial<Port.PermissionRow> = {}): Port.PermissionRow => ({
  id: `perm_${slug.replace(/\W/g, "_")}`,
  workspaceId: WS,
  version: 0,
  name: slug,
  slug,
  ...over,
});
export const role = (name: string, permissions: string[], over: Partial<Port.RoleRow> = {}): Port.RoleRow => ({
  id: `role_${name}`,
  workspaceId: WS,
  version: 0,
  name,
  permissions,
  ...over,
});
export const identity = (externalId: string, over: Partial<Port.IdentityRow> = {}): Port.IdentityRow => ({
  id: `id_${externalId}`,
  workspaceId: WS,
  version: 0,
  externalId,
  ratelimits: [],
  ...over,
});
export const rootKey = (n: number, over: Partial<Port.RootKeyRow> = {}): Port.RootKeyRow => ({
  id: `root_${n}`,
  workspaceId: WS,
  version: 0,
  digest: `root-digest-${n}`,
  start: "root_abcd",
  permissions: [],
  enabled: true,
  createdAt: NOW,
  ...over,
});
export const override = (
  namespaceId: string,
  identifier: string,
  over: Partial<Port.OverrideRow> = {},
): Port.OverrideRow => ({
  id: `ov_${namespaceId}_${identifier.length}`,
  workspaceId: WS,
  version: 0,
  namespaceId,
  identifier,
  limit: 5,
  duration: 60_000,
  ...over,
});
export const balance = (remaining: number, over: Partial<Port.NewBalance> = {}): Port.NewBalance => ({
  remaining,
  amount: 0,
  period: 0,
  ...over,
});

/** Writes of a permission, a role that has it, and an identity: `perm_a_read`, `role_r` and `id_user`. */
export const related = (user: Partial<Port.IdentityRow> = {}): readonly Port.Write[] => [
  { table: "permissions", row: permission("a.read") },
  { table: "roles", row: role("r", ["perm_a_read"]) },
  { table: "identities", row: identity("user", user) },
];

/** Inserts one key. */
export const insert = async (
  store: Port.Store,
  row: Port.KeyRow,
  credits?: Port.NewBalance,
): Promise<boolean | undefined> => (await store.insertKeys([{ row, ...(credits && { balance: credits }) }]))[0];

/** The row with this id. */
export async function readRow<T extends Port.Table>(
  store: Port.Store,
  table: T,
  id: string,
): Promise<Port.Rows[T] | undefined> {
  return (await store.readMany(table, [id]))[0];
}

/** The balance of one key. */
export async function readBalance(
  store: Port.Store,
  keyId: string,
  period: number,
  now: number,
): Promise<Port.CountedBalance | undefined> {
  return (await store.readBalances([{ keyId, period }], now))[0];
}

/** The store's handle of the key with this digest, which must be there. */
export async function refOf(store: Port.Store, digest: string): Promise<Port.KeyRef> {
  const record = await store.findKey(digest);
  if (record === undefined) throw new Error(`no key is found by ${digest}`);
  return record.ref;
}

/** Inserts the first key with a balance. @returns the handle of its account */
export async function accountWith(
  store: Port.Store,
  remaining: number,
  over?: Partial<Port.NewBalance>,
): Promise<Port.KeyRef> {
  await insert(store, keyRow(1, { hasCredits: true }), balance(remaining, over));
  return refOf(store, "digest-1");
}
