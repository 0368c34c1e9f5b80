/** @see mulberry32: 32 bits of state are plenty for a few thousand draws */
export function createRandom(seed: number) {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const integer = (min: number, max: number): number => min + Math.floor(next() * (max - min + 1));
  return {
    /** An integer from `min` to `max`, both included. */
    integer,
    pick: <T>(items: readonly [T, ...T[]]): T => items[integer(0, items.length - 1)] as T,
    /** A list of up to `max` items. */
    list: <T>(max: number, item: () => T): T[] => Array.from({ length: integer(0, max) }, item),
  };
}

/** A source of random values. */
export type Random = ReturnType<typeof createRandom>;

/** Runs `body` with the seeds 1 to `runs`; a failure names its seed. */
export async function withSeeds(runs: number, body: (random: Random, seed: number) => Promise<void>): Promise<void> {
  for (let seed = 1; seed <= runs; seed++) {
    try {
      await body(createRandom(seed), seed);
    } catch (error) {
      if (error instanceof Error) error.message = `with seed ${seed}: ${error.message}`;
      throw error;
    }
  }
}
