import { describe, expect, it } from "vitest";
import type { Store, WriteOutcome } from "../../src/contracts/store.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { createRatelimits } from "../../src/keyring/ratelimits/create-ratelimits.js";
import { memoryStore } from "../../src/stores/memory.js";

/** A store whose next write another writer beats to it (port clause 13). */
function contended() {
  const inner = memoryStore();
  const state = { refusals: 0 };
  const store: Store = {
    ...inner,
    write(writes) {
      if (state.refusals === 0) return inner.write(writes);
      state.refusals--;
      return "conflict";
    },
  };
  return { store, state };
}

describe("a write that another writer came before is read and written again", () => {
  it("updateRootKey and deleteRootKey", async () => {
    const { store, state } = contended();
    const keyring = createKeyring(store);
    const { rootKeyId } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
    state.refusals = 2;
    await keyring.updateRootKey({ rootKeyId, name: "gateway" });
    expect(state.refusals).toBe(0);
    expect((await keyring.listRootKeys()).data.map(({ name }) => name)).toEqual(["gateway"]);
    state.refusals = 2;
    await keyring.deleteRootKey({ rootKeyId });
    expect((await keyring.listRootKeys()).data).toEqual([]);
  });

  it("deleteIdentity, setRolePermissions and rerollKey", async () => {
    const { store, state } = contended();
    const keyring = createKeyring(store);
    await keyring.createIdentity({ externalId: "user" });
    state.refusals = 2;
    await keyring.deleteIdentity({ identity: "user" });
    expect((await keyring.listIdentities()).data).toEqual([]);
    const { roleId } = await keyring.createRole({ name: "reader" });
    await keyring.createPermission({ name: "read", slug: "a.read" });
    state.refusals = 2;
    await keyring.setRolePermissions({ roleId, permissions: ["a.read"] });
    expect((await keyring.getRole({ role: "reader" })).permissions).toMatchObject([{ slug: "a.read" }]);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { keyId } = await keyring.createKey({ apiId });
    state.refusals = 2;
    const fresh = await keyring.rerollKey({ keyId, expiration: 0 });
    expect(state.refusals).toBe(0);
    const ids = (await keyring.listKeys({ apiId })).data.map((key) => key.keyId);
    expect(ids.sort()).toEqual([keyId, fresh.keyId].sort());
  });

  it("setOverride and deleteOverride", async () => {
    const { store, state } = contended();
    const ratelimits = createRatelimits(store);
    const place = { namespace: "email", identifier: "user_1" };
    await ratelimits.createNamespace({ name: "email" });
    for (const limit of [5, 6]) {
      state.refusals = 2;
      await ratelimits.setOverride({ ...place, limit, duration: 60_000 });
      expect((await ratelimits.getOverride(place)).limit).toBe(limit);
    }
    state.refusals = 2;
    await ratelimits.deleteOverride(place);
    await expect(ratelimits.getOverride(place)).rejects.toMatchObject({ code: "NOT_FOUND" });
  });
});

describe("a name that is taken is a 409 at the first write", () => {
  /** A store that calls every write what the test says, and counts them. */
  function answering(outcome: WriteOutcome) {
    const inner = memoryStore();
    const state = { writes: 0, reads: 0, isOn: false };
    const store: Store = {
      ...inner,
      readMany: (table, ids) => (state.reads++, inner.readMany(table, ids)),
      write(writes) {
        if (!state.isOn) return inner.write(writes);
        state.writes++;
        return outcome;
      },
    };
    return { store, state };
  }
  const during = async (state: { writes: number; isOn: boolean }, act: () => Promise<unknown>) => {
    state.writes = 0;
    state.isOn = true;
    const error: unknown = await act().catch((thrown: unknown) => thrown);
    state.isOn = false;
    return [(error as { code?: unknown }).code, state.writes];
  };

  it("for new rows and for changed ones", async () => {
    const { store, state } = answering("taken");
    const keyring = createKeyring(store);
    const { rootKeyId } = await keyring.createRootKey({ permissions: [] });
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { keyId } = await keyring.createKey({ apiId });
    await keyring.createIdentity({ externalId: "user" });
    await keyring.createRole({ name: "reader", permissions: ["a"] });
    const attempts = [
      () => keyring.createPermission({ name: "new", slug: "new" }),
      () => keyring.createIdentity({ externalId: "other" }),
      () => keyring.createMigration({ id: "old", algorithm: "sha256" }),
      () => keyring.updateKey({ keyId, name: "other" }),
      () => keyring.rerollKey({ keyId, expiration: 0 }),
      () => keyring.updateApi({ apiId, enabled: false }),
      () => keyring.updateIdentity({ identity: "user", meta: {} }),
      () => keyring.updateRootKey({ rootKeyId, enabled: false }),
      () => keyring.setRolePermissions({ roleId: "reader", permissions: [] }),
    ];
    for (const attempt of attempts) expect(await during(state, attempt), String(attempt)).toEqual(["CONFLICT", 1]);
  });

  it("while a conflict is retried, for new rows too", async () => {
    const { store, state } = answering("conflict");
    const keyring = createKeyring(store);
    await keyring.createIdentity({ externalId: "user" });
    for (const attempt of [
      () => keyring.createPermission({ name: "new", slug: "new" }),
      () => keyring.updateIdentity({ identity: "user", meta: {} }),
    ])
      expect(await during(state, attempt)).toEqual(["STORE_BUSY", 20]);
  });

  it("the rows of both of two that create the workspace's row, a namespace, an override or a permission are one", async () => {
    const store = memoryStore();
    const [one, other] = [createKeyring(store), createKeyring(store)];
    await Promise.all([one.updateWorkspace({ enabled: false }), other.updateWorkspace({ enabled: true })]);
    expect((await store.readMany("workspaces", ["ws_default"]))[0]?.version).toBe(2);
    const [here, there] = [createRatelimits(store), createRatelimits(store)];
    const override = { namespace: "email", identifier: "user", limit: 5, duration: 60_000 };
    const [first, second] = await Promise.all([here.setOverride(override), there.setOverride(override)]);
    expect(first).toEqual(second);
    const { apiId } = await one.createApi({ name: "documents" });
    const keys = await Promise.all([one, other].map((each) => each.createKey({ apiId, permissions: ["a.b"] })));
    expect(new Set(keys.map(({ keyId }) => keyId)).size).toBe(2);
    expect((await one.listPermissions()).data).toHaveLength(1);
  });
});
