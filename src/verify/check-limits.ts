/** Takes from the rate limits of a call and formats their results. */
import type { LimitVerdict } from "../contracts/limiter.js";
import type { MaybePromise, VerifyKeyRatelimitData } from "../contracts/types.js";
import {
  type AppliedLimit,
  applyLimits,
  type LimitedKey,
  type RatelimitCheck,
  toRatelimitData,
} from "../ratelimit/applied-limits.js";
import type { LimitTaker, LimitAnswer } from "../ratelimit/fallback.js";

/** The result of a call's limits. */
export interface LimitsTaken {
  readonly results: VerifyKeyRatelimitData[];
  /** Whether one was exceeded, in which case nothing was taken. */
  readonly exceeded: boolean;
  /** Whether the fallback of a failed limiter decided. */
  readonly degraded: boolean;
  /** Buckets of another workspace that refused and gave way to new ones of this call. */
  readonly displaced: number | undefined;
}

/**
 * @returns undefined: no limit applies
 * @throws KeystileError BAD_REQUEST for a name that no limit has; what the limiter throws
 */
export function takeLimits(
  limiter: LimitTaker,
  key: LimitedKey,
  requested: readonly RatelimitCheck[],
  now: number,
): MaybePromise<LimitsTaken | undefined> {
  const { onlyLimit } = key;
  if (onlyLimit !== undefined && requested.length === 0) {
    const verdict = limiter.takeOne(key, onlyLimit, now);
    // The common call, without arrays.
    if (verdict !== undefined)
      return {
        results: [toRatelimitData(onlyLimit, key.onlyLimitId, verdict)],
        exceeded: verdict.exceeded,
        degraded: false,
        displaced: verdict.displaced,
      };
  }
  const limits = applyLimits(key, requested);
  if (limits.length === 0) return undefined;
  const taking = limiter.take(limits, now);
  return taking instanceof Promise ? whenTaken(limits, taking) : toTaken(limits, taking);
}

/** Apart, since a function that holds a closure allocates for it at every call. */
function whenTaken(limits: readonly AppliedLimit[], taking: Promise<LimitAnswer>): Promise<LimitsTaken> {
  return taking.then((result) => toTaken(limits, result));
}

function toTaken(limits: readonly AppliedLimit[], { verdicts, degraded }: LimitAnswer): LimitsTaken {
  const results = limits.map((limit, i) => toRatelimitData(limit, limit.id, verdicts[i] as LimitVerdict));
  return { results, exceeded: verdicts.some(({ exceeded }) => exceeded), degraded, displaced: verdicts[0]?.displaced };
}
