/** What happens while a limiter cannot answer. Ruling C7. Knows two limiters by their port; knows no buckets. */
import { VerifierError } from "../errors.js";
import { isLate } from "../late.js";
import type { LimitCheck, Limiter, LimitSize, LimitVerdict } from "../limiter.js";
import { integer, methods, oneOf, type OptionChecks } from "../options.js";
import type { MaybePromise } from "../types.js";
import type { BucketHint } from "./hints.js";
import type { HintedLimiter } from "./memory.js";

/** Checks for the options of all that take a limiter. */
export const LIMITER_OPTIONS = {
  limiter: methods("take"),
  onLimiterFailure: oneOf("local", "deny", "allow"),
  nodes: integer(1, 100_000),
} as const satisfies OptionChecks;

/** Options of {@link degrading}, judged by its caller. */
export interface DegradingOptions {
  /**
   * While the limiter fails: `local` (default) asks the local limiter for this node's share, `deny` throws LIMITER_UNAVAILABLE,
   * `allow` lets every check pass that could pass on a full bucket.
   */
  readonly onFailure?: "local" | "deny" | "allow";
  /** Nodes that share each limit, ≥ 1, default 1. */
  readonly nodes?: number;
  /** Judges this node's share. */
  readonly local: Limiter;
}

/** Verdicts, and whether they came without the limiter that was asked. */
export interface LimitAnswer {
  readonly verdicts: readonly LimitVerdict[];
  readonly degraded: boolean;
}

/** How a verification takes from its limits, whichever limiter it has. */
export interface LimitTaker {
  /**
   * @throws VerifierError LIMITER_UNAVAILABLE with `deny`, or when the local limiter's answer is malformed too; what the local
   *   limiter throws rises as it is
   */
  take(checks: readonly LimitCheck[], now: number): MaybePromise<LimitAnswer>;
  /** One token of the one bucket that a hint tells of; `undefined`: this limiter has no use for hints, call `take`. */
  takeOne(hint: BucketHint, size: LimitSize, now: number): LimitVerdict | undefined;
  /** Calls that the limiter did not answer so far, denied ones included. */
  degradedCalls(): number;
}

/**
 * Asks `limiter`, and does as `onFailure` says when it throws, rejects or gives a malformed answer. A limiter must fail rather than
 * hang: nothing here waits on a timer. When it answers at once, so does this.
 *
 * A node's share of a limit is `floor(limit / nodes)` tokens in the same duration. A limit smaller than `nodes` becomes one token
 * in `duration × nodes / limit` milliseconds, rounded up: all nodes together then refill no faster than the limit, but may pass
 * `nodes − limit` tokens more when they start full. A limit of 0 and a duration of 0 stay as they are.
 * @see ruling C7
 */
export function degrading(limiter: Limiter, options: DegradingOptions): LimitTaker {
  const degrade = fallback(options);
  let calls = 0;

  const instead = (checks: readonly LimitCheck[], now: number, cause: unknown): MaybePromise<LimitAnswer> => {
    calls++;
    return degrade(checks, now, cause);
  };

  return {
    take(checks, now) {
      let answer: MaybePromise<readonly LimitVerdict[]>;
      try {
        answer = limiter.take(checks, now);
        if (!isLate(answer)) return { verdicts: wellFormed(answer, checks), degraded: false };
      } catch (cause) {
        return instead(checks, now, cause);
      }
      return Promise.resolve(answer)
        .then((verdicts) => ({ verdicts: wellFormed(verdicts, checks), degraded: false }))
        .catch((cause: unknown) => instead(checks, now, cause));
    },
    takeOne: () => undefined,
    degradedCalls: () => calls,
  };
}

/** The verifier's own limiter: it cannot fail, its answers need no validation, and it keeps hints. */
export function hintedTaker(limiter: HintedLimiter): LimitTaker {
  return {
    takeOne: limiter.takeOne,
    take: (checks, now) => ({ verdicts: limiter.take(checks, now), degraded: false }),
    degradedCalls: () => 0,
  };
}

type Fallback = (checks: readonly LimitCheck[], now: number, cause: unknown) => MaybePromise<LimitAnswer>;

function fallback({ onFailure, nodes = 1, local }: DegradingOptions): Fallback {
  if (onFailure === "allow") return (checks) => ({ verdicts: checks.map(onFullBucket), degraded: true });
  if (onFailure === "deny") {
    return (_checks, _now, cause) => {
      throw unavailable(cause);
    };
  }
  const degraded = (answer: readonly LimitVerdict[], checks: readonly LimitCheck[]): LimitAnswer => {
    try {
      return { verdicts: wellFormed(answer, checks), degraded: true };
    } catch (cause) {
      throw unavailable(cause);
    }
  };
  return (checks, now) => {
    const answer = local.take(nodes === 1 ? checks : checks.map((check) => shareOf(check, nodes)), now);
    return isLate(answer) ? Promise.resolve(answer).then((verdicts) => degraded(verdicts, checks)) : degraded(answer, checks);
  };
}

function unavailable(cause: unknown): VerifierError {
  return new VerifierError("LIMITER_UNAVAILABLE", "The rate limiter does not answer.", { cause });
}

/** A cost above the limit is always refused (ruling C4), whatever the bucket holds. */
function onFullBucket({ limit, cost }: LimitCheck): LimitVerdict {
  return { exceeded: cost > limit, remaining: limit, reset: 0 };
}

/** This node's part of a check. */
function shareOf(check: LimitCheck, nodes: number): LimitCheck {
  return { ...check, ...sizeOfShare(check, nodes), own: check.own && sizeOfShare(check.own, nodes) };
}

function sizeOfShare({ limit, duration }: LimitSize, nodes: number): LimitSize {
  if (limit === 0 || duration === 0) return { limit, duration };
  if (limit >= nodes) return { limit: Math.floor(limit / nodes), duration };
  return { limit: 1, duration: Math.min(Number.MAX_SAFE_INTEGER, Math.ceil((duration * nodes) / limit)) };
}

/** The answer itself, if it has one verdict a check. */
function wellFormed(answer: readonly LimitVerdict[], checks: readonly LimitCheck[]): readonly LimitVerdict[] {
  const list: readonly unknown[] = Array.isArray(answer) ? answer : [];
  if (list !== answer || list.length !== checks.length || !list.every(isVerdict)) {
    throw new TypeError("The limiter's answer is malformed: one verdict a check was expected.");
  }
  return answer.every(isWhole) ? answer : answer.map(toWhole);
}

/** Answers show integers, whatever a limiter counts in (ruling C4). */
const isWhole = ({ remaining, reset }: LimitVerdict): boolean => Number.isInteger(remaining) && Number.isInteger(reset);
const toWhole = ({ exceeded, remaining, reset }: LimitVerdict): LimitVerdict => ({
  exceeded,
  remaining: Math.floor(remaining),
  reset: Math.ceil(reset),
});

function isVerdict(value: unknown): boolean {
  const { exceeded, remaining, reset } = (value ?? {}) as Partial<LimitVerdict>;
  return typeof exceeded === "boolean" && isCount(remaining) && isCount(reset);
}

function isCount(value: number | undefined): boolean {
  return value !== undefined && Number.isFinite(value) && value >= 0;
}
