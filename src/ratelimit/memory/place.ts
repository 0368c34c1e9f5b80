/** Where the memory limiter last found the bucket of a check; kept with the key between calls. */
import type { LimitCheck } from "../../contracts/limiter.js";

/*
 * Why a symbol: only the memory limiter reads it, and limiters that send checks as JSON leave it out.
 */
export const PLACE: unique symbol = Symbol("place");

/** The place of a bucket, written by the limiter. */
export interface Place {
  /** The rows that hold the bucket; undefined: not found yet. */
  rows: { touch(row: number): number } | undefined;
  row: number;
  /** Number of buckets that had left the row: if more have left since, the row holds another bucket. */
  rowVersion: number;
}

/** A check whose place is kept. */
export interface KeptCheck extends LimitCheck {
  readonly [PLACE]: Place;
}

/** The place of a bucket that was not looked up yet. */
export function newPlace(): Place {
  return { rows: undefined, row: 0, rowVersion: 0 };
}
