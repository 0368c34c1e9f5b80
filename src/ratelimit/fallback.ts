/** What a verification does while its limiter fails: fall back, deny or allow. */
import { KeystileError } from "../contracts/errors.js";
import type { LimitCheck, Limiter, LimiterCounters, LimitSize, LimitVerdict } from "../contracts/limiter.js";
import type { MaybePromise } from "../contracts/types.js";
import { settled } from "../lib/callbacks.js";
import { integer, methods, oneOf, type OptionChecks, ownOnly } from "../lib/check-options.js";
import { createDeadline } from "../lib/guards/deadline.js";
import { isThenable } from "../lib/thenable.js";
import type { PlacedLimiter } from "./memory/limiter.js";

/** The checks of the options of everything that takes a limiter. */
export const LIMITER_OPTIONS = {
  limiter: methods("take"),
  limiterTimeout: integer(1, 600_000),
  onLimiterFailure: oneOf("local", "deny", "allow"),
  nodes: integer(1, 100_000),
} as const satisfies OptionChecks;

/** Options of {@link withFallback}, already validated. */
export interface FallbackOptions {
  /**
   * While the limiter fails: `local` (default) enforces this node's share with the local limiter, `deny` throws
   * LIMITER_UNAVAILABLE, `allow` passes every check that a full bucket would pass.
   */
  readonly onFailure?: "local" | "deny" | "allow";
  /** Milliseconds within which the limiter must settle a promise, ≥ 1, default 1_000. */
  readonly timeout?: number | undefined;
  /** Nodes that share each limit, ≥ 1, default 1. */
  readonly nodes?: number;
  /** Enforces this node's share. */
  readonly local: Limiter;
}

const DEFAULT_TIMEOUT = 1_000;

/** Verdicts, and whether the fallback made them. */
export interface LimitAnswer {
  readonly verdicts: readonly LimitVerdict[];
  readonly degraded: boolean;
  /** The checks that the verdicts are about, if they are not those of the call: this node's shares of them. */
  readonly shares?: readonly LimitCheck[];
}

/** How a verification takes from its limits, with any limiter. */
export interface LimitTaker {
  /**
   * @throws KeystileError LIMITER_UNAVAILABLE with `deny`, or if the local limiter's result is malformed too; the local
   *   limiter's own errors propagate unchanged
   */
  take(checks: readonly LimitCheck[], now: number): MaybePromise<LimitAnswer>;
  /** Of the built-in limiter alone: {@link PlacedLimiter.takeAt}. */
  readonly takeAt?: PlacedLimiter["takeAt"] | undefined;
  /** Calls in which the limiter failed, including denied ones. */
  degradedCalls(): number;
  /** Of the limiter and of the local one that stands in for it. Never throws. */
  counters(): LimiterCounters;
}

/**
 * Calls `limiter`, and applies `onFailure` if it throws, rejects, returns a malformed result, or does not settle within
 * `timeout`. A synchronous result is returned synchronously, without a timer.
 *
 * A node's share of a limit is `floor(limit / nodes)` tokens in the same duration. A limit below `nodes` becomes one
 * token in `duration × nodes / limit` milliseconds, rounded up: all nodes together then refill no faster than the
 * limit, but may pass `nodes − limit` extra tokens when their buckets start full. A limit of 0 and a duration of 0 stay
 * as they are.
 */
export function withFallback(limiter: Limiter, options: FallbackOptions): LimitTaker {
  const applyFailurePolicy = fallback(options);
  const { timeout = DEFAULT_TIMEOUT } = options;
  const deadline = createDeadline(timeout);
  const timeoutError = () => new Error(`The limiter did not answer within ${timeout} ms.`);
  let calls = 0;

  const fallBack = (checks: readonly LimitCheck[], now: number, cause: unknown): MaybePromise<LimitAnswer> => {
    calls++;
    return applyFailurePolicy(checks, now, cause);
  };

  return {
    take(checks, now) {
      let result: MaybePromise<readonly LimitVerdict[]>;
      try {
        result = limiter.take(checks, now);
        if (!isThenable(result)) return { verdicts: wellFormed(result, checks), degraded: false };
      } catch (cause) {
        return fallBack(checks, now, cause);
      }
      return deadline(result, timeoutError)
        .then((verdicts) => ({ verdicts: wellFormed(verdicts, checks), degraded: false }))
        .catch((cause: unknown) => fallBack(checks, now, cause));
    },
    degradedCalls: () => calls,
    counters() {
      const [own, local] = [countersOf(limiter), countersOf(options.local)];
      return {
        newcomersRefused: own.newcomersRefused + local.newcomersRefused,
        bucketsDisplaced: own.bucketsDisplaced + local.bucketsDisplaced,
      };
    },
  };
}

/** The verifier's built-in limiter: it cannot fail, and its results need no validation. */
export function withoutFallback(limiter: PlacedLimiter): LimitTaker {
  return {
    takeAt: limiter.takeAt,
    take: (checks, now) => ({ verdicts: limiter.take(checks, now), degraded: false }),
    degradedCalls: () => 0,
    counters: limiter.counters,
  };
}

const NOTHING_COUNTED: LimiterCounters = { newcomersRefused: 0, bucketsDisplaced: 0 };

/** What a limiter counts; what it lacks, or tells wrongly, is 0. */
function countersOf(limiter: Limiter): LimiterCounters {
  try {
    const counted: Partial<LimiterCounters> = settled(limiter.counters?.(), "limiter.counters") ?? NOTHING_COUNTED;
    const { newcomersRefused, bucketsDisplaced } = counted;
    return {
      newcomersRefused: isCount(newcomersRefused) ? newcomersRefused : 0,
      bucketsDisplaced: isCount(bucketsDisplaced) ? bucketsDisplaced : 0,
    };
  } catch {
    return NOTHING_COUNTED;
  }
}

type Fallback = (checks: readonly LimitCheck[], now: number, cause: unknown) => MaybePromise<LimitAnswer>;

function fallback({ onFailure, nodes = 1, local }: FallbackOptions): Fallback {
  if (onFailure === "allow") return (checks) => ({ verdicts: checks.map(onFullBucket), degraded: true });
  if (onFailure === "deny") {
    return (_checks, _now, cause) => {
      throw unavailable(cause);
    };
  }
  const toDegraded = (result: readonly LimitVerdict[], checks: readonly LimitCheck[]): LimitAnswer => {
    try {
      const verdicts = wellFormed(result, checks);
      return nodes === 1 ? { verdicts, degraded: true } : { verdicts, degraded: true, shares: checks };
    } catch (cause) {
      throw unavailable(cause);
    }
  };
  return (checks, now) => {
    const shares = nodes === 1 ? checks : checks.map((check) => shareOf(check, nodes));
    const result = local.take(shares, now);
    return isThenable(result)
      ? Promise.resolve(result).then((verdicts) => toDegraded(verdicts, shares))
      : toDegraded(result, shares);
  };
}

function unavailable(cause: unknown): KeystileError {
  return new KeystileError("LIMITER_UNAVAILABLE", "The rate limiter is unavailable.", { cause });
}

/** A cost above the limit is always refused, whatever the bucket holds. */
function onFullBucket({ limit, cost }: LimitCheck): LimitVerdict {
  return { exceeded: cost > limit, remaining: limit, reset: 0 };
}

/** This node's share of a check. */
function shareOf(check: LimitCheck, nodes: number): LimitCheck {
  return {
    ...check,
    ...sizeOfShare(check, nodes),
    configured: check.configured && sizeOfShare(check.configured, nodes),
  };
}

function sizeOfShare({ limit, duration }: LimitSize, nodes: number): LimitSize {
  if (limit === 0 || duration === 0) return { limit, duration };
  if (limit >= nodes) return { limit: Math.floor(limit / nodes), duration };
  return { limit: 1, duration: Math.min(Number.MAX_SAFE_INTEGER, Math.ceil((duration * nodes) / limit)) };
}

/**
 * A copy of the result, if it has one verdict per check. Own properties only, each read once, so that the validated
 * value is the value used.
 */
function wellFormed(result: readonly LimitVerdict[], checks: readonly LimitCheck[]): readonly LimitVerdict[] {
  if (!Array.isArray(result) || result.length !== checks.length) throw malformed();
  return checks.map((_, i) => readVerdict((result as readonly unknown[])[i]));
}

function readVerdict(value: unknown): LimitVerdict {
  if (typeof value !== "object" || value === null) throw malformed();
  const { exceeded, remaining, reset, displaced } = ownOnly<Partial<LimitVerdict>>(value);
  if (typeof exceeded !== "boolean" || !isCount(remaining) || !isCount(reset)) throw malformed();
  // Responses show whole tokens, whatever unit the limiter counts in.
  const verdict = { exceeded, remaining: Math.floor(remaining), reset };
  return isCount(displaced) ? { ...verdict, displaced } : verdict;
}

const malformed = (): TypeError => new TypeError("The limiter's result is malformed: expected one verdict per check.");

function isCount(value: number | undefined): value is number {
  return value !== undefined && Number.isFinite(value) && value >= 0;
}
