/** Checks the numbers of a limit check before anything changes: a NaN in a level would never drain. */
import type { LimitCheck } from "../contracts/limiter.js";

/** @throws RangeError naming a number that is not an integer from 0 to 2^53 − 1 */
export function assertCheck({ limit, duration, cost, configured }: LimitCheck): void {
  assertCount("limit", limit);
  assertCount("duration", duration);
  assertCount("cost", cost);
  if (configured === undefined) return;
  assertCount("configured.limit", configured.limit);
  assertCount("configured.duration", configured.duration);
}

function assertCount(name: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${name} must be an integer from 0 to 2^53 - 1`);
}
