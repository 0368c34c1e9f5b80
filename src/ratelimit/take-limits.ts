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
const REMAINING = { min: 0, max: LIMIT.max };
const DURATION = { min: 1_000, max: 2_592_000_000 };

/** What is said of limits beside their results, by the few calls of which there is anything to say. */
export interface LimitsNote {
  /** Milliseconds until a call that exceeded a limit could pass; undefined: waiting does not help. */
  readonly retryAfter?: number | undefined;
  /** Whether the fallback of a failed limiter decided. */
  readonly degraded: boolean;
  /** Buckets of another workspace that refused and gave way to new ones of this call. */
  readonly displaced?: number | undefined;
}

/** The parts of a call that its limits depend on, and where it keeps what they gave. */
export interface LimitedCall {
  readonly deps: { readonly limiter: LimitTaker };
  readonly ratelimits: readonly RatelimitCheck[];
  readonly now: number;
  /** A repeat has cost 0 at every limit: it takes nothing and passes. */
  readonly once: { readonly isRepeat: boolean } | undefined;
  /** What the limits gave when the checks ran before: no tokens are taken again. */
  readonly earlier: Pick<LimitedCall, "limits" | "limitsNote"> | undefined;
  /** One result of each limit; undefined: not checked, or none applies. */
  limits: VerifyKeyRatelimitData[] | undefined;
  limitsNote: LimitsNote | undefined;
}

/**
 * Takes from the limits of a call, and keeps their results with it.
 * @returns whether a limit was exceeded: then no tokens were taken
 * @throws KeystileError BAD_REQUEST for a name that no limit has; errors of the limiter
 */
export function takeLimits(call: LimitedCall, key: LimitedKey): MaybePromise<boolean> {
  const { limitsOrId, policy } = key;
  const only = typeof limitsOrId === "string" ? policy.onlyLimit : undefined;
  if (only === undefined || call.ratelimits.length > 0 || call.once !== undefined || call.earlier !== undefined)
    return takeFromEach(call, key);
  const verdict = call.deps.limiter.takeAt?.(key, only, call.now);
  if (verdict === undefined) return takeFromEach(call, key);
  call.limits = [toRatelimitData(only, limitsOrId as string, verdict)];
  if (verdict.exceeded) call.limitsNote = { retryAfter: waitFor(only, 1, verdict.reset), degraded: false };
  return verdict.exceeded;
}

function takeFromEach(call: LimitedCall, key: LimitedKey): MaybePromise<boolean> {
  const { limits: taken, limitsNote } = call.earlier ?? call;
  if (taken !== undefined) {
    call.limits = taken;
    call.limitsNote = limitsNote;
    return taken.some(({ exceeded }) => exceeded);
  }
  const applied = applyLimits(key, call.ratelimits);
  const limits = call.once?.isRepeat === true ? applied.map((limit) => ({ ...limit, cost: 0 })) : applied;
  if (limits.length === 0) return false;
  const taking = call.deps.limiter.take(limits, call.now);
  return taking instanceof Promise ? whenTaken(call, limits, taking) : keepTaken(call, limits, taking);
}

async function whenTaken(call: LimitedCall, limits: readonly AppliedLimit[], taking: Promise<LimitAnswer>) {
  return keepTaken(call, limits, await taking);
}

/** A loop, since every verification of a limited key runs it. */
function keepTaken(call: LimitedCall, limits: readonly AppliedLimit[], answer: LimitAnswer): boolean {
  const { verdicts, degraded } = answer;
  const results = new Array<VerifyKeyRatelimitData>(limits.length);
  let exceeded = false;
  for (let i = 0; i < limits.length; i++) {
    const limit = limits[i] as AppliedLimit;
    const verdict = verdicts[i] as LimitVerdict;
    results[i] = toRatelimitData(limit, limit.id, verdict);
    if (verdict.exceeded) exceeded = true;
  }
  call.limits = results;
  const displaced = verdicts[0]?.displaced;
  if (exceeded || degraded || displaced !== undefined)
    call.limitsNote = { retryAfter: exceeded ? retryAfterOfRefusal(limits, answer) : undefined, degraded, displaced };
  return exceeded;
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
    limit: clamp(limit, LIMIT),
    duration: clamp(duration, DURATION),
    reset: boundReset(verdict.reset),
    remaining: clamp(verdict.remaining, REMAINING),
    autoApply,
  };
}

/** Milliseconds until a bucket is full, rounded up and clamped as in every response. */
export function boundReset(reset: number): number {
  return clamp(Math.ceil(reset), DURATION);
}

/** A limit in a response where nothing was checked. */
export function toRatelimitResponse({ id, name, limit, duration, autoApply }: RatelimitResponse): RatelimitResponse {
  return {
    id,
    name,
    limit: clamp(limit, LIMIT),
    duration: clamp(duration, DURATION),
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

function clamp(value: number, { min, max }: { readonly min: number; readonly max: number }): number {
  return value < min ? min : value > max ? max : value;
}
