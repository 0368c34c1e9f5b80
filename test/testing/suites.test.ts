/** The suites that keystile ships: do they fail what is wrong? Each wrong store or limiter is a right one with one fault. */
import { execFile } from "node:child_process";
import { describe, expect, it } from "vitest";
import type { Limiter } from "../../src/contracts/limiter.js";
import type { Store } from "../../src/contracts/store.js";
import { memoryLimiter } from "../../src/ratelimit/memory/limiter.js";
import { memoryStore } from "../../src/stores/memory.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { limiterSuite, sharedStoreSuite, storeSuite } from "../../src/testing/index.js";
import { ROOT } from "../structure/source.js";
import { temporaryPaths } from "../stores/sqlite/support.js";
import { failuresOf } from "./support.js";

const path = temporaryPaths();

/** Tells its listeners nothing, as a store does whose author has thought of one process alone. */
const deaf = (store: Store): Store => ({ ...store, subscribe: () => () => undefined, pollChanges: () => undefined });

describe("sharedStoreSuite: what it fails", () => {
  it("a store that tells other processes nothing, in every clause about telling and in no other", async () => {
    const { failed, tests } = await failuresOf((functions) =>
      sharedStoreSuite(functions, "deaf", () => {
        const file = path();
        return [sqliteStore(file), deaf(sqliteStore(file))];
      }),
    );
    expect(failed).toEqual([
      "clauses 8 and 15: a new key is found by the other handle, which was told of it",
      "clauses 8 and 15: many new keys at once are found by the other handle, which was told of them",
      "clauses 8 and 15: a changed key is found changed by the other handle, which was told of it",
      "clauses 8, 15 and 18: a deleted key is lost to the other handle, which was told of it",
      "clauses 8 and 15: what a key refers to changes for the other handle, which was told of it",
      "clauses 8, 15 and 18: keys of a deleted API are lost to the other handle, which was told of it",
      "clause 15: a change of an identity, a role or a permission is told, whether or not a key has it",
      "clauses 8 and 15: a digest that one handle adopts is found by the other, which was told of it",
      "clauses 8, 15 and 19: a root key changes for the other handle, which was told of it",
    ]);
    expect(tests).toBeGreaterThan(failed.length + 10);
  });

  it("which storeSuite passes whole, as long as a handle hears of what it does itself", async () => {
    const { failed } = await failuresOf((functions) =>
      storeSuite(functions, "alone", () => ({ ...sqliteStore(path()), pollChanges: () => undefined })),
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

describe("storeSuite: what it fails", () => {
  it.each<[string, RegExp, (store: Store) => Partial<Store>]>([
    ["folds case", /^clause 2/, (store) => ({ findKey: (digest) => store.findKey(digest.toLowerCase()) })],
    ["spends what is not there", /^clause 5/, () => ({ spendCredits: () => ({ ok: true, remaining: 0 }) })],
    ["tells nobody", /^clause 15/, () => ({ subscribe: () => () => undefined })],
    [
      "lists everything",
      /^clause 16/,
      (store) => ({ list: (table, query) => store.list(table, { ...query, limit: 99 }) }),
    ],
    ["overwrites", /^clause 13/, (store) => ({ write: (writes) => (void store.write(writes), true) })],
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

  it("no clause is without a test, but the one for decorators", async () => {
    const titles: string[] = [];
    storeSuite({ describe: (_, body) => body(), it: (title) => titles.push(title) }, "titles", memoryStore);
    const tried = new Set(
      titles.flatMap((title) => [...title.split(":")[0]!.matchAll(/\d+/g)].map(([n]) => Number(n))),
    );
    expect([...tried].sort((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
  });
});

describe("limiterSuite: what it fails", () => {
  it.each<[string, (limiter: Limiter) => Limiter]>([
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
    ["counts windows", (limiter) => ({ take: (checks, now) => limiter.take(checks, now - (now % 1_000)) })],
  ])("a limiter that %s", async (title, fault) => {
    const { failed } = await failuresOf((functions) => limiterSuite(functions, title, () => fault(memoryLimiter())));
    expect(failed.length).toBeGreaterThan(0);
  });
});

describe("suites: with node:test, as a stranger runs them", () => {
  const run = (fault: string) =>
    new Promise<{ code: unknown; report: string }>((resolve) => {
      const args = ["--import", "tsx", "--test", "--test-reporter=tap", "test/testing/programs/node-test.ts"];
      const env = { ...process.env, KEYSTILE_FAULT: fault };
      execFile(process.execPath, args, { cwd: ROOT, env, maxBuffer: 16 << 20 }, (error, report) =>
        resolve({ code: error?.code ?? 0, report }),
      );
    });

  it("a right store and a right limiter pass, and a wrong store fails, by its clause", async () => {
    const [right, wrong] = await Promise.all([run(""), run("overwrites")]);
    expect(right.report).toMatch(/# fail 0\b/);
    expect(right.code).toBe(0);
    expect(wrong.report).toMatch(/not ok \d+ - clause 13: a write is all or nothing/);
    expect(wrong.code).toBe(1);
  });
});
