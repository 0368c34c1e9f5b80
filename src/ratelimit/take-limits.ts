/** Takes from the rate limits of a call, and the form of their results. Contract 2.2. */
import type { LimitVerdict } from "../contracts/limiter.js";
import type { Identity, MaybePromise, RatelimitResponse, VerifyKeyRatelimitData } from "../contracts/types.js";
import { ownProperty } from "../lib/check-options.js";
import {
  type AppliedLimit,
  applyLimits,
  type LimitedKey,
  type LimitKind,
  type RatelimitCheck,
} from "./applied-limits.js";
import type { LimitAnswer, LimitTaker } from "./fallback.js";
import { retryAfterOf, waitFor } from "./wait-time.js";

/** Bounds of results (contract 8); decisions use the unclamped values. */
const LIMIT = { min: 1, max: 1_000_000 };
const DURATION = { min: 1_000, max: 2_592_000_000 };

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

/** The result of one check in a response, with numbers clamped to the schema's bounds. */
export function toRatelimitData(
  { name, autoApply, limit, duration }: LimitKind,
  id: string,
  verdict: LimitVerdict,
): VerifyKeyRatelimitData {
  return {
    exceeded: verdict.exceeded,
    id,
    name,
    limit: clamp(limit, LIMIT.min, LIMIT.max),
    duration: clamp(duration, DURATION.min, DURATION.max),
    reset: boundReset(verdict.reset),
    remaining: clamp(verdict.remaining, 0, LIMIT.max),
    autoApply,
  };
}

/** Milliseconds until a bucket is full, rounded up and clamped as in every response. */
export function boundReset(reset: number): number {
  return clamp(Math.ceil(reset), DURATION.min, DURATION.max);
}

/** A limit in a response where nothing was checked. */
export function toRatelimitResponse({ id, name, limit, duration, autoApply }: RatelimitResponse): RatelimitResponse {
  return {
    id,
    name,
    limit: clamp(limit, LIMIT.min, LIMIT.max),
    duration: clamp(duration, DURATION.min, DURATION.max),
    autoApply,
  };
}

/** An identity in a response, with its limits clamped. */
export function clampIdentity(identity: Identity): Identity {
  const { id, externalId } = identity;
  const meta = ownProperty(identity, "meta");
  const ratelimits = ownProperty(identity, "ratelimits");
  if (ratelimits === undefined) return identity;
  return { id, externalId, ...(meta !== undefined && { meta }), ratelimits: ratelimits.map(toRatelimitResponse) };
}

function clamp(value: number, min: number, max: number): number {
  return value < min ? min : value > max ? max : value;
}
