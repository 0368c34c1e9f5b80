/** Where the memory limiter found the bucket of a check last: kept with the key from call to call. */
import type { LimitCheck } from "../../contracts/limiter.js";

/*
 * Why a symbol: only the memory limiter reads it, and a limiter that sends checks elsewhere as JSON does not send it.
 */
export const PLACE: unique symbol = Symbol("place");

/** A bucket, as the checks that found it see it: the limiter writes it. */
export interface Place {
  /** The rows that hold the bucket; undefined: it was not found yet. */
  rows: { touch(row: number): number } | undefined;
  row: number;
  /** How many buckets had left the row then: it is this one's only as long as no more have. */
  rowVersion: number;
}

/** A check whose place is kept. */
export interface KeptCheck extends LimitCheck {
  readonly [PLACE]: Place;
}

/** Of a check whose bucket was not looked up yet. */
export function newPlace(): Place {
  return { rows: undefined, row: 0, rowVersion: 0 };
}
