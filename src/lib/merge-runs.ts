/** Merging of long lists that are sorted already, in steps between which others have their turns of the event loop. */
import type { Pause, Steps } from "./slices.js";

/** Items that are merged in one step. */
const STEP = 2_500;

/**
 * Merges sorted runs into one sorted list without duplicates.
 * @param runs in order, each without items that are equal
 * @param pause called after each step, with the number of its items
 */
export function* mergeRuns<T>(
  runs: readonly (readonly T[])[],
  compare: (a: T, b: T) => number,
  pause: Pause,
): Steps<readonly T[]> {
  let left = runs;
  // Neighbours first, so that each item is looked at as often as the number of runs can be halved.
  while (left.length > 1) {
    const merged: (readonly T[])[] = [];
    for (let i = 0; i < left.length; i += 2)
      merged.push(yield* merge(left[i] as readonly T[], left[i + 1] ?? [], compare, pause));
    left = merged;
  }
  return left[0] ?? [];
}

function* merge<T>(
  a: readonly T[],
  b: readonly T[],
  compare: (a: T, b: T) => number,
  pause: Pause,
): Steps<readonly T[]> {
  if (b.length === 0) return a;
  const merged: T[] = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    const order = compare(a[i] as T, b[j] as T);
    merged.push((order <= 0 ? a[i] : b[j]) as T);
    if (order <= 0) i++;
    if (order >= 0) j++;
    if (merged.length % STEP === 0) yield pause(STEP);
  }
  yield pause(merged.length % STEP);
  return merged.concat(a.slice(i), b.slice(j));
}
