/**
 * Counts verifications, and writes the counts to the store every few seconds: in the background, never by a call.
 *
 * Each piece that is written has a number of this process, which the store takes once. A piece whose fate is unknown is
 * sent again as it was, so that none counts twice; a crash loses what was counted since the last piece.
 */
import { LEVELS, type OutcomeCell, type OutcomeFlush, type OutcomeLevel, OUTCOMES } from "../contracts/outcomes.js";
import { isKeystileError } from "../contracts/errors.js";
import type { Store } from "../contracts/store.js";
import type { VerificationCode } from "../contracts/types.js";
import { fireAndForget } from "../lib/callbacks.js";
import { callable, type Check, checkOptions, flag, integer } from "../lib/check-options.js";
import { newSecret } from "../lib/hash.js";
import { startTimer } from "../lib/start-timer.js";
import { redact } from "./outcome-events.js";
import { type Counted, OutcomeMeter } from "./outcome-meter.js";

/** How verifications are counted. */
export interface AnalyticsOptions {
  /** Milliseconds between two writes, 250…60_000, default 5_000: what a crash loses at most. */
  readonly interval?: number | undefined;
  /**
   * Counts that are kept in memory until they are written, 100…1_000_000, default 100_000, some 110 bytes each, and as
   * many that are being written: one for each key and set of tags in a minute. Further calls are counted without their
   * key and tags, as `(other)`, and in `outcomesFolded`.
   */
  readonly cells?: number | undefined;
  /** Whether tags are counted, default true. */
  readonly tags?: boolean | undefined;
  /**
   * Sets of tags of a workspace, 1…100_000, default 10_000: further ones are counted as `["(other)"]`. Paths and ids
   * make poor tags.
   */
  readonly tagSets?: number | undefined;
  /** How many days counts are kept. */
  readonly keep?: KeptDays | undefined;
  /**
   * Called with each piece after it was written, in order: to send counts elsewhere. What it throws or rejects with is
   * dropped. A piece is in the store once, and is given to this once unless the process ends in between.
   */
  readonly onFlush?: ((flush: OutcomeFlush) => unknown) | undefined;
}
/** Days for which counts of each length are kept. */
export interface KeptDays {
  /** 1…31, default 1. PostgreSQL keeps none by the minute. */
  readonly minute?: number | undefined;
  /** 1…400, default 14. */
  readonly hour?: number | undefined;
  /** 31…4_000, default 400. */
  readonly day?: number | undefined;
}

const KEPT_DAYS = { minute: integer(1, 31), hour: integer(1, 400), day: integer(31, 4_000) } as const satisfies Record<
  keyof KeptDays,
  Check
>;
const OPTIONS = {
  interval: integer(250, 60_000),
  cells: integer(100, 1_000_000),
  tags: flag,
  tagSets: integer(1, 100_000),
  keep: (value: unknown, path: string) => void checkOptions(value, KEPT_DAYS, path),
  onFlush: callable,
} as const satisfies Record<keyof AnalyticsOptions, Check>;

/** Options of counting, or whether it is done at all. */
export const analyticsOption: Check = (value, path) => {
  if (typeof value !== "boolean") checkOptions(value, OPTIONS, path);
};

/** Cells a piece: about a millisecond of SQLite, for which spends wait. */
const PIECE = 50;
const DEFAULT_CELLS = 100_000;
/** The longest pause before a piece is sent again, milliseconds. */
const MAX_PAUSE = 60_000;
/** Milliseconds that `close` waits for the store to take the last pieces. */
const CLOSE_TIMEOUT = 5_000;
/** Milliseconds between two removals of old counts, and how many go at once. */
const PRUNE_EVERY = 600_000;
const PRUNED = 1_000;

/** What is shown among the counters of a verifier. */
interface Counters {
  readonly outcomesFolded: number;
  readonly outcomesUncounted: number;
  readonly verifications: Readonly<Record<VerificationCode, number>>;
  readonly creditsSpent: number;
}

/** Counts verifications. */
export interface OutcomeCounter {
  /** A verification whose key was found. @param key its text, which tags must not show */
  count(of: Counted, code: VerificationCode, spent: number, now: number, tags: readonly string[], key: string): void;
  /** One whose key was not. */
  countUnknown(workspaceId: string, now: number, tags: readonly string[], key: string): void;
  counters(): Counters;
  /** Writes what waits. Never rejects. */
  close(): Promise<void>;
}

const NO_TAGS: readonly string[] = Object.freeze([]);

/** @param options validated by the caller */
export function createOutcomeCounter(store: Store, options: AnalyticsOptions): OutcomeCounter {
  const { interval = 5_000, cells = DEFAULT_CELLS, tags: keepsTags = true, tagSets = 10_000, keep, onFlush } = options;
  const bounds = { cells, tagSets };
  const early = Math.floor(cells * 0.75);
  /** Of keys that were not found, by workspace. */
  let unknown = new Map<string, Counted>();
  let meter = new OutcomeMeter(bounds);
  /** Of all tables that were put aside: by outcome, and credits. */
  const totals = OUTCOMES.map(() => 0).concat(0);
  let folded = 0;
  let lost = 0;
  let flushing: Promise<void> | undefined;
  let isScheduled = false;
  let closesAt = Infinity;
  /** Ends the pause before a repeat. */
  let wake: (() => void) | undefined;
  let source = "";
  let seq = 0;
  let pruneAt = 0;
  /** Of the last call: whoever counts in the background must not depend on a clock that fails. */
  const latest = new Float64Array(1);

  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      wake = resolve;
      startTimer(resolve, ms);
    });
  /** @returns whether it is in the store */
  const write = async (piece: readonly OutcomeCell[]): Promise<boolean> => {
    if (source === "") source = newSecret().slice(0, 32);
    let flush: OutcomeFlush = { source, seq: seq + 1, at: latest[0] as number, maxTagSets: tagSets, cells: piece };
    for (let wait = Math.min(1_000, interval); ; wait = Math.min(wait * 2, MAX_PAUSE)) {
      try {
        if ((await store.countOutcomes(flush)) !== "gap") {
          seq = flush.seq;
          if (onFlush !== undefined) fireAndForget(() => onFlush(flush));
          return true;
        }
        // The store no longer knows this process, and so has not counted the piece.
        source = newSecret().slice(0, 32);
        flush = { ...flush, source, seq: 1 };
      } catch (error) {
        if (isKeystileError(error) && error.code === "STORE_CLOSED") return false;
        const left = closesAt - performance.now();
        if (left <= 0) return false;
        await pause(Math.min(wait, left));
      }
    }
  };
  const prune = async (): Promise<void> => {
    const now = latest[0] as number;
    if (now < pruneAt) return;
    pruneAt = now + PRUNE_EVERY;
    const days = { minute: 1, hour: 14, day: 400, ...keep };
    for (const level of Object.keys(LEVELS) as OutcomeLevel[]) {
      const before = now - (days[level] as number) * LEVELS.day;
      while (closesAt === Infinity && (await store.pruneOutcomes(level, before, PRUNED)) === PRUNED) await pause(10);
    }
  };
  const flush = async (): Promise<void> => {
    const full = meter;
    meter = new OutcomeMeter(bounds);
    unknown = new Map();
    folded += full.folded;
    full.sums().forEach((sum, i) => void (totals[i] = (totals[i] as number) + sum));
    let isWritten = true;
    for (const piece of piecesOf(full.cells())) {
      isWritten = isWritten && (await write(piece));
      if (!isWritten) lost += callsIn(piece);
    }
    try {
      if (isWritten) await prune();
    } catch {
      // Ten minutes later it is tried again.
    }
  };
  const flushNow = (): Promise<void> =>
    (flushing ??= flush().finally(() => {
      flushing = undefined;
      if (meter.size > 0) schedule();
    }));
  const schedule = (): void => {
    if (isScheduled || closesAt !== Infinity) return;
    isScheduled = true;
    startTimer(() => {
      isScheduled = false;
      void flushNow();
    }, interval);
  };
  const count: OutcomeCounter["count"] = (of, code, spent, now, tags, key) => {
    latest[0] = now;
    meter.count(of, code, spent, now, keepsTags && tags.length > 0 ? redact(tags, key) : NO_TAGS);
    if (!isScheduled && flushing === undefined) schedule();
    if (meter.size >= early && flushing === undefined) void flushNow();
  };
  return {
    count,
    countUnknown(workspaceId, now, tags, key) {
      let of = unknown.get(workspaceId);
      if (of === undefined) {
        of = { cell: -1, workspaceId, apiId: "", keyId: "" };
        // Its rows are bounded, and so this is.
        if (unknown.size < cells) unknown.set(workspaceId, of);
      }
      count(of, "NOT_FOUND", 0, now, tags, key);
    },
    counters: () => ({
      outcomesFolded: folded + meter.folded,
      outcomesUncounted: lost,
      ...named(meter.sums().map((sum, i) => sum + (totals[i] as number))),
    }),
    async close() {
      closesAt = performance.now() + CLOSE_TIMEOUT;
      wake?.();
      await flushing;
      await flush();
    },
  };
}

function* piecesOf(cells: Iterable<OutcomeCell>): Generator<readonly OutcomeCell[]> {
  let piece: OutcomeCell[] = [];
  for (const cell of cells) {
    piece.push(cell);
    if (piece.length < PIECE) continue;
    yield piece;
    piece = [];
  }
  if (piece.length > 0) yield piece;
}

function named(sums: readonly number[]): Pick<Counters, "verifications" | "creditsSpent"> {
  const verifications = Object.fromEntries(OUTCOMES.map((code, i) => [code, sums[i] as number]));
  return { verifications: verifications as Counters["verifications"], creditsSpent: sums[OUTCOMES.length] as number };
}

function callsIn(cells: readonly OutcomeCell[]): number {
  return cells.reduce((sum, { counts }) => sum + counts.reduce((all, count) => all + count, 0), 0);
}
