/**
 * A token bucket in exact integers of any size, replayed from its beginning: slow and simple, and deliberately
 * independent of real limiters.
 */

export interface Take {
  readonly now: number;
  readonly cost: number;
}

/** Units (token × ms) used at `now`, by replaying every take from the beginning. */
export function replay(limit: number, duration: number, takes: readonly Take[], now: number): bigint {
  let used = 0n;
  let at = takes[0]?.now ?? now;
  for (const take of [...takes, { now, cost: 0 }]) {
    used = lowered(used, BigInt(limit) * BigInt(Math.max(0, take.now - at))) + BigInt(take.cost) * BigInt(duration);
    at = Math.max(at, take.now);
  }
  return used;
}

/** `used` less `by`, never below 0. */
export const lowered = (used: bigint, by: bigint): bigint => (used > by ? used - by : 0n);
/** The verdict's numbers for units that are used; `limit` and `duration` above 0. */
export function numbersOf(limit: number, duration: number, used: bigint): { remaining: number; reset: number } {
  const free = lowered(BigInt(limit) * BigInt(duration), used);
  return { remaining: Number(free / BigInt(duration)), reset: Number(used) / limit };
}
