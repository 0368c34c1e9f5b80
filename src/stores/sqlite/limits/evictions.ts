/**
 * Which buckets give way to new ones where the file has as many as it may: limiter clause 8, by the rules of the memory
 * limiter (`src/ratelimit/memory/bucket-table.ts`).
 *
 * A workspace that holds its equal share, or more, gives up buckets of its own, and none that refuses. Below its share
 * it takes of the workspace that holds most; of that one even a bucket that refuses, if none of those looked at does
 * anything else.
 */
import { utilization } from "../../../ratelimit/memory/bucket.js";
import { type Eviction, type EvictionSearch, isBelowShare } from "../../../ratelimit/memory/taking.js";
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

/**
 * @param find a bucket as this transaction has left it
 * @returns chooses a bucket to evict: see `KeptBuckets.choose`
 */
export function createEvictions(rows: BucketRows, totals: Totals, find: (id: number) => StoredBucket | undefined) {
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

  return (search: EvictionSearch): Eviction | undefined => {
    const { workspaceId, mustBeAdHoc, isTaken, now } = search;
    const own = totals.find(workspaceId);
    const { holders } = mustBeAdHoc ? totals.adHoc() : totals.all();
    const held = (mustBeAdHoc ? own?.adHoc : own?.buckets) ?? 0;
    const isBelow = isBelowShare(held, holders, search);
    const giver = isBelow ? totals.largest(mustBeAdHoc) : own;
    if (giver === undefined) return undefined;
    const probes = isBelow ? PROBES_BEFORE_REFUSING : PROBES;
    const isOfGiver = (kind: boolean, { id, holder, isAdHoc }: StoredBucket) =>
      holder === giver.number && isAdHoc === kind && !isTaken(id);
    const evicting = ({ bucket: { id, isAdHoc }, used }: Candidate): Eviction => ({
      place: id,
      isAdHoc,
      refuses: used === Infinity,
    });
    const attempt = (isFresh: boolean): Eviction | "again" | undefined => {
      const kinds = mustBeAdHoc ? [true] : [false, true];
      const drawn = kinds.map((kind) => ({ kind, sample: sampleOf(giver.number, kind, probes, now, isFresh) }));
      const yielding = drawn.flatMap(({ kind, sample }) => {
        const mayGo = ({ bucket, used }: Candidate) => used < Infinity && isOfGiver(kind, bucket);
        return firstOf(sample, sample.yielding, mayGo, now) ?? [];
      });
      const [best] = yielding.sort((one, other) => one.used - other.used);
      if (best !== undefined) return evicting(best);
      for (const { kind, sample } of isBelow ? drawn : []) {
        const one = firstOf(sample, sample.refusing, ({ bucket }) => isOfGiver(kind, bucket), now);
        if (one !== undefined) return evicting(one);
      }
      return drawn.some(({ sample }) => sample.isUsed) ? "again" : undefined;
    };
    const first = attempt(false);
    if (first !== "again") return first;
    const second = attempt(true);
    return second === "again" ? undefined : second;
  };
}
