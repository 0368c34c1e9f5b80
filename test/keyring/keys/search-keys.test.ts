/** searchKeys and countKeys: what is found, in which order and in how many pages, on both stores. */
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import type { Caller } from "../../../src/contracts/caller.js";
import type { Store } from "../../../src/contracts/store.js";
import { runCall } from "../../../src/keyring/operation.js";
import { contextOfKeyring, createKeyring } from "../../../src/keyring/keyring.js";
import { countKeys } from "../../../src/keyring/keys/count-keys.js";
import { searchKeys } from "../../../src/keyring/keys/search-keys.js";
import type { SearchKeysRequestBody } from "../../../src/keyring/schemas/requests.js";
import type { KeyResponseData } from "../../../src/keyring/schemas/responses.js";
import { memoryStore } from "../../../src/stores/memory.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { runs } from "../../runs.js";

const NOW = 1_800_000_000_000;
const STORES: readonly (readonly [string, () => Store])[] = [
  ["memory", memoryStore],
  ["SQLite", () => sqliteStore(":memory:")],
];

/** A key with what decides whether it is found, and where. */
interface Made {
  readonly keyId: string;
  readonly name: string;
  readonly apiId: string;
  readonly externalId: string | undefined;
  readonly state: "active" | "disabled" | "expired" | "exhausted";
  readonly expires: number | undefined;
  readonly credits: number | undefined;
  readonly lastUsed: number | undefined;
}

async function world(store: Store) {
  const time = { now: NOW - 1_000_000 };
  const keyring = createKeyring(store, { clock: () => time.now });
  const apis = [];
  for (const name of ["first", "second", "third"]) apis.push((await keyring.createApi({ name })).apiId);
  await keyring.createIdentity({ externalId: "acme", credits: { remaining: 0 } });
  await keyring.createIdentity({ externalId: "rich", credits: { remaining: 7 } });
  const made: Made[] = [];
  for (let n = 0; n < 36; n++) {
    // Ids of one millisecond are in no order.
    time.now += 10;
    const externalId = [undefined, "acme", "rich", undefined][n % 4];
    const own = n % 5 === 2 ? n % 3 : undefined;
    const expires = n % 3 === 1 ? NOW + (n % 7) * 1_000 - 3_000 : undefined;
    const enabled = n % 6 !== 5;
    const { keyId } = await keyring.createKey({
      apiId: apis[n % 3]!,
      name: `${n % 2 === 0 ? "Server" : "client"} ${n}`,
      enabled,
      ...(externalId !== undefined && { externalId }),
      ...(own !== undefined && { credits: { remaining: own } }),
      ...(expires !== undefined && { expires }),
    });
    const lastUsed = n % 4 === 0 ? (n % 8) * 60_000 : undefined;
    if (lastUsed !== undefined) await store.recordUses([{ keyId, usedAt: lastUsed }]);
    const owned = externalId === "acme" ? 0 : externalId === "rich" ? 7 : undefined;
    const credits = own === undefined ? owned : Math.min(own, owned ?? Infinity);
    const state = !enabled
      ? "disabled"
      : expires !== undefined && expires < NOW
        ? "expired"
        : credits === 0
          ? "exhausted"
          : "active";
    made.push({
      keyId,
      name: `${n % 2 === 0 ? "Server" : "client"} ${n}`,
      apiId: apis[n % 3]!,
      externalId,
      state,
      expires,
      credits,
      lastUsed,
    });
  }
  time.now = NOW;
  return { store, keyring, apis, made };
}
type World = Awaited<ReturnType<typeof world>>;

async function pagesOf({ keyring }: Pick<World, "keyring">, request: SearchKeysRequestBody) {
  const found: KeyResponseData[] = [];
  let pages = 0;
  for (let cursor: string | undefined; pages < 200; pages++) {
    const { data, pagination } = await keyring.searchKeys({ ...request, ...(cursor !== undefined && { cursor }) });
    expect(data.length).toBeLessThanOrEqual(request.limit ?? 50);
    found.push(...data);
    cursor = pagination.cursor;
    expect(pagination.hasMore).toBe(cursor !== undefined);
    if (cursor === undefined) return found.map(({ keyId }) => keyId);
  }
  throw new Error("the list does not end");
}

/** The same by a plain filter and a plain sort. */
function naive(made: readonly Made[], request: SearchKeysRequestBody): string[] {
  const { apiId, externalId, search = "", state, expiresBefore, expiresFrom, creditsBelow, order = "made" } = request;
  const isOwner = ({ externalId }: Made) => externalId !== undefined && externalId === search;
  const holds = ({ name, keyId, externalId = "" }: Made) =>
    [name, keyId, externalId].some((text) => text.toLowerCase().includes(search.toLowerCase()));
  const rank: Record<NonNullable<typeof order>, (key: Made) => number | undefined> = {
    made: ({ keyId }) => -made.findIndex((one) => one.keyId === keyId),
    expires: ({ expires }) => expires,
    lastUsed: ({ lastUsed }) => (lastUsed === undefined ? undefined : -lastUsed),
    credits: ({ credits }) => credits,
  };
  const isIndexed = order === "made" || order === "expires";
  const found = made.filter(
    (key) =>
      (apiId === undefined || key.apiId === apiId) &&
      (externalId === undefined || key.externalId === externalId) &&
      (search === "" || holds(key) || (externalId === undefined && isOwner(key))) &&
      (state === undefined || key.state === state) &&
      (expiresBefore === undefined || (key.expires ?? Infinity) < expiresBefore) &&
      (expiresFrom === undefined || (key.expires ?? -1) >= expiresFrom) &&
      (creditsBelow === undefined || (key.credits ?? Infinity) < creditsBelow) &&
      rank[order](key) !== undefined,
  );
  const first = (key: Made) => Number(isIndexed && externalId === undefined && isOwner(key));
  return found
    .sort(
      (a, b) => first(b) - first(a) || rank[order](a)! - rank[order](b)! || (a.keyId < b.keyId === isIndexed ? -1 : 1),
    )
    .map(({ keyId }) => keyId);
}

describe.each(STORES)("searchKeys on %s", (_name, open) => {
  it("finds what a plain filter finds, in that order, whatever the pages", async () => {
    const w = await world(open());
    const request = fc.record(
      {
        apiId: fc.constantFrom(...w.apis),
        externalId: fc.constantFrom("acme", "rich"),
        search: fc.constantFrom("server", "CLIENT 1", "acme", "ric", "rich", w.made[3]!.keyId, "none"),
        state: fc.constantFrom("active", "disabled", "expired", "exhausted"),
        expiresBefore: fc.constantFrom(NOW, NOW + 2_000),
        expiresFrom: fc.constantFrom(NOW - 1_000, NOW + 1_000),
        maxAge: fc.constantFrom(0, 60_000),
        creditsBelow: fc.constantFrom(1, 2, 8),
        order: fc.constantFrom("made", "expires", "lastUsed", "credits"),
        limit: fc.constantFrom(1, 3, 50),
      },
      { requiredKeys: [] },
    ) as fc.Arbitrary<SearchKeysRequestBody>;
    await fc.assert(
      fc.asyncProperty(request, async (body) => {
        expect(await pagesOf(w, body)).toEqual(naive(w.made, body));
      }),
      { numRuns: runs(150) },
    );
    await w.store.close();
  });

  it("every order is walked to its end, page by page", async () => {
    const w = await world(open());
    for (const order of ["made", "expires", "lastUsed", "credits"] as const)
      for (const limit of [1, 2, 5])
        for (const narrowed of [{}, { externalId: "rich" }, { search: "acme" }, { search: "server" }]) {
          const body = { ...narrowed, order, limit };
          expect(await pagesOf(w, body), JSON.stringify(body)).toEqual(naive(w.made, body));
        }
    await w.store.close();
  });

  it("counts what is there, of one API and of all", async () => {
    const { keyring, apis, made, store } = await world(open());
    const count = (keys: readonly Made[]) => ({
      total: keys.length,
      disabled: keys.filter(({ state }) => state === "disabled").length,
      expired: keys.filter(({ state }) => state === "expired").length,
      asOf: NOW,
    });
    expect(await keyring.countKeys()).toEqual(count(made));
    for (const apiId of apis)
      expect(await keyring.countKeys({ apiId })).toEqual(count(made.filter((key) => key.apiId === apiId)));
    await keyring.deleteKey({ keyId: made[0]!.keyId });
    await keyring.deleteApi({ apiId: apis[1]! });
    const left = made.slice(1).filter(({ apiId }) => apiId !== apis[1]);
    expect(await keyring.countKeys()).toEqual(count(left));
    expect((await pagesOf({ keyring }, { limit: 5 })).sort()).toEqual(left.map(({ keyId }) => keyId).sort());
    await store.close();
  });

  it("a caller sees the keys of the APIs that it may read, and no others", async () => {
    const { keyring, apis, made, store } = await world(open());
    const context = contextOfKeyring(keyring)!;
    const reads = (...ids: string[]): Caller => ({
      workspaceId: "ws_default",
      may: (action, { id }) => ["read_key", "read_api"].includes(action) && id !== undefined && ids.includes(id),
      mayAny: () => true,
    });
    const seen = async (caller: Caller) => {
      const { data, pagination } = await runCall({ context, operation: "searchKeys", caller }, (call) =>
        searchKeys.act(call, { limit: 100 }),
      );
      expect(pagination.hasMore).toBe(false);
      return data.map(({ keyId }) => keyId).sort();
    };
    const of = (...ids: string[]) =>
      made
        .filter(({ apiId }) => ids.includes(apiId))
        .map(({ keyId }) => keyId)
        .sort();
    expect(await seen(reads(apis[0]!))).toEqual(of(apis[0]!));
    expect(await seen(reads(apis[0]!, apis[2]!))).toEqual(of(apis[0]!, apis[2]!));
    expect(await seen(reads("api_elsewhere"))).toEqual([]);
    const counted = (...ids: string[]) =>
      runCall({ context, operation: "countKeys", caller: reads(...ids) }, (call) => countKeys.act(call, {}));
    expect(await counted(apis[1]!)).toMatchObject({ total: of(apis[1]!).length });
    expect(await counted("api_elsewhere")).toMatchObject({ total: 0 });
    // Either permission alone shows nothing.
    const half: Caller = { ...reads(apis[0]!), may: (action) => action === "read_key" };
    expect(await seen(half)).toEqual([]);
    await store.close();
  });
});

describe.each(STORES)("walks over many keys on %s", (_name, open) => {
  it("find, count and rank all of them, slice by slice", async () => {
    const store = open();
    const keyring = createKeyring(store, { clock: () => NOW });
    const { apiId } = await keyring.createApi({ name: "many" });
    const made: string[] = [];
    for (let n = 0; n < 900; n++) {
      const { keyId } = await keyring.createKey({ apiId, name: `key ${n}`, credits: { remaining: (n * 7) % 900 } });
      made.push(keyId);
    }
    expect(await keyring.countKeys({ apiId })).toMatchObject({ total: 900, disabled: 0, expired: 0 });
    expect(await pagesOf({ keyring }, { search: "key 89", order: "made" })).toHaveLength(11);
    const poorest = await keyring.searchKeys({ apiId, order: "credits", limit: 3 });
    expect(poorest.data.map(({ credits }) => credits?.remaining)).toEqual([0, 1, 2]);
    expect(poorest.pagination.hasMore).toBe(true);
    // A page of one key looks at no fewer keys at once.
    const asked = vi.spyOn(store, "searchKeys");
    expect((await keyring.searchKeys({ state: "disabled", limit: 1 })).data).toEqual([]);
    expect(asked).toHaveBeenCalled();
    expect(Math.min(...asked.mock.calls.map(([{ limit }]) => limit))).toBeGreaterThanOrEqual(100);
    asked.mockRestore();
    // A walk that takes long ends its page, and goes on from there.
    let now = 0;
    const clock = vi.spyOn(performance, "now").mockImplementation(() => (now += 100));
    try {
      let searched = 0;
      let pages = 0;
      for (let cursor: string | undefined; ;) {
        const page = await keyring.searchKeys({ search: "none of these", ...(cursor !== undefined && { cursor }) });
        expect(page.data).toEqual([]);
        searched += page.pagination.searched;
        pages++;
        cursor = page.pagination.cursor;
        if (cursor === undefined) break;
      }
      expect(searched).toBe(900);
      expect(pages).toBeGreaterThan(2);
    } finally {
      clock.mockRestore();
    }
    await store.close();
  });
});

describe("searchKeys: bounds", () => {
  it("a cursor of another order, or of another list, is a 400 at its place", async () => {
    const { keyring } = await world(memoryStore());
    const { pagination } = await keyring.searchKeys({ limit: 1, order: "expires" });
    const errors = [{ location: "body.cursor" }];
    await expect(keyring.searchKeys({ cursor: pagination.cursor, order: "credits" })).rejects.toMatchObject({ errors });
    const { pagination: plain } = await keyring.listApis({ limit: 1 });
    await expect(keyring.searchKeys({ cursor: plain.cursor })).rejects.toMatchObject({ errors });
    for (const text of [
      "search:made:0:5:key_1",
      "search:expires:0::key_1",
      "search:made:2::key_1",
      "search:made:0::é",
    ]) {
      const cursor = Buffer.from(text, "latin1").toString("base64url");
      await expect(keyring.searchKeys({ cursor }), text).rejects.toMatchObject({ errors });
    }
  });

  it("asks for an API where there are more than a thousand", async () => {
    const store = sqliteStore(":memory:");
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "first" });
    const rows = Array.from({ length: 1_000 }, (_, n) => ({
      table: "apis" as const,
      row: {
        id: `api_${n}x`,
        workspaceId: "ws_default",
        version: 0,
        name: "api",
        enabled: true,
        ipAllowlist: [],
        deleted: false,
        createdAt: 0,
      },
    }));
    await store.write(rows.slice(1));
    expect(await keyring.searchKeys()).toMatchObject({ data: [] });
    await store.write(rows.slice(0, 1));
    for (const act of [() => keyring.searchKeys(), () => keyring.countKeys()])
      await expect(act()).rejects.toMatchObject({ code: "BAD_REQUEST", errors: [{ location: "body.apiId" }] });
    expect(await keyring.searchKeys({ apiId })).toMatchObject({ data: [] });
    await expect(keyring.countKeys({ apiId: "api_gone" })).rejects.toMatchObject({ code: "NOT_FOUND" });
    await store.close();
  });

  it("a store that cannot search, or keeps no trail, is an error that says so", async () => {
    const { search: _, audit: __, ...powers } = memoryStore().powers;
    const keyring = createKeyring({ ...memoryStore(), powers });
    await expect(keyring.searchKeys()).rejects.toMatchObject({ code: "STORE_POWER_MISSING" });
    const { apiId } = await keyring.createApi({ name: "docs" });
    await expect(keyring.countKeys({ apiId })).rejects.toMatchObject({ code: "STORE_POWER_MISSING" });
    await expect(keyring.listAudit()).rejects.toMatchObject({ code: "STORE_POWER_MISSING" });
  });

  it("an order without an index asks the store for what can still come first, not for every key", async () => {
    const store = sqliteStore(":memory:");
    let returned = 0;
    const counted: Store = {
      ...store,
      async searchKeys(search) {
        const slice = await store.searchKeys!(search);
        returned += slice.keys.length;
        return slice;
      },
    };
    let now = NOW;
    const keyring = createKeyring(counted, { clock: () => (now += 10) });
    const { apiId } = await keyring.createApi({ name: "many" });
    const made = [];
    for (let n = 0; n < 900; n++) made.push((await keyring.createKey({ apiId, credits: { remaining: 100 } })).keyId);
    for (const keyId of made) await store.recordUses([{ keyId, usedAt: 60_000 }]);
    for (const [body, most] of [
      [{ order: "credits", creditsBelow: 50 }, 0],
      // A slice is returned before the best of it are known.
      [{ order: "credits", limit: 5 }, 100],
      [{ order: "lastUsed", limit: 5 }, 100],
    ] as const) {
      returned = 0;
      const { data, pagination } = await keyring.searchKeys(body);
      expect([data.length, pagination.searched <= 900, returned <= most]).toEqual([most && 5, true, true]);
    }
    await store.close();
  });

  it("an order that was worked out is served to all who accept its age, dated, with the keys as they are", async () => {
    const store = sqliteStore(":memory:");
    let slices = 0;
    const counted: Store = {
      ...store,
      searchKeys: (search) => {
        slices++;
        return store.searchKeys!(search);
      },
      countKeys: (count) => {
        slices++;
        return store.countKeys!(count);
      },
    };
    let now = NOW;
    const keyring = createKeyring(counted, { clock: () => now });
    const { apiId } = await keyring.createApi({ name: "many" });
    const [poor, gone, rich] = await Promise.all(
      [1, 2, 3].map((remaining) => keyring.createKey({ apiId, credits: { remaining } })),
    );
    const asked = { order: "credits", maxAge: 60_000, limit: 2 } as const;
    const [first, same] = await Promise.all([keyring.searchKeys(asked), keyring.searchKeys(asked)]);
    const took = slices;
    expect(first.data.map(({ keyId }) => keyId)).toEqual([poor!.keyId, gone!.keyId]);
    expect(same).toEqual(first);
    expect(first.pagination.asOf).toBe(NOW);
    now += 60_000;
    await keyring.updateCredits({ keyId: poor!.keyId, operation: "set", value: 9 });
    await keyring.deleteKey({ keyId: gone!.keyId });
    const kept = await keyring.searchKeys(asked);
    expect(kept.data.map(({ keyId, credits }) => [keyId, credits?.remaining])).toEqual([[poor!.keyId, 9]]);
    expect(kept.pagination).toMatchObject({ asOf: NOW, hasMore: true });
    const next = await keyring.searchKeys({ ...asked, cursor: kept.pagination.cursor });
    expect(next.data.map(({ keyId }) => keyId)).toEqual([rich!.keyId]);
    expect(slices).toBe(took);
    const { maxAge: _, ...anew } = asked;
    const order = [rich!.keyId, poor!.keyId];
    expect((await keyring.searchKeys(anew)).data.map(({ keyId }) => keyId)).toEqual(order);
    now++;
    const later = await keyring.searchKeys(asked);
    expect([later.data.map(({ keyId }) => keyId), later.pagination.asOf]).toEqual([order, now]);
    // So are counts.
    const count = await keyring.countKeys({ maxAge: 60_000 });
    await keyring.deleteKey({ keyId: rich!.keyId });
    expect(await keyring.countKeys({ maxAge: 60_000 })).toEqual(count);
    expect(await keyring.countKeys()).toMatchObject({ total: count.total - 1 });
    await store.close();
  });

  it("a kept order shows no key that does not fit any more, and each with the owner that it has", async () => {
    const keyring = createKeyring(memoryStore(), { clock: () => NOW });
    const { apiId } = await keyring.createApi({ name: "many" });
    const make = (remaining: number) => keyring.createKey({ apiId, externalId: "acme", credits: { remaining } });
    const [moved, paid, disabled, left] = await Promise.all([1, 2, 3, 4].map(make));
    const asked = { order: "credits", maxAge: 60_000 } as const;
    const filters = [{ externalId: "acme" }, { search: "acme" }, { creditsBelow: 5 }, { state: "active" }] as const;
    const found = (filter: object) =>
      keyring.searchKeys({ ...asked, ...filter }).then(({ data }) => data.map(({ keyId }) => keyId));
    const all = [moved, paid, disabled, left].map((key) => key!.keyId);
    for (const filter of filters) expect(await found(filter)).toEqual(all);
    await keyring.updateKey({ keyId: moved!.keyId, externalId: "other" });
    await keyring.updateCredits({ keyId: paid!.keyId, operation: "set", value: 9 });
    await keyring.updateKey({ keyId: disabled!.keyId, enabled: false });
    const without = (gone: typeof moved) => all.filter((id) => id !== gone!.keyId);
    expect(await Promise.all(filters.map(found))).toEqual([
      without(moved),
      without(moved),
      without(paid),
      without(disabled),
    ]);
  });

  it("goes on where the owner that the text names is deleted or made between two pages", async () => {
    let now = NOW;
    const keyring = createKeyring(memoryStore(), { clock: () => (now += 10) });
    const { apiId } = await keyring.createApi({ name: "many" });
    const named: string[] = [];
    for (let n = 0; n < 4; n++) named.push((await keyring.createKey({ apiId, name: `acme ${n}` })).keyId);
    const rest = async (body: { search: string; limit: number; cursor?: string }) => {
      const found: string[] = [];
      for (let page = await keyring.searchKeys(body); ;) {
        found.push(...page.data.map(({ keyId }) => keyId));
        const { cursor } = page.pagination;
        if (cursor === undefined) return new Set(found);
        page = await keyring.searchKeys({ ...body, cursor });
      }
    };
    const body = { search: "acme", limit: 1 };
    await keyring.createKey({ apiId, externalId: "acme" });
    const first = await keyring.searchKeys({ ...body, limit: 2 });
    await keyring.deleteIdentity({ identity: "acme" });
    const { cursor } = first.pagination;
    expect(await rest({ ...body, cursor: cursor! })).toEqual(new Set(named));
    const again = await keyring.searchKeys(body);
    const { keyId } = await keyring.createKey({ apiId, externalId: "acme" });
    await keyring.deleteKey({ keyId });
    expect(await rest({ ...body, cursor: again.pagination.cursor! })).toEqual(new Set(named));
  });

  it("a kept order has two hundred keys; pages beyond them are worked out for themselves", async () => {
    const store = memoryStore();
    let now = NOW;
    const keyring = createKeyring(store, { clock: () => (now += 10) });
    const { apiId } = await keyring.createApi({ name: "many" });
    for (let n = 0; n < 230; n++) await keyring.createKey({ apiId, credits: { remaining: n } });
    const body = { order: "credits", limit: 30 } as const;
    expect(await pagesOf({ keyring }, { ...body, maxAge: 86_400_000 })).toEqual(await pagesOf({ keyring }, body));
  });

  it("an end is that of the key or of its owner, whichever comes first", async () => {
    const keyring = createKeyring(memoryStore(), { clock: () => NOW });
    const { apiId } = await keyring.createApi({ name: "trials" });
    await keyring.createIdentity({ externalId: "trial", expires: NOW + 5_000 });
    const owned = await keyring.createKey({ apiId, externalId: "trial" });
    const both = await keyring.createKey({ apiId, externalId: "trial", expires: NOW + 2_000 });
    await keyring.createKey({ apiId });
    const within = async (expiresFrom: number, expiresBefore: number) =>
      (await pagesOf({ keyring }, { expiresFrom: NOW + expiresFrom, expiresBefore: NOW + expiresBefore })).sort();
    expect(await within(0, 3_000)).toEqual([both.keyId]);
    expect(await within(3_000, 9_000)).toEqual([owned.keyId]);
    expect(await within(0, 9_000)).toEqual([owned.keyId, both.keyId].sort());
  });

  it("a text is looked for in the external ids of owners too", async () => {
    const keyring = createKeyring(memoryStore());
    const { apiId } = await keyring.createApi({ name: "many" });
    await keyring.createIdentity({ externalId: "of-Acme" });
    const owned = await keyring.createKey({ apiId, externalId: "of-Acme" });
    await keyring.createKey({ apiId });
    expect(await pagesOf({ keyring }, { search: "ACME" })).toEqual([owned.keyId]);
  });
});
