/** What happens while a limiter cannot answer. Ruling C7. Knows two limiters by their port; knows no buckets. */
import { VerifierError } from "../errors.js";
import type { LimitCheck, Limiter, LimitVerdict } from "../limiter.js";
import type { MaybePromise } from "../types.js";
import { isLate } from "../stores/late.js";
import type { MemoryLimiter } from "./memory.js";

const ON_FAILURE = ["local", "deny", "allow"] as const;
const OPTIONS: ReadonlySet<string> = new Set(["onFailure", "nodes", "local"]);

/** Options of {@link degrading}. */
export interface DegradingOptions {
  /**
   * While the limiter fails: `local` (default) asks the local limiter for this node's share, `deny` throws LIMITER_UNAVAILABLE,
   * `allow` lets every check pass that could pass on a full bucket.
   */
  readonly onFailure?: (typeof ON_FAILURE)[number];
  /** Nodes that share each limit, 1…2^53 − 1, default 1. */
  readonly nodes?: number;
  /** Judges this node's share; needed for `local`. */
  readonly local?: Limiter;
}

/** Verdicts, and whether they came without the limiter that was asked. */
export interface LimitAnswer {
  readonly verdicts: readonly LimitVerdict[];
  readonly degraded: boolean;
}

/** A limiter that states when it is not itself. */
export interface DegradingLimiter {
  /** One token from one bucket of a limiter that cannot fail; absent where it can. */
  readonly takeOne?: MemoryLimiter["takeOne"];
  /**
   * @throws VerifierError LIMITER_UNAVAILABLE with `deny`, or when the local limiter's answer is malformed too; what the local
   *   limiter throws rises as it is
   */
  take(checks: readonly LimitCheck[], now: number): MaybePromise<LimitAnswer>;
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
 * @throws TypeError or RangeError naming the option
 * @see ruling C7
 */
export function degrading(limiter: Limiter, options: DegradingOptions): DegradingLimiter {
  const degrade = fallback(readOptions(options));
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
    degradedCalls: () => calls,
  };
}

type Fallback = (checks: readonly LimitCheck[], now: number, cause: unknown) => MaybePromise<LimitAnswer>;

function fallback({ onFailure, nodes, local }: ReturnType<typeof readOptions>): Fallback {
  if (onFailure === "allow") return (checks) => ({ verdicts: checks.map(onFullBucket), degraded: true });
  if (onFailure === "deny" || local === undefined) {
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

/** A cost above the limit is refused always (ruling C4): that takes no bucket to see. */
function onFullBucket({ limit, cost }: LimitCheck): LimitVerdict {
  return { exceeded: cost > limit, remaining: limit, reset: 0 };
}

/** This node's part of a check. */
function shareOf(check: LimitCheck, nodes: number): LimitCheck {
  const { limit, duration } = check;
  if (limit === 0 || duration === 0) return check;
  if (limit >= nodes) return { ...check, limit: Math.floor(limit / nodes) };
  return { ...check, limit: 1, duration: Math.min(Number.MAX_SAFE_INTEGER, Math.ceil((duration * nodes) / limit)) };
}

/** The answer itself, if it has one verdict a check. */
function wellFormed(answer: readonly LimitVerdict[], checks: readonly LimitCheck[]): readonly LimitVerdict[] {
  const list: readonly unknown[] = Array.isArray(answer) ? answer : [];
  if (list !== answer || list.length !== checks.length || !list.every(isVerdict)) {
    throw new TypeError("The limiter's answer is malformed: one verdict a check was expected.");
  }
  return answer;
}

function isVerdict(value: unknown): boolean {
  const { exceeded, remaining, reset } = (value ?? {}) as Partial<LimitVerdict>;
  return typeof exceeded === "boolean" && isCount(remaining) && isCount(reset);
}

function isCount(value: number | undefined): boolean {
  return value !== undefined && Number.isFinite(value) && value >= 0;
}

function readOptions(options: DegradingOptions): { onFailure: (typeof ON_FAILURE)[number]; nodes: number; local: Limiter | undefined } {
  for (const name of Object.keys(options)) if (!OPTIONS.has(name)) throw new TypeError(`degrading: unknown option ${JSON.stringify(name)}`);
  const { onFailure = "local", nodes = 1, local } = options;
  if (!ON_FAILURE.includes(onFailure)) throw new TypeError(`degrading: onFailure must be one of ${ON_FAILURE.join(", ")}`);
  if (typeof nodes !== "number") throw new TypeError("degrading: nodes must be a number");
  if (!Number.isSafeInteger(nodes) || nodes < 1) throw new RangeError("degrading: nodes must be an integer from 1 to 2^53 - 1");
  if (onFailure === "local" && typeof local?.take !== "function") throw new TypeError("degrading: local must be a limiter");
  return { onFailure, nodes, local };
}
