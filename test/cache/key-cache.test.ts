import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type CacheOptions, createRecordCache } from "../../src/cache/key-cache.js";
import { KeystileError } from "../../src/contracts/errors.js";
import type { Change, KeyRecord, Store } from "../../src/contracts/store.js";
import { memoryStore } from "../../src/stores/memory.js";
import { keyRow } from "../stores/suite.js";
import { forming } from "./cached-store.js";

const API = {
  id: "api_1",
  workspaceId: "ws_1",
  version: 0,
  name: "docs",
  enabled: true,
  ipAllowlist: [],
  deleted: false,
  createdAt: 0,
};

/** A memory store that counts its finds, and can hold one back or answer late. */
async function counted() {
  const inner = memoryStore();
  await inner.write([{ table: "apis", row: API }]);
  const state = { finds: 0, gate: undefined as Promise<void> | undefined, late: false };
  const store: Store = {
    ...inner,
    findKey(digest) {
      state.finds++;
      const found = inner.findKey(digest) as KeyRecord | undefined;
      if (state.gate !== undefined) return state.gate.then(() => found);
      return state.late ? Promise.resolve(found) : found;
    },
    pollChanges: () => (state.late ? Promise.resolve() : undefined),
  };
  return { store, state, inner };
}

const identityRow = {
  id: "id_1",
  workspaceId: "ws_1",
  version: 0,
  externalId: "user",
  meta: {},
  ratelimits: [],
  createdAt: 0,
};

async function disable(store: Store, id: string): Promise<void> {
  const row = (await store.readMany("keys", [id]))[0]!;
  await store.write([{ table: "keys", row: { ...row, enabled: false } }]);
}

describe.each(["tag", "digest"] as const)("createRecordCache by %s", (by) => {
  const cacheOf = <T extends object>(store: Store, prepare: (record: KeyRecord) => T, options: CacheOptions = {}) =>
    createRecordCache(store, forming(prepare), { ...options, by });

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["performance"] });
    // lru-cache reads a start of 0 as none.
    vi.advanceTimersByTime(10);
  });
  afterEach(() => void vi.useRealTimers());

  it("a hit asks the store nothing; the answer was prepared once", async () => {
    const { store, state } = await counted();
    await store.insertKeys([{ row: keyRow(1) }]);
    const cache = cacheOf(store, (record) => ({ id: record.keyId }));
    const first = cache.find("digest-1");
    expect(first).toEqual({ id: "key_000001" });
    expect(cache.find("digest-1")).toBe(first);
    expect(state.finds).toBe(1);
  });

  it("clause 8: it waits for a pollChanges that answers another kind of promise", async () => {
    const { store } = await counted();
    await store.insertKeys([{ row: keyRow(1) }]);
    let told = (_: "all"): void => {};
    const foreign: Store = {
      ...store,
      subscribe: (listener) => ((told = listener), () => undefined),
      // As a promise made in another realm: it has the methods, and is no instance of this one's Promise.
      pollChanges: () =>
        ({
          then: (done: () => void) => void Promise.resolve().then(() => (told("all"), done())),
        }) as unknown as Promise<void>,
    };
    const cache = cacheOf(foreign, (record) => record);
    expect(await cache.find("digest-1")).toMatchObject({ enabled: true });
    await disable(store, "key_000001");
    expect(await cache.find("digest-1")).toMatchObject({ enabled: false });
  });

  it("clause 9: a fill that began before a change never brings the old record back", async () => {
    const { store, state } = await counted();
    await store.insertKeys([{ row: keyRow(1) }]);
    const cache = cacheOf(store, (record) => record);
    let open = () => undefined as void;
    state.gate = new Promise<void>((resolve) => (open = resolve));
    const slow = cache.find("digest-1");
    state.gate = undefined;
    await disable(store, "key_000001");
    open();
    expect((await slow)?.enabled).toBe(true);
    expect((await cache.find("digest-1"))?.enabled).toBe(false);
  });

  it("clause 9: a miss that began before a create is not believed after it", async () => {
    const { store, state } = await counted();
    const cache = cacheOf(store, (record) => record);
    let open = () => undefined as void;
    state.gate = new Promise<void>((resolve) => (open = resolve));
    const slow = cache.find("digest-1");
    state.gate = undefined;
    await store.insertKeys([{ row: keyRow(1) }]);
    open();
    expect(await slow).toBeUndefined();
    expect(await cache.find("digest-1")).toBeDefined();
  });

  it("1,000 calls at once for one cold key are one find, found or not", async () => {
    const { store, state } = await counted();
    await store.insertKeys([{ row: keyRow(1) }]);
    let prepared = 0;
    const cache = cacheOf(store, (record) => (prepared++, record));
    state.late = true;
    for (const [digest, keyId] of [["digest-1", "key_000001"] as const, ["digest-2", undefined] as const]) {
      state.finds = 0;
      const found = await Promise.all(Array.from({ length: 1_000 }, () => cache.find(digest)));
      expect(new Set(found.map((record) => record?.keyId))).toEqual(new Set([keyId]));
      expect(state.finds).toBe(1);
    }
    expect(prepared).toBe(1);
  });

  it.each([
    ["of the key", (store: Store) => disable(store, "key_000001")],
    ["of its API", (store: Store) => store.write([{ table: "apis", row: { ...API, version: 1, enabled: false } }])],
  ])(
    "clause 9: no call joins a find that began before a change %s; those after it share the next",
    async (_, change) => {
      const { store, state } = await counted();
      await store.insertKeys([{ row: keyRow(1) }]);
      const cache = cacheOf(store, (record) => record);
      const gates: (() => void)[] = [];
      const findMany = () => {
        state.gate = new Promise<void>((resolve) => gates.push(resolve));
        return Promise.all(Array.from({ length: 10 }, () => cache.find("digest-1")));
      };
      const early = findMany();
      await change(store);
      const late = findMany();
      expect(state.finds).toBe(2);
      // The first find ends while the second is under way: who comes then still joins the second.
      gates[0]!();
      for (const record of await early) expect(record).toMatchObject({ enabled: true, parentDisabled: false });
      const last = cache.find("digest-1");
      expect(state.finds).toBe(2);
      gates[1]!();
      for (const record of [...(await late), await last])
        expect(record!.enabled && !record!.parentDisabled, "the change is seen").toBe(false);
      expect(await cache.find("digest-1")).toBe(await last);
      expect(state.finds).toBe(2);
    },
  );

  it("a find that fails rejects each call that joined it, with an error of its own, and the next finds again", async () => {
    const { store, state } = await counted();
    await store.insertKeys([{ row: keyRow(1) }]);
    const cache = cacheOf(store, (record) => record);
    state.gate = Promise.reject(new KeystileError("STORE_BUSY", "planted"));
    const finding = Array.from({ length: 10 }, () => Promise.resolve(cache.find("digest-1")));
    const failed = await Promise.allSettled(finding);
    expect(state.finds).toBe(1);
    const errors = failed.map((result) => (result as PromiseRejectedResult).reason as unknown);
    for (const error of errors) expect(error).toMatchObject({ code: "STORE_BUSY", message: "planted" });
    expect(new Set(errors).size).toBe(10);
    state.gate = undefined;
    expect(await cache.find("digest-1")).toMatchObject({ enabled: true });
    expect(state.finds).toBe(2);
  });

  it("a find that hangs holds up who comes within missTtl, and nobody later", async () => {
    const { store, state } = await counted();
    await store.insertKeys([{ row: keyRow(1) }]);
    const cache = cacheOf(store, (record) => record);
    state.gate = new Promise(() => undefined);
    void cache.find("digest-1");
    vi.advanceTimersByTime(999);
    void cache.find("digest-1");
    expect(state.finds).toBe(1);
    state.gate = undefined;
    vi.advanceTimersByTime(1);
    expect(await cache.find("digest-1")).toBeDefined();
    expect(state.finds).toBe(2);
  });

  it("A107: a miss is believed for missTtl at most, and dropped by the create", async () => {
    const { store, state, inner } = await counted();
    const cache = cacheOf(store, (record) => record);
    for (let i = 0; i < 3; i++) expect(cache.find("digest-1")).toBeUndefined();
    expect(state.finds).toBe(1);
    await store.insertKeys([{ row: keyRow(1) }]);
    expect(cache.find("digest-1")).toBeDefined();
    // Created where no change is told of: seen once the miss is too old.
    const silent = cacheOf({ ...inner, subscribe: () => () => undefined }, (record) => record);
    expect(silent.find("digest-2")).toBeUndefined();
    await inner.insertKeys([{ row: keyRow(2) }]);
    expect(silent.find("digest-2")).toBeUndefined();
    vi.advanceTimersByTime(1_000);
    expect(silent.find("digest-2")).toBeUndefined();
    vi.advanceTimersByTime(1);
    expect(silent.find("digest-2")).toBeDefined();
  });

  it("trap 11: a flood of unknown keys pushes no real key out", async () => {
    const { store, state } = await counted();
    await store.insertKeys([1, 2, 3].map((n) => ({ row: keyRow(n) })));
    const cache = cacheOf(store, (record) => record, { size: 3 });
    for (const n of [1, 2, 3]) await cache.find(`digest-${n}`);
    for (let i = 0; i < 20_000; i++) await cache.find(`garbage-${i}`);
    state.finds = 0;
    for (const n of [1, 2, 3]) await cache.find(`digest-${n}`);
    expect(state.finds).toBe(0);
  });

  it("bounds: a record not used lately goes first, and ttl ends belief in a record", async () => {
    const { store, state } = await counted();
    await store.insertKeys([1, 2, 3].map((n) => ({ row: keyRow(n) })));
    const cache = cacheOf(store, (record) => record, { size: 2, ttl: 50 });
    for (const n of [1, 2, 1, 3]) await cache.find(`digest-${n}`);
    state.finds = 0;
    await cache.find("digest-1");
    expect(state.finds).toBe(0);
    await cache.find("digest-2");
    expect(state.finds).toBe(1);
    vi.advanceTimersByTime(51);
    await cache.find("digest-2");
    expect(state.finds).toBe(2);
  });

  it.each([
    ["records", 100_000, {}],
    ["misses", 10_000, undefined],
  ])("%s: %i are remembered by default, and of one more not all", async (_what, most, record) => {
    const { store } = await counted();
    let finds = 0;
    const cache = cacheOf({ ...store, findKey: () => (finds++, record as KeyRecord | undefined) }, (found) => found);
    const findTwice = (count: number) => {
      finds = 0;
      for (let i = 0; i < 2 * count; i++) void cache.find(`key-${i % count}`);
      return finds;
    };
    expect(findTwice(most)).toBe(most);
    // One find is the newcomer's, and each further one is of a key that had to go.
    expect(findTwice(most + 1)).toBeGreaterThan(1);
  });

  it("default of ttl: a record is believed without end", async () => {
    const { store, state } = await counted();
    await store.insertKeys([{ row: keyRow(1) }]);
    const cache = cacheOf(store, (record) => record);
    void cache.find("digest-1");
    vi.advanceTimersByTime(Number.MAX_SAFE_INTEGER);
    void cache.find("digest-1");
    expect(state.finds).toBe(1);
  });

  it("A113: a find that fails is not remembered as a miss", async () => {
    const { store, inner } = await counted();
    await inner.insertKeys([{ row: keyRow(1) }]);
    let broken = true;
    const failing: Store = {
      ...store,
      findKey: (digest) => {
        if (broken) throw new Error("disk");
        return inner.findKey(digest);
      },
    };
    const cache = cacheOf(failing, (record) => record);
    expect(() => cache.find("digest-1")).toThrow("disk");
    broken = false;
    expect(cache.find("digest-1")).toBeDefined();
  });

  it("an asynchronous store serves the same", async () => {
    const { store, state } = await counted();
    state.late = true;
    const cache = cacheOf(store, (record) => record);
    expect(await cache.find("digest-1")).toBeUndefined();
    expect(await cache.find("digest-1")).toBeUndefined();
    expect(state.finds).toBe(1);
    await store.insertKeys([{ row: keyRow(1) }]);
    expect(await cache.find("digest-1")).toBeDefined();
    expect(await cache.find("digest-1")).toBeDefined();
    expect(state.finds).toBe(2);
  });

  it("a bulk import drops every miss and no record", async () => {
    const { store, state, inner } = await counted();
    await inner.insertKeys([{ row: keyRow(1) }]);
    const listeners: ((change: "created" | "all") => void)[] = [];
    const cache = cacheOf(
      { ...store, subscribe: (listener) => (listeners.push(listener), () => undefined) },
      (record) => record,
    );
    void cache.find("digest-1");
    void cache.find("digest-2");
    for (const listener of listeners) listener("created");
    state.finds = 0;
    void cache.find("digest-1");
    expect(state.finds).toBe(0);
    void cache.find("digest-2");
    expect(state.finds).toBe(1);
    for (const listener of listeners) listener("all");
    void cache.find("digest-1");
    expect(state.finds).toBe(2);
  });

  describe("changes of rows that keys refer to", () => {
    const rows = { listeners: new Set<(change: Change) => void>() };
    const tell = (change: Change) => rows.listeners.forEach((listener) => listener(change));
    /** Keys 0…5: with role_0 or role_1, the last two with none that is known. */
    async function cached() {
      const { store, state } = await counted();
      await store.insertKeys(Array.from({ length: 6 }, (_, n) => ({ row: keyRow(n) })));
      rows.listeners.clear();
      const told: Store = {
        ...store,
        async findKey(digest) {
          const found = await store.findKey(digest);
          if (found === undefined) return undefined;
          const { grantIds: _, ...rest } = found;
          const n = Number(digest.slice("digest-".length));
          return n > 3 ? rest : { ...rest, grantIds: [`role_${n % 2}`] };
        },
        subscribe: (listener) => (rows.listeners.add(listener), () => void rows.listeners.delete(listener)),
      };
      const known = { ...forming<KeyRecord>((record) => record), madeOf: (record: KeyRecord) => record };
      const cache = createRecordCache(told, known, { by });
      const findAll = async () => {
        const before = state.finds;
        for (let n = 0; n < 6; n++) expect(await cache.find(`digest-${n}`)).toBeDefined();
        return state.finds - before;
      };
      expect([await findAll(), await findAll()]).toEqual([6, 0]);
      return { cache, state, findAll };
    }

    it("a role drops the keys made of it, and those of which it is not known; no others", async () => {
      const { findAll } = await cached();
      tell({ table: "roles", id: "role_1" });
      expect([await findAll(), await findAll()]).toEqual([4, 0]);
      tell({ table: "permissions", id: "perm_of_none" });
      expect(await findAll()).toBe(2);
      tell({ table: "identities", id: "id_of_none" });
      tell({ table: "apis", id: "api_other" });
      tell({ table: "workspaces", id: "ws_other" });
      expect(await findAll()).toBe(0);
      tell({ table: "apis", id: "api_1" });
      expect(await findAll()).toBe(6);
      tell({ table: "workspaces", id: "ws_1" });
      expect(await findAll()).toBe(6);
    });

    it("a value of which nothing is known is dropped by each", async () => {
      const { store, state } = await counted();
      await store.insertKeys([{ row: keyRow(1) }]);
      const cache = cacheOf(store, ({ keyId }) => ({ keyId }));
      await cache.find("digest-1");
      await store.write([{ table: "identities", row: identityRow }]);
      await store.write([{ table: "identities", row: { ...identityRow, version: 1 } }]);
      await cache.find("digest-1");
      expect(state.finds).toBe(2);
    });

    it("a miss may end with it, and a find that is in flight is not kept", async () => {
      const { cache, state } = await cached();
      expect(await cache.find("digest-9")).toBeUndefined();
      const before = state.finds;
      tell({ table: "apis", id: "api_other" });
      await cache.find("digest-9");
      expect(state.finds).toBe(before + 1);
      tell({ table: "roles", id: "role_0" });
      const finding = cache.find("digest-0");
      tell({ table: "roles", id: "role_other" });
      await finding;
      await cache.find("digest-0");
      expect(state.finds).toBe(before + 3);
    });

    it("more of them than can be looked through in a second empty the cache", async () => {
      const { findAll } = await cached();
      // Six keys, all of which are looked at each time.
      for (let i = 0; i < 10_000_000 / 6 + 1; i++) tell({ table: "identities", id: "id_of_none" });
      expect(await findAll()).toBe(6);
      tell({ table: "identities", id: "id_of_none" });
      expect(await findAll()).toBe(6);
      vi.advanceTimersByTime(1_000);
      tell({ table: "identities", id: "id_of_none" });
      expect(await findAll()).toBe(0);
    });
  });

  it("close stops listening, so nothing is kept from then on, what is in flight included", async () => {
    const { store, state } = await counted();
    await store.insertKeys([{ row: keyRow(1) }, { row: keyRow(2) }]);
    const cache = cacheOf(store, (record) => record);
    void cache.find("digest-1");
    void cache.find("digest-3");
    state.gate = Promise.resolve();
    const inFlight = cache.find("digest-2");
    cache.close();
    await inFlight;
    state.gate = undefined;
    await store.insertKeys([{ row: keyRow(3) }]);
    for (const id of ["key_000001", "key_000002"]) await disable(store, id);
    for (const digest of ["digest-1", "digest-2"])
      for (let i = 0; i < 2; i++) expect((await cache.find(digest))?.enabled).toBe(false);
    expect((await cache.find("digest-3"))?.keyId).toBe("key_000003");
  });
});

describe("createRecordCache: by text", () => {
  const digestOf = (text: string) => text.replace("text", "digest");
  const itself = forming<KeyRecord>((record) => record);

  it("a text is remembered without its digest, until a change of that digest or of all", async () => {
    const { store } = await counted();
    await store.insertKeys([1, 2].map((n) => ({ row: keyRow(n) })));
    let digests = 0;
    const counting = { ...itself, digestOf: (text: string) => (digests++, digestOf(text)) };
    const cache = createRecordCache(store, counting);
    const find = (text: string) => cache.find(text) as KeyRecord | undefined;
    for (let i = 0; i < 3; i++)
      expect(["text-1", "text-2"].map((text) => find(text)?.keyId)).toEqual(["key_000001", "key_000002"]);
    expect(digests).toBe(2);
    await disable(store, "key_000001");
    expect(find("text-1")?.enabled).toBe(false);
    expect(digests).toBe(3);
    await store.write([{ table: "apis", row: { ...API, version: 1, enabled: false } }]);
    expect(find("text-2")?.parentDisabled).toBe(true);
  });

  it("a digest that comes late serves the same", async () => {
    const { store, state } = await counted();
    await store.insertKeys([{ row: keyRow(1) }]);
    const cache = createRecordCache(store, { ...itself, digestOf: (text) => Promise.resolve(digestOf(text)) });
    const find = () => cache.find("text-1");
    expect((await find())?.keyId).toBe("key_000001");
    expect((await find())?.keyId).toBe("key_000001");
    expect(state.finds).toBe(1);
  });

  it("believes nothing while the store cannot catch up", async () => {
    const { store, inner } = await counted();
    await inner.insertKeys([{ row: keyRow(1) }]);
    let late = false;
    const polled = { ...store, pollChanges: () => (late ? Promise.reject(new Error("locked")) : undefined) };
    const cache = createRecordCache(polled, { ...itself, digestOf });
    expect(cache.find("text-1")).toBeDefined();
    late = true;
    await expect(cache.find("text-1")).rejects.toThrow("locked");
    late = false;
    expect(cache.find("text-1")).toBeDefined();
  });
});
