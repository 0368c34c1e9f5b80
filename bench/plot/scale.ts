/** Logarithmic scales and their labels: numbers to places on paper. */

/** From a value to a place. */
export interface Scale {
  readonly min: number;
  readonly max: number;
  place(value: number): number;
}

/** Equal factors take equal space between `from` and `to`; values are above 0. */
export function logScale(min: number, max: number, from: number, to: number): Scale {
  const span = Math.log(max / min);
  return { min, max, place: (value) => from + ((to - from) * Math.log(value / min)) / span };
}

const STEPS = [1, 2, 5];

/**
 * Of the steps 1, 2, 5, 10, 20, …: the last at or below the least value, the first at or above the greatest, and all
 * between.
 */
export function ticksAround(values: readonly number[]): number[] {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const first = Math.floor(Math.log10(least));
  const decades = Array.from({ length: Math.ceil(Math.log10(most)) - first + 1 }, (_, i) => 10 ** (first + i));
  const ticks = decades.flatMap((decade) => STEPS.map((step) => step * decade));
  return ticks.slice(
    ticks.findLastIndex((tick) => tick <= least),
    ticks.findIndex((tick) => tick >= most) + 1,
  );
}

/** 1,000 as 1k, 2,000,000 as 2M. */
export function shorten(value: number): string {
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (value >= 1e3) return `${Number((value / 1e3).toPrecision(3))}k`;
  return String(Number(value.toPrecision(3)));
}
