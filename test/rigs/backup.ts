/**
 * The rig of backups under load: two processes spend and make keys, one of them with leases, while backups are taken,
 * proved and restored. docs/operations.md.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { restoreBackup } from "../../src/stores/sqlite/backup/restore.js";
import type { Handle } from "../../src/stores/sqlite/connection/handle.js";
import { reconcile } from "../../src/stores/sqlite/credits/reconcile.js";
import { sqliteStore, type SqliteStore } from "../../src/stores/sqlite/index.js";
import {
  type Acks,
  countAcks,
  countKeys,
  CREDITS,
  damagesOf,
  IN_FLIGHT,
  KEYS,
  type Made,
  noAcks,
  prepare,
} from "./kill.js";
import { buildWorker, buildWriter, ended, rigFolder, startWorker } from "./workers.js";
import type { DeductOrders } from "./workers/deduct.js";
import { PATIENT } from "./workers/patience.js";

export interface BackupReport {
  readonly backups: number;
  /** Of backups; what both processes acknowledged meanwhile. */
  readonly acknowledged: number;
  readonly keysMade: number;
  /** Acknowledged before a backup began, and missing in it: deductions and keys. Must be 0. */
  readonly lost: number;
  /** Deductions and keys in a copy that were neither acknowledged when it was done nor in flight. Must be 0. */
  readonly invented: number;
  /** What the leases of all copies held. */
  readonly forfeited: number;
  /** What was damaged, did not add up, kept a lease or could be spent twice: must be empty. */
  readonly problems: readonly string[];
  readonly slowestBackup: number;
  /** The longest that a backup kept this process from doing other work, milliseconds. */
  readonly longestTurn: number;
  readonly largestBytes: number;
  readonly seconds: number;
}

/** Ways of copying: the product's, and two that the rig must find out. */
type Way = "backup" | "cp" | "VACUUM INTO alone";

/** After every lease has expired. */
const LATER = Date.UTC(2100, 0, 1);
const PROCESSES = 2;

export async function runBackups(backups: number, way: Way = "backup"): Promise<BackupReport> {
  const folder = rigFolder();
  const worker = await buildWorker("deduct");
  const writer = await buildWriter();
  const begun = performance.now();
  const file = join(folder, "keys.db");
  const { apiId, made } = await prepare(file);
  const acks = Array.from({ length: PROCESSES }, (_, i) => join(folder, `acks-${i}`));
  const children = acks.map((place, i) => {
    writeFileSync(place, "");
    const orders: DeductOrders = {
      file,
      acks: place,
      apiId,
      keys: made.map(({ key }) => key),
      inFlight: IN_FLIGHT,
      credits: i === 0 ? { mode: "exact" } : { mode: "leased", size: 400 },
      durability: "power",
    };
    return startWorker(worker, orders);
  });
  const acknowledged = () => acks.reduce((all, place) => countAcks(readFileSync(place), all), noAcks());
  // For `cp` and SQLite's own tools this process must not have the file open: each copy is somebody else's work.
  const store = way === "backup" ? sqliteStore(file, { ...PATIENT, mustExist: true }) : undefined;
  const totals = { lost: 0, invented: 0, forfeited: 0, slowestBackup: 0, longestTurn: 0, largestBytes: 0 };
  const problems: string[] = [];
  try {
    while (acks.some((place) => statSync(place).size < 500)) {
      if (children.some(({ exitCode }) => exitCode !== null)) throw new Error("a worker ended by itself");
      await pause(10);
    }
    for (let i = 0; i < backups; i++) {
      const copy = join(folder, `copy-${i}.db`);
      const before = acknowledged();
      const turns = watchTurns();
      const start = performance.now();
      await take(way, file, copy, store, writer);
      totals.slowestBackup = Math.max(totals.slowestBackup, performance.now() - start);
      totals.longestTurn = Math.max(totals.longestTurn, turns.stop());
      const after = acknowledged();
      totals.largestBytes = Math.max(totals.largestBytes, statSync(copy).size);
      const restored = way === "backup" ? join(folder, `restored-${i}.db`) : copy;
      if (way === "backup") restoreBackup(copy, restored, { force: false, now: 0, onProgress: () => undefined });
      await judge(restored, made, before, after, totals, problems);
      for (const each of [copy, restored])
        for (const end of ["", "-wal", "-shm"]) rmSync(`${each}${end}`, { force: true });
      await pause(20);
    }
    const all = acknowledged();
    return {
      backups,
      acknowledged: all.deductions.reduce((sum, count) => sum + count, 0),
      keysMade: all.created,
      ...totals,
      problems: [...new Set(problems)],
      seconds: (performance.now() - begun) / 1_000,
    };
  } finally {
    for (const child of children) child.kill("SIGKILL");
    await Promise.all(children.map(ended));
    await store?.close();
    rmSync(folder, { recursive: true, force: true });
    rmSync(worker, { force: true });
  }
}

async function take(way: Way, file: string, copy: string, store: SqliteStore | undefined, writer: URL): Promise<void> {
  if (way === "cp") execFileSync("cp", [file, copy]);
  else if (way === "backup") await store!.backup(copy, { writer });
  else {
    const handle = new Database(file, { timeout: 10_000 });
    handle.prepare("VACUUM INTO ?").run(copy);
    handle.close();
  }
}

/** Compares a copy with what was acknowledged before it was begun and after it was done. */
async function judge(
  copy: string,
  made: readonly Made[],
  before: Acks,
  after: Acks,
  totals: { lost: number; invented: number; forfeited: number },
  problems: string[],
): Promise<void> {
  const handle = new Database(copy, { readonly: true });
  try {
    problems.push(...damagesOf(handle));
    if (problems.length > 0) return;
    problems.push(...reconcile(handle as Handle, () => undefined).named.map(({ problem }) => problem));
    const leases = handle.prepare("SELECT count(*) FROM keystile_leases").pluck().get() as number;
    if (leases > 0) problems.push("a lease is left");
    const keys = countKeys(handle) - KEYS;
    totals.lost += Math.max(0, before.created - keys);
    totals.invented += Math.max(0, keys - after.created - PROCESSES);
  } finally {
    handle.close();
  }
  const store = sqliteStore(copy, { mustExist: true, durability: "process" });
  let unanswered = 0;
  for (const [i, { keyId, key }] of made.entries()) {
    const [balance] = await store.readBalances([{ keyId, period: 0 }], LATER);
    const { remaining, totals: account } = balance!;
    const forfeited = account!.forfeited;
    totals.forfeited += forfeited;
    const gone = CREDITS - remaining!;
    totals.lost += Math.max(0, before.deductions[i]! - gone);
    unanswered += Math.max(0, gone - forfeited - after.deductions[i]!);
    if (!(await spendsExactly(store, key, remaining!))) problems.push("more could be spent than the balance");
  }
  totals.invented += Math.max(0, unanswered - PROCESSES * IN_FLIGHT);
  await store.close();
}

/** Whether the balance is what can be spent, also after all leases of the original would have expired. */
async function spendsExactly(store: SqliteStore, key: string, remaining: number): Promise<boolean> {
  const record = await store.findKey(createHash("sha256").update(key).digest("base64"));
  const spend = (cost: number) => store.spendCredits(record!.ref, cost, 0, LATER);
  return !(await spend(remaining + 1))!.ok && (await spend(remaining))!.ok && !(await spend(1))!.ok;
}

/** Measures the longest time between two timers. */
function watchTurns(): { stop(): number } {
  let longest = 0;
  let last = performance.now();
  const tick = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
  };
  const timer = setInterval(tick, 1);
  return {
    stop() {
      clearInterval(timer);
      tick();
      return longest;
    },
  };
}

const pause = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));
