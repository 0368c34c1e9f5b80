/** Searches and counts of keys: clause 29. */
import type { KeyHints, KeyPosition, KeyRow, KeySearch, Store } from "../../contracts/store.js";
import { expect } from "../expect.js";
import type { Clause } from "./bed.js";
import { withPower } from "./powers.js";
import { api, balance, identity, keyRow, NOW, WS } from "./rows.js";

const APIS = ["api_1", "api_2", "api_3"];

/** Keys of three APIs: some expire, some at once, some are deleted, disabled, of an identity or have credits. */
const ROWS = Array.from({ length: 40 }, (_, n): KeyRow => {
  const expires = n % 3 === 0 ? { expires: NOW + (n % 4) * 1_000 } : {};
  return keyRow(n, {
    apiId: APIS[n % 7 === 0 ? 2 : n % 2] as string,
    name: n % 5 === 0 ? `Kelvin ${n} "ä"` : `key ${n}`,
    enabled: n % 4 !== 1,
    deleted: n % 11 === 10,
    hasCredits: n % 6 === 2,
    ...(n % 8 === 3 && { identityId: "id_user" }),
    ...expires,
  });
});

async function fill(store: Store): Promise<void> {
  await store.write([
    ...APIS.slice(1).map((id) => ({ table: "apis" as const, row: api({ id }) })),
    { table: "identities", row: identity("user") },
  ]);
  const keys = ROWS.map((row) => ({ row, ...(row.hasCredits && { balance: balance(Number(row.id.slice(4))) }) }));
  await store.insertKeys(keys);
  if (store.powers.usage) await store.recordUses([5, 6, 7].map((n) => ({ keyId: keyRow(n).id, usedAt: n * 60_000 })));
}

/** All that slices return, and how many keys they looked at. */
async function walk(
  store: Store,
  query: Partial<KeySearch> & Pick<KeySearch, "order" | "among" | "limit">,
): Promise<{ readonly ids: readonly string[]; readonly looked: number }> {
  const ids: string[] = [];
  let looked = 0;
  for (let after: KeyPosition | undefined, slices = 0; slices < 500; slices++) {
    const slice = await store.searchKeys!({
      workspaceId: WS,
      apiIds: APIS,
      mayMatch: {},
      ...query,
      ...(after !== undefined && { after }),
    });
    const most = query.order === "any" ? query.limit : query.among;
    expect(slice.keys.length <= query.limit && slice.looked <= most, "bounds of a slice").toBe(true);
    ids.push(...slice.keys.map(({ id }) => id));
    looked += slice.looked;
    after = slice.last;
    if (after === undefined) return { ids, looked };
  }
  throw new Error("the walk does not end");
}

const listed = (apiIds: readonly string[] = APIS) =>
  ROWS.filter(({ apiId, deleted }) => !deleted && apiIds.includes(apiId));
const idsOf = (rows: readonly KeyRow[]) => rows.map(({ id }) => id);
const byExpiry = (a: KeyRow, b: KeyRow) => Number(a.expires) - Number(b.expires) || (a.id < b.id ? -1 : 1);
const SIZES = [
  [1, 1],
  [3, 2],
  [7, 100],
  [100, 4],
  [1_000, 100],
] as const;

/** What has to be found by each hint. */
const HINTS: readonly (readonly [KeyHints, (row: KeyRow, n: number) => boolean])[] = [
  [{ text: "KELVIN" }, ({ name }) => name?.startsWith("Kelvin") === true],
  [{ text: 'kelvin 5 "Ä' }, ({ id }) => id === keyRow(5).id],
  [{ text: keyRow(12).id.toUpperCase() }, ({ id }) => id === keyRow(12).id],
  [{ text: "USER" }, ({ identityId }) => identityId !== undefined],
  [{ enabled: false }, ({ enabled }) => !enabled],
  [{ enabled: true, expiresFrom: NOW + 1_000 }, ({ enabled, expires = Infinity }) => enabled && expires >= NOW + 1_000],
  [{ expiresBefore: NOW + 1_000 }, ({ expires = Infinity }) => expires < NOW + 1_000],
  [{ creditsBelow: 20 }, ({ hasCredits }, n) => hasCredits && n < 20],
];

export function searchingClauses(all: Clause): void {
  const clause = withPower(all, "search", (store: Store) => store);

  clause("clause 29: a walk finds every key once, newest first or by expiry, in slices of any size", async (store) => {
    await fill(store);
    for (const apiIds of [APIS, ["api_2"], ["api_2", "api_3", "api_gone"]]) {
      const newest = idsOf(listed(apiIds)).reverse();
      const ending = listed(apiIds).filter(({ expires }) => expires !== undefined);
      const expiring = idsOf(ending.sort(byExpiry));
      for (const [among, limit] of SIZES) {
        const size = { apiIds, among, limit };
        expect(await walk(store, { ...size, order: "newest" })).toEqual({ ids: newest, looked: newest.length });
        expect(await walk(store, { ...size, order: "expires" })).toEqual({ ids: expiring, looked: expiring.length });
      }
    }
    const others = { order: "newest", among: 9, limit: 9 } as const;
    expect((await walk(store, { ...others, workspaceId: "ws_2" })).ids).toEqual([]);
  });

  clause("clause 29: any order finds all with few credits, or used lately, in slices of any size", async (store) => {
    await fill(store);
    const row = identity("user", { version: 1, hasCredits: true, generation: 1 });
    expect(await store.write([{ table: "identities", row, credits: { period: 0, remaining: 1 } }])).toHaveLength(1);
    const ofOwner = listed().filter(({ identityId }) => identityId !== undefined);
    const few = listed().filter(({ id, hasCredits }) => hasCredits && Number(id.slice(4)) < 20);
    for (const [among, limit] of SIZES) {
      const { ids } = await walk(store, { order: "any", among, limit, mayMatch: { creditsBelow: 20 } });
      for (const id of idsOf([...ofOwner, ...few])) expect(ids.includes(id), `${id} of ${among}`).toBe(true);
      const above = { creditsBelow: 2, idAbove: idsOf(ofOwner)[1] as string };
      const tied = await walk(store, { order: "any", among, limit, mayMatch: above });
      for (const id of idsOf(ofOwner).slice(2)) expect(tied.ids.includes(id), `${id} above`).toBe(true);
      if (!store.powers.usage) continue;
      const used = await walk(store, { order: "any", among, limit, mayMatch: { usedFrom: 6 * 60_000 } });
      for (const n of [6, 7]) expect(used.ids.includes(keyRow(n).id), `${n} was used`).toBe(true);
    }
    const others = { order: "any", among: 9, limit: 9, mayMatch: { creditsBelow: 20 } } as const;
    expect((await walk(store, { ...others, apiIds: ["api_gone"] })).ids).toEqual([]);
  });

  clause("clause 29: no order tells how many keys another workspace has", async (store) => {
    await store.write([{ table: "apis", row: api({ id: "api_other", workspaceId: "ws_2" }) }]);
    const others = Array.from({ length: 30 }, (_, n) =>
      keyRow(100 + n, { workspaceId: "ws_2", apiId: "api_other", hasCredits: true }),
    );
    const used = (rows: readonly KeyRow[]) => rows.map(({ id }) => ({ keyId: id, usedAt: 60_000 }));
    const own = keyRow(1, { hasCredits: true });
    await store.insertKeys([...others, own].map((row) => ({ row, balance: balance(5) })));
    if (store.powers.usage) await store.recordUses(used([...others, own]));
    for (const [among, limit] of SIZES)
      for (const query of [
        { order: "any", mayMatch: { creditsBelow: 20 } },
        { order: "any", mayMatch: store.powers.usage ? { usedFrom: 0 } : { creditsBelow: 9 } },
        { order: "newest" },
      ] as const)
        expect(await walk(store, { among, limit, ...query })).toEqual({ ids: [own.id], looked: 1 });
  });

  clause("clause 29: keys of one identity, in both orders", async (store) => {
    await fill(store);
    const own = listed().filter(({ identityId }) => identityId !== undefined);
    for (const [among, limit] of SIZES) {
      const query = { identityId: "id_user", among, limit };
      expect((await walk(store, { ...query, order: "newest" })).ids).toEqual(idsOf(own).reverse());
      const expiring = own.filter(({ expires }) => expires !== undefined).sort(byExpiry);
      expect((await walk(store, { ...query, order: "expires" })).ids).toEqual(idsOf(expiring));
    }
  });

  clause(
    "clause 29: deleted keys alone, of APIs and of an identity, newest first in slices of any size",
    async (store) => {
      await fill(store);
      const deletion = { deleted: true, deletedAt: NOW, deletedBy: "rk_1" };
      const owned = [51, 52, 53].map((n) => keyRow(n, { ...deletion, identityId: "id_user" }));
      await store.insertKeys(owned.map((row) => ({ row })));
      const deleted = [...ROWS.filter((row) => row.deleted), ...owned].reverse();
      const query = { order: "newest", deleted: true } as const;
      for (const [among, limit] of SIZES) {
        const size = { among, limit };
        expect(await walk(store, { ...query, ...size })).toEqual({ ids: idsOf(deleted), looked: deleted.length });
        const first = deleted.filter(({ apiId }) => apiId === "api_1");
        expect((await walk(store, { ...query, ...size, apiIds: ["api_1"] })).ids).toEqual(idsOf(first));
        const { ids } = await walk(store, { ...query, ...size, identityId: "id_user" });
        expect(ids).toEqual(idsOf(owned).reverse());
      }
      const { ids } = await walk(store, { ...query, among: 9, limit: 9, mayMatch: { text: keyRow(52).id } });
      expect(ids.includes(keyRow(52).id)).toBe(true);
      const { keys } = await store.searchKeys!({
        ...{ ...query, workspaceId: WS, apiIds: APIS, among: 9, limit: 1, mayMatch: {} },
      });
      expect(keys[0]).toMatchObject({ id: keyRow(53).id, ...deletion });
    },
  );

  clause("clause 29: what may match is never left out, whatever the slices", async (store) => {
    await fill(store);
    for (const [mayMatch, matches] of HINTS) {
      const wanted = idsOf(listed().filter((row) => matches(row, Number(row.id.slice(4))))).reverse();
      expect(wanted.length > 0, JSON.stringify(mayMatch)).toBe(true);
      for (const [among, limit] of SIZES) {
        const { ids } = await walk(store, { order: "newest", among, limit, mayMatch });
        const found = ids.filter((id) => wanted.includes(id));
        expect(found, JSON.stringify(mayMatch)).toEqual(wanted);
      }
    }
    if (!store.powers.usage) return;
    const { ids } = await walk(store, { order: "newest", among: 5, limit: 5, mayMatch: { usedFrom: 6 * 60_000 } });
    const used = [7, 6].map((n) => keyRow(n).id);
    expect(ids.filter((id) => used.includes(id))).toEqual(used);
  });

  clause("clause 29: a balance of an identity counts for the keys that draw on it", async (store) => {
    await fill(store);
    const row = identity("user", { version: 1, hasCredits: true, generation: 1 });
    expect(await store.write([{ table: "identities", row, credits: { period: 0, remaining: 1 } }])).toHaveLength(1);
    const { ids } = await walk(store, { order: "newest", among: 50, limit: 50, mayMatch: { creditsBelow: 2 } });
    const own = listed().filter(({ identityId, hasCredits }) => identityId !== undefined && !hasCredits);
    for (const id of idsOf(own)) expect(ids.includes(id), id).toBe(true);
  });

  clause("clause 29: keys whose identity has expired count as expired, and are found as such", async (store) => {
    await fill(store);
    const row = identity("user", { version: 1, expires: NOW, meta: { note: '"expires":1', a: "\\u0000" } });
    expect(await store.write([{ table: "identities", row }])).toBe("written");
    const mayMatch = { expiresBefore: NOW + 1 };
    const { ids } = await walk(store, { order: "newest", among: 50, limit: 50, mayMatch });
    const wanted = ({ identityId, expires = Infinity }: KeyRow) => identityId !== undefined || expires <= NOW;
    for (const id of idsOf(listed().filter(wanted))) expect(ids.includes(id), id).toBe(true);
    const counted = listed(["api_1"]).filter((key) => key.enabled && wanted(key)).length;
    const count = { workspaceId: WS, apiId: "api_1", among: 100, now: NOW + 1 };
    expect(await store.countKeys!(count)).toMatchObject({ expired: counted });
    expect(await store.countKeys!({ ...count, now: NOW })).toMatchObject({ expired: 0 });
  });

  clause("clause 29: the key with a digest or a hash is found, also if it or its API is deleted", async (store) => {
    await fill(store);
    const { digest: _, ...row } = keyRow(50, { foreignDigest: "hash-50", migrationId: "mig_1", apiId: "api_3" });
    await store.insertKeys([{ row }]);
    await store.write([{ table: "apis", row: api({ id: "api_3", version: 1, deleted: true }) }]);
    const wanted = [
      ...[{ digest: "digest-10" }, { digest: "digest-12", foreignDigest: "gone" }, { foreignDigest: "hash-50" }],
      ...[{ digest: "hash-50" }, { foreignDigest: "digest-12" }, { digest: "digest-10" }, {}],
    ];
    const [ten, twelve, fifty] = [10, 12, 50].map((n) => keyRow(n).id);
    const found = await store.findKeyIds!(wanted);
    expect(found).toEqual([ten, twelve, fifty, undefined, undefined, ten, undefined]);
    expect(await store.findKeyIds!([])).toEqual([]);
  });

  clause("clause 29: a count has each key of an API once, in slices of any size", async (store) => {
    await fill(store);
    const now = NOW + 1_500;
    for (const among of [1, 3, 100]) {
      const counts = { total: 0, disabled: 0, expired: 0 };
      for (let after: string | undefined, slices = 0; slices < 100; slices++) {
        const query = { workspaceId: WS, apiId: "api_1", among, now, ...(after !== undefined && { after }) };
        const { last, ...slice } = await store.countKeys!(query);
        for (const name of ["total", "disabled", "expired"] as const) counts[name] += slice[name];
        after = last;
        if (after === undefined) break;
      }
      const rows = listed(["api_1"]);
      const expired = rows.filter(({ enabled, expires = Infinity }) => enabled && expires < now);
      const disabled = rows.filter(({ enabled }) => !enabled).length;
      expect(counts).toEqual({ total: rows.length, disabled, expired: expired.length });
    }
    const nothing = { total: 0, disabled: 0, expired: 0 };
    expect(await store.countKeys!({ workspaceId: "ws_2", apiId: "api_1", among: 9, now })).toEqual(nothing);
  });
}
