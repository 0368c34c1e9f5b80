/** Counts of verifications: clause 28. */
import {
  type CreditDaysQuery,
  OTHER,
  type OutcomeCell,
  type OutcomeFlush,
  type OutcomeQuery,
  OUTCOMES,
  type Refusal,
} from "../../contracts/outcomes.js";
import type { AuditEntry } from "../../contracts/audit.js";
import type { GrantRow, KeyRow, ReservationRequest, Store } from "../../contracts/store.js";
import { expect, faultOf } from "../expect.js";
import type { Clause } from "./bed.js";
import { withPower } from "./powers.js";
import { accountWith, balance, identity, insert, keyRow, readRow, refOf, WS } from "./rows.js";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const LEVELS = ["minute", "hour", "day"] as const;
/** The start of a day. */
const NOON = 1_700_006_400_000 - (1_700_006_400_000 % DAY);

const counts = (passed: number, limited = 0): readonly number[] =>
  OUTCOMES.map((code) => (code === "VALID" ? passed : code === "RATE_LIMITED" ? limited : 0));
const cell = (over: Partial<OutcomeCell> = {}): OutcomeCell => ({
  minute: NOON,
  workspaceId: WS,
  apiId: "api_1",
  keyId: keyRow(1).id,
  externalId: "",
  tags: [],
  counts: counts(1),
  spent: 0,
  ...over,
});
const flush = (seq: number, cells: readonly OutcomeCell[], over: Partial<OutcomeFlush> = {}): OutcomeFlush => ({
  source: "source-1",
  seq,
  at: NOON,
  maxTagSets: 100,
  cells,
  ...over,
});
const query = (over: Partial<OutcomeQuery> = {}): OutcomeQuery => ({
  level: "day",
  workspaceId: WS,
  from: NOON,
  to: NOON + DAY,
  by: [],
  maxRows: 1_000,
  ...over,
});
const outcomeOf = async (store: Store, given: OutcomeFlush) => (await store.countOutcomes(given)).outcome;
const read = async (store: Store, over: Partial<OutcomeQuery> = {}) => {
  const found = await store.readOutcomes(query(over));
  const rows = found.map(({ rows: _, ...sums }) => sums);
  return rows.sort(byText);
};
const byText = (a: unknown, b: unknown) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1);
/** Totals by day, which is counted from {@link NOON}. */
const daysOf = async (store: Store, of: Partial<CreditDaysQuery>) => {
  const rows = await store.readCreditDays({ workspaceId: WS, from: 0, to: NOON + 99 * DAY, ...of });
  return rows.map((row) => ({ ...row, day: (row.day - NOON) / DAY }));
};
const entryAt = (time: number): AuditEntry => ({
  ...{ time, workspaceId: WS, actorKind: "program", operation: "updateKey", ids: [], fields: [], count: 1 },
});
const validOf = async (store: Store) => (await read(store)).map((row) => row.counts[0]);

const refusal = (time: number): Refusal => ({
  time,
  code: "USAGE_EXCEEDED",
  cost: 5,
  remaining: 3,
  tags: ["日本 \\u"],
});
const some = (...given: readonly number[]) => ({ refusals: given.map((time) => refusal(NOON + time)) });
const times = async (store: Store, keyId: string, workspaceId = WS) =>
  (await store.readRefusals!({ workspaceId, keyId })).map(({ time }) => time - NOON);

export function outcomesClauses(all: Clause): void {
  const clause = withPower(all, "analytics", (store: Store) => store);
  const keeping = withPower(all, "refusals", (store: Store) => store);

  keeping("clause 34: the last ten refusals of a key are kept, each once, newest first", async (store) => {
    const [{ id: one }, { id: other }] = [keyRow(1), keyRow(2)];
    const first = flush(1, [cell(some(6, 5)), cell({ keyId: other, ...some(1) }), cell({ tags: ["a"], ...some(7) })]);
    for (const outcome of ["counted", "repeated"]) expect(await outcomeOf(store, first)).toBe(outcome);
    expect(await times(store, one)).toEqual([7, 6, 5]);
    expect(await store.readRefusals!({ workspaceId: WS, keyId: other })).toEqual([refusal(NOON + 1)]);
    await store.countOutcomes(flush(1, [cell(some(4, 9, 8))], { source: "source-2" }));
    await store.countOutcomes(flush(2, [cell(some(20, 21, 22, 23, 24, 25))]));
    expect(await times(store, one)).toEqual([25, 24, 23, 22, 21, 20, 9, 8, 7, 6]);
    expect(await outcomeOf(store, flush(4, [cell(some(30))])), "a gap").toBe("gap");
    expect(await times(store, one)).toHaveLength(10);
    for (const [keyId, ws] of [["key_unknown"], ["\0"], [one, "ws_2"]] as const)
      expect(await times(store, keyId, ws)).toEqual([]);
    await store.pruneOutcomes("day", NOON + 9 * DAY, 10);
    await store.pruneOutcomes("hour", NOON + 10, 10);
    expect([await times(store, one), await times(store, other)].map(({ length }) => length)).toEqual([6, 0]);
    await store.pruneOutcomes("hour", NOON + 26, 10);
    expect(await times(store, one)).toEqual([]);
  });

  keeping("clause 34: a workspace reads its own refusals alone, and they go with the row of the key", async (store) => {
    for (const n of [1, 2]) expect(await insert(store, keyRow(n))).toBe(true);
    const [{ id: one }, { id: other }] = [keyRow(1), keyRow(2)];
    await store.countOutcomes(
      flush(1, [cell(some(1)), cell({ workspaceId: "ws_2", ...some(2) }), cell({ keyId: other, ...some(3) })]),
    );
    await store.countOutcomes(flush(2, [cell({ workspaceId: "ws_2", ...some(4) })]));
    expect([await times(store, one), await times(store, one, "ws_2")]).toEqual([[1], [4, 2]]);
    const { version } = (await readRow(store, "keys", one))!;
    expect(await store.write([{ table: "keys", remove: one, version: version + 1 }])).toBe("conflict");
    expect(await times(store, one)).toEqual([1]);
    expect(await store.write([{ table: "keys", remove: one, version }])).toBe("written");
    for (const ws of [WS, "ws_2"]) expect(await times(store, one, ws), ws).toEqual([]);
    expect(await times(store, other)).toEqual([3]);
  });

  keeping("clause 34: a refusal goes with the hours, however late its key was refused again", async (store) => {
    const keys = [1, 2, 3].map((n) => keyRow(n).id);
    const given = [some(30, 20, 10), some(9, 8), some(40, 25)];
    const cells = keys.map((keyId, i) => cell({ keyId, ...given[i] }));
    await store.countOutcomes(flush(1, cells));
    let calls = 0;
    while ((await store.pruneOutcomes("hour", NOON + 25, 1)) > 0) expect(++calls).toBeLessThan(10);
    const kept = () => Promise.all(keys.map((keyId) => times(store, keyId)));
    expect(await kept()).toEqual([[30], [], [40, 25]]);
    await store.pruneOutcomes("hour", NOON + 31, 10);
    expect(await kept()).toEqual([[], [], [40]]);
  });

  clause("clause 28: a flush is counted once, and one after a gap is not", async (store) => {
    expect(await outcomeOf(store, flush(2, [cell()]))).toBe("gap");
    expect(await outcomeOf(store, flush(1, [cell()]))).toBe("counted");
    for (const outcome of ["counted", "repeated", "repeated"])
      expect(await outcomeOf(store, flush(2, [cell({ counts: counts(10) })]))).toBe(outcome);
    expect(await outcomeOf(store, flush(1, [cell()]))).toBe("repeated");
    expect(await outcomeOf(store, flush(4, [cell()]))).toBe("gap");
    const other = flush(1, [cell({ counts: counts(100) })], { source: "source-2" });
    expect(await outcomeOf(store, other)).toBe("counted");
    expect(await validOf(store)).toEqual([111]);
  });

  clause("clause 28: flushes in flight at once are each counted once", async (store) => {
    const sent = ["a", "b", "c", "a", "b", "c"].map((source) =>
      store.countOutcomes(flush(1, [cell(), cell({ keyId: keyRow(2).id })], { source })),
    );
    const outcomes = await Promise.all(sent);
    for (const outcome of ["counted", "repeated"])
      expect(outcomes.filter((one) => one.outcome === outcome)).toHaveLength(3);
    expect(await validOf(store)).toEqual([6]);
  });

  clause("clause 28: sums by time, API, key, owner and tags, within times, and of those named", async (store) => {
    const second = { keyId: keyRow(2).id, externalId: "日本 ' \"" };
    await store.countOutcomes(
      flush(1, [
        cell({ tags: ["a", "b=1"], spent: 5 }),
        cell({ minute: NOON + HOUR, counts: counts(2, 3) }),
        cell({ minute: NOON + HOUR + 60_000, counts: counts(0, 1), ...second }),
        cell({ apiId: "api_2", counts: counts(7), ...second }),
        cell({ minute: NOON + DAY, counts: counts(1_000) }),
        cell({ minute: NOON - 60_000, counts: counts(1_000) }),
        cell({ workspaceId: "ws_2", counts: counts(1_000) }),
      ]),
    );
    expect(await read(store)).toEqual([{ counts: counts(10, 4), spent: 5 }]);
    expect(await read(store, { by: ["apiId"] })).toEqual([
      { apiId: "api_1", counts: counts(3, 4), spent: 5 },
      { apiId: "api_2", counts: counts(7), spent: 0 },
    ]);
    const found = await store.readOutcomes(query({ by: ["apiId"] }));
    expect(found.map(({ rows }) => rows).sort(), "counts that each row adds up").toEqual([1, 2]);
    expect(await read(store, { by: ["keyId", "externalId"] })).toEqual([
      { keyId: keyRow(1).id, externalId: "", counts: counts(3, 3), spent: 5 },
      { ...second, counts: counts(7, 1), spent: 0 },
    ]);
    expect(await read(store, { by: ["time"], level: "hour", apiIds: ["api_1"] })).toEqual([
      { time: NOON, counts: counts(1), spent: 5 },
      { time: NOON + HOUR, counts: counts(2, 4), spent: 0 },
    ]);
    expect(await read(store, { by: ["time", "tags"], from: 0, to: NOON + 9 * DAY, keyIds: [keyRow(1).id] })).toEqual([
      { time: NOON - DAY, tags: [], counts: counts(1_000), spent: 0 },
      { time: NOON, tags: ["a", "b=1"], counts: counts(1), spent: 5 },
      { time: NOON, tags: [], counts: counts(2, 3), spent: 0 },
      { time: NOON + DAY, tags: [], counts: counts(1_000), spent: 0 },
    ]);
    expect(await read(store, { externalIds: [second.externalId], apiIds: ["api_2", "api_9"] })).toEqual([
      { counts: counts(7), spent: 0 },
    ]);
    expect(await read(store, { keyIds: [] })).toEqual([]);
    const whose = ["apiId", "keyId", "externalId"] as const;
    const parts = await Promise.all([0, 1, 2].map((at) => read(store, { by: whose, part: { of: 3, at } })));
    const whole = await read(store, { by: whose });
    expect(parts.flat().sort(byText)).toEqual(whole);
    const ofApis = await Promise.all([0, 1].map((at) => read(store, { by: ["apiId"], part: { of: 2, at } })));
    expect(ofApis.flat(), "parts of APIs").toHaveLength(2);
    const fault = await faultOf(() => store.readOutcomes(query({ by: ["keyId"], maxRows: 3 })));
    expect(fault).toMatchObject({ code: "ANALYTICS_TOO_LARGE" });
  });

  clause(
    "clause 28: tag sets beyond the bound of a workspace are counted as others, which the result tells",
    async (store) => {
      const cells = ["a", "b", "c", "d"].map((tag) => cell({ tags: [tag] }));
      const [plain, other] = [cell(), cell({ tags: [OTHER] })];
      const results = [
        await store.countOutcomes(flush(1, [plain, other, ...cells.slice(0, 2)], { maxTagSets: 2 })),
        await store.countOutcomes(flush(2, [...cells, plain, other], { maxTagSets: 2 })),
        await store.countOutcomes(flush(3, [cell({ workspaceId: "ws_2", tags: ["d"] })], { maxTagSets: 2 })),
        await store.countOutcomes(flush(4, [cell({ workspaceId: "ws_3" }), ...cells], { maxTagSets: 2 })),
      ];
      expect(results.map(({ outcome, folded }) => [outcome, [...folded].sort()])).toEqual([
        ["counted", []],
        ["counted", [2, 3]],
        ["counted", []],
        ["counted", [3, 4]],
      ]);
      expect(await read(store, { by: ["tags"] })).toEqual([
        { tags: [OTHER], counts: counts(6), spent: 0 },
        { tags: ["a"], counts: counts(3), spent: 0 },
        { tags: ["b"], counts: counts(3), spent: 0 },
        { tags: [], counts: counts(2), spent: 0 },
      ]);
      const theirs = await read(store, { by: ["tags"], workspaceId: "ws_2" });
      expect(theirs).toEqual([{ tags: ["d"], counts: counts(1), spent: 0 }]);
    },
  );

  clause(
    "clause 28: a set of tags makes space for another once the last count that names it is removed",
    async (store) => {
      const at = NOON + 40 * DAY;
      const old = ["a", "b", "c"].map((tag) => cell({ tags: [tag] }));
      await store.countOutcomes(flush(1, old, { maxTagSets: 3 }));
      // This one is counted again later, and so stays.
      await store.countOutcomes(flush(2, [cell({ minute: at, tags: ["a"] })], { maxTagSets: 3, at }));
      const wanted = ["d", "e", "f"].map((tag) => cell({ minute: at, tags: [tag] }));
      const full = await store.countOutcomes(flush(3, wanted, { maxTagSets: 3, at }));
      expect([...full.folded].sort()).toEqual([0, 1, 2]);
      for (const [i, level] of LEVELS.entries()) {
        // What is left of another level keeps the sets.
        const early = await store.countOutcomes(flush(4 + i, wanted, { maxTagSets: 3, at }));
        expect([...early.folded].sort(), level).toEqual([0, 1, 2]);
        let slices = 0;
        while ((await store.pruneOutcomes(level, NOON + 2 * DAY, 2)) === 2) slices++;
        expect(slices).toBeLessThan(20);
      }
      const again = cell({ minute: at, tags: ["a"] });
      const { folded } = await store.countOutcomes(flush(7, [again, ...wanted], { maxTagSets: 3, at }));
      expect(folded).toHaveLength(1);
      const rows = await read(store, { by: ["tags"], from: NOON, to: at + DAY });
      expect(rows.flatMap(({ tags, counts: [n] }) => (tags?.[0] === OTHER ? [] : [[tags?.[0], n]]))).toHaveLength(3);
      expect(rows).toContainEqual({ tags: ["a"], counts: counts(2), spent: 0 });
      for (const level of LEVELS) await store.pruneOutcomes(level, at + 2 * DAY, 100);
      const anew = ["g", "h", "i"].map((tag) => cell({ minute: at, tags: [tag] }));
      expect((await store.countOutcomes(flush(8, anew, { maxTagSets: 3, at }))).folded).toEqual([]);
    },
  );

  clause(
    "clause 28: the totals of a quiet account stay as long as it does, and go with it, in slices",
    async (store) => {
      const [a, b] = [identity("a"), identity("b")];
      expect(await store.write([a, b].map((row) => ({ table: "identities" as const, row })))).toBe("written");
      for (const [n, { id }] of [a, b].entries())
        await insert(store, keyRow(n + 1, { hasCredits: true, identityId: id }), balance(100));
      const accounts = [await refOf(store, "digest-1"), await refOf(store, "digest-2")];
      const cells = accounts.map((account, n) =>
        cell({ account, keyId: keyRow(n + 1).id, externalId: n === 0 ? "a" : "b", spent: n }),
      );
      await store.countOutcomes(flush(1, cells));
      for (const cost of [1, 2, 3]) await store.spendCredits(accounts[0]!, cost, 0, NOON);
      await store.countOutcomes(flush(2, cells, { at: NOON + DAY }));
      const removal = { table: "keys", remove: keyRow(2).id, version: 1 } as const;
      expect(await store.write([removal], [entryAt(NOON + DAY)])).toBe("written");
      const prune = async () => {
        for (const level of LEVELS) {
          let slices = 0;
          while ((await store.pruneOutcomes(level, NOON + 900 * DAY, 2)) === 2) slices++;
          expect(slices, "it comes to an end").toBeLessThan(50);
        }
      };
      const totals = async (of: Partial<CreditDaysQuery>) => {
        const rows = await daysOf(store, { from: NOON + 999 * DAY, to: NOON + 1_000 * DAY, ...of });
        return rows.map((row) => row.balance);
      };
      await prune();
      expect(await store.pruneOutcomes("day", NOON + 900 * DAY, 2)).toBe(0);
      expect(await totals({ keyId: keyRow(1).id })).toEqual([94]);
      expect(await totals({ externalId: "a" })).toEqual([94]);
      expect(await totals({ externalId: "b" })).toEqual([]);
      expect(await totals({ keyId: keyRow(2).id })).toEqual([]);
    },
  );

  clause("clause 28: the totals of an account by day, which outlive its key", async (store) => {
    const owner = identity("customer");
    expect(await store.write([{ table: "identities", row: owner }])).toBe("written");
    const row = keyRow(1, { hasCredits: true, identityId: owner.id });
    await insert(store, row, balance(100));
    const account = await refOf(store, "digest-1");
    const days: [spent: number, at: number][] = [
      [10, NOON],
      [1, NOON + HOUR],
      [5, NOON + 2 * DAY],
      [7, NOON + 4 * DAY],
    ];
    for (const [i, [cost, at]] of days.entries()) {
      await store.spendCredits(account, cost, 0, at);
      const counted = cell({ minute: at, account, spent: cost, externalId: "customer" });
      await store.countOutcomes(flush(i + 1, [counted, cell({ keyId: keyRow(2).id })], { at }));
    }
    await store.write([{ table: "keys", remove: row.id, version: 1 }]);
    const shown = async (of: Partial<CreditDaysQuery>) => {
      const rows = await daysOf(store, { from: NOON + DAY, to: NOON + 4 * DAY, ...of });
      return rows.map(({ day, credited, spent, balance: left }) => [day, credited, spent, left]);
    };
    const expected = [
      [0, 100, 11, 89],
      [2, 100, 16, 84],
    ];
    expect(await shown({ keyId: row.id })).toEqual(expected);
    expect(await shown({ externalId: "customer" })).toEqual(expected);
    const later = await shown({ externalId: "customer", from: NOON, to: NOON + 5 * DAY });
    expect(later).toEqual([...expected, [4, 100, 23, 77]]);
    expect(await shown({ keyId: keyRow(2).id })).toEqual([]);
    expect(await shown({ workspaceId: "ws_2", keyId: row.id })).toEqual([]);
  });

  clause("clause 28: the totals of an account end with its owner's time, and with its key", async (store) => {
    const [a, b] = [identity("a"), identity("b")];
    expect(await store.write([a, b].map((row) => ({ table: "identities" as const, row })))).toBe("written");
    await insert(store, keyRow(1, { hasCredits: true, identityId: a.id }), balance(100));
    const account = await refOf(store, "digest-1");
    const spend = (cost: number) => store.spendCredits(account, cost, 0, NOON);
    const write = async (change: Partial<KeyRow>, at: number) => {
      const row = (await readRow(store, "keys", keyRow(1).id)) as KeyRow;
      expect(await store.write([{ table: "keys", row: { ...row, ...change } }], [entryAt(at)])).toBe("written");
    };
    await store.countOutcomes(flush(1, [cell({ account, externalId: "a" })], { at: NOON }));
    await spend(1);
    await write({ identityId: b.id }, NOON);
    await spend(2);
    await write({ identityId: a.id }, NOON + DAY);
    await spend(4);
    await write({ deleted: true }, NOON + DAY);
    const days = async (externalId: string) =>
      (await daysOf(store, { externalId })).map((row) => [row.day, row.externalId, row.spent, row.balance]);
    const all = [
      [0, "a", 1, 99],
      [0, "b", 1, 99],
      [1, "b", 3, 97],
      [1, "a", 7, 93],
      [1, undefined, 7, 93],
    ];
    expect(await days("a")).toEqual(all);
    expect(await days("b")).toEqual(all);
    expect(await days("c")).toEqual([]);
    expect(await days("")).toEqual([]);
  });

  clause("clause 28: totals are of the day of their flush, also after one of a clock that was ahead", async (store) => {
    const account = await accountWith(store, 100);
    const seqs: Record<string, number> = {};
    const spend = async (source: string, cost: number, day: number) => {
      await store.spendCredits(account, cost, 0, NOON);
      const seq = (seqs[source] = (seqs[source] ?? 0) + 1);
      await store.countOutcomes(flush(seq, [cell({ account })], { source, at: NOON + day * DAY }));
    };
    const days = async (from: number, to: number) => {
      const rows = await daysOf(store, { keyId: keyRow(1).id, from: NOON + from * DAY, to: NOON + to * DAY });
      return rows.map((row) => [row.day, row.spent, row.balance, row.keyId]);
    };
    await spend("good", 10, 0);
    await spend("ahead", 5, 40);
    await spend("good", 3, 1);
    await spend("ahead", 2, 40);
    await spend("good", 1, 1);
    await spend("good", 4, 0);
    const { id } = keyRow(1);
    const all = [
      [0, 14, 86, id],
      [40, 21, 79, id],
      [1, 25, 75, id],
    ];
    expect(await days(0, 50)).toEqual(all);
    expect(await days(1, 2)).toEqual(all);
    expect(await days(30, 31)).toEqual(all);
    await spend("good", 1, 2);
    expect(await days(3, 4)).toEqual([...all, [2, 26, 74, id]]);
    expect(await days(50, 51)).toEqual([[2, 26, 74, id]]);
    expect(await days(-2, -1)).toEqual([]);
  });

  clause(
    "clause 28: an account is a cap while its key's identity has credits too, and stays what it was once the key has no balance of its own",
    async (store) => {
      const plan = identity("a", { hasCredits: true, generation: 1 });
      await store.write([{ table: "identities", row: plan, credits: { period: 0, remaining: 100 } }]);
      await insert(store, keyRow(1, { hasCredits: true, identityId: plan.id }), balance(10));
      await insert(store, keyRow(2, { hasCredits: true, identityId: plan.id, creditsFrom: "key" }), balance(10));
      const refs = [await refOf(store, "digest-1"), await refOf(store, "digest-2")];
      let seq = 0;
      const count = async () => {
        for (const ref of refs) await store.spendCredits(ref, 1, 0, NOON);
        const cells = refs.map((account) => cell({ account }));
        await store.countOutcomes(flush(++seq, cells));
      };
      const shown = async () => {
        const rows = (await daysOf(store, { externalId: "a" })).filter(({ keyId }) => keyId !== undefined);
        return rows.map(({ keyId, spent, isCap = false }) => `${keyId} ${spent} ${isCap}`).sort();
      };
      await count();
      const [one, two] = [keyRow(1).id, keyRow(2).id];
      expect(await shown()).toEqual([`${one} 1 true`, `${two} 1 false`]);
      for (const [id, from] of [[one, "none"] as const, [two, undefined] as const]) {
        const { creditsFrom: _, ...row } = (await readRow(store, "keys", id))!;
        const given = { ...row, hasCredits: false, ...(from && { creditsFrom: from }) };
        await store.write([{ table: "keys", row: given }], [entryAt(NOON)]);
      }
      await count();
      expect(await shown()).toEqual([`${one} 2 true`, `${two} 2 false`]);
    },
  );

  clause(
    "clause 28: grants have totals beside the account of their owner until nothing of them can change",
    async (store) => {
      if (store.powers.wallets !== true) return;
      const at = (day: number) => [entryAt(NOON + day * DAY)];
      const row = identity("a", { hasCredits: true, generation: 1 });
      const owner = { table: "identities" as const, row: { ...row, version: 1, hasGrants: true as const } };
      const granted: GrantRow = {
        ...{ id: "grant_1", workspaceId: WS, version: 0, identityId: row.id, grantId: "bonus", amount: 7 },
        ...{ priority: 100, createdAt: NOON, hasCredits: true, generation: 1, expires: NOON + 3 * DAY + HOUR },
      };
      const former = { ...granted, id: "grant_0", grantId: "former", endedAt: NOON };
      await store.write(
        [
          { table: "identities", row, credits: { period: 0, remaining: 10 } },
          { table: "grants", row: former, credits: { period: 0, remaining: 0 } },
        ],
        at(0),
      );
      await store.countOutcomes(flush(1, [cell()], { at: NOON }));
      await store.write([owner, { table: "grants", row: granted, credits: { period: 0, remaining: 7 } }], at(1));
      await insert(store, keyRow(1, { identityId: row.id }));
      const { wallets } = (await store.findKey("digest-1"))!;
      const [main, grant] = [false, true].map(
        (isGrant) => wallets![0]!.accounts.find(({ grantId }) => (grantId !== undefined) === isGrant)!.ref,
      );
      const spend = async (cost: number, reservation?: ReservationRequest) =>
        store.spendWallets!([[grant!, main!].map((ref) => ({ ref, period: 0 }))], {
          ...{ cost, now: NOON, ...(reservation && { reservation }) },
        });
      await spend(2);
      await store.countOutcomes(flush(2, [cell({ account: main! })], { at: NOON + 2 * DAY }));
      const days = async (isMeant = (id?: unknown) => id !== row.id && id !== former.id) => {
        const rows = await daysOf(store, { externalId: "a" });
        const shown = rows.map((one) => [
          ...[one.grantId ?? one.identityId, one.day, one.credited, one.spent, one.expired, one.balance],
          one.externalId,
        ]);
        return shown.filter(([id]) => isMeant(id));
      };
      const first = [
        ["grant_1", 1, 7, 0, 0, 7, "a"],
        ["grant_1", 2, 7, 2, 0, 5, "a"],
      ];
      expect(await days()).toEqual(first);
      expect(await days((id) => id === former.id)).toEqual([[former.id, 1, 0, 0, 0, 0, "a"]]);
      const reservation = { id: "res_1", until: NOON + 20 * DAY };
      await spend(1, reservation);
      await store.countOutcomes(flush(3, [cell({ account: main! })], { at: NOON + 3 * DAY }));
      await store.countOutcomes(flush(4, [cell({ account: main! })], { at: NOON + 9 * DAY }));
      const open = ["grant_1", 3, 7, 2, 4, 1, "a"];
      expect(await days()).toEqual([...first, open]);
      const ending = { ...granted, version: 1, endedAt: NOON + 9 * DAY };
      await store.write(
        [
          { ...owner, row: { ...owner.row, version: 2 } },
          { table: "grants", row: ending },
        ],
        at(9),
      );
      expect(await days()).toEqual([...first, open]);
      await store.settleWallets!([[grant!]], { id: reservation.id, spent: 1, now: NOON + 9 * DAY });
      await store.countOutcomes(flush(5, [cell({ account: main! })], { at: NOON + 10 * DAY }));
      const ended = ["grant_1", 3, 7, 3, 4, 0, "a"];
      expect(await days()).toEqual([...first, ended]);
      const removal = { table: "grants" as const, remove: granted.id, version: 2 };
      await store.write([{ ...owner, row: { ...owner.row, version: 3 } }, removal], at(10));
      expect((await days()).map(([, ...sums]) => sums)).toEqual([
        ...first.map(([, ...sums]) => sums),
        ended.slice(1),
        [10, 7, 3, 4, 0, undefined],
      ]);
    },
  );

  clause("clause 28: an identity's account is its own, and nobody's once it is removed", async (store) => {
    const row = identity("a", { hasCredits: true, generation: 1 });
    const credits = { remaining: 10, period: 0, refill: { amount: 0, period: 0 } };
    await store.countOutcomes(flush(1, [cell()], { at: NOON }));
    expect(await store.write([{ table: "identities", row, credits }], [entryAt(NOON)])).toHaveLength(1);
    const removal = { table: "identities", remove: row.id, version: 1 } as const;
    expect(await store.write([removal], [entryAt(NOON)])).toBe("written");
    const rows = await daysOf(store, { externalId: "a" });
    expect(rows.map((one) => `${one.externalId} ${one.balance}`)).toEqual(["a 10", "undefined 10"]);
  });

  clause("clause 28: old counts are removed, at most so many at once", async (store) => {
    const cells = [0, 1, 2, 3].map((day) => cell({ minute: NOON + day * DAY, apiId: "", keyId: "" }));
    const late = flush(1, cells, { at: NOON + 3 * DAY });
    await store.countOutcomes(late);
    // Of each day the counts of the subject, and those of all.
    for (const removed of [3, 1, 0]) expect(await store.pruneOutcomes("day", NOON + 2 * DAY, 3)).toBe(removed);
    const left = await read(store, { by: ["time"], from: 0, to: NOON + 9 * DAY });
    expect(left.map(({ time }) => ((time ?? 0) - NOON) / DAY)).toEqual([2, 3]);
    expect(await read(store, { by: ["time"], level: "hour", from: 0, to: NOON + 9 * DAY })).toHaveLength(4);
    expect(await outcomeOf(store, late)).toBe("repeated");
  });
}
