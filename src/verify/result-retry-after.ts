/** The retry time of a refusal. It is kept beside the result, whose properties are specified exactly. */
import type { V2KeysVerifyKeyRequestBody, V2KeysVerifyKeyResponseData } from "../contracts/types.js";
import { limitNameInResult } from "../ratelimit/applied-limits.js";
import { retryAfterOf } from "../ratelimit/wait-time.js";

const retryTimes = new WeakMap<V2KeysVerifyKeyResponseData<unknown>, number | undefined>();

/** Keeps the retry time of a refusal. @param wait milliseconds; undefined: waiting does not help */
export function keepRetryAfter(result: V2KeysVerifyKeyResponseData<unknown>, wait: number | undefined): void {
  retryTimes.set(result, wait);
}

/**
 * How long to wait until the same call could pass its rate limits, or has enough credits. Other calls may take the
 * tokens or credits meanwhile.
 * @param result as `verify` returned it: its retry time is computed from the limiter's own numbers. A copy, or a result
 *   parsed from JSON, has only the clamped numbers of a response, and needs `request`; the time is then up to 1 ms too
 *   long, for limits up to 1_000_000 in 1_000…2_592_000_000 ms that reset within these bounds
 * @param request the request that was refused
 * @returns milliseconds, ≥ 0, rounded up; with USAGE_EXCEEDED until the refill that covers the cost, over all accounts
 *   that pay for the call. undefined: another code; waiting does not help, because the cost exceeds a limit, no refill
 *   will cover it, or the key or its owner will have expired; `request` is needed and absent; or the result is a copy
 *   with USAGE_EXCEEDED
 */
export function retryAfter(
  result: V2KeysVerifyKeyResponseData<unknown>,
  request?: Pick<V2KeysVerifyKeyRequestBody, "ratelimits">,
): number | undefined {
  if (retryTimes.has(result)) return retryTimes.get(result);
  if (result.code !== "RATE_LIMITED" || result.ratelimits === undefined || request === undefined) return undefined;
  const costs = new Map<string, number[]>();
  for (const { name, cost = 1 } of request.ratelimits ?? []) {
    const shown = limitNameInResult(name);
    const others = costs.get(shown);
    if (others === undefined) costs.set(shown, [cost]);
    else others.push(cost);
  }
  // Results are in the request's order; a limit that the request does not name is automatic, at cost 1.
  return retryAfterOf(
    result.ratelimits.map((limit) => ({ ...limit, bucket: limit.name, cost: costs.get(limit.name)?.shift() ?? 1 })),
  );
}
