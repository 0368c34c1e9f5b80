/**
 * Durations, counted in buckets that are 2 % wide: a million calls are some hundred numbers that a process can send.
 */

const SHORTEST_MS = 1e-4;
const LONGEST_MS = 60_000;
const WIDTH = Math.log(1.02);

const bucketOf = (ms: number): number =>
  Math.floor(Math.log(Math.min(LONGEST_MS, Math.max(SHORTEST_MS, ms)) / SHORTEST_MS) / WIDTH);
const BUCKETS = bucketOf(LONGEST_MS) + 1;

/** How many durations fell into each bucket. */
export type Latencies = number[];

export const createLatencies = (): Latencies => Array.from({ length: BUCKETS }, () => 0);

/** Counts a duration. */
export function addLatency(latencies: Latencies, ms: number): void {
  latencies[bucketOf(ms)]!++;
}

/** Those of several processes together. */
export const mergeLatencies = (all: readonly Latencies[]): Latencies =>
  all.reduce((sum, one) => sum.map((count, i) => count + one[i]!), createLatencies());

/** @param p 0…1 @returns milliseconds, wrong by 1 % at most; NaN when there is none */
export function latencyAt(latencies: Latencies, p: number): number {
  const rank = p * latencies.reduce((sum, count) => sum + count, 0);
  let below = 0;
  const bucket = latencies.findIndex((count) => (below += count) > 0 && below >= rank);
  return bucket < 0 ? NaN : SHORTEST_MS * Math.exp((bucket + 0.5) * WIDTH);
}
