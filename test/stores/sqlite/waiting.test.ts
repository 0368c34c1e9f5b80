import { type ChildProcess } from "node:child_process";
import { rmSync } from "node:fs";
import Database from "better-sqlite3";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { isKeystileError } from "../../../src/contracts/errors.js";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { createCounters } from "../../../src/stores/sqlite/connection/counters.js";
import { createLockQueue } from "../../../src/stores/sqlite/connection/lock-queue.js";
import { sqliteStore, type SqliteStore } from "../../../src/stores/sqlite/index.js";
import { buildWorker, buildWriter, ended, nextMessage, startWorker } from "../../rigs/workers.js";
import type { HoldOrders } from "../../rigs/workers/hold.js";
import { keyRow } from "../suite.js";
import { addKeys, api, codeOf, inspect, refOf, temporaryPaths, withApi } from "./support.js";

const path = temporaryPaths();
const holder = await buildWorker("hold");
const writer = await buildWriter();
const busyTimeout = 300;
/** What a call may take beyond it, milliseconds. */
const BEYOND = 500;
/** The longest that the event loop may stand still, milliseconds. */
const LONGEST_TURN = 100;
/** A busy machine makes turns and waits longer, never shorter: one quiet attempt of these shows what the store does. */
const ATTEMPTS = 5;

const holding: ChildProcess[] = [];
const opened: { close(): unknown }[] = [];
const keep = <T extends { close(): unknown }>(each: T): T => {
  opened.unshift(each);
  return each;
};
afterEach(async () => {
  for (const child of holding.splice(0)) child.kill("SIGKILL");
  for (const each of opened.splice(0)) await each.close();
});
afterAll(() => rmSync(holder, { force: true }));

/** Lets another process take the lock, and stall. The result makes it go on, and let go. */
async function stall(file: string, lock: HoldOrders["lock"] = "IMMEDIATE"): Promise<() => Promise<void>> {
  const child = startWorker(holder, { file, lock } satisfies HoldOrders);
  holding.push(child);
  await nextMessage(child);
  child.kill("SIGSTOP");
  return async () => {
    child.kill("SIGCONT");
    child.send("go");
    await ended(child);
  };
}

interface Outcome {
  readonly code: string;
  /** Milliseconds from the call to its answer. */
  readonly waited: number;
}
/** Makes all calls in one turn, and watches the event loop until they are answered. */
async function together(calls: readonly (() => unknown)[]): Promise<{ outcomes: Outcome[]; longestTurn: number }> {
  let longestTurn = 0;
  let last = performance.now();
  const look = () => {
    longestTurn = Math.max(longestTurn, performance.now() - last);
    last = performance.now();
  };
  const outcomeOf = async (call: () => unknown): Promise<Outcome> => {
    const began = performance.now();
    const code = await Promise.resolve()
      .then(call)
      .then(() => "done")
      .catch((error: unknown) => (isKeystileError(error) ? error.code : String(error)));
    return { code, waited: performance.now() - began };
  };
  const watch = setInterval(look, 1);
  const outcomes = await Promise.all(calls.map(outcomeOf));
  look();
  clearInterval(watch);
  return { outcomes, longestTurn };
}

/** All are refused in time while the event loop runs. */
async function expectRefused(makeCalls: () => readonly (() => unknown)[]): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const { outcomes, longestTurn } = await together(makeCalls());
    const waits = outcomes.map(({ waited }) => waited);
    expect(new Set(outcomes.map(({ code }) => code))).toEqual(new Set(["STORE_BUSY"]));
    expect(Math.min(...waits)).toBeGreaterThan(busyTimeout / 2);
    const longestWait = Math.max(...waits);
    if (longestWait <= busyTimeout + BEYOND && longestTurn <= LONGEST_TURN) return;
    expect(attempt, `waited ${longestWait} ms, longest turn ${longestTurn} ms`).toBeLessThan(ATTEMPTS);
  }
}

const times = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));
const draw = (holder: string) => ({ holder, spent: 0, cost: 1, step: 5, size: 40, period: 0, now: 0, until: 1 });

const KINDS: readonly (readonly [string, (place: string) => SqliteStore])[] = [
  ["a path", (place) => keep(sqliteStore(place, { busyTimeout }))],
  ["a handle of its owner", (place) => keep(sqliteStore(keep(new Database(place)), { busyTimeout }))],
  ["a writer thread", (place) => keep(sqliteStore(place, { busyTimeout, writer }))],
];

describe.each(KINDS)("sqliteStore with %s, while another process holds the lock and stalls", (_, open) => {
  it("however many calls wait, each is refused in time, and the event loop runs", { timeout: 60_000 }, async () => {
    const place = path();
    const store = await withApi(open(place));
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "docs" });
    const refs = await addKeys(store, 8, 1_000_000);
    const rows = times(5_000, (i) => ({ row: keyRow(100 + i) }));
    await stall(place);
    await expectRefused(() => [
      ...times(100, () => () => keyring.createKey({ apiId })),
      ...times(64, (i) => () => store.spendCredits(refs[i % 8]!, 1, 0, 0)),
      ...times(64, (i) => () => store.drawCredits(refs[i % 8]!, draw(`h${i}`))),
      ...times(64, (i) => () => store.returnCredits(refs[i % 8]!, { holder: `h${i}`, spent: 1 })),
      ...times(64, (i) => () => store.adoptDigest(refs[i % 8]!, `other-${i}`)),
      ...times(64, (i) => () => store.write([{ table: "apis", row: api({ id: `api_${i + 2}` }) }])),
      () => store.insertKeys(rows),
    ]);
    expect((await store.readMany("apis", ["api_2"]))[0]).toBeUndefined();
  });

  it("more spends than a transaction takes are refused together", { timeout: 60_000 }, async () => {
    const place = path();
    const store = await withApi(open(place));
    const [ref] = await addKeys(store, 1, 1_000_000);
    await stall(place);
    await expectRefused(() => times(3_000, () => () => store.spendCredits(ref!, 1, 0, 0)));
  });

  it("many imports at once are refused together", { timeout: 60_000 }, async () => {
    const place = path();
    const store = await withApi(open(place));
    const imports = times(5, (i) => times(1_001, (k) => ({ row: keyRow(1_001 * i + k) })));
    await stall(place);
    await expectRefused(() => imports.map((keys) => () => store.insertKeys(keys)));
  });

  it("once it lets go, all are done, in the order of the calls", { timeout: 60_000 }, async () => {
    const place = path();
    const store = await withApi(open(place));
    const refs = await addKeys(store, 8, 100);
    const letGo = await stall(place);
    const released = new Promise<void>((resolve) => setTimeout(resolve, busyTimeout / 3)).then(letGo);
    const { outcomes } = await together([
      ...times(50, (i) => () => store.insertKeys([{ row: keyRow(100 + i) }])),
      () => store.insertKeys(times(2_500, (i) => ({ row: keyRow(200 + i) }))),
      ...times(64, (i) => () => store.spendCredits(refs[i % 8]!, 1, 0, 0)),
      ...times(50, (i) => () => store.write([{ table: "apis", row: api({ id: `api_${i + 2}` }) }])),
    ]);
    await released;
    expect(new Set(outcomes.map(({ code }) => code))).toEqual(new Set(["done"]));
    const ids = inspect(place, (db) =>
      db.prepare("SELECT id FROM keystile_keys WHERE id >= 'key_000100' ORDER BY number").pluck().all(),
    );
    const expected = [...times(50, (i) => keyRow(100 + i).id), ...times(2_500, (i) => keyRow(200 + i).id)];
    expect(ids).toEqual(expected);
    expect((await store.readBalances([{ keyId: "key_000008", period: 0 }], 0))[0]?.remaining).toBe(92);
  });

  it("a writer that comes and goes keeps nobody out", { timeout: 60_000 }, async () => {
    const place = path();
    const store = await withApi(open(place));
    const [ref] = await addKeys(store, 1, 1_000);
    const other = keep(new Database(place));
    const toggle = () => other.exec(other.inTransaction ? "COMMIT" : "BEGIN IMMEDIATE");
    const toggling = setInterval(toggle, 20);
    toggle();
    for (let round = 0; round < 5; round++) {
      const { outcomes } = await together([
        ...times(16, () => () => store.spendCredits(ref!, 1, 0, 0)),
        ...times(16, (i) => () => store.insertKeys([{ row: keyRow(100 * round + i + 10) }])),
      ]);
      expect(new Set(outcomes.map(({ code }) => code))).toEqual(new Set(["done"]));
    }
    clearInterval(toggling);
    if (other.inTransaction) toggle();
  });
});

describe("sqliteStore: a file that is locked to readers too", () => {
  const KINDS_OF_READER: typeof KINDS = [
    ["a path", (place) => keep(sqliteStore(place, { busyTimeout, readonly: true, staleness: "call" }))],
    [
      "a handle",
      (place) => keep(sqliteStore(keep(new Database(place, { readonly: true })), { busyTimeout, staleness: "call" })),
    ],
  ];
  it.each(KINDS_OF_READER)(
    "with %s, reads are refused in time, and answered once it is free",
    { timeout: 60_000 },
    async (_, open) => {
      const place = path();
      const first = await withApi(sqliteStore(place));
      await addKeys(first, 1);
      await first.close();
      inspect(place, (db) => db.pragma("journal_mode = DELETE"));
      const store = open(place);
      const ref = await refOf(store, "digest-1");
      const letGo = await stall(place, "EXCLUSIVE");
      const reads = () => [
        ...times(64, () => () => store.findKey("digest-1")),
        ...times(64, () => () => store.pollChanges()),
        ...times(64, () => () => store.readMany("apis", ["api_1"])),
        ...times(64, () => () => store.spendCredits(ref, 0, 0, 0)),
      ];
      await expectRefused(reads);
      const answered = together(reads());
      await letGo();
      expect(new Set((await answered).outcomes.map(({ code }) => code))).toEqual(new Set(["done"]));
    },
  );

  it("a call that need not poll waits for nobody", async () => {
    const place = path();
    const first = await withApi(sqliteStore(place));
    await addKeys(first, 1);
    await first.close();
    inspect(place, (db) => db.pragma("journal_mode = DELETE"));
    const store = keep(sqliteStore(place, { busyTimeout: 60_000, readonly: true, staleness: 3_600_000 }));
    expect(store.pollChanges()).toBeUndefined();
    const letGo = await stall(place, "EXCLUSIVE");
    const finding = store.findKey("digest-1");
    expect(finding).toBeInstanceOf(Promise);
    expect(store.pollChanges()).toBeUndefined();
    const polling = store.pollChanges("anew");
    expect(polling).toBeInstanceOf(Promise);
    await letGo();
    expect(await finding).toMatchObject({ keyId: "key_000001" });
    expect(await polling).toBeUndefined();
  });
});

describe("sqliteStore: a call of several transactions", () => {
  it("waits no longer for all its locks than for one", async () => {
    const place = path();
    const store = await withApi(keep(sqliteStore(place, { busyTimeout })));
    const other = keep(new Database(place));
    const hold = () => {
      other.exec("BEGIN IMMEDIATE");
      setTimeout(() => other.exec("COMMIT"), busyTimeout / 2);
    };
    let transactions = 0;
    store.subscribe(() => {
      transactions++;
      hold();
    });
    hold();
    const { outcomes } = await together([() => store.insertKeys(times(5_000, (i) => ({ row: keyRow(i + 1) })))]);
    expect(outcomes[0]!.code).toBe("STORE_BUSY");
    expect(transactions).toBeLessThan(3);
    await new Promise((resolve) => setTimeout(resolve, busyTimeout / 2));
  });
});

describe("createLockQueue", () => {
  const block = (milliseconds: number) => {
    for (const until = performance.now() + milliseconds; performance.now() < until;);
  };

  it("the work of those ahead, when the file is free, is no wait for a lock; it leaves the event loop its turns", async () => {
    const queue = createLockQueue((attempt) => attempt(), createCounters().own);
    const free = performance.now() + 50;
    let turns = 0;
    const turn = setInterval(() => turns++, 1);
    const answers = times(30, (i) => {
      return new Promise<number>((resolve, reject) => {
        queue.join({
          attempt() {
            if (performance.now() < free) throw new Error("locked");
            block(15);
            resolve(i);
          },
          keepsWaiting: (lockedTime, toError) => lockedTime < 200 || (reject(toError()), false),
        });
      });
    });
    expect(await Promise.all(answers)).toEqual(times(30, (i) => i));
    clearInterval(turn);
    expect(turns).toBeGreaterThan(20);
    expect(queue.isWaiting()).toBe(false);
    expect(queue.lockedTime()).toBeGreaterThanOrEqual(45);
    const { lockedTime } = queue;
    const before = lockedTime();
    block(20);
    expect(lockedTime()).toBe(before);
  });

  it("a call that is refused ends nobody else's wait, and what joins while others run comes after them", async () => {
    const queue = createLockQueue((attempt) => attempt(), createCounters().own);
    const said: string[] = [];
    let isLocked = true;
    const join = (name: string, limit: number, then = () => {}) =>
      queue.join({
        attempt() {
          if (isLocked) throw new Error("locked");
          said.push(name);
          then();
        },
        keepsWaiting: (lockedTime) => lockedTime < limit || (said.push(`${name} refused`), false),
      });
    join("impatient", 20);
    join("first", 10_000, () => join("third", 10_000));
    join("second", 10_000);
    while (said.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    isLocked = false;
    while (queue.isWaiting()) await new Promise((resolve) => setTimeout(resolve, 1));
    expect(said).toEqual(["impatient refused", "first", "second", "third"]);
  });
});

describe("createKeyring", () => {
  it("changes of one key are refused together", { timeout: 60_000 }, async () => {
    const place = path();
    const store = keep(sqliteStore(place, { busyTimeout }));
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "docs" });
    const { keyId } = await keyring.createKey({ apiId });
    const letGo = await stall(place);
    const changes = () => times(64, (i) => () => keyring.updateKey({ keyId, name: `name ${i}` }));
    await expectRefused(changes);
    await letGo();
    expect((await together(changes())).outcomes.every(({ code }) => code === "done")).toBe(true);
    expect(await codeOf(() => keyring.updateKey({ keyId: "key_none", name: "x" }))).toBe("NOT_FOUND");
  });
});
