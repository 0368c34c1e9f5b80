import { describe, expect, it } from "vitest";
import type { Caller } from "../../../src/contracts/caller.js";
import type { Store } from "../../../src/contracts/store.js";
import { changeAllKeys, createKeyring, createVerifier, type Keyring, memoryStore } from "../../../src/index.js";
import { runCall } from "../../../src/keyring/operation.js";
import { contextOfKeyring } from "../../../src/keyring/keyring.js";
import { changeKeys } from "../../../src/keyring/keys/change-keys.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { pglite } from "../../stores/postgres/support.js";

const { open } = pglite();
const stores: Readonly<Record<string, () => Promise<Store>>> = {
  memory: () => Promise.resolve(memoryStore()),
  SQLite: () => Promise.resolve(sqliteStore(":memory:")),
  PostgreSQL: async () => (await open(1))[0]!,
};

async function world(store: Store, many = 5) {
  // Ids of one millisecond are in no order.
  let now = Date.now();
  const keyring = createKeyring(store, { actor: "admin", clock: () => (now += 10) });
  const { apiId } = await keyring.createApi({ name: "documents" });
  const made = [];
  for (let n = 0; n < many; n++) made.push(await keyring.createKey({ apiId, externalId: "acme", name: `key ${n}` }));
  const other = await keyring.createKey({ apiId, externalId: "other" });
  const ids = made.map(({ keyId }) => keyId);
  return { store, keyring, apiId, keys: made.map(({ key }) => key), ids, other };
}

describe.each(Object.keys(stores))("changeKeys on %s", (name) => {
  it("stops all keys of an owner, each batch in one step with one entry that names its keys, and goes on by cursor", async () => {
    const { store, keyring, keys, ids, other } = await world(await stores[name]!());
    const verifier = createVerifier(store);
    const code = async (key: string) => (await verifier.verify({ key })).code;
    const body = { externalId: "acme", action: "disable", limit: 2 } as const;
    for await (const { data } of changeAllKeys(keyring, { ...body, dryRun: true }))
      for (const { outcome } of data) expect(outcome).toBe("changed");
    expect(await code(keys[0]!)).toBe("VALID");
    const first = await keyring.changeKeys(body);
    expect(first.data.map(({ outcome }) => outcome)).toEqual(["changed", "changed"]);
    const { cursor } = first.pagination;
    const rest = [];
    for await (const { data } of changeAllKeys(keyring, { ...body, cursor: cursor! })) rest.push(...data);
    const changed = [...first.data, ...rest].map(({ keyId }) => keyId);
    expect([...changed].sort()).toEqual([...ids].sort());
    for (const key of keys) expect(await code(key)).toBe("DISABLED");
    expect(await code(other.key)).toBe("VALID");
    const { data: entries } = await keyring.listAudit({ operation: "changeKeys" });
    expect(entries.map((entry) => [entry.count, entry.fields, entry.actor])).toEqual([
      [1, ["enabled"], "admin"],
      [2, ["enabled"], "admin"],
      [2, ["enabled"], "admin"],
    ]);
    expect(entries.flatMap((entry) => entry.ids).sort()).toEqual([...ids].sort());
    await verifier.close();
    await store.close();
  });

  it("stops the replacement of a key that is rotated between two batches, also where it goes on by cursor", async () => {
    const { store, keyring, ids } = await world(await stores[name]!());
    const whole = { externalId: "acme", action: "disable", limit: 1 } as const;
    const { cursor } = (await keyring.changeKeys({ ...whole, dryRun: true })).pagination;
    for (const [oldest, body] of [
      [ids[0]!, whole],
      [ids[1]!, { ...whole, cursor: cursor! }],
    ] as const) {
      await keyring.changeKeys({ externalId: "acme", action: "enable" });
      let replacement: string | undefined;
      const changed: string[] = [];
      for await (const { data } of changeAllKeys(keyring, body)) {
        changed.push(...data.filter(({ outcome }) => outcome === "changed").map(({ keyId }) => keyId));
        replacement ??= (await keyring.rerollKey({ keyId: oldest, expiration: 60_000 })).keyId;
      }
      expect(changed).toContain(replacement);
      expect(new Set(changed).size).toBe(changed.length);
      expect((await keyring.searchKeys({ externalId: "acme" })).data.filter(({ enabled }) => enabled)).toEqual([]);
    }
    await store.close();
  });

  it("by ids tells what is so already and what is not there, and enables and deletes", async () => {
    const { store, keyring, ids, other } = await world(await stores[name]!(), 2);
    await keyring.updateKey({ keyId: ids[0]!, enabled: false });
    const asked = [ids[0]!, other.keyId, "key_none", ids[0]!];
    const change = (action: "enable" | "disable" | "delete") => keyring.changeKeys({ keyIds: asked, action });
    const outcomes = async (action: Parameters<typeof change>[0]) =>
      (await change(action)).data.map(({ keyId, outcome }) => [asked.indexOf(keyId), outcome]);
    expect(await outcomes("enable")).toEqual([
      [0, "changed"],
      [1, "unchanged"],
      [2, "notFound"],
    ]);
    expect(await outcomes("delete")).toEqual([
      [0, "changed"],
      [1, "changed"],
      [2, "notFound"],
    ]);
    expect(await outcomes("disable")).toEqual([0, 1, 2].map((n) => [n, "notFound"]));
    const deleted = await keyring.getKey({ keyId: other.keyId, includeDeleted: true });
    expect(deleted).toMatchObject({ state: "deleted", deletedBy: "admin" });
    await store.close();
  });
});

describe("changeKeys", () => {
  it.each([
    {},
    { search: "" },
    { search: "  " },
    { search: " ", externalId: "acme" },
    { keyIds: ["key_1"], externalId: "acme" },
    { keyIds: [] },
    { state: "deleted" },
    { externalId: "acme", action: "rotate" },
  ])("%j is refused: nothing selects keys, or not clearly", async (body) => {
    const { keyring } = await world(memoryStore(), 0);
    const changing = keyring.changeKeys({ action: "disable", ...(body as object) });
    await expect(changing).rejects.toMatchObject({ code: "BAD_REQUEST" });
  });

  it("changes no key that the caller may not, whatever selects it", async () => {
    const { keyring, ids, apiId } = await world(memoryStore(), 2);
    const may: Caller["may"] = (action, { keyId }) =>
      !action.includes("key") || action === "read_key" || keyId === ids[0];
    const caller = { kind: "test", id: "t", workspaceId: "ws_default", may, mayAny: () => true } as unknown as Caller;
    const context = contextOfKeyring(keyring)!;
    for (const selected of [{ externalId: "acme" }, { keyIds: [...ids].reverse() }, { apiId, externalId: "acme" }]) {
      const request = { ...selected, action: "delete", dryRun: true } as const;
      const call = { context, operation: "changeKeys", caller };
      const { data } = await runCall(call, (given) => changeKeys.act(given, request));
      const outcomes = new Map(data.map(({ keyId, outcome }) => [keyId, outcome]));
      expect(ids.map((id) => outcomes.get(id))).toEqual(["changed", "notFound"]);
    }
  });

  it.each<[string, object, (keyring: Keyring, keyId: string) => Promise<unknown>]>([
    [
      "was paid for",
      { state: "exhausted", action: "delete" },
      (keyring, keyId) => keyring.updateCredits({ keyId, operation: "increment", value: 100 }),
    ],
    [
      "was paid for, of an owner",
      { externalId: "acme", creditsBelow: 1, action: "disable" },
      (keyring, keyId) => keyring.updateCredits({ keyId, operation: "set", value: 1 }),
    ],
    [
      "was moved to another owner",
      { externalId: "acme", action: "delete" },
      (keyring, keyId) => keyring.updateKey({ keyId, externalId: "other" }),
    ],
    [
      "was moved, and the text names its owner",
      { search: "acme", action: "disable" },
      (keyring, keyId) => keyring.updateKey({ keyId, externalId: "other" }),
    ],
    [
      "was enabled",
      { state: "disabled", action: "delete" },
      (keyring, keyId) => keyring.updateKey({ keyId, enabled: true }),
    ],
  ])("leaves a key that %s after it was found", async (_change, body, act) => {
    const inner = memoryStore();
    let meanwhile: (() => Promise<unknown>) | undefined;
    const store: Store = {
      ...inner,
      // What is found is read again to be written.
      async readMany(table, ids) {
        const first = table === "keys" ? meanwhile : undefined;
        if (first !== undefined) meanwhile = undefined;
        await first?.();
        return inner.readMany(table, ids);
      },
    };
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const enabled = (body as { state?: string }).state !== "disabled";
    const [one, two] = await Promise.all(
      [1, 2].map(() => keyring.createKey({ apiId, externalId: "acme", credits: { remaining: 0 }, enabled })),
    );
    meanwhile = () => act(createKeyring(inner), one!.keyId);
    const { data } = await keyring.changeKeys(body as never);
    const outcomes = Object.fromEntries(data.map(({ keyId, outcome }) => [keyId, outcome]));
    expect(outcomes).toEqual({ [one!.keyId]: "unchanged", [two!.keyId]: "changed" });
    expect(await keyring.getKey({ keyId: one!.keyId })).toMatchObject({ enabled: true });
  });

  it("leaves the keys of an owner that was deleted after they were found", async () => {
    const inner = memoryStore();
    const elsewhere = createKeyring(inner);
    const found: Store = {
      ...inner,
      async searchKeys(search) {
        const slice = await inner.searchKeys!(search);
        await elsewhere.deleteIdentity({ identity: "acme" });
        return slice;
      },
    };
    const { keyring, ids } = await world(found, 1);
    const { data } = await keyring.changeKeys({ externalId: "acme", action: "disable" });
    expect(data).toEqual([{ keyId: ids[0], outcome: "unchanged" }]);
  });

  it("of all keys gives up where others go on making keys that fit", async () => {
    const { keyring, apiId } = await world(memoryStore(), 1);
    const busy = {
      async changeKeys(body: Parameters<typeof keyring.changeKeys>[0]) {
        const page = await keyring.changeKeys(body);
        await keyring.createKey({ apiId, externalId: "acme" });
        return page;
      },
    };
    const change = async () => {
      for await (const { data } of changeAllKeys(busy, { externalId: "acme", action: "delete" }))
        expect(data.map(({ outcome }) => outcome)).toEqual(["changed"]);
    };
    await expect(change()).rejects.toMatchObject({ code: "STORE_BUSY" });
  });

  it("of all keys says once of each what is so already or not there", async () => {
    const { keyring, ids } = await world(memoryStore(), 3);
    await keyring.updateKey({ keyId: ids[1]!, enabled: false });
    const outcomesOf = async (selected: object) => {
      const found: string[] = [];
      for await (const { data } of changeAllKeys(keyring, { ...selected, action: "disable" }))
        found.push(...data.map(({ outcome }) => outcome));
      return found;
    };
    expect(await outcomesOf({ externalId: "acme", limit: 1 })).toEqual(["changed", "unchanged", "changed"]);
    expect(await outcomesOf({ keyIds: [ids[0]!, "key_none"] })).toEqual(["unchanged", "notFound"]);
  });

  it("is made again on the rows as they are, where another writer comes between", async () => {
    const store = memoryStore();
    const { keyring, ids } = await world(store, 2);
    await Promise.all([
      keyring.changeKeys({ externalId: "acme", action: "disable" }),
      ...ids.map((keyId) => createKeyring(store).updateKey({ keyId, name: "renamed" })),
    ]);
    for (const keyId of ids) expect(await keyring.getKey({ keyId })).toMatchObject({ enabled: false, name: "renamed" });
  });
});
