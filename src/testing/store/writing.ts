/** Inserts and writes: clauses 4 and 13. */
import { expect } from "../expect.js";
import type { Clause } from "./bed.js";
import { api, keyRow, role, balance, insert, refOf } from "./rows.js";

export function writingClauses(clause: Clause): void {
  clause("clause 4: duplicates are reported singly", async (withApi) => {
    const store = await withApi();
    await insert(store, keyRow(1, { foreignDigest: "f1", migrationId: "m" }));
    const batch = [
      keyRow(2),
      keyRow(3, { digest: "digest-1" }),
      keyRow(4, { digest: "digest-2" }),
      keyRow(5, { foreignDigest: "f1" }),
      keyRow(6, { foreignDigest: "f6", migrationId: "m" }),
      keyRow(7, { foreignDigest: "f6", migrationId: "m" }),
      keyRow(8),
    ];
    const inserted = await store.insertKeys(batch.map((row) => ({ row, balance: balance(1) })));
    expect(inserted).toEqual([true, false, false, false, true, false, true]);
    expect(await store.read("keys", "key_000003")).toBeUndefined();
    expect(await store.readBalance("key_000003", 0, 0)).toBeUndefined();
    expect((await store.findKey("digest-1"))?.keyId).toBe("key_000001");
    expect((await store.findKey("digest-8"))?.keyId).toBe("key_000008");
  });

  clause("clause 13: a write is all or nothing", async (withApi) => {
    const store = await withApi();
    await insert(store, keyRow(1));
    await store.write([{ table: "roles", row: role("taken", []) }]);
    const fresh = role("new", []);
    const refused = [
      { table: "roles", row: role("taken", [], { id: "role_other" }) },
      { table: "apis", row: api({ version: 7 }) },
      { table: "apis", row: api({ version: 0 }) },
      { table: "keys", row: keyRow(9, { version: 3 }) },
      { table: "roles", remove: "role_taken", version: 9 },
      { table: "roles", remove: "role_unknown", version: 1 },
    ] as const;
    for (const write of refused) {
      expect(await store.write([{ table: "roles", row: fresh }, write]), JSON.stringify(write)).toBe(false);
      expect(await store.read("roles", fresh.id)).toBeUndefined();
    }
    expect(await store.write([{ table: "roles", row: fresh }])).toBe(true);
    expect(
      await store.write([
        { table: "roles", row: role("a", [], { id: "role_x" }) },
        { table: "roles", row: role("a", [], { id: "role_y" }) },
      ]),
    ).toBe(false);
    const row = (await store.read("keys", "key_000001"))!;
    expect(await store.write([{ table: "keys", row: { ...row, name: "first" } }])).toBe(true);
    expect(await store.write([{ table: "keys", row: { ...row, name: "second" } }])).toBe(false);
    expect((await store.read("keys", row.id))?.name).toBe("first");
    expect(await store.write([])).toBe(true);
  });

  clause(
    "clause 13: a change of a balance that has counted further than its maker saw is refused whole",
    async (withApi) => {
      const store = await withApi();
      await insert(store, keyRow(1, { hasCredits: true }), balance(0, { amount: 10, period: 100 }));
      const ref = await refOf(store, "digest-1");
      const { period } = (await store.readBalance("key_000001", 101, 0))!;
      const change = async (counted: number) => {
        const row = (await store.read("keys", "key_000001"))!;
        const credits = { period: 101, refillsCounted: counted, refill: { amount: 1, period: 7 } };
        return store.write([{ table: "keys", row: { ...row, name: "changed" }, credits }]);
      };
      expect(await store.spendCredits(ref, 1, 102, 0)).toEqual({ ok: true, remaining: 19 });
      expect(await change(period)).toBe(false);
      expect((await store.read("keys", "key_000001"))?.name).toBeUndefined();
      expect(await store.readBalance("key_000001", 0, 0)).toMatchObject({ remaining: 19, period: 102, reserved: 0 });
      expect(await change(102)).toBe(true);
      expect(await store.readBalance("key_000001", 0, 0)).toMatchObject({ remaining: 19, period: 7, reserved: 0 });
    },
  );

  clause("clause 13: removal removes, credits included", async (withApi) => {
    const store = await withApi();
    await insert(store, keyRow(1, { hasCredits: true }), balance(5));
    const ref = await refOf(store, "digest-1");
    expect(await store.write([{ table: "keys", remove: "key_000001", version: 1 }])).toBe(true);
    expect(await store.findKey("digest-1")).toBeUndefined();
    expect(await store.spendCredits(ref, 1, 0, 0)).toBeUndefined();
    expect(await insert(store, keyRow(2, { digest: "digest-1" }))).toBe(true);
    expect((await refOf(store, "digest-1")) === ref).toBe(false);
  });

  clause("clause 13: a credit change counts refills, then sets or adds, then changes the calendar", async (withApi) => {
    const store = await withApi();
    await insert(store, keyRow(1, { hasCredits: true }), balance(1, { amount: 10, period: 100 }));
    const change = async (credits: object, generation = 0) => {
      const row = (await store.read("keys", "key_000001"))!;
      expect(await store.write([{ table: "keys", row: { ...row, generation }, credits: credits as never }])).toBe(true);
    };
    await change({ period: 102, add: 4 });
    expect((await store.readBalance("key_000001", 102, 0))?.remaining).toBe(25);
    await change({ period: 102, add: -100 });
    expect((await store.readBalance("key_000001", 102, 0))?.remaining).toBe(0);
    await change({ period: 103, refill: { amount: 1, period: 0 } });
    expect((await store.readBalance("key_000001", 2, 0))?.remaining).toBe(12);
    await change({ period: 2, remaining: null }, 1);
    expect((await store.readBalance("key_000001", 50, 0))?.remaining).toBeNull();
    const ref = await refOf(store, "digest-1");
    expect(await store.spendCredits(ref, 10 ** 12, 2, 0)).toEqual({ ok: true, remaining: null });
    await change({ period: 2, remaining: 7 }, 2);
    expect(await store.spendCredits(ref, 1, 2, 0)).toEqual({ ok: true, remaining: 6 });
    await insert(store, keyRow(2));
    const unlimited = (await store.read("keys", "key_000002"))!;
    await store.write([
      { table: "keys", row: { ...unlimited, hasCredits: true }, credits: { period: 0, remaining: 9 } },
    ]);
    expect(await store.spendCredits(await refOf(store, "digest-2"), 1, 0, 0)).toEqual({ ok: true, remaining: 8 });
  });

  clause("clause 19: keys with one account share its balance, which lives as long as one of them", async (withApi) => {
    const store = await withApi();
    await insert(store, keyRow(1, { hasCredits: true }), balance(10));
    const share = (n: number, from: number) =>
      keyRow(n, { hasCredits: true, accountId: keyRow(1).id, rerolledFrom: keyRow(from).id });
    const read = async (n: number) => (await store.readBalance(keyRow(n).id, 0, 0))?.remaining;
    const spend = async (n: number, cost: number) => {
      const { ref, account } = (await store.findKey(`digest-${n}`))!;
      return store.spendCredits(account?.ref ?? ref, cost, 0, 0);
    };
    expect(await store.write([{ table: "keys", row: share(2, 1) }])).toBe(true);
    expect(await spend(1, 3)).toEqual({ ok: true, remaining: 7 });
    expect(await spend(2, 3)).toEqual({ ok: true, remaining: 4 });
    expect((await store.findKey("digest-2"))?.account?.id).toBe(keyRow(1).id);
    expect((await store.findKey("digest-1"))?.account).toBeUndefined();
    expect(await store.write([{ table: "keys", remove: keyRow(1).id, version: 1 }])).toBe(true);
    expect(await store.write([{ table: "keys", row: share(3, 2) }])).toBe(true);
    expect(await spend(3, 1)).toEqual({ ok: true, remaining: 3 });
    const second = (await store.read("keys", keyRow(2).id))!;
    expect(await store.write([{ table: "keys", row: second, credits: { period: 0, add: 10 } }])).toBe(true);
    expect([await read(2), await read(3)]).toEqual([13, 13]);
    const removals = [2, 3].map((n) => ({ table: "keys" as const, remove: keyRow(n).id }));
    expect(await store.write([{ ...removals[0]!, version: 2 }])).toBe(true);
    const { ref, account } = (await store.findKey("digest-3"))!;
    expect(await store.spendCredits(account?.ref ?? ref, 13, 0, 0)).toEqual({ ok: true, remaining: 0 });
    expect(await store.write([{ ...removals[1]!, version: 1 }])).toBe(true);
    expect(await store.spendCredits(account?.ref ?? ref, 0, 0, 0)).toBeUndefined();
  });
}
