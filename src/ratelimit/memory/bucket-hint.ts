/**
 * Where the memory limiter found a bucket last, kept by whoever keeps the check: it saves the look-up by name, a quarter of a call over a
 * million keys. Only the memory limiter reads and writes hints; other limiters know buckets by their names alone.
 */
import type { LimitCheck } from "../../contracts/limiter.js";

/** Several checks may share one, and a check may be copied for another bucket, so the limiter checks a hint before it trusts it. */
export interface BucketHint {
  /** The bucket that this tells of. */
  readonly bucket: string;
  /** A row, and a part of the fingerprint that it has; −1 and zeros to begin with. */
  readonly row: number;
  readonly h0: number;
  readonly h1: number;
  /** Remembers another one. */
  foundAt(row: number, h0: number, h1: number): void;
}

/** A check of which the limiter notes where its bucket is. */
export interface HintedCheck extends LimitCheck {
  readonly hint?: BucketHint | undefined;
}

/** A hint for a check that is kept. */
export function hintFor(bucket: string): BucketHint {
  const hint = { bucket, row: -1, h0: 0, h1: 0, foundAt };
  function foundAt(row: number, h0: number, h1: number): void {
    hint.row = row;
    hint.h0 = h0;
    hint.h1 = h1;
  }
  return hint;
}
