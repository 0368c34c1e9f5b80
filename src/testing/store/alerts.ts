/** Alerts: clause 30. */
import type { AlertChange, AlertRow, AlertState, AlertTake } from "../../contracts/alerts.js";
import type { Store } from "../../contracts/store.js";
import { expect } from "../expect.js";
import type { Clause } from "./bed.js";
import { withPower } from "./powers.js";
import { NOW, WS } from "./rows.js";
import type { SharedClause, SharedStore } from "./shared-steps.js";

const BODY = JSON.stringify({ text: "日本 ' \"\u0000" });
const raise = (subject: string, at = NOW, over: Partial<AlertChange> = {}): AlertChange => ({
  ...{ workspaceId: WS, kind: "credits.low", subject, from: at, until: at, body: BODY },
  ...over,
});
const end = (subject: string, at: number): AlertChange => {
  const { body: _, ...change } = raise(subject, at);
  return change;
};
const change = (store: Store, ...changes: readonly AlertChange[]) => store.changeAlerts!(changes);
const take = (store: Store, now: number, over: Partial<AlertTake> = {}) =>
  store.takeAlerts!({ workspaceId: WS, now, until: now + 60, limit: 10, endedBefore: 0, ...over });
const subjectsOf = (rows: readonly AlertRow[]) => rows.map(({ subject }) => subject);
const list = async (store: Store, state: AlertState, after?: number) => {
  const query = { workspaceId: WS, state, limit: 10, ...(after !== undefined && { after }) };
  return subjectsOf(await store.listAlerts!(query));
};

export function alertsClauses(all: Clause): void {
  const clause = withPower(all, "alerts", (store: Store) => store);

  clause("clause 30: an alert is raised once until it ends, of each subject, kind and workspace", async (store) => {
    const [a, b] = [raise("a"), raise("b")];
    expect(await change(store, b, a)).toEqual([true, true]);
    expect(await change(store, a, raise("a", NOW + 1), raise("c"))).toEqual([false, false, true]);
    expect(await change(store, { ...a, kind: "key.expiring" }, { ...a, workspaceId: "ws_2" })).toEqual([true, true]);
    expect((await list(store, "raised")).sort()).toEqual(["a", "a", "b", "c"]);
    expect(await change(store, end("a", NOW + 5), end("a", NOW + 6), end("d", NOW))).toEqual([true, false, false]);
    expect((await list(store, "raised")).slice(-2)).toEqual(["c", "a"]);
    expect(await change(store, raise("a", NOW + 6))).toEqual([true]);
    expect((await list(store, "pending")).sort()).toEqual(["a", "a", "a", "b", "c"]);
  });

  clause("clause 30: what was looked at before the last change changes nothing", async (store) => {
    expect(await change(store, raise("a"))).toEqual([true]);
    expect(await change(store, end("a", NOW))).toEqual([false]);
    expect(await change(store, end("a", NOW + 5))).toEqual([true]);
    expect(await change(store, raise("a", NOW + 4), raise("a", NOW + 5))).toEqual([false, false]);
    expect(await list(store, "raised")).toEqual([]);
    expect(await change(store, raise("a", NOW + 6))).toEqual([true]);
    expect(await change(store, end("a", NOW + 6))).toEqual([false]);
  });

  clause("clause 30: what took long to look at may be older than what was changed meanwhile", async (store) => {
    const long = (of: AlertChange, ms: number): AlertChange => ({ ...of, until: of.from + ms });
    expect(await change(store, long(raise("a"), 10))).toEqual([true]);
    expect(await change(store, long(end("a", NOW + 10), 100))).toEqual([false]);
    expect(await change(store, long(end("a", NOW + 11), 10))).toEqual([true]);
    expect(await change(store, long(raise("a", NOW + 21), 100))).toEqual([false]);
    expect(await change(store, long(raise("a", NOW + 22), 100))).toEqual([true]);
  });

  clause("clause 30: of those who find the same at once, one raises it and one ends it", async (store) => {
    const [found, over] = [Array.from({ length: 8 }, () => change(store, raise("a"), raise("b"))), [9, 9, 9, 9]];
    const raised = (await Promise.all(found)).flat().filter(Boolean);
    expect(raised).toHaveLength(2);
    const ended = (await Promise.all(over.map((ms) => change(store, end("a", NOW + ms))))).flat().filter(Boolean);
    expect(ended).toHaveLength(1);
  });

  clause("clause 30: what is due is taken once, and due again unless it is settled", async (store) => {
    await change(store, raise("b", NOW + 1), raise("a", NOW), raise("c", NOW + 2), raise("x", 0, { workspaceId: "x" }));
    expect(await take(store, NOW - 1)).toEqual([]);
    const [first, ...more] = await take(store, NOW + 1, { limit: 1 });
    expect([first?.subject, first?.body, first?.tries, first?.due, more]).toEqual(["a", BODY, 0, NOW + 61, []]);
    expect(subjectsOf(await take(store, NOW + 5))).toEqual(["b", "c"]);
    expect(await take(store, NOW + 60)).toEqual([]);
    const again = await take(store, NOW + 70);
    expect(again.map(({ subject, tries }) => `${subject} ${tries}`)).toEqual(["a 0", "b 0", "c 0"]);
    expect(await list(store, "pending", again[1]!.number)).toEqual(
      subjectsOf(again.filter(({ number }) => number > again[1]!.number)),
    );
  });

  clause("clause 30: it is settled by who took it last, or by whoever delivered it", async (store) => {
    await change(store, raise("a"), raise("b"), raise("c"));
    const old = await take(store, NOW);
    const taken = await take(store, NOW + 60);
    for (const { number, due } of old) await store.settleAlert!({ number, due: due!, next: "dead" });
    expect([await list(store, "dead"), await list(store, "pending")]).toEqual([[], ["a", "b", "c"]]);
    const settle = (subject: string, rows: readonly AlertRow[], next: number | "delivered" | "dead") => {
      const { number, due } = rows.find((row) => row.subject === subject)!;
      return store.settleAlert!({ number, due: due!, next });
    };
    await settle("a", old, "delivered");
    await settle("b", taken, "dead");
    await settle("c", taken, NOW + 500);
    expect([await list(store, "dead"), await list(store, "pending")]).toEqual([["b"], ["c"]]);
    // What is settled stays so.
    await settle("a", taken, NOW + 500);
    await settle("b", taken, "delivered");
    expect([await list(store, "dead"), await list(store, "pending")]).toEqual([["b"], ["c"]]);
    expect(await take(store, NOW + 499)).toEqual([]);
    // Takes that ended in nothing are no tries.
    const again = await take(store, NOW + 500);
    expect(again.map(({ subject, tries }) => [subject, tries])).toEqual([["c", 1]]);
    expect(await list(store, "raised")).toEqual(["a", "b", "c"]);
  });

  clause("clause 30: only what has ended and is settled is removed, at most so many at once", async (store) => {
    await change(store, ...["a", "b", "c", "d"].map((subject) => raise(subject)));
    const taken = await take(store, NOW);
    for (const { number, due, subject } of taken)
      if (subject !== "d") await store.settleAlert!({ number, due: due!, next: "dead" });
    await change(store, end("a", NOW + 1), end("b", NOW + 2), end("d", NOW + 1));
    await take(store, NOW, { endedBefore: NOW + 1 });
    expect(await list(store, "dead")).toEqual(["a", "b", "c"]);
    await take(store, NOW, { endedBefore: NOW + 9, limit: 1 });
    expect((await list(store, "dead")).length).toBe(2);
    await take(store, NOW, { endedBefore: NOW + 9 });
    expect([await list(store, "dead"), await list(store, "pending")]).toEqual([["c"], ["d"]]);
  });
}

export function sharedAlertsClauses(all: SharedClause): void {
  const clause = withPower(all, "alerts", ({ here }: SharedStore) => here);

  clause("clause 30: what both handles find at once is raised once, and taken once", async ({ here, there }) => {
    const subjects = ["a", "b", "c", "d"];
    const changes = subjects.map((subject) => raise(subject));
    const both = await Promise.all([change(here, ...changes), change(there, ...[...changes].reverse())]);
    expect(both.flat().filter(Boolean)).toHaveLength(4);
    const taken = await Promise.all([take(here, NOW), take(there, NOW)]);
    expect(subjectsOf(taken.flat()).sort()).toEqual(subjects);
    for (const { number, due } of taken.flat()) await there.settleAlert!({ number, due: due!, next: "delivered" });
    expect(await list(here, "pending")).toEqual([]);
    expect(await change(there, end("a", NOW + 1))).toEqual([true]);
    expect(await change(here, raise("a", NOW + 2), raise("b", NOW + 2))).toEqual([true, false]);
  });
}
