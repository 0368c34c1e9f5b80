/** Counts verifications. Writes the counts every few seconds, in the background, never during a call. */
import {
  OTHER,
  type OutcomeCell,
  type OutcomeFlush,
  OUTCOMES,
  type Refusal,
  type RefusalsQuery,
} from "../contracts/outcomes.js";
import type { Store } from "../contracts/store.js";
import type { VerificationCode } from "../contracts/types.js";
import { callable, type Check, checkOptions, flag, integer } from "../lib/check-options.js";
import { startTimer } from "../lib/timers.js";
import { redact } from "./outcome-events.js";
import { type Counted, type CountedOutcome, type MeterBounds, OutcomeMeter } from "./outcome-meter.js";
import { OutcomeWriter } from "./outcome-writer.js";
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

const DEFAULT_MEMORY = 96 * 2 ** 20;
/** New sets of tags tried per interval for a workspace whose sets the store refused in the last one. */
const ASKED = 64;
/** Most workspaces that have a row of their own for calls with unknown keys; all others share one, as `(other)`. */
const MAX_UNKNOWN = 10_000;

/** The call that is counted: its time, and its tags, in which the text of its key is not counted. */
type CountedCall = Pick<VerificationRequest, "tags" | "key"> & { readonly now: number };

/** Whose reservation or spend it was. */
export type SettledOf = Omit<Counted, "cell">;

/** Most whose rows are remembered: beyond it they have new ones. */
const MAX_SETTLED = 10_000;

const NO_TAGS: readonly string[] = Object.freeze([]);

/** Number of open counters per store in this process: they divide the memory. */
const counters = new WeakMap<Store, { open: number }>();

/** What is counted in one interval. */
class Interval {
  readonly refusals = createRefusalLog();
  /** Where calls with unknown keys are counted, by workspace. */
  readonly unknown = new Map<string, Counted>();
  /** Of settled reservations and spends by id, by their key, owner and account. */
  readonly settled = new Map<string, Counted>();

  constructor(readonly meter: OutcomeMeter) {}
}

/** Counts verifications. */
export class OutcomeCounter {
  readonly #writer: OutcomeWriter;
  readonly #sharers: { open: number };
  readonly #bounds: MeterBounds;
  readonly #pace: number;
  readonly #keepsTags: boolean;
  /** Keeps a refusal that was counted, with what decided; `undefined`: none is kept. */
  readonly noteRefusal: ((of: RefusalsQuery, refusal: Refusal) => void) | undefined;
  #interval: Interval;
  /** Workspaces whose new sets the store refused: the sets that it has, and how many more to try. */
  #full = new Map<string, { readonly sets: ReadonlySet<string>; left: number }>();
  /** Sums of all earlier intervals: calls by outcome, then credits. */
  readonly #totals = OUTCOMES.map(() => 0).concat(0);
  /** Calls of earlier intervals that were counted without their key or tags. */
  #aggregated = 0;
  #flushing: Promise<void> | undefined;
  #isScheduled = false;

  /**
   * @param options validated by the caller
   * @param of the program's own store object, if `store` is a guard around it
   */
  constructor(store: Store, options: AnalyticsOptions, of: Store = store) {
    const { interval = 5_000, memory = DEFAULT_MEMORY, tags = true, tagSets = 10_000, refusals = true } = options;
    const sharers = counters.get(of) ?? { open: 0 };
    counters.set(of, sharers);
    sharers.open++;
    this.#sharers = sharers;
    this.#bounds = {
      get bytes() {
        return Math.floor(memory / 3 / sharers.open);
      },
      tagSets,
      admits: (workspaceId, set) => {
        const known = this.#full.get(workspaceId);
        return known === undefined || known.sets.has(set) || known.left-- > 0;
      },
    };
    this.#writer = new OutcomeWriter(store, { ...options, interval, tagSets });
    this.#pace = interval;
    this.#keepsTags = tags;
    this.noteRefusal = refusals && store.powers.refusals === true ? this.#noteRefusal.bind(this) : undefined;
    this.#interval = new Interval(new OutcomeMeter(this.#bounds));
  }

  /** Counts a verification whose key was found. */
  count(of: Counted, outcome: CountedOutcome, { now, tags, key }: CountedCall): void {
    const { meter } = this.#interval;
    this.#writer.latest = now;
    meter.count(of, outcome, { now, tags: this.#keepsTags && tags.length > 0 ? redact(tags, key) : NO_TAGS });
    if (this.#flushing !== undefined) return;
    this.#schedule();
    if (meter.bytes >= this.#bounds.bytes * 0.75) void this.#flushNow();
  }

  /** Counts a verification whose key was not found. */
  countUnknown(workspaceId: string, call: CountedCall): void {
    const { unknown } = this.#interval;
    const whose = unknown.has(workspaceId) || unknown.size < MAX_UNKNOWN ? workspaceId : OTHER;
    const of = unknown.get(whose) ?? { cell: -1, workspaceId: whose, apiId: "", keyId: "" };
    unknown.set(whose, of);
    this.count(of, { code: "NOT_FOUND", spent: 0 }, call);
  }

  /** Counts what is no verification of a key's text: a spend by id, or what a settled reservation kept. */
  countSpent(of: SettledOf, outcome: CountedOutcome, call: CountedCall): void {
    const { settled } = this.#interval;
    const { workspaceId, apiId, keyId, identity, account, ownerAccount } = of;
    const id = JSON.stringify([workspaceId, keyId, identity?.externalId, account]);
    const known = settled.get(id) ?? { workspaceId, apiId, keyId, identity, account, ownerAccount, cell: -1 };
    if (settled.size < MAX_SETTLED) settled.set(id, known);
    this.count(known, outcome, call);
  }

  /** The part of `VerifierCounters` that is counted here. */
  counters() {
    const { meter } = this.#interval;
    return {
      outcomesFolded: this.#aggregated + this.#writer.aggregated + meter.aggregated,
      outcomesUncounted: this.#writer.lost,
      ...named(meter.sums().map((sum, i) => sum + (this.#totals[i] as number))),
    };
  }

  /** Writes what was counted so far, and sends a piece again at once that waits for it. Never rejects. */
  async flush(): Promise<void> {
    this.#writer.hurry();
    await this.#flushing;
    if (this.#interval.meter.size > 0) await this.#flushNow();
  }

  /** Writes the remaining counts. Never rejects. */
  async close(): Promise<void> {
    this.#writer.close();
    await this.#flushing;
    await this.#flush();
    this.#sharers.open--;
  }

  #noteRefusal(of: RefusalsQuery, { tags, ...rest }: Refusal): void {
    this.#interval.refusals.note(of, this.#keepsTags && tags !== undefined ? { ...rest, tags } : rest);
  }

  #schedule(): void {
    if (this.#isScheduled || this.#writer.isClosing) return;
    this.#isScheduled = true;
    startTimer(() => {
      this.#isScheduled = false;
      void this.#flushNow();
    }, this.#pace);
  }

  #flushNow(): Promise<void> {
    return (this.#flushing ??= this.#flush().finally(() => {
      this.#flushing = undefined;
      if (this.#interval.meter.size > 0) this.#schedule();
    }));
  }

  async #flush(): Promise<void> {
    const { meter, refusals } = this.#interval;
    this.#interval = new Interval(new OutcomeMeter(this.#bounds));
    this.#aggregated += meter.aggregated;
    meter.sums().forEach((sum, i) => void ((this.#totals[i] as number) += sum));
    const refused = await this.#writer.write(withRefusals(meter.cells(), refusals));
    const known = ([workspaceId, sets]: readonly [string, ReadonlySet<string>]) =>
      [workspaceId, { sets: new Set(meter.setsOf(workspaceId).filter((set) => !sets.has(set))), left: ASKED }] as const;
    this.#full = new Map([...refused].map(known));
    await this.#writer.prune();
  }
}

/** The first cell of a key has its refusals. */
function* withRefusals(cells: Iterable<OutcomeCell>, log: RefusalLog): Generator<OutcomeCell> {
  for (const cell of cells) {
    const refusals = log.take(cell);
    yield refusals === undefined ? cell : { ...cell, refusals };
  }
}

function named(sums: readonly number[]) {
  const verifications = Object.fromEntries(OUTCOMES.map((code, i) => [code, sums[i] as number]));
  return {
    verifications: verifications as Record<VerificationCode, number>,
    creditsSpent: sums[OUTCOMES.length] as number,
  };
}
