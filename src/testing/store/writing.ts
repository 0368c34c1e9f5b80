/** Inserts and writes: clauses 4 and 13. */
import type { CreditChange, Write } from "../../contracts/store.js";
import { expect } from "../expect.js";
import { accountThrough, withCredits } from "./account.js";
import type { Clause } from "./bed.js";
import {
  api,
  balance,
  identity,
  insert,
  keyRow,
  NOW,
  override,
  permission,
  readBalance,
  readRow,
  refOf,
  role,
  rootKey,
  WS,
} from "./rows.js";
import { refusesOutdated } from "./shared-credits.js";
import { alone } from "./shared-steps.js";
import { reportsDuplicates } from "./shared-writing.js";

export function writingClauses(clause: Clause): void {
  clause("clause 4: duplicates are reported singly", alone(reportsDuplicates));

  clause("clause 13: a write is all or nothing", async (store) => {
    await insert(store, keyRow(1));
    await store.write([{ table: "roles", row: role("taken", []) }]);
    const fresh = role("new", []);
    const refused = [
      ["taken", { table: "roles", row: role("taken", [], { id: "role_other" }) }],
      ["conflict", { table: "apis", row: api({ version: 7 }) }],
      ["taken", { table: "apis", row: api({ version: 0 }) }],
      ["conflict", { table: "keys", row: keyRow(9, { version: 3 }) }],
      ["conflict", { table: "roles", remove: "role_taken", version: 9 }],
      ["conflict", { table: "roles", remove: "role_unknown", version: 1 }],
    ] as const;
    for (const [refusal, write] of refused) {
      expect(await store.write([{ table: "roles", row: fresh }, write]), JSON.stringify(write)).toBe(refusal);
      expect(await readRow(store, "roles", fresh.id)).toBeUndefined();
    }
    expect(await store.write([{ table: "roles", row: fresh }])).toBe("written");
    const namesakes = ["role_x", "role_y"].map((id) => ({ table: "roles", row: role("a", [], { id }) }) as const);
    expect(await store.write(namesakes)).toBe("taken");
    const row = (await readRow(store, "keys", "key_000001"))!;
    expect(await store.write([{ table: "keys", row: { ...row, name: "first" } }])).toBe("written");
    expect(await store.write([{ table: "keys", row: { ...row, name: "second" } }])).toBe("conflict");
    expect((await readRow(store, "keys", row.id))?.name).toBe("first");
    expect(await store.write([])).toBe("written");
  });

  clause("clause 13: of two writes of one version in flight at once, one is written", async (store) => {
    await insert(store, keyRow(1));
    await store.write([{ table: "roles", row: role("r", []) }]);
    const atOnce = async (...writes: readonly Write[]) => {
      const outcomes = await Promise.all(writes.map(async (write) => store.write([write])));
      expect(outcomes.filter((outcome) => outcome === "written")).toHaveLength(1);
      return outcomes;
    };
    for (let version = 1; version <= 3; version++) {
      const [first, second] = ["first", "second"].map((description) => role("r", [], { version, description }));
      const outcomes = await atOnce({ table: "roles", row: first! }, { table: "roles", row: second! });
      expect(outcomes.includes("conflict"), "the other is a conflict").toBe(true);
      const written = outcomes[0] === "written" ? first : second;
      expect(await readRow(store, "roles", "role_r")).toEqual({ ...written, version: version + 1 });
    }
    const key = (await readRow(store, "keys", keyRow(1).id))!;
    const outcomes = await atOnce(
      { table: "keys", row: { ...key, name: "kept" } },
      { table: "keys", remove: key.id, version: key.version },
    );
    expect((await readRow(store, "keys", key.id))?.name).toBe(outcomes[0] === "written" ? "kept" : undefined);
    const named = ["role_1", "role_2"].map((id) => role("new", [], { id }));
    const taken = await atOnce({ table: "roles", row: named[0]! }, { table: "roles", row: named[1]! });
    expect(taken.includes("taken"), "the other name is taken").toBe(true);
    const written = taken[0] === "written" ? "role_1" : "role_2";
    expect(await store.readNames("roles", WS, ["new"])).toMatchObject([{ id: written }]);
  });

  clause("clause 13: a name that is taken is told apart from a row that changed, in every table", async (store) => {
    const first: readonly Write[] = [
      { table: "identities", row: identity("a") },
      { table: "roles", row: role("a", []) },
      { table: "permissions", row: permission("a") },
      { table: "migrations", row: { id: "a", workspaceId: WS, version: 0, algorithm: "sha256" } },
      { table: "rootKeys", row: rootKey(1) },
      { table: "namespaces", row: { id: "ns_a", workspaceId: WS, version: 0, name: "a", createdAt: NOW } },
      { table: "overrides", row: override("ns_a", "a") },
      { table: "workspaces", row: { id: WS, version: 0, enabled: true } },
      { table: "keys", row: keyRow(1, { foreignDigest: "f1", migrationId: "a" }) },
    ];
    for (const write of first) expect(await store.write([write]), write.table).toBe("written");
    for (const write of first as readonly Extract<Write, { row: unknown }>[]) {
      const { table, row } = write;
      const outcomeOf = (over: object) => store.write([{ table, row: { ...row, ...over } } as Write]);
      expect(await outcomeOf({}), `${table}: the same row once more`).toBe("taken");
      expect(await outcomeOf({ version: 2 }), `${table}: a version that is not there`).toBe("conflict");
      expect(await outcomeOf({ id: "gone", version: 1 }), `${table}: a row that is gone`).toBe("conflict");
      if (table !== "workspaces" && table !== "migrations")
        expect(await outcomeOf({ id: "other" }), `${table}: another row of this name`).toBe("taken");
    }
    for (const over of [{ digest: "digest-1" }, { foreignDigest: "f1" }])
      expect(await store.write([{ table: "keys", row: keyRow(2, over) }])).toBe("taken");
  });

  clause("clause 13: a row that takes the name of another is told apart from one that changed", async (store) => {
    await store.write([
      { table: "roles", row: role("a", []) },
      { table: "roles", row: role("b", []) },
    ]);
    await store.insertKeys([1, 2].map((n) => ({ row: keyRow(n), balance: balance(1, { period: 5 }) })));
    const renamed = role("a", [], { id: "role_b", version: 1 });
    expect(await store.write([{ table: "roles", row: renamed }])).toBe("taken");
    expect(await store.write([{ table: "roles", row: { ...renamed, version: 7 } }])).toBe("conflict");
    const key = (await readRow(store, "keys", keyRow(2).id))!;
    const taking = { ...key, digest: "digest-1" };
    const outdated = { period: 5, refillsCounted: 4, refill: { amount: 1, period: 5 } };
    expect(await store.write([{ table: "keys", row: taking }])).toBe("taken");
    expect(await store.write([{ table: "keys", row: taking, credits: outdated }])).toBe("taken");
    expect(await store.write([{ table: "keys", row: { ...taking, version: 7 } }])).toBe("conflict");
    expect(await store.write([{ table: "keys", row: key, credits: outdated }])).toBe("conflict");
    // The first in the list decides.
    const taken = { table: "roles", row: renamed } as const;
    const changed = { table: "roles", remove: "role_a", version: 7 } as const;
    expect(await store.write([taken, changed])).toBe("taken");
    expect(await store.write([changed, taken])).toBe("conflict");
  });

  clause(
    "clause 13: a change of a balance that has counted further than its maker saw is refused whole",
    alone(refusesOutdated),
  );

  clause("clause 13: a write that changes balances answers with what it left of each, in order", async (store) => {
    const first = { ...keyRow(1), hasCredits: true, generation: 1 };
    const set = (remaining: number | null) => ({ period: 0, remaining });
    const customer = identity("user", { hasCredits: true, generation: 1 });
    const outcome = await store.write([
      { table: "identities", row: customer, credits: set(7) },
      { table: "roles", row: role("plain", []) },
      { table: "keys", row: first, credits: set(5) },
      { table: "keys", row: keyRow(2), credits: set(null) },
    ]);
    expect(outcome).toEqual([7, 5, null].map((remaining) => ({ remaining, reserved: 0, added: remaining ?? 0 })));
    const add = { table: "keys", row: { ...first, version: 1 }, credits: { period: 0, add: -9 } } as const;
    expect(await store.write([add])).toEqual([{ remaining: 0, reserved: 0, added: -5 }]);
    expect(await store.write([add])).toBe("conflict");
  });

  clause("clause 13: removal removes, credits included", async (store) => {
    const { ref, spend } = await withCredits(store, 5);
    expect(await store.write([{ table: "keys", remove: keyRow(1).id, version: 1 }])).toBe("written");
    expect(await store.findKey("digest-1")).toBeUndefined();
    expect(await spend(1)).toBeUndefined();
    expect(await insert(store, keyRow(2, { digest: "digest-1" }))).toBe(true);
    expect((await refOf(store, "digest-1")) === ref).toBe(false);
  });

  clause("clause 13: a credit change counts refills, then sets or adds, then changes the calendar", async (store) => {
    const { spend, left, change } = await withCredits(store, 1, { amount: 10, period: 100 });
    const written = async (credits: Partial<CreditChange>) => expect(await change(credits)).toHaveLength(1);
    await written({ period: 102, add: 4 });
    expect(await left(102)).toBe(25);
    await written({ period: 102, add: -100 });
    expect(await left(102)).toBe(0);
    await written({ period: 103, refill: { amount: 1, period: 0 } });
    expect(await left(2)).toBe(12);
    await written({ period: 2, remaining: null });
    expect(await left(50)).toBeNull();
    expect(await spend(10 ** 12, 2)).toEqual({ ok: true, remaining: null });
    await written({ period: 2, remaining: 7 });
    expect(await spend(1, 2)).toEqual({ ok: true, remaining: 6 });
    await insert(store, keyRow(2));
    const row = { ...(await readRow(store, "keys", keyRow(2).id))!, hasCredits: true };
    await store.write([{ table: "keys", row, credits: { period: 0, remaining: 9 } }]);
    expect(await (await accountThrough(store, 2)).spend(1)).toEqual({ ok: true, remaining: 8 });
  });

  clause("clause 22: keys with one account share its balance, which lives as long as one of them", async (store) => {
    await insert(store, keyRow(1, { hasCredits: true }), balance(10));
    const share = (n: number, from: number) =>
      keyRow(n, { hasCredits: true, accountId: keyRow(1).id, rerolledFrom: keyRow(from).id });
    const read = async (n: number) => (await readBalance(store, keyRow(n).id, 0, 0))?.remaining;
    const spend = async (n: number, cost: number) => {
      const { ref, account } = (await store.findKey(`digest-${n}`))!;
      return store.spendCredits(account?.ref ?? ref, cost, 0, 0);
    };
    expect(await store.write([{ table: "keys", row: share(2, 1) }])).toBe("written");
    expect(await spend(1, 3)).toEqual({ ok: true, remaining: 7 });
    expect(await spend(2, 3)).toEqual({ ok: true, remaining: 4 });
    expect((await store.findKey("digest-2"))?.account?.id).toBe(keyRow(1).id);
    expect((await store.findKey("digest-1"))?.account).toBeUndefined();
    expect(await store.write([{ table: "keys", remove: keyRow(1).id, version: 1 }])).toBe("written");
    expect(await store.write([{ table: "keys", row: share(3, 2) }])).toBe("written");
    expect(await spend(3, 1)).toEqual({ ok: true, remaining: 3 });
    const second = (await readRow(store, "keys", keyRow(2).id))!;
    const added = await store.write([{ table: "keys", row: second, credits: { period: 0, add: 10 } }]);
    expect(added).toEqual([{ remaining: 13, reserved: 0, added: 10 }]);
    expect([await read(2), await read(3)]).toEqual([13, 13]);
    const removals = [2, 3].map((n) => ({ table: "keys" as const, remove: keyRow(n).id }));
    expect(await store.write([{ ...removals[0]!, version: 2 }])).toBe("written");
    const { ref, account } = (await store.findKey("digest-3"))!;
    expect(await store.spendCredits(account?.ref ?? ref, 13, 0, 0)).toEqual({ ok: true, remaining: 0 });
    expect(await store.write([{ ...removals[1]!, version: 1 }])).toBe("written");
    expect(await store.spendCredits(account?.ref ?? ref, 0, 0, 0)).toBeUndefined();
  });
}
