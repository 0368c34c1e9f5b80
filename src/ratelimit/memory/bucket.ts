/** Token-bucket arithmetic, exact in integers. Rulings C2, C4, A7. Knows numbers; knows nothing of names, calls or memory. */
import type { LimitVerdict } from "../../contracts/limiter.js";

/*
 * Why units. Levels count token × millisecond: one token is `duration` units, `limit` units drain each millisecond and
 * `limit × duration` fit. Within the schema's bounds (spec §8) that is at most 2.6e15 < 2^53, so nothing is ever rounded.
 *
 * Why several levels. An override of limit or duration must gain nothing (ruling C2). With one level, a check at a fast override
 * would drain what a slow limit still holds. So a bucket keeps a level for each pair it is used with, each take is charged to
 * all of them, and each drains at its own speed. The limit's own pair is there from the first take on, so that tokens taken with
 * an override do not return at its speed. A pair that comes later starts with the most tokens used on any level. Only
 * MAX_LEVELS are kept: the fastest gives way, because a slower one always holds at least as much and stands in for it; the
 * limit's own cannot, as it never holds more than fits: two others always can.
 *
 * Once every level is empty the bucket is full, and as if never seen: dropping it then changes no answer.
 */

/** The largest exact integer: levels stop there. */
const MAX_UNITS = Number.MAX_SAFE_INTEGER;
const MAX_LEVELS = 4;
const MAX_MEMOIZED_RATES = 256;

/** A limit and a duration, and what they mean in units. */
export interface Rate {
  readonly limit: number;
  /** Milliseconds. */
  readonly duration: number;
  /** Units of one token; 0 with a duration of 0: nothing stays used. */
  readonly unitsPerToken: number;
  /** Units that drain each millisecond. */
  readonly drainPerMs: number;
  /** Units that fit. */
  readonly capacity: number;
}

/** What is used of a bucket, seen with one pair. */
export interface Level {
  rate: Rate;
  /** Units, at most 2^53 − 1; may pass the pair's capacity after takes with larger pairs. */
  used: number;
  next: Level | undefined;
}

/** A bucket is its first level, and the time at which all its levels were brought up to date. */
export interface Bucket extends Level {
  /** Unix time, milliseconds; only moves forward. */
  at: number;
}

/**
 * What `limit` tokens in `duration` milliseconds mean in units. Exact when the least common multiple of the two fits in 2^53;
 * beyond that a token is still exact and the refill is slower than asked by less than one part in 2^50.
 * @param limit 0…2^53 − 1
 * @param duration milliseconds, 0…2^53 − 1
 */
export function toRate(limit: number, duration: number): Rate {
  // Always reduced: the smaller the units, the more pairs are exact.
  const divisor = greatestCommonDivisor(limit, duration) || 1;
  const unitsPerToken = duration / divisor;
  const capacity = limit * unitsPerToken;
  if (capacity <= MAX_UNITS) return { limit, duration, unitsPerToken, drainPerMs: limit / divisor, capacity };
  const reducedUnits = Math.floor(MAX_UNITS / limit);
  // The factor outweighs three roundings to nearest, so that a drain is never too fast.
  const drainPerMs = ((reducedUnits * limit) / duration) * (1 - 2 ** -51);
  return { limit, duration, unitsPerToken: reducedUnits, drainPerMs, capacity: reducedUnits * limit };
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

/** {@link toRate} that shares recent answers, so that buckets of one limit share one pair. Holds at most 256. */
export function rateMemo(): (limit: number, duration: number) => Rate {
  const recent = new Array<Rate | undefined>(MAX_MEMOIZED_RATES).fill(undefined);
  return (limit, duration) => {
    const slot = (limit ^ duration) & (MAX_MEMOIZED_RATES - 1);
    const known = recent[slot];
    if (known !== undefined && isRate(known, limit, duration)) return known;
    const rate = toRate(limit, duration);
    recent[slot] = rate;
    return rate;
  };
}

/** Whether `pair` was made of these two. */
export function isRate(rate: Rate, limit: number, duration: number): boolean {
  return rate.limit === limit && rate.duration === duration;
}

/**
 * Whether `cost` more tokens fit now. Changes nothing.
 * @param bucket `undefined`: never seen, so full
 * @param cost tokens, 0…2^53 − 1; 0 always fits (ruling C4)
 * @param pending tokens that earlier checks of the same call are about to take
 */
export function fits(bucket: Bucket | undefined, rate: Rate, cost: number, pending: number, now: number): boolean {
  if (cost === 0) return true;
  const wanted = pending + cost;
  if (wanted > rate.limit) return false;
  return unitsUsed(bucket, rate, now) <= rate.capacity - wanted * rate.unitsPerToken;
}

/**
 * How a bucket stands now with this pair. Changes nothing; allocates the answer.
 * @returns `remaining` 0…limit; `reset` by the bucket's own time, and `duration` where the limit is 0: no wait helps there
 */
export function verdictOf(bucket: Bucket | undefined, rate: Rate, exceeded: boolean, now: number): LimitVerdict {
  if (rate.limit === 0) return { exceeded, remaining: 0, reset: rate.duration };
  if (rate.unitsPerToken === 0) return { exceeded, remaining: rate.limit, reset: 0 };
  const used = unitsUsed(bucket, rate, now);
  return {
    exceeded,
    remaining: tokensLeft(used, rate.capacity, rate.unitsPerToken),
    reset: untilFull(used, rate.drainPerMs),
  };
}

/** Whole tokens that still fit. */
export function tokensLeft(used: number, capacity: number, unitsPerToken: number): number {
  return used < capacity ? Math.floor((capacity - used) / unitsPerToken) : 0;
}

/** Milliseconds until nothing is used. */
export function untilFull(used: number, drainPerMs: number): number {
  return Math.min(MAX_UNITS, Math.ceil(used / drainPerMs));
}

/** Units still used after `elapsed` milliseconds. A product past 2^53 is inexact, but then past every level too. */
export function drain(used: number, drainPerMs: number, elapsed: number): number {
  const left = used - Math.floor(elapsed * drainPerMs);
  return left > 0 ? left : 0;
}

/**
 * Takes `cost` > 0 tokens that fit: brings all levels up to now, opens those that are missing, and charges them all.
 * @param configured the pair of the limit itself, where `pair` is an override: what is taken is used up there too, until nothing is left, and
 *   comes back at its own speed. No debt: else a key used with a generous override would be locked for days once that ends
 */
export function charge(bucket: Bucket, rate: Rate, cost: number, now: number, configured = rate): void {
  if (bringUpToDate(bucket, now)) {
    bucket.rate = firstOf(rate, configured);
    bucket.next = undefined;
  }
  const isOverride = !isRate(configured, rate.limit, rate.duration);
  if (configured.unitsPerToken > 0) open(bucket, configured, isOverride ? configured.capacity : MAX_UNITS);
  if (rate.unitsPerToken > 0) open(bucket, rate, MAX_UNITS);
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) {
    const max =
      isOverride && isRate(level.rate, configured.limit, configured.duration)
        ? Math.max(level.used, configured.capacity)
        : MAX_UNITS;
    level.used = Math.min(max, level.used + cost * level.rate.unitsPerToken);
  }
}

/** The pair a bucket begins with: with a duration of 0 nothing stays used. */
export function firstOf(rate: Rate, configured: Rate): Rate {
  return configured.unitsPerToken > 0 ? configured : rate;
}

/**
 * How much of a bucket is used now: 0 when it is full, `Infinity` when it refuses (less than one whole token left with any
 * pair it is used with), else the largest used part of a capacity, between 0 and 1.
 */
export function utilization(bucket: Bucket, now: number): number {
  const elapsed = elapsedSince(bucket, now);
  let utilization = 0;
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) {
    utilization = Math.max(
      utilization,
      utilizationOf(drained(level, elapsed), level.rate.capacity, level.rate.unitsPerToken),
    );
  }
  return utilization;
}

/** {@link utilization} of one level. */
export function utilizationOf(used: number, capacity: number, unitsPerToken: number): number {
  if (used > capacity - unitsPerToken) return Infinity;
  return used > 0 ? used / capacity : 0;
}

/** A clock that steps back counts as one that stands still (ruling A7). */
function elapsedSince(bucket: Bucket, now: number): number {
  return now > bucket.at ? now - bucket.at : 0;
}

function drained(level: Level, elapsed: number): number {
  return drain(level.used, level.rate.drainPerMs, elapsed);
}

/** Units used as this pair sees them: those of its level, or the tokens a new level would start with. */
function unitsUsed(bucket: Bucket | undefined, rate: Rate, now: number): number {
  if (bucket === undefined) return 0;
  const elapsed = elapsedSince(bucket, now);
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) {
    if (isRate(level.rate, rate.limit, rate.duration)) return drained(level, elapsed);
  }
  return Math.min(MAX_UNITS, tokensUsed(bucket, elapsed) * rate.unitsPerToken);
}

/** The most tokens used on any level, rounded up. */
function tokensUsed(bucket: Bucket, elapsed: number): number {
  let max = 0;
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) {
    const used = drained(level, elapsed);
    if (used > 0) max = Math.max(max, Math.ceil(used / level.rate.unitsPerToken));
  }
  return max;
}

/** Brings all levels up to now; true: nothing is used on any. */
function bringUpToDate(bucket: Bucket, now: number): boolean {
  const elapsed = elapsedSince(bucket, now);
  bucket.at += elapsed;
  let empty = true;
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) {
    level.used = drained(level, elapsed);
    if (level.used > 0) empty = false;
  }
  return empty;
}

/** Makes sure that a bucket that is up to date has a level for this pair. @param max units that a new one begins with at most */
function open(bucket: Bucket, rate: Rate, max: number): void {
  let count = 0;
  let last: Level = bucket;
  let fastest: Level = bucket;
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) {
    if (isRate(level.rate, rate.limit, rate.duration)) return;
    if (level.rate.drainPerMs / level.rate.unitsPerToken > fastest.rate.drainPerMs / fastest.rate.unitsPerToken)
      fastest = level;
    last = level;
    count++;
  }
  const used = Math.min(max, tokensUsed(bucket, 0) * rate.unitsPerToken);
  if (count < MAX_LEVELS) last.next = { rate, used, next: undefined };
  else {
    fastest.rate = rate;
    fastest.used = used;
  }
}
