/**
 * Which buckets give way to new ones where the file has as many as it may: limiter clause 8, by the rules of the memory
 * limiter (`src/ratelimit/memory/bucket-table.ts`).
 *
 * A workspace that holds its equal share, or more, gives up buckets of its own, and none that refuses. Below its share
 * it takes of the workspace that holds most; of that one even a bucket that refuses, if none of those looked at does
 * anything else.
 */
import { utilization } from "../../../ratelimit/memory/bucket.js";
import { type BucketRows, ID_BOUND, type StoredBucket } from "./bucket-rows.js";
import type { Totals } from "./totals.js";

/** Buckets examined to find one to evict, and where one that refuses would go. */
const PROBES = 32;
const PROBES_BEFORE_REFUSING = 128;
/** Buckets read at once: usually one of the first does. */
const PAGE = 8;

/** New buckets of one call, which are all of one workspace. */
export interface Newcomers {
  readonly workspaceId: string;
  /** For each, whether its limit is ad hoc. */
  readonly kinds: readonly boolean[];
}

/** A bucket that gives way. */
export interface Eviction {
  readonly bucket: StoredBucket;
  readonly refuses: boolean;
}

export interface Evictions {
  /**
   * Chooses what gives way. Changes nothing.
   * @param isInUse whether the current call takes from this bucket
   * @returns undefined: not enough buckets can be evicted
   */
  choose(
    newcomers: Newcomers,
    isInUse: (bucket: StoredBucket) => boolean,
    now: number,
  ): readonly Eviction[] | undefined;
}

/**
 * @param bound most buckets in the file; those of ad hoc limits may be half of it
 * @param current the bucket as this transaction has left it, for one that was read from the file
 */
export function createEvictions(
  rows: BucketRows,
  totals: Totals,
  bound: number,
  current: (bucket: StoredBucket) => StoredBucket,
): Evictions {
  const adHocBound = Math.ceil(bound / 2);

  /** Examines buckets from a random one on, so that nobody can tell which are next. */
  const probe = (holder: number, isAdHoc: boolean, most: number, look: (bucket: StoredBucket) => boolean): void => {
    const start = Math.floor(Math.random() * ID_BOUND);
    let from = start;
    let hasWrapped = false;
    for (let probed = 0; probed < most;) {
      const page = rows.listOf(holder, isAdHoc, from, Math.min(PAGE, most - probed));
      for (const bucket of page) {
        if (hasWrapped && bucket.id >= start) return;
        probed++;
        if (look(current(bucket))) return;
        from = bucket.id + 1;
      }
      if (page.length === PAGE || probed >= most) continue;
      if (hasWrapped) return;
      hasWrapped = true;
      from = 0;
    }
  };

  const chooseOne = (
    workspaceId: string,
    earlier: number,
    mustBeAdHoc: boolean,
    chosen: readonly Eviction[],
    isInUse: (bucket: StoredBucket) => boolean,
    now: number,
  ): Eviction | undefined => {
    const own = totals.find(workspaceId);
    const { holders } = mustBeAdHoc ? totals.adHoc() : totals.all();
    const before = (mustBeAdHoc ? own?.adHoc : own?.buckets) ?? 0;
    const share = Math.floor((mustBeAdHoc ? adHocBound : bound) / (holders + (before === 0 ? 1 : 0)));
    const isBelowShare = before + earlier < Math.max(share, 1);
    const giver = isBelowShare ? totals.largest(mustBeAdHoc) : own;
    if (giver === undefined) return undefined;
    let best: StoredBucket | undefined;
    let lowest = Infinity;
    let refusing: StoredBucket | undefined;
    const look = (bucket: StoredBucket): boolean => {
      if (isInUse(bucket) || chosen.some((one) => one.bucket.id === bucket.id)) return false;
      const used = utilization(bucket, now);
      if (used < lowest) [best, lowest] = [bucket, used];
      else if (used === Infinity) refusing ??= bucket;
      return lowest === 0;
    };
    const probes = isBelowShare ? PROBES_BEFORE_REFUSING : PROBES;
    if (!mustBeAdHoc) probe(giver.number, false, probes, look);
    if (lowest > 0) probe(giver.number, true, probes, look);
    if (best !== undefined) return { bucket: best, refuses: false };
    return isBelowShare && refusing !== undefined ? { bucket: refusing, refuses: true } : undefined;
  };

  return {
    choose({ workspaceId, kinds }, isInUse, now) {
      let space = bound - totals.all().buckets;
      let adHocSpace = adHocBound - totals.adHoc().buckets;
      const chosen: Eviction[] = [];
      for (const [i, isAdHoc] of kinds.entries()) {
        const mustBeAdHoc = isAdHoc && adHocSpace <= 0;
        if (mustBeAdHoc || space <= 0) {
          const one = chooseOne(workspaceId, i, mustBeAdHoc, chosen, isInUse, now);
          if (one === undefined) return undefined;
          chosen.push(one);
          space++;
          if (one.bucket.isAdHoc) adHocSpace++;
        }
        space--;
        if (isAdHoc) adHocSpace--;
      }
      return chosen;
    },
  };
}
