/**
 * The suites that keystile ships: do they fail what is wrong? Each wrong store or limiter is a right one with one
 * fault.
 */
import { afterEach, describe, expect, it, vi } from "vitest";
import type { AuditEntry } from "../../src/contracts/audit.js";
import type { Limiter, LimitVerdict } from "../../src/contracts/limiter.js";
import type { Change, KeyRecord, Store, Write, WriteOutcome } from "../../src/contracts/store.js";
import { withCredits } from "../../src/contracts/row-changes.js";
import { withoutIdempotency, withoutLeases, withoutUsage } from "../../src/lib/guards/powers.js";
import { memoryLimiter } from "../../src/ratelimit/memory/limiter.js";
import { createMemoryAudit } from "../../src/stores/memory-audit.js";
import { memoryStore } from "../../src/stores/memory.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { limiterSuite, sharedStoreSuite, storeSuite } from "../../src/testing/index.js";
import { emptyFiles } from "../stores/sqlite/support.js";
import { failuresOf } from "./support.js";

const path = await emptyFiles();
/** What reaches the disk is none of the faults here. */
const PROCESS = { durability: "process" } as const;

/** Tells its listeners nothing, as a store does whose author has thought of one process alone. */
const deaf = (store: Store): Store => ({ ...store, subscribe: () => () => undefined, pollChanges: () => undefined });

afterEach(() => void vi.useRealTimers());

describe("sharedStoreSuite: what it fails", () => {
  it("a store that tells other processes nothing, in every clause about telling and in no other", async () => {
    const { failed, tests } = await failuresOf((functions) =>
      sharedStoreSuite(functions, "deaf", () => {
        const file = path();
        return [sqliteStore(file, PROCESS), deaf(sqliteStore(file, PROCESS))];
      }),
    );
    expect(failed).toEqual([
      "clauses 8 and 15: a changed key is found changed by the other handle, which was notified of it",
      "clauses 8, 15 and 18: a deleted key is lost to the other handle, which was notified of it",
      "clauses 8 and 15: what a key refers to changes for the other handle, which was notified of it",
      "clauses 8, 15 and 18: keys of a deleted API are lost to the other handle, which was notified of it",
      "clause 15: a change of an identity, a role or a permission is notified, whether or not a key has it",
      "clauses 8 and 15: a digest that one handle adopts is found by the other, which was notified of it",
      "clauses 8, 15 and 19: a root key changes for the other handle, which was notified of it",
      "clauses 8, 15 and 26: keys of an identity draw on one account through both handles, once it has credits",
    ]);
    expect(tests).toBeGreaterThan(failed.length + 10);
  });

  it("which storeSuite passes whole, as long as a handle hears of what it does itself", async () => {
    const { failed } = await failuresOf((functions) =>
      storeSuite(functions, "alone", () => ({ ...sqliteStore(path(), PROCESS), pollChanges: () => undefined })),
    );
    expect(failed.filter((title) => !title.startsWith("clause 11"))).toEqual([]);
  });

  it("two stores that share nothing", async () => {
    const { failed, tests } = await failuresOf((functions) =>
      sharedStoreSuite(functions, "apart", () => [memoryStore(), memoryStore()]),
    );
    // A listener that unsubscribed hears nothing there either.
    expect(tests - failed.length).toBe(1);
  });

  it("a handle that claims to push changes, or that none come", async () => {
    // The suite looks for 5 s whether a change is pushed.
    vi.useFakeTimers({ toFake: ["setTimeout"] }).setTimerTickMode("nextTimerAsync");
    for (const changes of ["pushed", "own"] as const) {
      const { failed } = await failuresOf((functions) =>
        sharedStoreSuite(functions, changes, () => {
          const file = path();
          const store = sqliteStore(file, PROCESS);
          return [sqliteStore(file, PROCESS), { ...store, powers: { ...store.powers, changes } }];
        }),
      );
      expect(failed).toEqual([
        "clause 21: both handles say that the other's changes arrive, and those that push them do",
      ]);
    }
  });

  it("a handle that remembers balances", async () => {
    const { failed } = await failuresOf((functions) =>
      sharedStoreSuite(functions, "remembering", () => {
        const store = memoryStore();
        const views = [0, 1].map((): Store => {
          let spent: Awaited<ReturnType<Store["spendCredits"]>>;
          return { ...store, spendCredits: (...asked) => (spent ??= store.spendCredits(...asked) as typeof spent) };
        });
        return views as [Store, Store];
      }),
    );
    expect(failed).toContain("clause 5: concurrent spends through both handles never grant more than was there");
  });
});

/** A write whose refusals all have one outcome. */
const refusing =
  (store: Store, refusal: WriteOutcome): Store["write"] =>
  async (writes) =>
    (await store.write(writes)) === "written" ? "written" : refusal;
const reversed =
  (store: Store): Store["findKeys"] =>
  async (digests) =>
    (await store.findKeys(digests)).reverse();
/** Of a store that takes no time for what it was. */
let looks = 1_700_000_000_000;
const present = (rows: readonly unknown[]) => rows.filter((row) => row !== undefined) as never;

describe("storeSuite: what it fails", () => {
  it.each<[string, RegExp, (store: Store) => Partial<Store>]>([
    ["folds case", /^clause 2/, (store) => ({ findKey: (digest) => store.findKey(digest.toLowerCase()) })],
    [
      "cuts texts at U+0000",
      /^clauses 1 and 2/,
      (store) => ({ findKey: (digest) => store.findKey(digest.split("\0")[0]!) }),
    ],
    [
      "replaces lone surrogates",
      /^clauses 1 and 2/,
      (store) => ({
        readNames: (table, id, names) =>
          store.readNames(
            table,
            id,
            names.map((name) => name.toWellFormed()),
          ),
      }),
    ],
    [
      "drops U+0000 from meta",
      /^clause 3: U\+0000/,
      (store) => ({
        insertKeys: (keys, entry) =>
          store.insertKeys(JSON.parse(JSON.stringify(keys).replaceAll("\\u0000", "")) as never, entry),
      }),
    ],
    ["spends what is not there", /^clause 5/, () => ({ spendCredits: () => ({ ok: true, remaining: 0 }) })],
    ["tells nobody", /^clause 15/, () => ({ subscribe: () => () => undefined })],
    [
      "tells of a role without telling which keys have it",
      /^clause 15/,
      (store) => ({
        findKey: (digest) => {
          const found = store.findKey(digest) as KeyRecord | undefined;
          return found && { ...found, grantIds: [] };
        },
      }),
    ],
    [
      "lists everything",
      /^clause 16/,
      (store) => ({ list: (table, query) => store.list(table, { ...query, limit: 99 }) }),
    ],
    ["overwrites", /^clause 13/, (store) => ({ write: (writes) => (void store.write(writes), "written") })],
    ["calls every refusal a conflict", /^clause 13/, (store) => ({ write: refusing(store, "conflict") })],
    ["calls every refusal a taken name", /^clause 13/, (store) => ({ write: refusing(store, "taken") })],
    ["finds in an order of its own", /^clause 20/, (store) => ({ findKeys: reversed(store) })],
    [
      "finds each only once",
      /^clause 20/,
      (store) => ({ findKeys: (digests) => store.findKeys([...new Set(digests)]) }),
    ],
    [
      "reads only what is there",
      /^clause 20/,
      (store) => ({ readMany: (table, ids) => present(store.readMany(table, ids) as never) }),
    ],
    [
      "reads every balance at one period",
      /^clause 20/,
      (store) => ({
        readBalances: (queries, now) =>
          store.readBalances(
            queries.map((query) => ({ ...query, period: queries[0]!.period })),
            now,
          ),
      }),
    ],
    ["claims reserves without leases", /^clause 21/, (store) => ({ powers: { ...store.powers, leases: false } })],
    [
      "claims that it lacks leases",
      /^clause 21/,
      (store) => ({ powers: { ...store.powers, leases: false, reserves: false } }),
    ],
    [
      "spends again",
      /^clause 23/,
      (store) => ({
        spendOnce: async (ref, period, { cost, now }) => ({
          outcome: "done" as const,
          spend: (await store.spendCredits(ref!, cost, period, now))!,
        }),
      }),
    ],
    [
      "forgets whose record it is",
      /^clause 23/,
      (store) => ({
        spendOnce: (ref, period, { once: { record, bounds }, ...request }) =>
          store.spendOnce(ref, period, {
            ...request,
            once: { record: { ...record, body: "any", workspaceId: "any" }, bounds },
          }),
      }),
    ],
    [
      "claims that it lacks idempotency",
      /^clause 21/,
      (store) => ({ powers: { ...store.powers, idempotency: false } }),
    ],
    [
      "claims that it reserves nothing",
      /^clause 21/,
      (store) => ({ powers: { ...store.powers, reservations: false } }),
    ],
    [
      "spends what it is to reserve",
      /^clause 2[17]/,
      (store) => ({ reserveCredits: (ref, period, { cost, now }) => store.spendCredits(ref, cost, period, now) }),
    ],
    [
      "settles with what was reserved",
      /^clause 2[17]/,
      (store) => ({ settleCredits: (ref, request) => store.settleCredits(ref, { ...request, spent: 0 }) }),
    ],
    [
      "settles what has expired",
      /^clause 27/,
      (store) => ({ settleCredits: (ref, request) => store.settleCredits(ref, { ...request, now: -1 }) }),
    ],
    ["forgets when keys were used", /^clause 24/, () => ({ recordUses: () => undefined })],
    ["claims that it counts nothing", /^clause 21/, (store) => ({ powers: { ...store.powers, analytics: false } })],
    [
      "counts a flush again",
      /^clause 28/,
      (store) => {
        let sources = 0;
        return { countOutcomes: (flush) => store.countOutcomes({ ...flush, source: `${++sources}`, seq: 1 }) };
      },
    ],
    [
      "forgets the tags",
      /^clause 28/,
      (store) => ({
        countOutcomes: (flush) =>
          store.countOutcomes({ ...flush, cells: flush.cells.map((cell) => ({ ...cell, tags: [] })) }),
      }),
    ],
    [
      "counts a key under another",
      /^clause 28/,
      (store) => ({
        countOutcomes: (flush) =>
          store.countOutcomes({ ...flush, cells: flush.cells.map((cell) => ({ ...cell, keyId: "one" })) }),
      }),
    ],
    ["keeps no totals of days", /^clause 28/, () => ({ readCreditDays: () => [] })],
    ["removes no old counts", /^clause 28/, () => ({ pruneOutcomes: () => 0 })],
    ["keeps no refusals", /^clause 34/, () => ({ readRefusals: () => [] })],
    [
      "shows the refusals of a key to another workspace",
      /^clause 34/,
      (store) => ({ readRefusals: (query) => store.readRefusals!({ ...query, workspaceId: "ws_default" }) }),
    ],
    [
      "raises what was raised",
      /^clause 30: an alert is raised once/,
      (store) => ({
        changeAlerts: (changes) =>
          store.changeAlerts!(changes.map((one) => ({ ...one, subject: `${one.subject} ${Math.random()}` }))),
      }),
    ],
    [
      "raises what somebody looked at long ago",
      /^clause 30: what was looked at before/,
      (store) => ({
        changeAlerts: (changes) => store.changeAlerts!(changes.map((one) => ({ ...one, from: ++looks, until: looks }))),
      }),
    ],
    [
      "forgets what was taken",
      /^clause 30: what is due is taken once, and due again/,
      (store) => ({ takeAlerts: (take) => store.takeAlerts!({ ...take, until: Number.MAX_SAFE_INTEGER }) }),
    ],
    [
      "lets anybody settle",
      /^clause 30: it is settled by who took it last/,
      (store) => ({ settleAlert: (of) => store.settleAlert!({ ...of, due: of.due + 60 }) }),
    ],
    [
      "keeps no dead alerts",
      /^clause 30: it is settled/,
      (store) => ({
        settleAlert: (of) => store.settleAlert!({ ...of, next: "delivered" }),
      }),
    ],
    [
      "lets a write set when a key was used",
      /^clause 24/,
      (store) => ({
        readMany: async (table, ids) =>
          (await store.readMany(table, ids)).map(
            (row) => row && { ...row, ...(table === "keys" && { lastUsedAt: 7 }) },
          ),
      }),
    ],
    ["reserves without saying so", /^clause 21/, (store) => ({ powers: { ...store.powers, reserves: false } })],
    ["draws nothing", /^clause 21/, () => ({ drawCredits: () => ({ drawn: 0, generation: 0, remaining: 0 }) })],
    ["does not close", /^clause 11/, () => ({ close: () => undefined })],
    [
      "loses what is said",
      /^clause 3/,
      (store) => ({
        insertKeys: (keys) => store.insertKeys(keys.map(({ row: { name: _, ...row }, ...rest }) => ({ ...rest, row }))),
      }),
    ],
  ])("a store that %s", async (title, clause, fault) => {
    const { failed } = await failuresOf((functions) =>
      storeSuite(functions, title, () => {
        const store = memoryStore();
        return { ...store, ...fault(store) };
      }),
    );
    expect(failed.some((one) => clause.test(one))).toBe(true);
  });

  it.each<[string, string[], (store: Store) => Partial<Store>]>([
    [
      "keeps the last subscriber alone",
      ["clause 15: every subscriber is notified, and one that unsubscribes leaves the others"],
      (store) => {
        let last: ((change: Change) => void) | undefined;
        store.subscribe((change) => last?.(change));
        return {
          subscribe(listener) {
            failIfClosed(store);
            last = listener;
            return () => void (last = last === listener ? undefined : last);
          },
        };
      },
    ],
    [
      "lets one subscriber end the subscriptions of all",
      ["clause 15: every subscriber is notified, and one that unsubscribes leaves the others"],
      (store) => {
        const stops: (() => void)[] = [];
        return {
          subscribe(listener) {
            stops.push(store.subscribe(listener));
            return () => {
              for (const stop of stops) stop();
            };
          },
        };
      },
    ],
    [
      "notifies before it changes anything",
      ["clauses 8 and 15: what a subscriber reads once it is notified of a change is changed"],
      (store) => {
        const ahead = memoryStore();
        return {
          subscribe(listener) {
            failIfClosed(store);
            return ahead.subscribe(listener);
          },
          async write(...given) {
            await ahead.write(...given);
            return store.write(...given);
          },
          async insertKeys(...given) {
            await ahead.insertKeys(...given);
            return store.insertKeys(...given);
          },
          async adoptDigest(...given) {
            await ahead.adoptDigest(...given);
            return store.adoptDigest(...given);
          },
        };
      },
    ],
    [
      "lists in the order of a language",
      ["clause 16: lists are in the order of code units, so that their pages hold every row once"],
      (store) => ({
        list: async (table, query) =>
          [...(await store.list(table, { ...query, limit: 1_000_000 }))]
            .sort((a, b) => a.id.localeCompare(b.id, "en"))
            .slice(0, query.limit),
      }),
    ],
    [
      "compares versions, waits and then writes",
      ["clause 13: of two writes of one version in flight at once, one is written"],
      (store) => ({
        async write(writes, entries, once) {
          const before = writes.map((write) => storedVersion(store, write));
          await null;
          return store.write(
            writes.map((write, i) => (before[i] === versionOf(write) ? atVersion(store, write) : write)),
            entries,
            once,
          );
        },
      }),
    ],
    [
      "removes an identity whose credits are drawn on",
      ["clause 26: an identity on whose credits an enabled key draws is not removed, and its account ends with it"],
      (store) => ({
        async write(writes, entries, once) {
          const [write] = writes;
          const outcome = await store.write(writes, entries, once);
          if (outcome !== "conflict" || write?.table !== "identities" || !("remove" in write)) return outcome;
          const [row] = await store.readMany("identities", [write.remove]);
          if (row?.version !== write.version) return outcome;
          await store.write([{ table: "identities", row: { ...row, hasCredits: false } }]);
          return store.write([{ ...write, version: row.version + 1 }]);
        },
      }),
    ],
    [
      "has the secret of every other",
      ["clauses 12 and 23: the secrets of two new stores differ"],
      (store) => ({ readSecret: () => (failIfClosed(store), "ab".repeat(32)) }),
    ],
  ])("a store that %s, in the clause about that alone", async (title, clauses, fault) => {
    const { failed } = await failuresOf((functions) =>
      storeSuite(functions, title, () => {
        const store = memoryStore();
        return { ...store, ...fault(store) };
      }),
    );
    expect(failed).toEqual(clauses);
  });

  it("no clause is without a test, but the one for decorators", async () => {
    const titles: string[] = [];
    storeSuite({ describe: (_, body) => body(), it: (title) => titles.push(title) }, "titles", memoryStore);
    const tried = new Set(
      titles.flatMap((title) => [...title.split(":")[0]!.matchAll(/\d+/g)].map(([n]) => Number(n))),
    );
    const decorators = 9;
    expect([...tried].sort((a, b) => a - b)).toEqual(
      Array.from({ length: 34 }, (_, i) => i + 1).filter((n) => n !== decorators),
    );
  });
});

/** As the calls of a closed store do. */
const failIfClosed = (store: Store): void => void store.findKey("");
const versionOf = (write: Write): number => ("remove" in write ? write.version : write.row.version);
const storedVersion = (store: Store, write: Write): number | undefined => {
  const id = "remove" in write ? write.remove : write.row.id;
  return (store.readMany(write.table, [id]) as ({ readonly version: number } | undefined)[])[0]?.version;
};
/** The write, as if it had read what is stored now. */
const atVersion = (store: Store, write: Write): Write => {
  const version = storedVersion(store, write);
  if (version === undefined) return write;
  return ("remove" in write ? { ...write, version } : { ...write, row: { ...write.row, version } }) as Write;
};

describe("storeSuite: stores that notify of more than they must pass", () => {
  it.each<[string, (store: Store) => Partial<Store>]>([
    ["all for every change", (store) => ({ subscribe: (listener) => store.subscribe(() => listener("all")) })],
    [
      "all besides what changed",
      (store) => ({
        subscribe: (listener) =>
          store.subscribe((change) => {
            listener(change);
            listener("all");
          }),
      }),
    ],
    [
      "all for every write, whatever the table",
      (store) => {
        const listeners = new Set<(change: Change) => void>();
        return {
          subscribe(listener) {
            const stop = store.subscribe(listener);
            listeners.add(listener);
            return () => {
              listeners.delete(listener);
              stop();
            };
          },
          async write(...given) {
            const outcome = await store.write(...given);
            if (outcome === "written") for (const listener of listeners) listener("all");
            return outcome;
          },
        };
      },
    ],
  ])("%s", async (title, more) => {
    const { failed } = await failuresOf((functions) =>
      storeSuite(functions, title, () => {
        const store = memoryStore();
        return { ...store, ...more(store) };
      }),
    );
    expect(failed).toEqual([]);
  });
});

/** A memory store that keeps the audit trail. */
function auditing(keep: (trail: AuditEntry[], entry: AuditEntry) => unknown): Store & { readonly trail: AuditEntry[] } {
  const store = memoryStore();
  const trail: AuditEntry[] = [];
  return {
    ...store,
    powers: { ...store.powers, audit: true },
    trail,
    readAudit(query) {
      const read = createMemoryAudit();
      for (const entry of trail) read.record(entry);
      return read.readAudit(query);
    },
    async write(writes, entries = [], once) {
      const outcome = await store.write(writes, entries, once);
      if (outcome === "written" || typeof outcome === "object") {
        const balances = typeof outcome === "object" ? outcome : [];
        entries.forEach((entry, i) => keep(trail, i === 0 ? withCredits(entry, writes, balances) : entry));
      }
      return outcome;
    },
    async insertKeys(keys, entry) {
      const inserted = await store.insertKeys(keys);
      const count = inserted.filter(Boolean).length;
      if (entry !== undefined && count > 0) keep(trail, { ...entry, count });
      return inserted;
    },
  };
}

describe("storeSuite: stores that keep the audit trail", () => {
  it("passes one that keeps what it is given", async () => {
    const open = () => auditing((trail, entry) => trail.push(entry));
    expect((await failuresOf((functions) => storeSuite(functions, "right", open))).failed).toEqual([]);
  });

  it.each<[string, () => Store]>([
    ["keeps nothing", () => auditing(() => undefined)],
    ["keeps the latest first", () => auditing((trail, entry) => trail.unshift(entry))],
    ["leaves amounts out", () => auditing((trail, { credits: _, ...entry }) => trail.push(entry))],
    ["forgets who it was", () => auditing((trail, { actor: _, ...entry }) => trail.push(entry))],
    [
      "keeps entries of what was refused",
      () => {
        const store = auditing(() => undefined);
        return {
          ...store,
          write(writes, entries = [], once) {
            store.trail.push(...entries);
            return store.write(writes, entries, once);
          },
        };
      },
    ],
    [
      "counts keys that exist already",
      () => {
        const store = auditing(() => undefined);
        return {
          ...store,
          insertKeys(keys, entry) {
            if (entry !== undefined) store.trail.push(entry);
            return store.insertKeys(keys);
          },
        };
      },
    ],
  ])("fails one that %s", async (title, open) => {
    const { failed } = await failuresOf((functions) => storeSuite(functions, title, open));
    expect(failed.length).toBeGreaterThan(0);
    expect(failed.filter((one) => !one.startsWith("clause 25"))).toEqual([]);
  });
});

describe("storeSuite: stores that lack a power, and say so, pass", () => {
  it.each<[string, (store: Store) => Partial<Store>]>([
    ["leases", (store) => ({ powers: { ...store.powers, leases: false, reserves: false }, ...withoutLeases })],
    ["idempotency", (store) => ({ powers: { ...store.powers, idempotency: false }, ...withoutIdempotency })],
    ["usage", (store) => ({ powers: { ...store.powers, usage: false }, ...withoutUsage })],
    [
      "reserves",
      (store) => ({
        powers: { ...store.powers, reserves: false },
        // A reserve is what is drawn beyond a step.
        drawCredits: (ref, request) =>
          store.drawCredits(ref, { ...request, size: Math.max(request.cost, request.step) }),
      }),
    ],
  ])("%s", async (title, lacking) => {
    const without = () => {
      const store = memoryStore();
      return { ...store, ...lacking(store) };
    };
    expect((await failuresOf((functions) => storeSuite(functions, title, without))).failed).toEqual([]);
    const { failed } = await failuresOf((functions) =>
      sharedStoreSuite(functions, title, () => {
        const store = without();
        const one = { ...store, powers: { ...store.powers, changes: "pushed" as const }, close: () => undefined };
        return [one, { ...one }];
      }),
    );
    expect(failed).toEqual([]);
  });
});

describe("limiterSuite: what it fails", () => {
  it.each<[title: string, fault: (limiter: Limiter) => Limiter, clauses?: string[]]>([
    [
      "takes from one bucket though another refuses",
      (limiter) => ({
        take: async (checks, now) => Promise.all(checks.map(async (one) => (await limiter.take([one], now))[0]!)),
      }),
    ],
    [
      "forgets on a clock that steps back",
      () => {
        let limiter = memoryLimiter();
        let latest = -Infinity;
        return {
          take(checks, now) {
            if (now < latest) limiter = memoryLimiter();
            latest = now;
            return limiter.take(checks, now);
          },
        };
      },
    ],
    [
      "takes what it saw before it waited, as a read and a write apart do",
      (limiter) => ({
        async take(checks, now) {
          const [seen] = await limiter.take(
            checks.map((one) => ({ ...one, cost: 0 })),
            now,
          );
          const verdicts = await limiter.take(checks, now);
          if (checks.length !== 1 || !verdicts[0]!.exceeded || checks[0]!.cost > seen!.remaining) return verdicts;
          return [{ ...verdicts[0]!, exceeded: false, remaining: seen!.remaining - checks[0]!.cost }];
        },
      }),
      ["clause 3: calls in flight at once are granted the limit and what refills, no more and no less"],
    ],
    [
      "takes bucket by bucket while calls are in flight at once",
      (limiter) => {
        let inFlight = 0;
        return {
          async take(checks, now) {
            inFlight++;
            await null;
            const groups = inFlight === 1 ? [checks] : checks.map((one) => [one]);
            const verdicts = groups.flatMap((group) => limiter.take(group, now) as LimitVerdict[]);
            inFlight--;
            return verdicts;
          },
        };
      },
      ["clause 1: of calls in flight at once, each takes from all its buckets or from none"],
    ],
    ["counts windows", (limiter) => ({ take: (checks, now) => limiter.take(checks, now - (now % 1_000)) })],
  ])("a limiter that %s", async (title, fault, clauses) => {
    const { failed } = await failuresOf((functions) => limiterSuite(functions, title, () => fault(memoryLimiter())));
    expect(failed.length).toBeGreaterThan(0);
    if (clauses !== undefined) expect(failed).toEqual(clauses);
  });
});
