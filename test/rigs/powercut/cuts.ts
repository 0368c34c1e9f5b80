/**
 * The rig of the power cut: a recorded run is cut at random points, what the disk may hold is opened, and
 * acknowledgements are counted.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import Database from "better-sqlite3";
import { isKeystileError } from "../../../src/contracts/errors.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { dice } from "../../model/dice.js";
import { type Acks, countAcks, countKeys, CREDITS, damagesOf, IN_FLIGHT, KEYS, noAcks, prepare } from "../kill.js";
import { buildWorker, rigFolder } from "../workers.js";
import type { DeductOrders } from "../workers/deduct.js";
import type { IoOrders } from "../workers/io-faults.js";
import { createDisk } from "./disk.js";
import { buildRecorder, readRecord, runRecorded } from "./record.js";

export interface CutReport {
  readonly cuts: number;
  /** Cuts after which acknowledged deductions were missing. */
  readonly lost: number;
  /** Cuts after which the file could not be opened, or SQLite found it damaged. */
  readonly corrupt: number;
  /** The most deductions without an answer that a cut left. */
  readonly unanswered: number;
  readonly acknowledged: number;
  /** Syncs in the record, by file. */
  readonly syncs: Readonly<Record<string, number>>;
  readonly examples: readonly string[];
  readonly seconds: number;
}

export interface CutOptions {
  readonly seed?: number;
  /** Acknowledgements until the recorded run ends. */
  readonly stopAfter?: number;
  readonly durability?: DeductOrders["durability"];
  readonly fault?: DeductOrders["fault"];
  /** Pages of the log at which it is carried over. Default: as the store sets it. */
  readonly checkpointPages?: number;
}

export async function runCuts(cuts: number, options: CutOptions = {}): Promise<CutReport> {
  const { seed = 1, stopAfter = 20_000, durability = "power", fault, checkpointPages } = options;
  const folder = rigFolder();
  const worker = await buildWorker("deduct");
  const begun = performance.now();
  try {
    const watched = join(folder, "watched");
    mkdirSync(watched);
    const file = join(watched, "keys.db");
    const { apiId, made } = await prepare(file);
    const before = new Map([[file, readFileSync(file)]]);
    const log = join(folder, "record");
    const orders: DeductOrders = {
      file,
      apiId,
      keys: made.map(({ key }) => key),
      acks: join(watched, "acks"),
      inFlight: IN_FLIGHT,
      credits: { mode: "exact" },
      durability,
      stopAfter,
      ...(fault && { fault }),
      ...(checkpointPages && { checkpointPages }),
    };
    const env = { LD_PRELOAD: buildRecorder(folder), TEST_RECORD: log, TEST_RECORD_FOLDER: `${watched}/` };
    const { code } = await runRecorded(worker, orders, env);
    if (code !== 0) throw new Error(`the recorded worker ended with ${String(code)}`);
    const ids = made.map(({ keyId }) => keyId);
    return { cuts, ...replay(log, before, file, ids, cuts, seed), seconds: (performance.now() - begun) / 1_000 };
  } finally {
    rmSync(folder, { recursive: true, force: true });
    rmSync(worker, { force: true });
  }
}

function replay(
  log: string,
  before: ReadonlyMap<string, Buffer>,
  file: string,
  ids: readonly string[],
  cuts: number,
  seed: number,
  from = 0,
) {
  const events = readRecord(log);
  const rolled = dice(seed);
  const points = Array.from({ length: cuts }, () => from + rolled.below(events.length + 1 - from)).sort(
    (a, b) => a - b,
  );
  const disk = createDisk(before);
  const acks = noAcks();
  const totals = { lost: 0, corrupt: 0, unanswered: 0 };
  const syncs: Record<string, number> = {};
  const examples: string[] = [];
  const images = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "keystile-cuts-"));
  try {
    let at = 0;
    for (const point of points) {
      for (; at < point; at++) {
        const event = events[at]!;
        // The list of acknowledgements stands for the answers themselves: those were given.
        if (event.file.endsWith("/acks")) {
          if (event.kind === "write") countAcks(event.data, acks);
          continue;
        }
        if (event.kind === "sync") syncs[basename(event.file)] = (syncs[basename(event.file)] ?? 0) + 1;
        disk.apply(event);
      }
      const left = disk.cut(rolled);
      for (const [name, bytes] of left) writeFileSync(join(images, basename(name)), bytes);
      const verdict = examine(join(images, basename(file)), ids, acks);
      if (typeof verdict === "string") {
        totals.corrupt++;
        if (examples.length < 5) examples.push(`cut at ${point}: ${verdict}`);
      } else {
        if (verdict.lost > 0) totals.lost++;
        if (verdict.lost > 0 && examples.length < 5)
          examples.push(`cut at ${point}: ${verdict.lost} acknowledged deductions are missing`);
        totals.unanswered = Math.max(totals.unanswered, verdict.unanswered);
      }
      for (const suffix of ["", "-wal", "-shm"]) rmSync(join(images, basename(file) + suffix), { force: true });
    }
  } finally {
    rmSync(images, { recursive: true, force: true });
  }
  return {
    ...totals,
    acknowledged: acks.deductions.reduce((sum, count) => sum + count, acks.created),
    syncs,
    examples,
  };
}

export interface LostSyncReport {
  readonly runs: number;
  readonly cuts: number;
  /** Cuts after which deductions were missing that the second process had acknowledged, or the first. */
  readonly lost: number;
  readonly corrupt: number;
  readonly examples: readonly string[];
  readonly seconds: number;
}

/**
 * The rig of the lost sync: one fsync of a process fails, the process is killed, another one opens the file and goes
 * on, and the power is cut at random points from then on.
 * @param runs each with another fsync that fails
 */
export async function runLostSyncs(
  runs: number,
  cutsPerRun: number,
  options: { readonly seed?: number; readonly fault?: DeductOrders["fault"]; readonly stopAfter?: number } = {},
): Promise<LostSyncReport> {
  const { seed = 1, fault, stopAfter = 640 } = options;
  const folder = rigFolder();
  const [first, second] = [await buildWorker("io-faults"), await buildWorker("deduct")];
  const library = buildRecorder(folder);
  const begun = performance.now();
  const totals = { lost: 0, corrupt: 0 };
  const examples: string[] = [];
  try {
    for (let run = 0; run < runs; run++) {
      const watched = join(mkdtempSync(join(folder, "run-")), "watched");
      mkdirSync(watched);
      const file = join(watched, "keys.db");
      const { apiId, made } = await prepare(file);
      const before = new Map([[file, readFileSync(file)]]);
      const log = join(folder, "record");
      const common = { file, keys: made.map(({ key }) => key), acks: join(watched, "acks"), inFlight: IN_FLIGHT };
      const env = { LD_PRELOAD: library, TEST_RECORD: log, TEST_RECORD_FOLDER: `${watched}/` };
      const failing = { TEST_FAIL_AT: String(2 + run * 3), TEST_FAIL_KIND: "sync" };
      const dying: IoOrders = { ...common, stopAfter: 100_000, diesOfFailure: true };
      await runRecorded(first, dying, { ...env, ...failing });
      const from = readRecord(log).length;
      const going: DeductOrders = {
        ...common,
        apiId,
        credits: { mode: "exact" },
        durability: "power",
        stopAfter,
        ...(fault && { fault }),
      };
      const { code } = await runRecorded(second, going, env);
      if (code !== 0) throw new Error(`the second worker ended with ${String(code)}`);
      const ids = made.map(({ keyId }) => keyId);
      const report = replay(log, before, file, ids, cutsPerRun, seed + run, from);
      totals.lost += report.lost;
      totals.corrupt += report.corrupt;
      examples.push(...report.examples.map((example) => `run ${run}: ${example}`));
      rmSync(log);
    }
    const seconds = (performance.now() - begun) / 1_000;
    return { runs, cuts: runs * cutsPerRun, ...totals, examples: examples.slice(0, 5), seconds };
  } finally {
    rmSync(folder, { recursive: true, force: true });
    for (const worker of [first, second]) rmSync(worker, { force: true });
  }
}

/** What is wrong with the file, or how its balances compare with what was acknowledged. */
export function examine(
  file: string,
  ids: readonly string[],
  acks: Acks,
): string | { lost: number; unanswered: number } {
  let handle: Database.Database | undefined;
  try {
    handle = new Database(file);
    const store = sqliteStore(handle, { durability: "process" });
    const [damage] = damagesOf(handle);
    if (damage !== undefined) return damage;
    const made = countKeys(handle) - KEYS - acks.created;
    if (made > 1) return `${made} more keys than were acknowledged`;
    let [lost, unanswered] = [Math.max(0, -made), 0];
    ids.forEach((id, i) => {
      const read = store.readBalances([{ keyId: id, period: 0 }], 0);
      const balance = read instanceof Promise ? undefined : read[0]?.remaining;
      if (typeof balance !== "number") throw new TypeError("a key has lost its balance");
      const more = CREDITS - balance - acks.deductions[i]!;
      if (more < 0) lost -= more;
      else unanswered += more;
    });
    return { lost, unanswered };
  } catch (error) {
    return isKeystileError(error) ? `${error.code}: ${error.message}` : String(error);
  } finally {
    handle?.close();
  }
}
