/** Batch reads: clause 20. */
import { expect } from "../expect.js";
import type { Clause } from "./bed.js";
import { balance, insert, keyRow, override, readBalance, readRow, refOf, related, role, WS } from "./rows.js";

/** As many as keystile passes in one call. */
const MAX_BATCH = 1_000;

export function batchesClauses(clause: Clause): void {
  clause("clause 20: a batch of finds returns what single finds do, in the order of its digests", async (store) => {
    await store.write(related({ meta: { plan: "pro" } }));
    const rows = [
      keyRow(1, { roles: ["role_r"], identityId: "id_user", digest: "ключ" }),
      keyRow(2, { digest: "a", hasCredits: true, name: "two" }),
      keyRow(3, { digest: "A" }),
      keyRow(4, { deleted: true }),
    ];
    await store.insertKeys(rows.map((row) => ({ row, ...(row.hasCredits && { balance: balance(5) }) })));
    const digests = ["A", "unknown", "a", "ключ", "A", "digest-4", "a\0", "", '"', "\ud800"];
    const singles = [];
    for (const digest of digests) singles.push(await store.findKey(digest));
    expect(await store.findKeys(digests)).toEqual(singles);
    expect(await store.findKeys([...digests].reverse())).toEqual(singles.reverse());
    expect(singles.filter((record) => record !== undefined)).toHaveLength(4);
    expect(await store.findKeys([])).toEqual([]);
    const [one] = await store.findKeys(["ключ"]);
    expect(one).toMatchObject({ permissions: ["a.read"], identity: { externalId: "user" } });
  });

  clause("clause 20: rows are returned in the order of their ids, whatever the table", async (store) => {
    const ids = ["ns_b", "ns_B", "ns_é", "ns_e\u0301", "ns_'", 'ns_"', "ns_\\", "ns_%", "ns_日本", "1"];
    for (const [i, id] of ids.entries()) {
      expect(await store.write([{ table: "roles", row: role(`r${i}`, [], { id }) }]), id).toBe("written");
      expect(await store.write([{ table: "overrides", row: override("ns", id, { id }) }]), id).toBe("written");
      expect(await insert(store, keyRow(i, { id, name: id })), id).toBe(true);
    }
    for (const table of ["roles", "overrides", "keys"] as const) {
      const asked = [...ids].reverse().flatMap((id) => [id, `${id}\0`, "gone", id]);
      const singles = [];
      for (const id of asked) singles.push(await readRow(store, table, id));
      expect(await store.readMany(table, asked), table).toEqual(singles);
      expect(singles.map((row) => row?.id)).toEqual(asked.map((id) => (ids.includes(id) ? id : undefined)));
      expect(await store.readMany(table, []), table).toEqual([]);
    }
    const apis = await store.readMany("apis", ["gone", "api_1"]);
    expect(apis).toMatchObject([undefined, { id: "api_1", workspaceId: WS }]);
    expect(await store.readMany("workspaces", [WS])).toEqual([undefined]);
  });

  clause("clause 20: balances are read each at its own period, in the order of the keys", async (store) => {
    await store.insertKeys([
      { row: keyRow(1, { hasCredits: true }), balance: balance(10, { amount: 5, period: 100 }) },
      { row: keyRow(2, { hasCredits: true }), balance: balance(20) },
      { row: keyRow(3) },
    ]);
    await store.spendCredits(await refOf(store, "digest-2"), 3, 0, 0);
    let drawn = 0;
    for (const holder of store.powers.leases ? ["a", "b"] : []) {
      const request = { holder, spent: 0, cost: 1, step: 2, size: 4, period: 100, now: 0, until: 1_000 };
      drawn += (await store.drawCredits(await refOf(store, "digest-1"), request))!.drawn;
    }
    const queries = [
      { keyId: keyRow(2).id, period: 0 },
      { keyId: "gone", period: 0 },
      { keyId: keyRow(1).id, period: 102 },
      { keyId: keyRow(3).id, period: 4 },
      { keyId: keyRow(1).id, period: 100 },
      { keyId: keyRow(2).id, period: 0 },
      { keyId: `${keyRow(2).id}\0`, period: 0 },
    ];
    for (const now of [0, 1_000]) {
      const singles = [];
      for (const { keyId, period } of queries) singles.push(await readBalance(store, keyId, period, now));
      expect(await store.readBalances(queries, now), `at ${now}`).toEqual(singles);
      const [second, gone, later, unlimited, first] = singles;
      expect([second?.remaining, gone, unlimited?.remaining]).toEqual([17, undefined, null]);
      expect(later!.remaining! - first!.remaining!).toBe(10);
      expect(first!.remaining! + (first!.reserved === 0 ? drawn : first!.reserved), "whatever is leased").toBe(10);
    }
    expect(await store.readBalances([], 0)).toEqual([]);
  });

  clause("clause 20: a batch of the largest size is one call", async (store) => {
    const rows = Array.from({ length: MAX_BATCH }, (_, n) => keyRow(n, { hasCredits: n % 2 === 0 }));
    await store.insertKeys(rows.map((row, n) => (n % 2 === 0 ? { row, balance: balance(n) } : { row })));
    const back = [...rows].reverse();
    const ids = back.map(({ id }) => id);
    expect((await store.findKeys(back.map(({ digest }) => digest!))).map((record) => record?.keyId)).toEqual(ids);
    expect((await store.readMany("keys", ids)).map((row) => row?.id)).toEqual(ids);
    const queries = ids.map((keyId) => ({ keyId, period: 0 }));
    const balances = await store.readBalances(queries, 0);
    expect(balances.map((one) => one?.remaining)).toEqual(back.map((_, i) => (i % 2 === 1 ? MAX_BATCH - 1 - i : null)));
  });
}
