/**
 * Every operation that writes, each on a world of its own, for tests of what happens when a store fails after a write.
 */
import { createKeyring, createRatelimits, forOwner, type Store } from "../../src/index.js";

const APIS = { apiId: "api_docs" };

/** What the operations work on. */
export interface Staged {
  readonly keyId: string;
  readonly rootKeyId: string;
  /** The newest of a chain of two keys of the owner, of which the older one still has an overlap. */
  readonly rotatedId: string;
}

const newest = async (mine: ReturnType<typeof forOwner>) => (await mine.list()).data[0]!.keyId;

/** Makes the rows that {@link OPERATIONS} change. */
export async function stageOperations(store: Store): Promise<Staged> {
  const keyring = createKeyring(store);
  await keyring.createApi({ name: "docs", ...APIS });
  await keyring.createApi({ name: "empty", apiId: "api_empty" });
  await keyring.createIdentity({ externalId: "ann", credits: { remaining: 10 } });
  await keyring.createRole({ name: "editor", permissions: ["docs.write"] });
  await keyring.createMigration({ id: "old", algorithm: "sha256" });
  const { keyId } = await keyring.createKey({
    ...APIS,
    credits: { remaining: 10 },
    roles: ["editor"],
    permissions: ["docs.read"],
  });
  for (let i = 0; i < 2; i++) await keyring.createKey({ ...APIS, externalId: "ann" });
  if (store.powers.wallets === true)
    await keyring.grantCredits({ identity: "ann", grantId: "bonus", amount: 5, priority: 200 });
  const ratelimits = createRatelimits(store);
  await ratelimits.createNamespace({ name: "mail" });
  await ratelimits.setOverride({ namespace: "mail", identifier: "vip", limit: 5, duration: 1_000 });
  const { rootKeyId } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
  // So that the next rotation ends what is left of this one.
  const mine = forOwner(keyring, "ann", APIS);
  const { keyId: rotatedId } = await mine.rotate({ keyId: await newest(mine) });
  return { keyId, rootKeyId, rotatedId };
}

type Act = (store: Store, staged: Staged) => Promise<unknown>;
const keyring =
  (act: (keyring: ReturnType<typeof createKeyring>, staged: Staged) => Promise<unknown>): Act =>
  (store, staged) =>
    act(createKeyring(store), staged);
const limits =
  (act: (ratelimits: ReturnType<typeof createRatelimits>) => Promise<unknown>): Act =>
  (store) =>
    act(createRatelimits(store));
/** The owner of the two keys. */
const owner =
  (act: (mine: ReturnType<typeof forOwner>, staged: Staged) => Promise<unknown>): Act =>
  (store, staged) =>
    act(forOwner(createKeyring(store), "ann", { ...APIS, ceiling: { permissions: ["*"] } }), staged);
const hashes = Array.from({ length: 3 }, (_, i) => ({ hash: `${i}`.repeat(64), permissions: ["imported"] }));

/** By name; those of a keyring are called as its methods. */
export const OPERATIONS: Readonly<Record<string, Act>> = {
  createApi: keyring((k) => k.createApi({ name: "new" })),
  getOrCreateApi: keyring((k) => k.getOrCreateApi({ apiId: "api_fresh", name: "new" })),
  updateApi: keyring((k) => k.updateApi({ ...APIS, name: "changed" })),
  deleteApi: keyring((k) => k.deleteApi({ apiId: "api_empty" })),
  createKey: keyring((k) => k.createKey({ ...APIS, externalId: "new", permissions: ["a", "b"] })),
  updateKey: keyring((k, { keyId }) => k.updateKey({ keyId, externalId: "new", permissions: ["a"], name: "b" })),
  changeKeys: keyring((k, { keyId }) => k.changeKeys({ keyIds: [keyId], action: "disable" })),
  deleteKey: keyring((k, { keyId }) => k.deleteKey({ keyId })),
  rerollKey: keyring((k, { keyId }) => k.rerollKey({ keyId, expiration: 1_000 })),
  updateCredits: keyring((k, { keyId }) => k.updateCredits({ keyId, operation: "increment", value: 5 })),
  addPermissions: keyring((k, { keyId }) => k.addPermissions({ keyId, permissions: ["a"] })),
  removePermissions: keyring((k, { keyId }) => k.removePermissions({ keyId, permissions: ["docs.read"] })),
  setPermissions: keyring((k, { keyId }) => k.setPermissions({ keyId, permissions: ["docs.write", "a"] })),
  addRoles: keyring((k, { keyId }) => k.addRoles({ keyId, roles: ["editor"] })),
  removeRoles: keyring((k, { keyId }) => k.removeRoles({ keyId, roles: ["editor"] })),
  setRoles: keyring((k, { keyId }) => k.setRoles({ keyId, roles: [] })),
  createPermission: keyring((k) => k.createPermission({ name: "a", slug: "a" })),
  deletePermission: keyring((k) => k.deletePermission({ permission: "docs.read" })),
  createRole: keyring((k) => k.createRole({ name: "new", permissions: ["a"] })),
  deleteRole: keyring((k) => k.deleteRole({ role: "editor" })),
  setRolePermissions: keyring((k) => k.setRolePermissions({ roleId: "editor", permissions: ["a"] })),
  createIdentity: keyring((k) => k.createIdentity({ externalId: "bob", credits: { remaining: 1 } })),
  updateIdentity: keyring((k) => k.updateIdentity({ identity: "ann", meta: { a: 1 } })),
  updateIdentityCredits: keyring((k) => k.updateIdentityCredits({ identity: "ann", operation: "increment", value: 5 })),
  grantCredits: keyring((k) => k.grantCredits({ identity: "ann", amount: 5 })),
  endGrant: keyring((k) => k.endGrant({ identity: "ann", grantId: "bonus" })),
  changePlan: keyring((k) =>
    k.changePlan({ identity: "ann", refill: { interval: "daily", amount: 7 }, now: "difference" }),
  ),
  deleteIdentity: keyring((k) => k.deleteIdentity({ identity: "ann", keys: "disable" })),
  createMigration: keyring((k) => k.createMigration({ id: "new", algorithm: "sha512" })),
  migrateKeys: keyring((k) => k.migrateKeys({ migrationId: "old", ...APIS, keys: hashes }, { batchSize: 1 })),
  createRootKey: keyring((k) => k.createRootKey({ permissions: ["api.*.verify_key"] })),
  updateRootKey: keyring((k, { rootKeyId }) => k.updateRootKey({ rootKeyId, name: "a" })),
  deleteRootKey: keyring((k, { rootKeyId }) => k.deleteRootKey({ rootKeyId })),
  updateWorkspace: keyring((k) => k.updateWorkspace({ enabled: false })),
  "ratelimits.createNamespace": limits((r) => r.createNamespace({ name: "new" })),
  "ratelimits.setOverride": limits((r) =>
    r.setOverride({ namespace: "mail", identifier: "*", limit: 1, duration: 1_000 }),
  ),
  "ratelimits.deleteOverride": limits((r) => r.deleteOverride({ namespace: "mail", identifier: "vip" })),
  "ratelimits.limit": limits((r) => r.limit({ namespace: "new", identifier: "x", limit: 1, duration: 1_000 })),
  "forOwner.create": owner((mine) => mine.create({ permissions: ["a"] })),
  "forOwner.rotate": owner((mine, { rotatedId }) => mine.rotate({ keyId: rotatedId })),
  "forOwner.rename": owner(async (mine) => mine.rename({ keyId: await newest(mine), name: "a" })),
  "forOwner.revoke": owner(async (mine) => mine.revoke({ keyId: await newest(mine) })),
  "forOwner.revokeAll": owner((mine) => mine.revokeAll()),
};

/** Methods of a keyring that write nothing. */
export const READING = /^(get(?!OrCreate)|list|search|count|whoami)/;
