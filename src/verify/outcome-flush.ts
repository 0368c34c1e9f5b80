/**
 * Counts verifications. Writes the counts to the store every few seconds, in the background, never during a call.
 *
 * Counts are written in pieces. Each piece has a sequence number of this process, and the store accepts each number
 * once. If it is unknown whether a piece was written, the same piece is sent again, so that none counts twice. A crash
 * loses the counts since the last piece.
 */
import {
  type FlushResult,
  LEVELS,
  OTHER,
  type OutcomeCell,
  type OutcomeFlush,
  type OutcomeLevel,
  OUTCOMES,
  type Refusal,
  type RefusalsQuery,
} from "../contracts/outcomes.js";
import { isKeystileError } from "../contracts/errors.js";
import type { Store } from "../contracts/store.js";
import type { VerificationCode } from "../contracts/types.js";
import { fireAndForget } from "../lib/callbacks.js";
import { callable, type Check, checkOptions, flag, integer } from "../lib/check-options.js";
import { newSecret } from "../lib/hash.js";
import { startTimer, setTimeout } from "../lib/timers.js";
import { redact } from "./outcome-events.js";
import { type Counted, OutcomeMeter, textOf } from "./outcome-meter.js";
import { createRefusalLog, type RefusalLog } from "./refusals.js";
import type { VerificationRequest } from "./request.js";

/** How verifications are counted. */
export interface AnalyticsOptions {
  /** Milliseconds between two writes, 250…60_000, default 5_000: what a crash loses at most. */
  readonly interval?: number | undefined;
  /**
   * Bytes that counts may take in this process until they are written, 256 KiB…1 GiB, default 96 MiB. Open verifiers of
   * one store divide it equally. A row, of one key with one set of tags in one minute, is booked at 256 bytes; a set of
   * tags at 128, and 2 for each character. A third of the memory is for counts of the current interval, a third for
   * counts being written, a third for the sets of workspaces that have reached `tagSets`. A workspace that is alone may
   * use all of a third. Once a third is used up, each workspace keeps at least half of an equal part. Further calls are
   * counted as `(other)`, without their key and tags, and in `outcomesFolded`.
   */
  readonly memory?: number | undefined;
  /** Whether tags are counted, default true. */
  readonly tags?: boolean | undefined;
  /**
   * Sets of tags that a workspace may have in the store at once, 1…100_000, default 10_000. Further sets are counted as
   * `["(other)"]`, and in `outcomesFolded`, until the last count of another set is removed. Paths and ids make poor
   * tags.
   */
  readonly tagSets?: number | undefined;
  /**
   * Whether the last 10 refusals of each key are kept with what decided: the query, the limit, or the client's address.
   * Each process writes those of at most 200 keys an interval, a store keeps those of 10,000 keys, and each workspace
   * has an equal part of both. Each lasts as long as counts of hours, or until its key is deleted for good. Default
   * true, where the store has the power.
   */
  readonly refusals?: boolean | undefined;
  /** How many days counts are kept. */
  readonly keep?: KeptDays | undefined;
  /**
   * Called with each piece after it was written, in order, to send counts elsewhere. Its errors are ignored. It gets
   * each piece once, or never if the process ends between the write and the call.
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
  refusals: flag,
  tagSets: integer(1, 100_000),
  keep: (value: unknown, path: string) => void checkOptions(value, KEPT_DAYS, path),
  onFlush: callable,
} as const satisfies Record<keyof AnalyticsOptions, Check>;

/** The check of `analytics`: a boolean, or {@link AnalyticsOptions}. */
export const analyticsOption: Check = (value, path) => {
  if (typeof value !== "boolean") checkOptions(value, OPTIONS, path);
};

/** Most cells of a piece, and most characters of their tags; a piece of one cell may exceed the latter. */
const PIECE = 50;
const PIECE_CHARACTERS = 65_536;
/** What a refusal counts as among them. */
const REFUSAL_CHARACTERS = 512;
/** Milliseconds for which a piece may keep a thread busy: if it took longer, the next piece has half as many cells. */
const MAX_BUSY = 4;
const DEFAULT_MEMORY = 96 * 2 ** 20;
/** New sets of tags tried per interval for a workspace whose sets the store refused in the last one. */
const ASKED = 64;
/** The longest pause before a piece is sent again, milliseconds. */
const MAX_PAUSE = 60_000;
/** Milliseconds that `close` waits for the store to take the last pieces. */
const CLOSE_TIMEOUT = 5_000;
/** Milliseconds between two removals of old counts, and most counts removed by one call. */
const PRUNE_EVERY = 600_000;
const PRUNED = 1_000;

/** Most workspaces that have a row of their own for calls with unknown keys; all others share one, as `(other)`. */
const MAX_UNKNOWN = 10_000;

/** The part of `VerifierCounters` that is counted here. */
interface Counters {
  readonly outcomesFolded: number;
  readonly outcomesUncounted: number;
  readonly verifications: Readonly<Record<VerificationCode, number>>;
  readonly creditsSpent: number;
}

/** The call that is counted: its time, and its tags, in which the text of its key is not counted. */
type CountedCall = Pick<VerificationRequest, "tags" | "key"> & { readonly now: number };

/** Whose reservation or spend it was. */
export type SettledOf = Omit<Counted, "cell">;

/** Most whose rows are remembered: beyond it they have new ones. */
const MAX_SETTLED = 10_000;

const NO_TAGS: readonly string[] = Object.freeze([]);

/** What the pieces of this process are known by. */
const newSource = (): string => newSecret().slice(0, 32);

/** Number of open counters per store in this process: they divide the memory. */
const counters = new WeakMap<Store, { open: number }>();

/**
 * @param options validated by the caller
 * @param of the program's own store object, if `store` is a guard around it
 */
export function createOutcomeCounter(store: Store, options: AnalyticsOptions, of: Store = store) {
  const { interval = 5_000, memory = DEFAULT_MEMORY, tags: keepsTags = true, tagSets = 10_000 } = options;
  const { keep, onFlush, refusals: keepsRefusals = true } = options;
  /** Workspaces whose new sets the store refused: the sets that it has, and how many more to try. */
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
  /** Where calls with unknown keys are counted, by workspace. */
  let unknown = new Map<string, Counted>();
  /** Of reservations, by their key, owner and account. */
  let settled = new Map<string, Counted>();
  let meter = new OutcomeMeter(bounds);
  let refusals = createRefusalLog();
  /** Sums of all earlier tables: calls by outcome, then credits. */
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
  /** Most cells of the next piece. */
  let most = PIECE;
  /** Time of the last call: background work must not call a clock that may fail. */
  const latest = new Float64Array(1);

  /** Keeps the process alive for who waits for `close`. */
  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      wake = resolve;
      if (closesAt === Infinity) startTimer(resolve, ms);
      else setTimeout(resolve, ms);
    });
  /** @returns undefined: the piece was given up and is not in the store */
  const write = async (piece: readonly OutcomeCell[]): Promise<FlushResult | undefined> => {
    source ||= newSource();
    let flush: OutcomeFlush = { source, seq: seq + 1, at: latest[0] as number, maxTagSets: tagSets, cells: piece };
    for (let wait = Math.min(1_000, interval); ; wait = Math.min(wait * 2, MAX_PAUSE)) {
      try {
        const result = await store.countOutcomes(flush);
        if (result.outcome !== "gap") {
          seq = flush.seq;
          if (onFlush !== undefined) fireAndForget(() => onFlush(flush));
          return result;
        }
        // The store has forgotten this source, so it did not count the piece.
        source = newSource();
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
    // A process that has counted nothing removes nothing.
    if (now < pruneAt || source === "") return;
    pruneAt = now + PRUNE_EVERY;
    const days = { minute: 1, hour: 14, day: 400, ...keep };
    for (const level of Object.keys(LEVELS) as OutcomeLevel[]) {
      const before = now - (days[level] as number) * LEVELS.day;
      // Once at least: processes that close after each job would leave everything to others.
      while ((await store.pruneOutcomes(level, before, PRUNED)) === PRUNED && closesAt === Infinity) await pause(10);
    }
  };
  const flush = async (): Promise<void> => {
    const [written, log] = [meter, refusals];
    refusals = createRefusalLog();
    meter = new OutcomeMeter(bounds);
    unknown = new Map();
    settled = new Map();
    aggregated += written.aggregated;
    written.sums().forEach((sum, i) => void (totals[i] = (totals[i] as number) + sum));
    const refused = new Map<string, Set<string>>();
    let isWritten = true;
    for (const piece of piecesOf(withRefusals(written.cells(), log), () => most)) {
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
      // It is tried again ten minutes later.
    }
  };
  /** Counts calls that the store counted as `(other)`, and adapts the size of the next piece. */
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
  const count = (of: Counted, code: VerificationCode | undefined, spent: number, call: CountedCall): void => {
    const { now, tags, key } = call;
    latest[0] = now;
    meter.count(of, code, spent, now, keepsTags && tags.length > 0 ? redact(tags, key) : NO_TAGS);
    if (!isScheduled && flushing === undefined) schedule();
    if (meter.bytes >= bounds.bytes * 0.75 && flushing === undefined) void flushNow();
  };
  return {
    /** Counts a verification whose key was found. */
    count,
    /** Keeps a refusal that was counted, with what decided; undefined: none is kept. */
    noteRefusal:
      keepsRefusals && store.powers.refusals === true
        ? (of: RefusalsQuery, { tags, ...rest }: Refusal): void =>
            refusals.note(of, keepsTags && tags !== undefined ? { ...rest, tags } : rest)
        : undefined,
    /** Counts a verification whose key was not found. */
    countUnknown(workspaceId: string, call: CountedCall): void {
      const whose = unknown.has(workspaceId) || unknown.size < MAX_UNKNOWN ? workspaceId : OTHER;
      const of = unknown.get(whose) ?? { cell: -1, workspaceId: whose, apiId: "", keyId: "" };
      unknown.set(whose, of);
      count(of, "NOT_FOUND", 0, call);
    },
    /**
     * Counts what is no verification of a key's text.
     * @param code `undefined`: credits that a settled reservation kept, whose call was counted before, with these tags
     */
    countSpent(of: SettledOf, code: VerificationCode | undefined, spent: number, call: CountedCall): void {
      const { workspaceId, apiId, keyId, identity, account, ownerAccount } = of;
      const id = JSON.stringify([workspaceId, keyId, identity?.externalId, account]);
      const known = settled.get(id) ?? { workspaceId, apiId, keyId, identity, account, ownerAccount, cell: -1 };
      if (settled.size < MAX_SETTLED) settled.set(id, known);
      count(known, code, spent, call);
    },
    counters: (): Counters => ({
      outcomesFolded: aggregated + meter.aggregated,
      outcomesUncounted: lost,
      ...named(meter.sums().map((sum, i) => sum + (totals[i] as number))),
    }),
    /** Writes what was counted so far, and sends a piece again at once that waits for it. Never rejects. */
    async flush(): Promise<void> {
      wake?.();
      await flushing;
      if (meter.size > 0) await flushNow();
    },
    /** Writes the remaining counts. Never rejects. */
    async close(): Promise<void> {
      closesAt = performance.now() + CLOSE_TIMEOUT;
      wake?.();
      await flushing;
      await flush();
      sharers.open--;
    },
  };
}

/** Counts verifications. */
export type OutcomeCounter = ReturnType<typeof createOutcomeCounter>;

/** The first cell of a key has its refusals. */
function* withRefusals(cells: Iterable<OutcomeCell>, log: RefusalLog): Generator<OutcomeCell> {
  for (const cell of cells) {
    const refusals = log.take(cell);
    yield refusals === undefined ? cell : { ...cell, refusals };
  }
}

/** @param most cells of the next piece */
function* piecesOf(cells: Iterable<OutcomeCell>, most: () => number): Generator<readonly OutcomeCell[]> {
  let piece: OutcomeCell[] = [];
  let characters = 0;
  for (const cell of cells) {
    const { tags, refusals = [] } = cell;
    const more = tags.reduce((sum, { length }) => sum + length, refusals.length * REFUSAL_CHARACTERS);
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
