/**
 * Seeded choices: one 32-bit seed a step, so that a history is a list of numbers and any part of it can be played
 * again.
 */

export interface Dice {
  /** An integer from 0 to `count` − 1. */
  below(count: number): number;
  chance(probability: number): boolean;
  pick<T>(items: readonly T[]): T;
  /** Some of the items, in their order, each with the probability. */
  some<T>(items: readonly T[], probability?: number): T[];
}

/** Mulberry32: small, fast, and the same everywhere. */
export function dice(seed: number): Dice {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  const below = (count: number): number => Math.floor((next() / 2 ** 32) * count);
  return {
    below,
    chance: (probability) => next() / 2 ** 32 < probability,
    pick: (items) => items[below(items.length)]!,
    some: (items, probability = 0.5) => items.filter(() => next() / 2 ** 32 < probability),
  };
}

/** The seeds of a history's steps. */
export function seedsOf(seed: number, count: number): number[] {
  const source = dice(seed);
  return Array.from({ length: count }, () => source.below(2 ** 32));
}
