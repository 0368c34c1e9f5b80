/** Token-bucket arithmetic, exact in integers. */
import type { LimitVerdict } from "../../contracts/limiter.js";

/*
 * Why units: levels count token × millisecond. One token is `duration` units, `limit` units drain per millisecond, and
 * the capacity is `limit × duration`. Within the schema's bounds (contract 8) that is at most 2.6e15 < 2^53, so
 * nothing is ever rounded.
 *
 * Why several levels: overriding a limit or duration must not gain tokens. With one level, a check at a fast override
 * would drain what a slow limit still counts as used. So a bucket has a level for each rate that it is used with; each
 * take is charged to all of them, and each drains at its own rate. The level of a new rate starts with the most used on
 * any level. At most MAX_LEVELS are kept. The fastest but the first is replaced, because a slower one always has at
 * least as much used and stands in for it.
 *
 * The first level is at the configured rate, where one is configured, and its level cannot stand in for others, because
 * overrides leave it no debt. When another rate is configured, the first level changes to it: what is used stays used,
 * and drains at the new rate from then on. So a changed limit needs no level of its own.
 *
 * Why a refusal brings the rate of its check along, too: the wait that it tells is made of this rate. Without a level
 * for it, what is used would go on draining at the others, sooner or later than was told.
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
  return { exceeded, remaining, reset: Math.min(MAX_UNITS, used / drainPerMs) };
}

/** Units still used after `elapsed` milliseconds. A product above 2^53 is inexact, but it also exceeds every level. */
export function drain(used: number, drainPerMs: number, elapsed: number): number {
  const left = used - Math.floor(elapsed * drainPerMs);
  return left > 0 ? left : 0;
}

/**
 * Brings the rates of a check along, whatever becomes of its call: what is used drains at them from now on.
 * @param configured the limit's configured rate; `undefined`: `rate` is the request's own
 * @returns whether the bucket has changed; a full one has not
 */
export function adopt(bucket: Bucket, rate: Rate, configured: Rate | undefined, now: number): boolean {
  const { limit, duration } = bucket.rate;
  const isChanged = configured !== undefined && configured.unitsPerToken > 0 && !isRate(configured, limit, duration);
  const isKnown = rate.unitsPerToken === 0 || rateIn(bucket, rate.limit, rate.duration) !== undefined;
  if ((isKnown && !isChanged) || utilization(bucket, now) === 0) return false;
  bringUpToDate(bucket, now);
  if (isChanged) takeOver(bucket, configured);
  open(bucket, rate);
  return true;
}

/**
 * Takes `cost` > 0 tokens that fit: brings all levels up to date, adds a missing one, and charges them all.
 * @param configured as for {@link adopt}. What an override takes is used up there too, down to an empty bucket. It
 *   never becomes a debt: otherwise a key used with a generous override would be locked for days after the override
 *   ends
 */
export function charge(bucket: Bucket, rate: Rate, cost: number, now: number, configured?: Rate): void {
  if (bringUpToDate(bucket, now)) {
    bucket.rate = firstOf(rate, configured);
    bucket.next = undefined;
  }
  open(bucket, rate);
  const { limit, duration, capacity } = bucket.rate;
  const isOverride = configured !== undefined && !isRate(rate, limit, duration);
  let max = isOverride ? Math.max(bucket.used, capacity) : MAX_UNITS;
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) {
    level.used = Math.min(max, level.used + cost * level.rate.unitsPerToken);
    max = MAX_UNITS;
  }
}

/** The rate of a new bucket's first level: one of 0 units has none. */
export function firstOf(rate: Rate, configured: Rate | undefined): Rate {
  return configured !== undefined && configured.unitsPerToken > 0 ? configured : rate;
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
  let most = 0;
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) {
    const used = drained(level, elapsed);
    if (isRate(level.rate, rate.limit, rate.duration)) return used;
    if (used > 0) most = Math.max(most, converted(used, level.rate, rate));
  }
  return most;
}

/** The same tokens in units of another rate, rounded up. */
function converted(used: number, { unitsPerToken }: Rate, to: Rate): number {
  const tokens = Math.floor(used / unitsPerToken);
  const rest = ((used - tokens * unitsPerToken) * to.unitsPerToken) / unitsPerToken;
  return Math.min(MAX_UNITS, tokens * to.unitsPerToken + Math.ceil(rest));
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

/** Changes the first level to a rate that was configured since. A level that overrides had at this rate joins it. */
function takeOver(bucket: Bucket, rate: Rate): void {
  bucket.used = converted(bucket.used, bucket.rate, rate);
  bucket.rate = rate;
  let last: Level = bucket;
  for (let level = bucket.next; level !== undefined; level = level.next) {
    if (!isRate(level.rate, rate.limit, rate.duration)) last = level;
    else {
      bucket.used = Math.max(bucket.used, level.used);
      last.next = level.next;
    }
  }
}

/** Adds a level for this rate if there is none. The bucket must be up to date. A rate of 0 units has none. */
function open(bucket: Bucket, rate: Rate): void {
  if (rate.unitsPerToken === 0) return;
  let count = 0;
  let last: Level = bucket;
  let fastest: Level | undefined;
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) {
    if (isRate(level.rate, rate.limit, rate.duration)) return;
    if (level !== bucket && (fastest === undefined || speedOf(level) > speedOf(fastest))) fastest = level;
    last = level;
    count++;
  }
  const used = unitsUsed(bucket, rate, bucket.at);
  if (fastest === undefined || count < MAX_LEVELS) last.next = { rate, used, next: undefined };
  else {
    fastest.rate = rate;
    fastest.used = used;
  }
}

/** Tokens per millisecond. */
function speedOf({ rate }: Level): number {
  return rate.drainPerMs / rate.unitsPerToken;
}
