/**
 * The rig of the power cut for the rate limits of a file: a recorded run is cut at random points. What the disk may
 * hold must open, and may have forgotten only takes since its log was last synced, so that what is granted in all stays
 * within the limit and these.
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import Database from "better-sqlite3";
import { isKeystileError } from "../../../src/contracts/errors.js";
import { sqliteLimiter, type SqliteStore, sqliteStore } from "../../../src/stores/sqlite/index.js";
import { dice } from "../../model/dice.js";
import { buildWorker, rigFolder } from "../workers.js";
import type { TakeAckedOrders } from "../workers/take-acked.js";
import { createDisk } from "./disk.js";
import { buildRecorder, readRecord, runRecorded } from "./record.js";

export interface LimitCutReport {
  readonly cuts: number;
  /** Cuts after which takes were forgotten that were granted before the log was last synced. */
  readonly lost: number;
  /** Cuts after which the file could not be opened, or SQLite found it damaged. */
  readonly corrupt: number;
  /** The most takes that one cut forgot: so many may be granted beyond the limit. */
  readonly forgotten: number;
  /** The most takes between two syncs of the log. */
  readonly unsynced: number;
  readonly granted: number;
  /** Syncs of the log. */
  readonly syncs: number;
  readonly examples: readonly string[];
}

const BUCKETS = Array.from({ length: 40 }, (_, i) => `key_${i} requests`);
const [LIMIT, DURATION, NOW] = [1_000_000, 3_600_000, 1_700_000_000_000];
const SUFFIXES = ["-limits", "-limits-wal", "-limits-shm"];

/** @param options fault: the planted fault, a disk to which a sync means nothing */
export async function runLimitCuts(
  cuts: number,
  options: { readonly seed?: number; readonly takes?: number; readonly fault?: "syncs nothing" } = {},
): Promise<LimitCutReport> {
  const { seed = 1, takes = 6_000, fault } = options;
  const folder = rigFolder();
  const worker = await buildWorker("take-acked");
  try {
    const watched = join(folder, "watched");
    mkdirSync(watched);
    const log = join(folder, "record");
    const orders: TakeAckedOrders = {
      file: join(watched, "keys.db"),
      acks: join(watched, "acks"),
      buckets: BUCKETS,
      limit: LIMIT,
      duration: DURATION,
      now: NOW,
      takes,
    };
    const env = { LD_PRELOAD: buildRecorder(folder), TEST_RECORD: log, TEST_RECORD_FOLDER: `${watched}/` };
    const { code } = await runRecorded(worker, orders, env);
    if (code !== 0) throw new Error(`the recorded worker ended with ${String(code)}`);
    return { cuts, ...(await replay(log, cuts, seed, fault !== undefined)) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
    rmSync(worker, { force: true });
  }
}

async function replay(log: string, cuts: number, seed: number, syncsNothing: boolean) {
  const events = readRecord(log).filter(({ file }) => /(?:-limits|-limits-wal|\/acks)$/.test(file));
  const rolled = dice(seed);
  const points = Array.from({ length: cuts }, () => rolled.below(events.length + 1)).sort((a, b) => a - b);
  const disk = createDisk(new Map());
  /** Takes that were granted by bucket: all, and those before the log was last synced. */
  const granted = BUCKETS.map(() => 0);
  let synced = [...granted];
  const totals = { lost: 0, corrupt: 0, forgotten: 0, unsynced: 0, syncs: 0 };
  const examples: string[] = [];
  const images = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "keystile-cuts-"));
  const store = sqliteStore(join(images, "keys.db"), { durability: "process" });
  const tell = (example: string): void => void (examples.length < 5 && examples.push(example));
  try {
    let at = 0;
    for (const point of points) {
      for (; at < point; at++) {
        const event = events[at]!;
        if (event.file.endsWith("/acks")) {
          if (event.kind === "write") for (const bucket of event.data) granted[bucket]!++;
          totals.unsynced = Math.max(totals.unsynced, sum(granted) - sum(synced));
          continue;
        }
        const isSync = event.kind === "sync";
        if (!isSync || !syncsNothing) disk.apply(event);
        if (isSync && event.file.endsWith("-wal")) [synced, totals.syncs] = [[...granted], totals.syncs + 1];
      }
      for (const [name, bytes] of disk.cut(rolled)) writeFileSync(join(images, basename(name)), bytes);
      const used = await usedAfter(store);
      if (typeof used === "string") {
        totals.corrupt++;
        tell(`cut at ${point}: ${used}`);
      } else {
        const missing = sum(synced.map((count, i) => Math.max(0, count - used[i]!)));
        if (missing > 0) totals.lost++;
        if (missing > 0) tell(`cut at ${point}: ${missing} takes of before the last sync are missing`);
        totals.forgotten = Math.max(totals.forgotten, sum(granted.map((count, i) => Math.max(0, count - used[i]!))));
      }
      for (const suffix of SUFFIXES) rmSync(join(images, `keys.db${suffix}`), { force: true });
    }
  } finally {
    await store.close();
    rmSync(images, { recursive: true, force: true });
  }
  return { ...totals, granted: sum(granted), examples };
}

const sum = (counts: readonly number[]): number => counts.reduce((all, count) => all + count, 0);

/** What is taken of each limit as the opened file says, or what is wrong with it. */
async function usedAfter(store: SqliteStore): Promise<string | readonly number[]> {
  try {
    const limiter = sqliteLimiter(store);
    try {
      const checks = BUCKETS.map((bucket) => ({
        bucket,
        workspaceId: "ws_1",
        limit: LIMIT,
        duration: DURATION,
        cost: 0,
      }));
      const verdicts = await limiter.take(checks, NOW);
      // A take works too.
      await limiter.take([{ ...checks[0]!, bucket: "new", cost: 1 }], NOW);
      return damageOf(`${store.path ?? ""}-limits`) ?? verdicts.map(({ remaining }) => LIMIT - remaining);
    } finally {
      await limiter.close();
    }
  } catch (error) {
    return isKeystileError(error) ? `${error.code}: ${error.message}` : String(error);
  }
}

function damageOf(path: string): string | undefined {
  const handle = new Database(path, { readonly: true });
  try {
    const found = handle.pragma("integrity_check", { simple: true });
    return found === "ok" ? undefined : String(found);
  } finally {
    handle.close();
  }
}
