/** The audit trail: each change that an operation has written makes an entry, and no entry holds a secret. */
import { describe, expect, it, vi } from "vitest";
import { createHash } from "node:crypto";
import { cachedStore } from "../cache/cached-store.js";
import type { AuditEntry } from "../../src/contracts/audit.js";
import type { Caller } from "../../src/contracts/caller.js";
import type { Store } from "../../src/contracts/store.js";
import { contextOfKeyring, createKeyring, type Keyring } from "../../src/keyring/keyring.js";
import { runCall } from "../../src/keyring/operation.js";
import { write } from "../../src/keyring/write.js";
import { createRatelimits, type Ratelimits } from "../../src/keyring/ratelimits/create-ratelimits.js";
import { memoryStore } from "../../src/stores/memory.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { emptyFiles } from "../stores/sqlite/support.js";
import { failure, NOON, unaudited } from "./support.js";

const path = await emptyFiles();
const HASH = createHash("sha256").update("an imported key").digest("base64");
const LIMIT = { limit: 5, duration: 60_000 };

/** Counts the changes that a store has made: calls of `write` and `insertKeys` that were not refused. */
function countChanges(store: Store) {
  const made = { changes: 0 };
  const counted: Store = {
    ...store,
    async write(...given) {
      const outcome = await store.write(...given);
      if (outcome !== "conflict" && outcome !== "taken") made.changes++;
      return outcome;
    },
    async insertKeys(...given) {
      const inserted = await store.insertKeys(...given);
      if (inserted.includes(true)) made.changes++;
      return inserted;
    },
  };
  return { store: counted, made };
}

/** A keyring and rate limits, the entries that they make, and rows to work on. */
async function world() {
  const { store, made } = countChanges(sqliteStore(path(), { durability: "process" }));
  const entries: AuditEntry[] = [];
  const time = { now: NOON };
  const options = { clock: () => time.now, actor: "alice", onAudit: (entry: AuditEntry) => void entries.push(entry) };
  const keyring = createKeyring(store, options);
  const ratelimits = createRatelimits(store, options);
  const { apiId } = await keyring.createApi({ name: "docs" });
  const { roleId } = await keyring.createRole({ name: "reader" });
  await keyring.createRole({ name: "guest" });
  const has = { permissions: ["docs.list"], roles: ["guest"] };
  const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 10 }, ...has });
  const { keyId: grantedId } = await keyring.createKey({ apiId, credits: { remaining: 0 } });
  await keyring.grantCredits({ keyId: grantedId, grantId: "given", amount: 5 });
  const { permissionId } = await keyring.createPermission({ name: "read", slug: "docs.read" });
  const { identityId } = await keyring.createIdentity({ externalId: "user_1" });
  const { migrationId } = await keyring.createMigration({ id: "old", algorithm: "sha256" });
  const root = await keyring.createRootKey({ permissions: ["api.*.read_key"] });
  const { namespaceId } = await ratelimits.createNamespace({ name: "email" });
  await ratelimits.setOverride({ namespace: "email", identifier: "user_1", ...LIMIT });
  const ids = {
    apiId,
    keyId,
    grantedId,
    roleId,
    permissionId,
    identityId,
    migrationId,
    rootKeyId: root.rootKeyId,
    namespaceId,
  };
  const secrets = [key, root.key];
  /** The entries that an act makes, and how many changes the store has made for it. */
  const during = async (act: () => Promise<unknown>) => {
    await Promise.all([keyring.close(), ratelimits.close()]);
    entries.length = made.changes = 0;
    const result = await act();
    await Promise.all([keyring.close(), ratelimits.close()]);
    return { entries: [...entries], changes: made.changes, result };
  };
  return { store, keyring, ratelimits, key, ids, secrets, entries, during, time };
}

type World = Awaited<ReturnType<typeof world>>;
/** A body of each operation, and the entry of its last change; `undefined`: it only reads. */
type Cases<T> = Record<keyof T, readonly [body: (world: World) => object, entry?: object | ((world: World) => object)]>;
const made = (id: unknown, count = 1) => ({ ids: [id], fields: [], count });

const KEYRING: Cases<Keyring> = {
  createApi: [() => ({ name: "new api" }), made(expect.stringMatching(/^api_/))],
  getOrCreateApi: [() => ({ apiId: "api_of_ours", name: "new api" }), made("api_of_ours")],
  listApis: [() => ({})],
  getApi: [({ ids: { apiId } }) => ({ apiId })],
  updateApi: [
    ({ ids: { apiId } }) => ({ apiId, name: "renamed", enabled: true }),
    ({ ids }) => ({ ...made(ids.apiId), fields: ["name"] }),
  ],
  deleteApi: [({ ids: { apiId } }) => ({ apiId }), ({ ids }) => ({ ...made(ids.apiId), fields: ["deleted"] })],
  createKey: [({ ids: { apiId } }) => ({ apiId, name: "mine" }), made(expect.stringMatching(/^key_/))],
  getKey: [({ ids: { keyId } }) => ({ keyId })],
  getKeys: [({ ids: { keyId } }) => ({ keyIds: [keyId] })],
  listKeys: [({ ids: { apiId } }) => ({ apiId })],
  searchKeys: [() => ({})],
  countKeys: [() => ({})],
  updateKey: [
    ({ ids: { keyId } }) => ({
      keyId,
      name: "renamed",
      meta: { a: 1 },
      credits: { remaining: 3 },
      externalId: "user_1",
    }),
    ({ ids }) => ({ ...made(ids.keyId), fields: ["credits", "identityId", "meta", "name"] }),
  ],
  changeKeys: [
    ({ ids: { keyId } }) => ({ keyIds: [keyId], action: "disable" }),
    ({ ids }) => ({ ...made(ids.keyId), fields: ["enabled"] }),
  ],
  deleteKey: [({ ids: { keyId } }) => ({ keyId }), ({ ids }) => ({ ...made(ids.keyId), fields: ["deleted"] })],
  rerollKey: [
    ({ ids: { keyId } }) => ({ keyId, expiration: 0 }),
    ({ ids }) => ({ ids: expect.arrayContaining([ids.keyId]) as unknown, fields: ["expires", "rerolledTo"], count: 2 }),
  ],
  updateCredits: [
    ({ ids: { keyId } }) => ({ keyId, operation: "increment", value: 5 }),
    ({ ids }) => ({ ...made(ids.keyId), fields: ["credits"] }),
  ],
  whoami: [({ key }) => ({ key })],
  addPermissions: [
    ({ ids: { keyId } }) => ({ keyId, permissions: ["docs.read"] }),
    ({ ids }) => ({ ...made(ids.keyId), fields: ["permissions"] }),
  ],
  removePermissions: [
    ({ ids: { keyId } }) => ({ keyId, permissions: ["docs.list"] }),
    ({ ids }) => ({ ...made(ids.keyId), fields: ["permissions"] }),
  ],
  setPermissions: [
    ({ ids: { keyId } }) => ({ keyId, permissions: ["docs.read", "docs.new"] }),
    ({ ids }) => ({ ...made(ids.keyId), fields: ["permissions"] }),
  ],
  addRoles: [
    ({ ids: { keyId } }) => ({ keyId, roles: ["reader"] }),
    ({ ids }) => ({ ...made(ids.keyId), fields: ["roles"] }),
  ],
  removeRoles: [
    ({ ids: { keyId } }) => ({ keyId, roles: ["guest"] }),
    ({ ids }) => ({ ...made(ids.keyId), fields: ["roles"] }),
  ],
  setRoles: [
    ({ ids: { keyId } }) => ({ keyId, roles: ["reader"] }),
    ({ ids }) => ({ ...made(ids.keyId), fields: ["roles"] }),
  ],
  createPermission: [() => ({ name: "w", slug: "docs.write" }), made(expect.stringMatching(/^perm_/))],
  getPermission: [() => ({ permission: "docs.read" })],
  listPermissions: [() => ({})],
  deletePermission: [() => ({ permission: "docs.read" }), ({ ids }) => made(ids.permissionId)],
  createRole: [() => ({ name: "writer" }), made(expect.stringMatching(/^role_/))],
  getRole: [() => ({ role: "reader" })],
  listRoles: [() => ({})],
  deleteRole: [() => ({ role: "reader" }), ({ ids }) => made(ids.roleId)],
  setRolePermissions: [
    ({ ids: { roleId } }) => ({ roleId, permissions: ["docs.read"] }),
    ({ ids }) => ({ ...made(ids.roleId), fields: ["permissions"] }),
  ],
  createIdentity: [() => ({ externalId: "user_2" }), made(expect.stringMatching(/^id_/))],
  getIdentity: [() => ({ identity: "user_1" })],
  listIdentities: [() => ({})],
  updateIdentity: [
    () => ({ identity: "user_1", meta: { a: 1 } }),
    ({ ids }) => ({ ...made(ids.identityId), fields: ["meta"] }),
  ],
  updateIdentityCredits: [
    () => ({ identity: "user_1", operation: "set", value: 5 }),
    ({ ids }) => ({ ...made(ids.identityId), fields: ["credits"] }),
  ],
  grantCredits: [
    ({ ids }) => ({ keyId: ids.keyId, grantId: "bonus", amount: 5 }),
    ({ ids }) => ({ ids: [ids.keyId, expect.stringMatching(/^grant_/)], fields: [], count: 2 }),
  ],
  endGrant: [
    ({ ids }) => ({ keyId: ids.grantedId, grantId: "given" }),
    ({ ids }) => ({
      ...{ ids: [ids.grantedId, expect.stringMatching(/^grant_/)], count: 2 },
      fields: expect.arrayContaining(["credits", "endedAt"]),
    }),
  ],
  changePlan: [
    ({ ids }) => ({ keyId: ids.keyId, refill: { interval: "daily", amount: 7 } }),
    ({ ids }) => ({ ...made(ids.keyId), fields: ["credits"] }),
  ],
  getBalance: [({ ids }) => ({ keyId: ids.keyId })],
  listGrants: [({ ids }) => ({ keyId: ids.keyId })],
  deleteIdentity: [() => ({ identity: "user_1" }), ({ ids }) => made(ids.identityId)],
  createMigration: [() => ({ id: "other", algorithm: "sha256" }), made("other")],
  migrateKeys: [
    ({ ids: { apiId, migrationId } }) => ({ apiId, migrationId, keys: [{ hash: HASH }, { hash: HASH }] }),
    ({ ids }) => ({ ids: [ids.migrationId, ids.apiId], fields: [], count: 1 }),
  ],
  createRootKey: [() => ({ permissions: [] }), made(expect.stringMatching(/^rk_/))],
  listRootKeys: [() => ({})],
  updateRootKey: [
    ({ ids: { rootKeyId } }) => ({ rootKeyId, permissions: [], enabled: false }),
    ({ ids }) => ({ ...made(ids.rootKeyId), fields: ["enabled", "permissions"] }),
  ],
  deleteRootKey: [
    ({ ids: { rootKeyId } }) => ({ rootKeyId }),
    ({ ids }) => ({ ...made(ids.rootKeyId), fields: ["deleted", "enabled", "permissions"] }),
  ],
  listAudit: [() => ({})],
  getWorkspace: [() => ({})],
  updateWorkspace: [() => ({ enabled: false }), made("ws_default")],
};

const RATELIMITS: Cases<Ratelimits> = {
  limit: [() => ({ namespace: "sms", identifier: "a", ...LIMIT }), made(expect.stringMatching(/^ns_/))],
  multiLimit: [() => [{ namespace: "sms", identifier: "a", ...LIMIT }], made(expect.stringMatching(/^ns_/))],
  createNamespace: [() => ({ name: "sms" }), made(expect.stringMatching(/^ns_/))],
  getNamespace: [() => ({ namespace: "email" })],
  listNamespaces: [() => ({})],
  setOverride: [
    () => ({ namespace: "email", identifier: "vip_*", ...LIMIT }),
    ({ ids }) => ({ ids: [ids.namespaceId, expect.stringMatching(/^ovr_/)], fields: ["wildcards"], count: 2 }),
  ],
  getOverride: [() => ({ namespace: "email", identifier: "user_1" })],
  listOverrides: [() => ({ namespace: "email" })],
  deleteOverride: [() => ({ namespace: "email", identifier: "user_1" }), made(expect.stringMatching(/^ovr_/))],
};

type Act = (body: unknown) => Promise<unknown>;

/** Operations that take a reason: those that change keys, owners, APIs, root keys, the workspace and credits. */
const EXPLAINED = [
  ...["updateKey", "changeKeys", "deleteKey", "rerollKey", "updateIdentity", "deleteIdentity"],
  ...["addPermissions", "removePermissions", "setPermissions", "addRoles", "removeRoles", "setRoles"],
  ...["updateApi", "deleteApi", "updateRootKey", "deleteRootKey", "updateWorkspace"],
  ...["updateCredits", "updateIdentityCredits", "grantCredits", "endGrant", "changePlan"],
];
/** Operations that add something each time that they are called. */
const ADDING = ["createApi", "createKey", "createRootKey", "rerollKey", "updateCredits"];

describe.each([
  ["keyring", KEYRING, (world: World) => world.keyring],
  ["ratelimits", RATELIMITS, (world: World) => world.ratelimits],
] as const)("audit trail: every operation of %s", (_, cases, partOf) => {
  it("a store that keeps no trail: what was done is told all the same", async () => {
    const memory = memoryStore();
    const told: string[] = [];
    const keyring = createKeyring(
      { ...memory, powers: { ...memory.powers, audit: false } },
      { onAudit: ({ operation }) => told.push(operation) },
    );
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { keyId } = await keyring.createKey({ apiId });
    await keyring.updateKey({ keyId, name: "named" });
    await vi.waitFor(() => expect(told).toEqual(["createApi", "createKey", "updateKey"]), 20_000);
  });

  it("has a case here", async () => {
    expect(Object.keys(partOf(await world())).sort()).toEqual(Object.keys(cases).sort());
  });

  it.each(Object.entries(cases))("%s", async (operation, [body, expected]) => {
    const there = await world();
    const act = (partOf(there) as unknown as Record<string, Act>)[operation]!;
    const { entries, changes } = await there.during(() => act(body(there)));
    expect(entries).toHaveLength(changes);
    expect(changes > 0).toBe(expected !== undefined);
    for (const entry of entries) {
      const frame = { time: NOON, workspaceId: "ws_default", actorKind: "program", actor: "alice", operation };
      expect(entry).toMatchObject(frame);
    }
    if (expected === undefined) return;
    const { ids, fields, count } = entries.at(-1)!;
    expect({ ids, fields, count }).toEqual(typeof expected === "function" ? expected(there) : expected);
  });

  it.each(Object.entries(cases).filter(([operation]) => !ADDING.includes(operation)))(
    "%s: the same again makes no entry, unless it sets a balance",
    async (operation, [body]) => {
      const there = await world();
      const act = (partOf(there) as unknown as Record<string, Act>)[operation]!;
      const given = body(there);
      await act(given);
      there.time.now += 5;
      // What is deleted, replaced or taken by then is refused.
      const { entries, changes } = await there.during(() => act(given).catch(() => undefined));
      // A balance is set also to what it seems to be.
      const sets = operation === "updateKey" || operation === "updateIdentityCredits" ? 1 : 0;
      expect([entries.length, changes]).toEqual([sets, sets]);
    },
  );

  it.each(Object.entries(cases).filter(([, [, entry]]) => entry !== undefined))(
    "%s: its entries have the reason that it was given, or it takes none",
    async (operation, [body]) => {
      const there = await world();
      const act = (partOf(there) as unknown as Record<string, Act>)[operation]!;
      const given = { ...body(there), reason: "ticket 42" };
      if (!EXPLAINED.includes(operation)) return expect((await failure(act(given))).code).toBe("BAD_REQUEST");
      for (const reason of ["", "x".repeat(256), "a\nb"])
        expect((await failure(act({ ...given, reason }))).errors).toMatchObject([{ location: "body.reason" }]);
      const { entries } = await there.during(() => act(given));
      expect(entries.map(({ reason }) => reason)).toEqual(entries.map(() => "ticket 42"));
      const { data } = await there.keyring.listAudit({ operation, limit: entries.length });
      expect(data.map(({ reason }) => reason)).toEqual(entries.map(() => "ticket 42"));
    },
  );

  it.each(Object.entries(cases))("%s: refused, it makes no entry", async (operation) => {
    const there = await world();
    const act = (partOf(there) as unknown as Record<string, Act>)[operation]!;
    const { entries } = await there.during(() => failure(act({ wrong: 1 })));
    expect(entries).toEqual([]);
  });
});

describe("audit trail: what fields were and are", () => {
  it("stands in the entry, as it is told and as it is kept; of metadata and credits only that they changed", async () => {
    const { keyring, ids, during } = await world();
    const { keyId, apiId, identityId, rootKeyId } = ids;
    const changes = async (act: () => Promise<unknown>) => {
      const { entries } = await during(act);
      const { data } = await keyring.listAudit({ limit: entries.length });
      expect(data.map(({ changes }) => changes).reverse()).toEqual(entries.map(({ changes }) => changes));
      return entries.at(-1)?.changes;
    };
    const [soon, later] = [NOON + 1e9, NOON + 2e9];
    const limit = { name: "requests", ...LIMIT };
    const daily = { interval: "daily", amount: 5 } as const;
    const of: (readonly [act: () => Promise<unknown>, changes: unknown])[] = [
      [() => keyring.updateKey({ keyId, name: "a" }), [{ field: "name", to: "a" }]],
      [() => keyring.updateKey({ keyId, name: "b" }), [{ field: "name", from: "a", to: "b" }]],
      [() => keyring.updateKey({ keyId, name: null }), [{ field: "name", from: "b" }]],
      [() => keyring.updateKey({ keyId, expires: soon }), [{ field: "expires", to: soon }]],
      [
        () => keyring.updateKey({ keyId, expires: later, enabled: false, meta: { secret: 1 } }),
        [
          { field: "enabled", from: true, to: false },
          { field: "expires", from: soon, to: later },
        ],
      ],
      [
        () => keyring.updateKey({ keyId, ratelimits: [limit, { ...limit, name: "bursts" }] }),
        [
          {
            field: "ratelimits",
            added: [
              { ...limit, autoApply: false },
              { ...limit, name: "bursts", autoApply: false },
            ],
          },
        ],
      ],
      [
        () =>
          keyring.updateKey({
            keyId,
            ratelimits: [
              { ...limit, limit: 9 },
              { ...limit, name: "bursts" },
            ],
          }),
        [
          {
            field: "ratelimits",
            removed: [{ ...limit, autoApply: false }],
            added: [{ ...limit, limit: 9, autoApply: false }],
          },
        ],
      ],
      [
        () => keyring.setPermissions({ keyId, permissions: ["docs.read"] }),
        [{ field: "permissions", removed: ["docs.list"], added: ["docs.read"] }],
      ],
      [() => keyring.addRoles({ keyId, roles: ["reader"] }), [{ field: "roles", added: ["reader"] }]],
      [() => keyring.updateKey({ keyId, externalId: "user_1" }), [{ field: "identityId", to: "user_1" }]],
      [() => keyring.updateKey({ keyId, externalId: null }), [{ field: "identityId", from: "user_1" }]],
      [
        () => keyring.updateKey({ keyId, ipAllowlist: ["10.0.0.0/8"] }),
        [{ field: "ipAllowlist", added: ["10.0.0.0/8"] }],
      ],
      [() => keyring.changePlan({ keyId, refill: daily }), [{ field: "refill", to: daily }]],
      [() => keyring.updateCredits({ keyId, operation: "increment", value: 5 }), undefined],
      [() => keyring.updateKey({ keyId, meta: { a: 1 } }), undefined],
      [
        () => keyring.updateIdentity({ identity: identityId, enabled: false, expires: soon }),
        [
          { field: "enabled", from: true, to: false },
          { field: "expires", to: soon },
        ],
      ],
      [
        () => keyring.updateIdentity({ identity: identityId, enabled: true }),
        [{ field: "enabled", from: false, to: true }],
      ],
      [() => keyring.updateApi({ apiId, name: "new name" }), [{ field: "name", from: "docs", to: "new name" }]],
      [
        () => keyring.updateRootKey({ rootKeyId, permissions: ["api.*.verify_key"] }),
        [{ field: "permissions", removed: ["api.*.read_key"], added: ["api.*.verify_key"] }],
      ],
      [() => keyring.deleteKey({ keyId }), undefined],
    ];
    for (const [act, expected] of of) expect([String(act), await changes(act)]).toEqual([String(act), expected]);
  });

  it("of several rows where all changed alike; of a rotation, which changes one key and makes another, only what fields", async () => {
    const { keyring, ids, during } = await world();
    const { keyId: other } = await keyring.createKey({ apiId: ids.apiId });
    const keyIds = [ids.keyId, other];
    const [disabled] = (await during(() => keyring.changeKeys({ keyIds, action: "disable" }))).entries;
    expect(disabled).toMatchObject({ count: 2, changes: [{ field: "enabled", from: true, to: false }] });
    await keyring.rerollKey({ keyId: ids.keyId, expiration: 1_000 });
    const [rotated] = (await keyring.listAudit({ operation: "rerollKey" })).data;
    expect(rotated).toMatchObject({ count: 2, fields: ["expires", "rerolledTo"] });
    // The key that it made expires at no such time.
    expect(rotated).not.toHaveProperty("changes");
  });

  it("only that it changed where rows differ, or where it is long; the entry is bounded", async () => {
    const { keyring, ids, during, store } = await world();
    const { keyId, apiId } = ids;
    const many = Array.from({ length: 200 }, (_, i) => `documents.part.${i}`);
    const some = many.slice(0, 5);
    const name = "👩".repeat(255);
    await keyring.updateKey({ keyId, name });
    const { entries } = await during(() =>
      keyring.updateKey({ keyId, permissions: many, name: "👨".repeat(255), ipAllowlist: ["10.0.0.1"] }),
    );
    expect(entries.at(-1)).toMatchObject({ fields: ["ipAllowlist", "name", "permissions"] });
    expect(entries.at(-1)?.changes?.map(({ field }) => field)).toEqual(["ipAllowlist", "name"]);
    const ranges = Array.from({ length: 90 }, (_, i) => `10.0.0.${i + 100}`);
    const both = (await during(() => keyring.updateKey({ keyId, name, ipAllowlist: ranges }))).entries.at(-1);
    expect([both?.fields, both?.changes?.map(({ field }) => field)]).toEqual([
      ["ipAllowlist", "name"],
      ["ipAllowlist"],
    ]);
    const few = await during(() => keyring.setPermissions({ keyId, permissions: [...many, ...some, "one.more"] }));
    expect(few.entries.at(-1)?.changes).toEqual([{ field: "permissions", added: ["one.more"] }]);
    const [first, second] = await Promise.all(
      ["a", "b"].map((name) => keyring.createKey({ apiId, name }).then((made) => made.keyId)),
    );
    const rows = await store.readMany("keys", [first!, second!]);
    const writing = contextOfKeyring(keyring)!;
    const told = await during(() =>
      runCall({ context: writing, operation: "updateKey" }, (context) =>
        write(
          context,
          rows.map((row) => ({ table: "keys", row: { ...row!, name: "c" } }) as const),
        ),
      ),
    );
    expect(told.entries).toMatchObject([{ fields: ["name"], count: 2 }]);
    expect(told.entries[0]?.changes).toBeUndefined();
  });
});

describe("audit trail: entries", () => {
  it("one for each step that was stored: what a key names is made before it", async () => {
    const { keyring, ids, during } = await world();
    const { entries, result } = await during(() =>
      keyring.createKey({ apiId: ids.apiId, permissions: ["a", "b"], externalId: "user_9" }),
    );
    expect(entries.map(({ operation, ids, count }) => [operation, ids[0]?.split("_")[0], count])).toEqual([
      ["createKey", "perm", 2],
      ["createKey", "id", 1],
      ["createKey", "key", 1],
    ]);
    expect(entries.at(-1)?.ids).toEqual([(result as { keyId: string }).keyId]);
  });

  it("none for a field, a list, a limit or a refill that is set to what it is", async () => {
    const { keyring, ids, during, time, store } = await world();
    const { apiId, keyId, rootKeyId } = ids;
    const limits = [{ name: "requests", ...LIMIT }];
    const daily = { interval: "daily", amount: 5 } as const;
    const fields = { name: "n", meta: { a: [1] }, expires: NOON + 1e9, enabled: true, ratelimits: limits };
    const of = { ipAllowlist: ["10.0.0.0/8"], roles: ["reader"], permissions: ["docs.read"], externalId: "user_1" };
    const acts: (() => Promise<unknown>)[] = [
      () => keyring.updateKey({ keyId, ...fields, ...of, credits: { refill: daily } }),
      () => keyring.updateKey({ keyId, credits: { refill: daily } }),
      () => keyring.updateApi({ apiId, name: "docs", enabled: true, ipAllowlist: [] }),
      () => keyring.updateIdentity({ identity: "user_1", ratelimits: limits, credits: { refill: daily } }),
      () => keyring.updateRootKey({ rootKeyId, permissions: ["api.*.read_key"], enabled: true }),
    ];
    const ends = [
      () => keyring.updateCredits({ keyId, operation: "set", value: null }),
      () => keyring.updateKey({ keyId, creditsFrom: "none" }),
      () => keyring.updateIdentityCredits({ identity: "user_1", operation: "set", value: null }),
    ];
    for (const each of [acts, ends]) {
      for (const act of each) await act();
      time.now += 5;
      const before = await store.readMany("keys", [keyId]);
      for (const act of each) expect((await during(act)).entries, String(act)).toEqual([]);
      expect(await store.readMany("keys", [keyId])).toEqual(before);
    }
    await keyring.updateCredits({ keyId, operation: "set", value: 7 });
    const counting = () => keyring.updateCredits({ keyId, operation: "increment", value: 0 });
    expect((await during(counting)).entries).toEqual([]);
  });

  it("one for a balance that is set to what it is: what is leased or reserved of it is void from then on", async () => {
    const { keyring, ids, during, store } = await world();
    const record = (await store.readMany("keys", [ids.keyId]))[0]!;
    const { ref } = (await store.findKey(record.digest!))!;
    await store.reserveCredits(ref, 0, { cost: 4, now: NOON, reservation: { id: "res_1", until: NOON + 1e6 } });
    const { entries } = await during(() => keyring.updateCredits({ keyId: ids.keyId, operation: "set", value: 6 }));
    expect(entries).toMatchObject([{ fields: ["credits"] }]);
    expect(await store.settleCredits(ref, { id: "res_1", spent: 4, now: NOON })).toMatchObject({ settled: false });
  });

  it("one for such a balance where the store does not know what is leased of it: that is void from then on", async () => {
    const inner = memoryStore();
    const store: Store = {
      ...inner,
      powers: { ...inner.powers, reserves: false },
      readBalances: async (...given) =>
        (await inner.readBalances(...given)).map((balance) => balance && { ...balance, reserved: 0 }),
    };
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "docs" });
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 100 } });
    const verifier = createVerifier(store, { credits: { mode: "leased", size: 10, step: 10, firstStep: 10 } });
    expect((await verifier.verify({ key })).credits).toBe(99);
    const { credits } = await keyring.getKey({ keyId });
    expect(credits?.remaining).toBe(90);
    await keyring.updateCredits({ keyId, operation: "set", value: 90 });
    await verifier.close();
    expect((await keyring.getKey({ keyId })).credits?.remaining).toBe(90);
    await keyring.close();
  });

  it("none for what the store refused, and one for the attempt that it took", async () => {
    const { store } = countChanges(memoryStore());
    let conflicts = 3;
    const busy: Store = { ...store, write: (...given) => (conflicts-- > 0 ? "conflict" : store.write(...given)) };
    const entries: AuditEntry[] = [];
    const keyring = createKeyring(busy, { onAudit: (entry) => entries.push(entry) });
    await keyring.updateWorkspace({ enabled: true });
    await keyring.createRole({ name: "reader" });
    await failure(keyring.createRole({ name: "reader" }));
    await keyring.close();
    expect(entries.map(({ operation }) => operation)).toEqual(["updateWorkspace", "createRole"]);
    expect(Object.hasOwn(entries[0]!, "actor")).toBe(false);
  });

  it("none for a change of what another call has removed meanwhile", async () => {
    const inner = memoryStore();
    const others = createKeyring(inner);
    let readings = 0;
    let removed = "";
    const store: Store = {
      ...inner,
      async readMany(table, ids) {
        // The third reading is that of the trail.
        if (ids[0] === removed && ++readings === 3) await others.deleteKey({ keyId: removed, permanent: true });
        return inner.readMany(table, ids);
      },
    };
    const entries: AuditEntry[] = [];
    const keyring = createKeyring(store, { onAudit: (entry) => entries.push(entry) });
    const { apiId } = await others.createApi({ name: "api" });
    removed = (await others.createKey({ apiId })).keyId;
    expect((await failure(keyring.updateKey({ keyId: removed, name: "other" }))).code).toBe("NOT_FOUND");
    await keyring.close();
    expect(readings).toBeGreaterThan(1);
    expect(entries).toEqual([]);
  });

  it("an import makes one for each batch, with its number of keys, and lists a hundred ids at most", async () => {
    const { keyring, ids, during } = await world();
    const keys = Array.from({ length: 250 }, (_, i) => ({
      hash: createHash("sha256").update(String(i)).digest("base64"),
      permissions: [`made.${i}`],
    }));
    const { apiId, migrationId } = ids;
    const { entries } = await during(() => keyring.migrateKeys({ apiId, migrationId, keys }, { batchSize: 100 }));
    expect(entries.map(({ ids, count }) => [ids.length, count])).toEqual([
      [100, 100],
      [2, 100],
      [100, 100],
      [2, 100],
      [50, 50],
      [2, 50],
    ]);
    const { entries: again } = await during(() => keyring.migrateKeys({ apiId, migrationId, keys }));
    expect(again).toEqual([]);
    const permissions = Array.from({ length: 250 }, (_, i) => `more.${i}`);
    const { entries: many } = await during(() => keyring.setRolePermissions({ roleId: ids.roleId, permissions }));
    expect(many.map(({ ids, count }) => [ids.length, count])).toEqual([
      [100, 250],
      [1, 1],
    ]);
  });

  it("a caller of rate limits is the actor; what is no id is left out", async () => {
    const { ratelimits, during } = await world();
    const callerOf = (own: object) =>
      ({ workspaceId: "ws_default", may: () => true, mayAny: () => true, ...own }) as Caller;
    const actors: unknown[] = [];
    for (const own of [{ kind: "rootKey", id: "rk_1" }, { id: "x".repeat(1_025) }, { kind: 5, id: { key: 1 } }]) {
      const { entries } = await during(() =>
        ratelimits.setOverride(
          { namespace: "email", identifier: "user_1", limit: 9 + actors.length, duration: 60_000 },
          { caller: callerOf(own) },
        ),
      );
      actors.push(...entries.map(({ actorKind, actor, fields }) => [actorKind, actor, fields]));
    }
    expect(actors).toEqual([
      ["rootKey", "rk_1", ["limit"]],
      ["caller", undefined, ["limit"]],
      ["caller", undefined, ["limit"]],
    ]);
  });

  it("hold no key, hash, digest or metadata", async () => {
    const { keyring, ids, secrets, entries, during } = await world();
    const canary = "canary-4711";
    const all = [...entries];
    for (const act of [
      () =>
        keyring.createKey({ apiId: ids.apiId, name: canary, meta: { canary }, externalId: canary, prefix: "canary" }),
      () => keyring.updateKey({ keyId: ids.keyId, name: "other", meta: { canary }, permissions: ["other"] }),
      () => keyring.updateKey({ keyId: ids.keyId, enabled: false, meta: null }),
      () => keyring.updateIdentity({ identity: "user_1", enabled: false, meta: { canary } }),
      () => keyring.rerollKey({ keyId: ids.keyId, expiration: 0 }),
      () => keyring.createRootKey({ name: canary, permissions: [] }),
      () => keyring.updateRootKey({ rootKeyId: ids.rootKeyId, name: "other" }),
      () => keyring.deleteRootKey({ rootKeyId: ids.rootKeyId }),
      () => keyring.migrateKeys({ apiId: ids.apiId, migrationId: ids.migrationId, keys: [{ hash: HASH }] }),
      () => keyring.deleteKey({ keyId: ids.keyId, permanent: true }),
    ]) {
      const { entries, result } = await during(act);
      const { key } = result as { key?: string };
      if (key !== undefined) secrets.push(key);
      expect(entries.length).toBeGreaterThan(0);
      all.push(...entries);
    }
    const digests = secrets.map((secret) => createHash("sha256").update(secret).digest("base64"));
    const text = JSON.stringify(all);
    for (const secret of [...secrets, ...digests, HASH, "canary", "canary-4711"]) expect(text).not.toContain(secret);
  });
});

describe("audit trail: a store of your own", () => {
  it("gets the entries with the change if it has the power, and they are no cost to one without", async () => {
    for (const power of [{ audit: true }, { audit: false }, {}]) {
      const { audit: _, ...powers } = { audit: false, ...memoryStore().powers };
      const own = memoryStore();
      const kept: unknown[] = [];
      const store: Store = {
        ...own,
        powers: { ...powers, ...power },
        write: (writes, entries) => (kept.push(entries), own.write(writes)),
        insertKeys: (keys, entry) => (kept.push(entry), own.insertKeys(keys)),
      };
      // Entries pass through a cache too.
      const keyring = createKeyring(cachedStore(store), { clock: () => NOON });
      const { apiId } = await keyring.createApi({ name: "docs" });
      const { keyId } = await keyring.createKey({ apiId });
      const frame = { time: NOON, workspaceId: "ws_default", actorKind: "program", fields: [], count: 1 };
      expect(kept).toEqual(
        power.audit === true
          ? [[{ ...frame, operation: "createApi", ids: [apiId] }], { ...frame, operation: "createKey", ids: [keyId] }]
          : [undefined, undefined],
      );
    }
  });
});

describe("audit trail: the listener", () => {
  it("is called later, and what it throws on or cannot take is counted and fails nothing", async () => {
    const seen: string[] = [];
    const keyring = createKeyring(memoryStore(), {
      audit: { queue: 2 },
      onAudit({ operation }) {
        seen.push(operation);
        if (operation === "createApi") throw new Error("the listener");
      },
    });
    await Promise.all([
      keyring.createApi({ name: "api" }),
      keyring.createRole({ name: "role_b" }),
      keyring.createRole({ name: "role_c" }),
    ]);
    expect(seen).toEqual([]);
    await keyring.close();
    expect(seen).toEqual(["createApi", "createRole"]);
    expect(keyring.counters()).toEqual({ auditsDropped: 2 });
  });

  it("is no cost where there is none: the store is called as before", async () => {
    const { store } = countChanges(unaudited());
    const given: number[] = [];
    const keyring = createKeyring({ ...store, write: (...all) => (given.push(all.length), store.write(...all)) });
    await keyring.createRole({ name: "reader" });
    expect(given).toEqual([1]);
    expect(keyring.counters()).toEqual({ auditsDropped: 0 });
    await keyring.close();
  });

  it("options are checked", () => {
    const store = memoryStore();
    for (const make of [createKeyring, createRatelimits] as const) {
      expect(() => make(store, { onAudit: 5 as never })).toThrow(/options\.onAudit/);
      expect(() => make(store, { audit: { queue: 0 } })).toThrow(/options\.audit\.queue/);
      expect(() => make(store, { actor: "" })).toThrow(/options\.actor/);
      expect(() => make(store, { actor: "x".repeat(1_025) })).toThrow(/options\.actor/);
    }
  });
});
