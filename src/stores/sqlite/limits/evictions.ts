/**
 * Which buckets give way to new ones where the file has as many as it may: limiter clause 8, by the rules of the memory
 * limiter (`src/ratelimit/memory/bucket-table.ts`).
 *
 * A workspace that holds its equal share, or more, gives up buckets of its own, and none that refuses. Below its share
 * it takes of the workspace that holds most; of that one even a bucket that refuses, if none of those looked at does
 * anything else.
 */
import { utilization } from "../../../ratelimit/memory/bucket.js";
import { type BucketRows, ID_BOUND, type StoredBucket } from "./stored-buckets.js";
import type { Totals } from "./totals.js";

/** Buckets examined of each kind to find one to evict, and where one that refuses would go. */
const PROBES = 32;
const PROBES_BEFORE_REFUSING = 128;
/**
 * Milliseconds for which a sample counts. Examining 256 buckets takes 1.5 ms, which each new bucket of a flood would
 * cost otherwise, while the file is locked.
 */
const MAX_SAMPLE_AGE = 100;
const MAX_SAMPLES = 64;

/** Buckets of one holder and one kind, drawn at random: those to go first are last. */
interface Sample {
  readonly drawnAt: number;
  readonly probes: number;
  readonly yielding: number[];
  readonly refusing: number[];
  /** Whether some have left it: a new sample may find more. */
  isUsed: boolean;
}

/** A bucket that may be evicted, and the fraction of it that is used: `Infinity` if it refuses. */
interface Candidate {
  readonly bucket: StoredBucket;
  readonly used: number;
}

/** New buckets of one call, which are all of one workspace. */
export interface NewBuckets {
  readonly workspaceId: string;
  /** For each, whether its limit is ad hoc. */
  readonly kinds: readonly boolean[];
}

/** A bucket that gives way. */
export interface Eviction {
  readonly bucket: StoredBucket;
  readonly refuses: boolean;
}

/**
 * @param bound most buckets in the file; those of ad hoc limits may be half of it
 * @param find a bucket as this transaction has left it
 */
export function createEvictions(
  rows: BucketRows,
  totals: Totals,
  bound: number,
  find: (id: number) => StoredBucket | undefined,
) {
  const adHocBound = Math.ceil(bound / 2);
  const samples = new Map<string, Sample>();

  /** Draws a sample: from a random bucket on, so that nobody can tell which are next. */
  const draw = (holder: number, isAdHoc: boolean, probes: number, now: number): Sample => {
    const start = Math.floor(Math.random() * ID_BOUND);
    const found = rows.listOf(holder, isAdHoc, start, probes);
    if (found.length < probes) {
      const before = rows.listOf(holder, isAdHoc, 0, probes - found.length);
      found.push(...before.filter(({ id }) => id < start));
    }
    const all = found.map(({ id }) => candidateOf(id, now)).filter((one) => one !== undefined);
    const yielding = all.filter(({ used }) => used < Infinity).sort((a, b) => b.used - a.used);
    const refusing = all.filter(({ used }) => used === Infinity);
    const idOf = ({ bucket }: Candidate) => bucket.id;
    return { drawnAt: now, probes, yielding: yielding.map(idOf), refusing: refusing.map(idOf), isUsed: false };
  };
  const candidateOf = (id: number, now: number): Candidate | undefined => {
    const bucket = find(id);
    return bucket && { bucket, used: utilization(bucket, now) };
  };
  const sampleOf = (holder: number, isAdHoc: boolean, probes: number, now: number, isFresh: boolean): Sample => {
    const name = `${holder} ${isAdHoc}`;
    const known = samples.get(name);
    if (!isFresh && known !== undefined && known.probes >= probes && now - known.drawnAt < MAX_SAMPLE_AGE) return known;
    if (samples.size >= MAX_SAMPLES) samples.clear();
    const sample = draw(holder, isAdHoc, probes, now);
    samples.set(name, sample);
    return sample;
  };
  /** The first of a sample's list that may go; those before it leave the list. */
  const firstOf = (sample: Sample, ids: number[], mayGo: (one: Candidate) => boolean, now: number) => {
    for (let id = ids.at(-1); id !== undefined; id = ids.at(-1)) {
      const one = candidateOf(id, now);
      if (one !== undefined && mayGo(one)) return one;
      ids.pop();
      sample.isUsed = true;
    }
    return undefined;
  };

  const chooseOne = (
    workspaceId: string,
    earlier: number,
    mustBeAdHoc: boolean,
    isFree: (bucket: StoredBucket) => boolean,
    now: number,
  ): Eviction | undefined => {
    const own = totals.find(workspaceId);
    const { holders } = mustBeAdHoc ? totals.adHoc() : totals.all();
    const before = (mustBeAdHoc ? own?.adHoc : own?.buckets) ?? 0;
    const share = Math.floor((mustBeAdHoc ? adHocBound : bound) / (holders + (before === 0 ? 1 : 0)));
    const isBelowShare = before + earlier < Math.max(share, 1);
    const giver = isBelowShare ? totals.largest(mustBeAdHoc) : own;
    if (giver === undefined) return undefined;
    const probes = isBelowShare ? PROBES_BEFORE_REFUSING : PROBES;
    const isOfGiver = (kind: boolean, bucket: StoredBucket) =>
      bucket.holder === giver.number && bucket.isAdHoc === kind && isFree(bucket);
    const attempt = (isFresh: boolean): Eviction | "again" | undefined => {
      const kinds = mustBeAdHoc ? [true] : [false, true];
      const drawn = kinds.map((kind) => ({ kind, sample: sampleOf(giver.number, kind, probes, now, isFresh) }));
      const yielding = drawn.flatMap(({ kind, sample }) => {
        const mayGo = ({ bucket, used }: Candidate) => used < Infinity && isOfGiver(kind, bucket);
        return firstOf(sample, sample.yielding, mayGo, now) ?? [];
      });
      const [best] = yielding.sort((one, other) => one.used - other.used);
      if (best !== undefined) return { bucket: best.bucket, refuses: false };
      for (const { kind, sample } of isBelowShare ? drawn : []) {
        const one = firstOf(sample, sample.refusing, ({ bucket }) => isOfGiver(kind, bucket), now);
        if (one !== undefined) return { bucket: one.bucket, refuses: one.used === Infinity };
      }
      return drawn.some(({ sample }) => sample.isUsed) ? "again" : undefined;
    };
    const first = attempt(false);
    if (first !== "again") return first;
    const second = attempt(true);
    return second === "again" ? undefined : second;
  };

  return {
    /**
     * Chooses what gives way. Changes nothing.
     * @param isInUse whether the current call takes from this bucket
     * @returns undefined: not enough buckets can be evicted
     */
    choose(
      { workspaceId, kinds }: NewBuckets,
      isInUse: (bucket: StoredBucket) => boolean,
      now: number,
    ): readonly Eviction[] | undefined {
      let space = bound - totals.all().buckets;
      let adHocSpace = adHocBound - totals.adHoc().buckets;
      const chosen: Eviction[] = [];
      for (const [i, isAdHoc] of kinds.entries()) {
        const mustBeAdHoc = isAdHoc && adHocSpace <= 0;
        if (mustBeAdHoc || space <= 0) {
          const isFree = (bucket: StoredBucket) =>
            !isInUse(bucket) && !chosen.some((earlier) => earlier.bucket.id === bucket.id);
          const one = chooseOne(workspaceId, i, mustBeAdHoc, isFree, now);
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
