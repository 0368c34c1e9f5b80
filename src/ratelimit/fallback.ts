/** What happens while a limiter cannot answer. Ruling C7. Knows two limiters by their port; knows no buckets. */
import { KeystileError } from "../contracts/errors.js";
import type { LimitCheck, Limiter, LimitSize, LimitVerdict } from "../contracts/limiter.js";
import type { MaybePromise } from "../contracts/types.js";
import { integer, methods, oneOf, type OptionChecks, ownOnly } from "../lib/check-options.js";
import { createDeadline } from "../lib/guards/deadline.js";
import { isThenable } from "../lib/thenable.js";
import type { BucketHint } from "./memory/bucket-hint.js";
import type { HintedLimiter } from "./memory/limiter.js";

/** Checks for the options of all that take a limiter. */
export const LIMITER_OPTIONS = {
  limiter: methods("take"),
  limiterTimeout: integer(1, 600_000),
  onLimiterFailure: oneOf("local", "deny", "allow"),
  nodes: integer(1, 100_000),
} as const satisfies OptionChecks;

/** Options of {@link withFallback}, judged by its caller. */
export interface FallbackOptions {
  /**
   * While the limiter fails: `local` (default) asks the local limiter for this node's share, `deny` throws LIMITER_UNAVAILABLE,
   * `allow` lets every check pass that could pass on a full bucket.
   */
  readonly onFailure?: "local" | "deny" | "allow";
  /** Milliseconds within which a promise of the limiter must settle, ≥ 1, default 1_000. */
  readonly timeout?: number | undefined;
  /** Nodes that share each limit, ≥ 1, default 1. */
  readonly nodes?: number;
  /** Judges this node's share. */
  readonly local: Limiter;
}

const DEFAULT_TIMEOUT = 1_000;

/** Verdicts, and whether they came without the limiter that was asked. */
export interface LimitAnswer {
  readonly verdicts: readonly LimitVerdict[];
  readonly degraded: boolean;
}

/** How a verification takes from its limits, whichever limiter it has. */
export interface LimitTaker {
  /**
   * @throws KeystileError LIMITER_UNAVAILABLE with `deny`, or when the local limiter's answer is malformed too; what the local
   *   limiter throws rises as it is
   */
  take(checks: readonly LimitCheck[], now: number): MaybePromise<LimitAnswer>;
  /** One token of the one bucket that a hint tells of; `undefined`: this limiter has no use for hints, call `take`. */
  takeOne(hint: BucketHint, size: LimitSize, now: number): LimitVerdict | undefined;
  /** Calls that the limiter did not answer so far, denied ones included. */
  degradedCalls(): number;
}

/**
 * Asks `limiter`, and does as `onFailure` says when it throws, rejects, gives a malformed answer, or none within `timeout`. When it answers
 * at once, so does this, and no timer is set.
 *
 * A node's share of a limit is `floor(limit / nodes)` tokens in the same duration. A limit smaller than `nodes` becomes one token
 * in `duration × nodes / limit` milliseconds, rounded up: all nodes together then refill no faster than the limit, but may pass
 * `nodes − limit` tokens more when they start full. A limit of 0 and a duration of 0 stay as they are.
 * @see ruling C7
 */
export function withFallback(limiter: Limiter, options: FallbackOptions): LimitTaker {
  const degrade = fallback(options);
  const { timeout = DEFAULT_TIMEOUT } = options;
  const deadline = createDeadline(timeout);
  const resolved = () => new Error(`The limiter did not answer within ${timeout} ms.`);
  let calls = 0;

  const fallBack = (checks: readonly LimitCheck[], now: number, cause: unknown): MaybePromise<LimitAnswer> => {
    calls++;
    return degrade(checks, now, cause);
  };

  return {
    take(checks, now) {
      let answer: MaybePromise<readonly LimitVerdict[]>;
      try {
        answer = limiter.take(checks, now);
        if (!isThenable(answer)) return { verdicts: wellFormed(answer, checks), degraded: false };
      } catch (cause) {
        return fallBack(checks, now, cause);
      }
      return deadline(answer, resolved)
        .then((verdicts) => ({ verdicts: wellFormed(verdicts, checks), degraded: false }))
        .catch((cause: unknown) => fallBack(checks, now, cause));
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

function fallback({ onFailure, nodes = 1, local }: FallbackOptions): Fallback {
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
    return isThenable(answer)
      ? Promise.resolve(answer).then((verdicts) => degraded(verdicts, checks))
      : degraded(answer, checks);
  };
}

function unavailable(cause: unknown): KeystileError {
  return new KeystileError("LIMITER_UNAVAILABLE", "The rate limiter does not answer.", { cause });
}

/** A cost above the limit is always refused (ruling C4), whatever the bucket holds. */
function onFullBucket({ limit, cost }: LimitCheck): LimitVerdict {
  return { exceeded: cost > limit, remaining: limit, reset: 0 };
}

/** This node's part of a check. */
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

/** A copy of the answer, if it has one verdict a check: own properties, each read once, so that what was judged is what is used. */
function wellFormed(answer: readonly LimitVerdict[], checks: readonly LimitCheck[]): readonly LimitVerdict[] {
  if (!Array.isArray(answer) || answer.length !== checks.length) throw malformed();
  return checks.map((_, i) => readVerdict((answer as readonly unknown[])[i]));
}

function readVerdict(value: unknown): LimitVerdict {
  if (typeof value !== "object" || value === null) throw malformed();
  const { exceeded, remaining, reset } = ownOnly<Partial<LimitVerdict>>(value);
  if (typeof exceeded !== "boolean" || !isCount(remaining) || !isCount(reset)) throw malformed();
  // Answers show integers, whatever a limiter counts in (ruling C4).
  return { exceeded, remaining: Math.floor(remaining), reset: Math.ceil(reset) };
}

const malformed = (): TypeError =>
  new TypeError("The limiter's answer is malformed: one verdict a check was expected.");

function isCount(value: number | undefined): value is number {
  return value !== undefined && Number.isFinite(value) && value >= 0;
}
