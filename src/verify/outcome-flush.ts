/**
 * Counts verifications, and writes the counts to the store every few seconds: in the background, never by a call.
 *
 * Each piece that is written has a number of this process, which the store takes once. A piece whose fate is unknown is
 * sent again as it was, so that none counts twice; a crash loses what was counted since the last piece.
 */
import {
  type FlushResult,
  LEVELS,
  type OutcomeCell,
  type OutcomeFlush,
  type OutcomeLevel,
  OUTCOMES,
} from "../contracts/outcomes.js";
import { isKeystileError } from "../contracts/errors.js";
import type { Store } from "../contracts/store.js";
import type { VerificationCode } from "../contracts/types.js";
import { fireAndForget } from "../lib/callbacks.js";
import { callable, type Check, checkOptions, flag, integer } from "../lib/check-options.js";
import { newSecret } from "../lib/hash.js";
import { startTimer } from "../lib/start-timer.js";
import { redact } from "./outcome-events.js";
import { type Counted, OutcomeMeter, textOf } from "./outcome-meter.js";

/** How verifications are counted. */
export interface AnalyticsOptions {
  /** Milliseconds between two writes, 250…60_000, default 5_000: what a crash loses at most. */
  readonly interval?: number | undefined;
  /**
   * Bytes that counts of a process may take in memory until they are written, 256 KiB…1 GiB, default 96 MiB: verifiers
   * that count in one store divide it equally, until they are closed. A count of a key and a set of tags in a minute is
   * booked at 256 bytes, a set of tags at 128 and 2 for each character. A third is for the counts of the interval, a
   * third for those that are being written, and a third for sets of workspaces that have as many as they may. A
   * workspace may take all of it if it is alone; once it is used up, at least half of an equal part. Further calls are
   * counted without their key and tags, as `(other)`, and in `outcomesFolded`.
   */
  readonly memory?: number | undefined;
  /** Whether tags are counted, default true. */
  readonly tags?: boolean | undefined;
  /**
   * Sets of tags that a workspace may have in the store at once, 1…100_000, default 10_000: further ones are counted as
   * `["(other)"]`, and in `outcomesFolded`, until the last count of another set is removed. Paths and ids make poor
   * tags.
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
  memory: integer(2 ** 18, 2 ** 30),
  tags: flag,
  tagSets: integer(1, 100_000),
  keep: (value: unknown, path: string) => void checkOptions(value, KEPT_DAYS, path),
  onFlush: callable,
} as const satisfies Record<keyof AnalyticsOptions, Check>;

/** Options of counting, or whether it is done at all. */
export const analyticsOption: Check = (value, path) => {
  if (typeof value !== "boolean") checkOptions(value, OPTIONS, path);
};

/** Cells of a piece at most, and characters of their tags, unless it is one cell. */
const PIECE = 50;
const PIECE_CHARACTERS = 65_536;
/** Milliseconds that a piece may take of a thread: after one that took longer, half as many cells are passed. */
const MAX_BUSY = 4;
const DEFAULT_MEMORY = 96 * 2 ** 20;
/** Sets of tags that the store is asked for in an interval, of a workspace whose last ones it refused. */
const ASKED = 64;
/** The longest pause before a piece is sent again, milliseconds. */
const MAX_PAUSE = 60_000;
/** Milliseconds that `close` waits for the store to take the last pieces. */
const CLOSE_TIMEOUT = 5_000;
/** Milliseconds between two removals of old counts, and how many go at once. */
const PRUNE_EVERY = 600_000;
const PRUNED = 1_000;

/** Workspaces whose calls with unknown keys have a row of their own, as far as there is space for one. */
const MAX_UNKNOWN = 10_000;

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

/** How many counters of a store are open in this process: they divide the memory. */
const counters = new WeakMap<Store, { open: number }>();

/**
 * @param options validated by the caller
 * @param of the store as the program knows it, where `store` is a guard of it
 */
export function createOutcomeCounter(store: Store, options: AnalyticsOptions, of: Store = store): OutcomeCounter {
  const { interval = 5_000, memory = DEFAULT_MEMORY, tags: keepsTags = true, tagSets = 10_000 } = options;
  const { keep, onFlush } = options;
  /** Workspaces of which the store took no more sets: those that it has, and how many more it is asked for. */
  let full = new Map<string, { readonly sets: ReadonlySet<string>; left: number }>();
  const admits = (workspaceId: string, set: string): boolean => {
    const known = full.get(workspaceId);
    return known === undefined || known.sets.has(set) || known.left-- > 0;
  };
  const sharers = counters.get(of) ?? { open: 0 };
  counters.set(of, sharers);
  sharers.open++;
  const bounds = {
    get bytes() {
      return Math.floor(memory / 3 / sharers.open);
    },
    tagSets,
    admits,
  };
  /** Of keys that were not found, by workspace. */
  let unknown = new Map<string, Counted>();
  let meter = new OutcomeMeter(bounds);
  /** Of all tables that were put aside: by outcome, and credits. */
  const totals = OUTCOMES.map(() => 0).concat(0);
  let aggregated = 0;
  let lost = 0;
  let flushing: Promise<void> | undefined;
  let isScheduled = false;
  let closesAt = Infinity;
  /** Ends the pause before a repeat. */
  let wake: (() => void) | undefined;
  let source = "";
  let seq = 0;
  let pruneAt = 0;
  /** Cells of the next piece at most. */
  let most = PIECE;
  /** Of the last call: whoever counts in the background must not depend on a clock that fails. */
  const latest = new Float64Array(1);

  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      wake = resolve;
      startTimer(resolve, ms);
    });
  /** @returns undefined: it is not in the store */
  const write = async (piece: readonly OutcomeCell[]): Promise<FlushResult | undefined> => {
    if (source === "") source = newSecret().slice(0, 32);
    let flush: OutcomeFlush = { source, seq: seq + 1, at: latest[0] as number, maxTagSets: tagSets, cells: piece };
    for (let wait = Math.min(1_000, interval); ; wait = Math.min(wait * 2, MAX_PAUSE)) {
      try {
        const result = await store.countOutcomes(flush);
        if (result.outcome !== "gap") {
          seq = flush.seq;
          if (onFlush !== undefined) fireAndForget(() => onFlush(flush));
          return result;
        }
        // The store no longer knows this process, and so has not counted the piece.
        source = newSecret().slice(0, 32);
        flush = { ...flush, source, seq: 1 };
      } catch (error) {
        if (isKeystileError(error) && error.code === "STORE_CLOSED") return undefined;
        const left = closesAt - performance.now();
        if (left <= 0) return undefined;
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
    const written = meter;
    meter = new OutcomeMeter(bounds);
    unknown = new Map();
    aggregated += written.aggregated;
    written.sums().forEach((sum, i) => void (totals[i] = (totals[i] as number) + sum));
    const refused = new Map<string, Set<string>>();
    let isWritten = true;
    for (const piece of piecesOf(written.cells(), () => most)) {
      const result: FlushResult | undefined = isWritten ? await write(piece) : undefined;
      isWritten = result !== undefined;
      if (result === undefined) lost += callsIn(piece);
      else note(piece, result, refused);
    }
    const known = ([workspaceId, sets]: readonly [string, ReadonlySet<string>]) =>
      [
        workspaceId,
        { sets: new Set(written.setsOf(workspaceId).filter((set) => !sets.has(set))), left: ASKED },
      ] as const;
    full = new Map([...refused].map(known));
    try {
      if (isWritten) await prune();
    } catch {
      // Ten minutes later it is tried again.
    }
  };
  /** Counts what the store counted as others, and passes more or fewer cells the next time. */
  const note = (piece: readonly OutcomeCell[], result: FlushResult, refused: Map<string, Set<string>>): void => {
    most = (result.busy ?? 0) > MAX_BUSY ? Math.max(1, Math.floor(piece.length / 2)) : Math.min(PIECE, most * 2);
    const others = result.folded.flatMap((place) => piece[place] ?? []);
    aggregated += callsIn(others);
    for (const { workspaceId, tags } of others) {
      const sets = refused.get(workspaceId) ?? new Set();
      refused.set(workspaceId, sets.add(textOf(tags)));
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
    if (meter.bytes >= bounds.bytes * 0.75 && flushing === undefined) void flushNow();
  };
  return {
    count,
    countUnknown(workspaceId, now, tags, key) {
      let of = unknown.get(workspaceId);
      if (of === undefined) {
        of = { cell: -1, workspaceId, apiId: "", keyId: "" };
        if (unknown.size < MAX_UNKNOWN) unknown.set(workspaceId, of);
      }
      count(of, "NOT_FOUND", 0, now, tags, key);
    },
    counters: () => ({
      outcomesFolded: aggregated + meter.aggregated,
      outcomesUncounted: lost,
      ...named(meter.sums().map((sum, i) => sum + (totals[i] as number))),
    }),
    async close() {
      closesAt = performance.now() + CLOSE_TIMEOUT;
      wake?.();
      await flushing;
      await flush();
      sharers.open--;
    },
  };
}

/** @param most cells of the next piece */
function* piecesOf(cells: Iterable<OutcomeCell>, most: () => number): Generator<readonly OutcomeCell[]> {
  let piece: OutcomeCell[] = [];
  let characters = 0;
  for (const cell of cells) {
    const more = cell.tags.reduce((sum, { length }) => sum + length, 0);
    if (piece.length >= most() || (piece.length > 0 && characters + more > PIECE_CHARACTERS)) {
      yield piece;
      piece = [];
      characters = 0;
    }
    piece.push(cell);
    characters += more;
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
