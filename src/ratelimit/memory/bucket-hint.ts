/**
 * Where the memory limiter last found a bucket, stored with the check: it saves the look-up by name, a quarter of a
 * call over a million keys. Only the memory limiter uses hints; other limiters know buckets by name alone.
 */
import type { LimitCheck } from "../../contracts/limiter.js";

/**
 * A hint may be shared by several checks, and a check may be copied for another bucket, so the limiter verifies a hint
 * before it uses it.
 */
export interface BucketHint {
  /** The bucket's name. */
  readonly bucket: string;
  /** The workspace of the bucket. */
  readonly workspaceId: string;
  /** The row, and two of the three numbers of the fingerprint in it; −1 and zeros at first. */
  readonly row: number;
  readonly h0: number;
  readonly h1: number;
  /** Stores another place. */
  foundAt(row: number, h0: number, h1: number): void;
}

/** A check with a hint, if it has one. */
export interface HintedCheck extends LimitCheck {
  readonly hint?: BucketHint | undefined;
}

/** Creates the hint of a check. */
export function hintFor(bucket: string, workspaceId = ""): BucketHint {
  const hint = { bucket, workspaceId, row: -1, h0: 0, h1: 0, foundAt };
  function foundAt(row: number, h0: number, h1: number): void {
    hint.row = row;
    hint.h0 = h0;
    hint.h1 = h1;
  }
  return hint;
}
