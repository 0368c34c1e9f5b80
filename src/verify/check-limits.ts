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
import { retryAfterOf, waitFor } from "../ratelimit/wait-time.js";

/** The result of a call's limits. */
export interface LimitsTaken {
  /** `undefined`: no limit applies. */
  readonly results: VerifyKeyRatelimitData[] | undefined;
  /** Whether a limit was exceeded: then no tokens were taken. */
  readonly exceeded: boolean;
  /** If exceeded: milliseconds until the same call could pass; undefined: waiting does not help. */
  readonly retryAfter: number | undefined;
  /** Whether the fallback of a failed limiter decided. */
  readonly degraded: boolean;
  /** Buckets of another workspace that refused and gave way to new ones of this call. */
  readonly displaced: number | undefined;
}

/** The result of a call to which no limit applies. */
export const NO_LIMITS: LimitsTaken = Object.freeze({
  results: undefined,
  exceeded: false,
  retryAfter: undefined,
  degraded: false,
  displaced: undefined,
});

/** The parts of a call that its limits depend on. */
export interface LimitedCall {
  readonly deps: { readonly limiter: LimitTaker };
  readonly ratelimits: readonly RatelimitCheck[];
  readonly now: number;
  /** A repeat has cost 0 at every limit: it takes nothing and passes. */
  readonly once: { readonly isRepeat: boolean } | undefined;
}

/** @throws KeystileError BAD_REQUEST for a name that no limit has; errors of the limiter */
export function takeLimits(call: LimitedCall, key: LimitedKey): MaybePromise<LimitsTaken> {
  const { now, once, ratelimits } = call;
  const { limiter } = call.deps;
  const { onlyLimit } = key;
  const isRepeat = once?.isRepeat === true;
  if (onlyLimit !== undefined && ratelimits.length === 0 && !isRepeat) {
    const verdict = limiter.takeAt?.(key, onlyLimit, now);
    // The common case avoids arrays.
    if (verdict !== undefined)
      return {
        results: [toRatelimitData(onlyLimit, key.onlyLimitId, verdict)],
        exceeded: verdict.exceeded,
        retryAfter: verdict.exceeded ? waitFor(onlyLimit, 1, verdict.reset) : undefined,
        degraded: false,
        displaced: undefined,
      };
  }
  const applied = applyLimits(key, ratelimits);
  const limits = isRepeat ? applied.map((limit) => ({ ...limit, cost: 0 })) : applied;
  if (limits.length === 0) return NO_LIMITS;
  const taking = limiter.take(limits, now);
  return taking instanceof Promise ? whenTaken(limits, taking) : toTaken(limits, taking);
}

async function whenTaken(limits: readonly AppliedLimit[], taking: Promise<LimitAnswer>): Promise<LimitsTaken> {
  return toTaken(limits, await taking);
}

/** A loop, since every verification of a limited key runs it. */
function toTaken(limits: readonly AppliedLimit[], answer: LimitAnswer): LimitsTaken {
  const { verdicts, degraded } = answer;
  const results = new Array<VerifyKeyRatelimitData>(limits.length);
  let exceeded = false;
  for (let i = 0; i < limits.length; i++) {
    const limit = limits[i] as AppliedLimit;
    const verdict = verdicts[i] as LimitVerdict;
    results[i] = toRatelimitData(limit, limit.id, verdict);
    if (verdict.exceeded) exceeded = true;
  }
  return {
    results,
    exceeded,
    retryAfter: exceeded ? retryAfterOfRefusal(limits, answer) : undefined,
    degraded,
    displaced: verdicts[0]?.displaced,
  };
}

/** Computed from the limiter's own numbers: a result shows them clamped. */
function retryAfterOfRefusal(limits: readonly AppliedLimit[], { verdicts, shares = limits }: LimitAnswer) {
  return retryAfterOf(
    shares.map(({ bucket, limit, duration, cost }, i) => {
      const { exceeded, reset } = verdicts[i] as LimitVerdict;
      return { bucket, limit, duration, cost, exceeded, reset };
    }),
  );
}
