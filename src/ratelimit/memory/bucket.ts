/** Token-bucket arithmetic, exact in integers. */
import type { LimitVerdict } from "../../contracts/limiter.js";

/*
 * Why units: levels count token × millisecond. One token is `duration` units, `limit` units drain per millisecond, and
 * the capacity is `limit × duration`. Within the schema's bounds (contract 8) that is at most 2.6e15 < 2^53, so
 * nothing is ever rounded.
 *
 * Why several levels: overriding a limit or duration must not gain tokens. With one level, a check at a fast override
 * would drain what a slow limit still counts as used. So a bucket has a level for each rate that it is used with; each
 * take is charged to all of them, and each drains at its own rate. The configured rate has a level from the first take
 * on, so that tokens taken with an override do not return faster. The level of a new rate starts with the most tokens
 * used on any level. At most MAX_LEVELS are kept. The fastest one is replaced, because a slower one always has at least
 * as much used and stands in for it. The configured rate's level cannot stand in this way, because it never holds more
 * than its capacity; with four levels two others always can.
 *
 * A bucket whose levels are all empty is full, and equal to a new one: dropping it changes no result.
 */

/** The largest exact integer; levels never exceed it. */
const MAX_UNITS = Number.MAX_SAFE_INTEGER;
const MAX_LEVELS = 4;
const MAX_MEMOIZED_RATES = 256;

/** A limit and a duration, and their values in units. */
export interface Rate {
  readonly limit: number;
  /** Milliseconds. */
  readonly duration: number;
  /**
   * Units per token; 0 with a duration of 0, where nothing stays used, and with a limit of 0, where nothing is taken.
   */
  readonly unitsPerToken: number;
  /** Units that drain per millisecond. */
  readonly drainPerMs: number;
  /** Capacity in units. */
  readonly capacity: number;
}

/** What is used of a bucket, counted at one rate. */
export interface Level {
  rate: Rate;
  /** Units, at most 2^53 − 1; may exceed the rate's capacity after takes at larger rates. */
  used: number;
  next: Level | undefined;
}

/** A bucket: its first level, and the time at which all its levels were last brought up to date. */
export interface Bucket extends Level {
  /** Unix time, milliseconds; only moves forward. */
  at: number;
}

/**
 * Converts `limit` tokens per `duration` milliseconds to units. Exact if the least common multiple of the two is below
 * 2^53; otherwise a token is still exact, and the refill is slower than requested by less than one part in 2^50.
 * Exported for its tests.
 * @param limit 0…2^53 − 1
 * @param duration milliseconds, 0…2^53 − 1
 */
export function toRate(limit: number, duration: number): Rate {
  // No level: it would never drain.
  if (limit === 0) return { limit, duration, unitsPerToken: 0, drainPerMs: 0, capacity: 0 };
  // Always reduced: the smaller the units, the more rates are exact.
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

/** {@link toRate} with a cache of up to 256 recent results, so that buckets of one limit share one rate. */
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

/** The rate of the level of a bucket at this limit and duration. */
export function rateIn(bucket: Bucket, limit: number, duration: number): Rate | undefined {
  let level: Level | undefined = bucket;
  while (level !== undefined && !isRate(level.rate, limit, duration)) level = level.next;
  return level?.rate;
}

/** Whether `rate` has this limit and duration. */
function isRate(rate: Rate, limit: number, duration: number): boolean {
  return rate.limit === limit && rate.duration === duration;
}

/**
 * Whether `cost` more tokens fit now. Changes nothing.
 * @param cost tokens, 0…2^53 − 1; 0 always fits
 * @param pending tokens that earlier checks of the same call are about to take
 */
export function fits(bucket: Bucket, rate: Rate, cost: number, pending: number, now: number): boolean {
  return cost === 0 || fitsIn(unitsUsed(bucket, rate, now), rate.limit, rate.unitsPerToken, pending + cost);
}

/** Whether so many tokens, more than 0, fit where so many units are used. */
export function fitsIn(used: number, limit: number, unitsPerToken: number, tokens: number): boolean {
  return tokens <= limit && used <= limit * unitsPerToken - tokens * unitsPerToken;
}

/**
 * The state of a bucket now, seen at this rate. Changes nothing; allocates the result.
 * @returns `remaining` 0…limit; `reset` by the bucket's own time, or `duration` if the limit is 0, because then no wait
 *   helps
 */
export function verdictOf(bucket: Bucket, rate: Rate, exceeded: boolean, now: number): LimitVerdict {
  return toVerdict(unitsUsed(bucket, rate, now), rate, exceeded);
}

/** The same where so many units are used. */
export function toVerdict(used: number, rate: Rate, exceeded: boolean): LimitVerdict {
  return verdictAt(used, rate.limit, rate.duration, rate.unitsPerToken, rate.drainPerMs, exceeded);
}

/** The same of the numbers of a rate. */
export function verdictAt(
  used: number,
  limit: number,
  duration: number,
  unitsPerToken: number,
  drainPerMs: number,
  exceeded: boolean,
): LimitVerdict {
  if (limit === 0) return { exceeded, remaining: 0, reset: duration };
  if (unitsPerToken === 0) return { exceeded, remaining: limit, reset: 0 };
  const capacity = limit * unitsPerToken;
  const remaining = used < capacity ? Math.floor((capacity - used) / unitsPerToken) : 0;
  return { exceeded, remaining, reset: Math.min(MAX_UNITS, Math.ceil(used / drainPerMs)) };
}

/** Units still used after `elapsed` milliseconds. A product above 2^53 is inexact, but it also exceeds every level. */
export function drain(used: number, drainPerMs: number, elapsed: number): number {
  const left = used - Math.floor(elapsed * drainPerMs);
  return left > 0 ? left : 0;
}

/**
 * Takes `cost` > 0 tokens that fit: brings all levels up to date, adds missing ones, and charges them all.
 * @param configured the limit's configured rate, if `rate` is an override. What is taken is used up there too, down to
 *   an empty bucket, and returns at the configured rate. It never becomes a debt: otherwise a key used with a generous
 *   override would be locked for days after the override ends
 */
export function charge(bucket: Bucket, rate: Rate, cost: number, now: number, configured = rate): void {
  if (bringUpToDate(bucket, now)) {
    bucket.rate = firstOf(rate, configured);
    bucket.next = undefined;
  }
  const isOverride = !isRate(configured, rate.limit, rate.duration);
  open(bucket, configured, isOverride ? configured.capacity : MAX_UNITS);
  if (isOverride) open(bucket, rate, MAX_UNITS);
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) {
    const max =
      isOverride && isRate(level.rate, configured.limit, configured.duration)
        ? Math.max(level.used, configured.capacity)
        : MAX_UNITS;
    level.used = Math.min(max, level.used + cost * level.rate.unitsPerToken);
  }
}

/** The rate of a new bucket's first level: one of 0 units has none. */
export function firstOf(rate: Rate, configured: Rate): Rate {
  return configured.unitsPerToken > 0 ? configured : rate;
}

/**
 * How much of a bucket is used now: 0 if it is full, `Infinity` if it refuses (less than one whole token left at any of
 * its rates), otherwise the largest used fraction of a capacity, between 0 and 1.
 */
export function utilization(bucket: Bucket, now: number): number {
  const elapsed = elapsedSince(bucket.at, now);
  let utilization = 0;
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next)
    utilization = Math.max(
      utilization,
      utilizationOf(drained(level, elapsed), level.rate.limit, level.rate.unitsPerToken),
    );
  return utilization;
}

/** The same of one level, where so many units are used. */
export function utilizationOf(used: number, limit: number, unitsPerToken: number): number {
  const capacity = limit * unitsPerToken;
  if (used > capacity - unitsPerToken) return Infinity;
  return used > 0 ? used / capacity : 0;
}

/** A clock that steps back counts as one that stands still. */
export function elapsedSince(at: number, now: number): number {
  return now > at ? now - at : 0;
}

function drained(level: Level, elapsed: number): number {
  return drain(level.used, level.rate.drainPerMs, elapsed);
}

/** Units used at this rate: those of its level, or what a new level would start with. */
function unitsUsed(bucket: Bucket, rate: Rate, now: number): number {
  const elapsed = elapsedSince(bucket.at, now);
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

/** Brings all levels up to `now`. True: nothing is used on any. */
function bringUpToDate(bucket: Bucket, now: number): boolean {
  const elapsed = elapsedSince(bucket.at, now);
  bucket.at += elapsed;
  let empty = true;
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) {
    level.used = drained(level, elapsed);
    if (level.used > 0) empty = false;
  }
  return empty;
}

/**
 * Adds a level for this rate if there is none. The bucket must be up to date. A rate of 0 units has none.
 * @param max most units that a new level starts with
 */
function open(bucket: Bucket, rate: Rate, max: number): void {
  if (rate.unitsPerToken === 0) return;
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
