/** Token-bucket arithmetic, exact in integers. */
import type { LimitVerdict, LimitCheck } from "../../contracts/limiter.js";

/*
 * Why units: levels count token × millisecond. One token is `duration` units, `limit` units drain per millisecond, and
 * the capacity is `limit × duration`. Within the schema's bounds (contract 8) that is at most 2.6e15 < 2^53, so nothing
 * is ever rounded.
 *
 * Why several levels: overriding a limit or duration must not gain tokens. With one level, a check at a fast override
 * would drain what a slow limit still counts as used. So a bucket has a level for each rate that it is used with. Each
 * take is charged to all levels, and each level drains at its own rate. The level of a new rate starts with the most
 * used on any level. At most MAX_LEVELS are kept: the fastest but the first is replaced, because a slower level always
 * has at least as much used and stands in for it.
 *
 * The first level is at the configured rate, if there is one. It cannot stand in for others, because overrides leave no
 * debt on it. When another rate is configured, the first level changes to it: used tokens stay used, and drain at the
 * new rate. So a changed limit needs no level of its own.
 *
 * Why a refused check adds a level for its rate too: its `reset` is computed with this rate. Without the level, the
 * used tokens would drain at other rates, sooner or later than was told.
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
  /** Units per token; 0 with a duration of 0 (nothing stays used) and with a limit of 0 (nothing is taken). */
  readonly unitsPerToken: number;
  /** Units that drain per millisecond. */
  readonly drainPerMs: number;
  /** Capacity in units. */
  readonly capacity: number;
}

/** The used part of a bucket, counted at one rate. */
export interface Level {
  rate: Rate;
  /** Units, at most 2^53 − 1; may exceed the rate's capacity after takes at larger rates. */
  used: number;
  next: Level | undefined;
}

/** A bucket: its first level, and the time at which all its levels were last brought up to date. */
export interface Bucket extends Level {
  /** Unix time, milliseconds; only moves forward: while the clock is behind it, no time passes. */
  at: number;
}

/**
 * Converts `limit` tokens per `duration` milliseconds to units. Exact if the least common multiple of the two is below
 * 2^53. Otherwise tokens are still exact, and the refill is slower than requested by less than one part in 2^50.
 * Exported for its tests.
 * @param limit 0…2^53 − 1
 * @param duration milliseconds, 0…2^53 − 1
 */
export function toRate(limit: number, duration: number): Rate {
  // A limit of 0 has no level: it would never drain.
  if (limit === 0) return { limit, duration, unitsPerToken: 0, drainPerMs: 0, capacity: 0 };
  // Always reduced: with smaller numbers, more rates are exact.
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

/** The rate of the bucket's level with this limit and duration; undefined: it has no such level. */
export function rateIn(bucket: Bucket, limit: number, duration: number): Rate | undefined {
  let level: Level | undefined = bucket;
  while (level !== undefined && !isRate(level.rate, limit, duration)) level = level.next;
  return level?.rate;
}

/** Whether `rate` has this limit and duration. */
function isRate(rate: Rate, limit: number, duration: number): boolean {
  return rate.limit === limit && rate.duration === duration;
}

/** Whether `tokens` fit while `used` units are used; none always do. */
export function fits(
  used: number,
  { limit, unitsPerToken }: Pick<Rate, "limit" | "unitsPerToken">,
  tokens: number,
): boolean {
  return tokens === 0 || (tokens <= limit && used <= limit * unitsPerToken - tokens * unitsPerToken);
}

/**
 * The state of a bucket of which so many units are used, at this rate.
 * @returns `remaining` 0…limit; `reset` milliseconds until the bucket is full, or `duration` if the limit is 0: then no
 *   wait helps
 */
export function toVerdict(used: number, rate: Rate, exceeded: boolean): LimitVerdict {
  const { limit, duration, unitsPerToken, drainPerMs } = rate;
  if (limit === 0) return { exceeded, remaining: 0, reset: duration };
  if (unitsPerToken === 0) return { exceeded, remaining: limit, reset: 0 };
  return { exceeded, remaining: tokensLeft(used, limit, unitsPerToken), reset: untilFull(used, drainPerMs) };
}

/** Whole tokens left. */
export function tokensLeft(used: number, limit: number, unitsPerToken: number): number {
  const capacity = limit * unitsPerToken;
  return used < capacity ? Math.floor((capacity - used) / unitsPerToken) : 0;
}

/** Milliseconds until nothing is used. */
export function untilFull(used: number, drainPerMs: number): number {
  return Math.min(MAX_UNITS, used / drainPerMs);
}

/** Units still used after `elapsed` milliseconds. A product above 2^53 is inexact, but it also exceeds every level. */
export function drain(used: number, drainPerMs: number, elapsed: number): number {
  const left = used - Math.floor(elapsed * drainPerMs);
  return left > 0 ? left : 0;
}

/** The rates of a check. */
export interface CheckRates {
  readonly rate: Rate;
  /** The limit's configured rate; `undefined`: `rate` is the request's own. */
  readonly configured: Rate | undefined;
}

/**
 * Gives a bucket levels for the rates of a check, whether or not its call is refused: used tokens drain at these rates
 * from now on.
 * @returns whether the bucket has changed; a full one never does
 */
export function adopt(bucket: Bucket, { rate, configured }: CheckRates, now: number): boolean {
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
 * Takes `cost` > 0 tokens that fit: brings all levels up to date, adds a missing one, and charges them all. A take with
 * an override also uses up the level of the configured rate, at most down to an empty bucket, never to a debt:
 * otherwise a key used with a generous override would be locked for days after the override ends.
 */
export function charge(bucket: Bucket, check: CheckRates & { readonly cost: number }, now: number): void {
  const { rate, configured, cost } = check;
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

/** The rate of a new bucket's first level: the configured one, unless it has 0 units. */
export function firstOf(rate: Rate, configured: Rate | undefined): Rate {
  return configured !== undefined && configured.unitsPerToken > 0 ? configured : rate;
}

/**
 * How much of a bucket is used now: 0 if it is full; `Infinity` if it refuses (less than one whole token left at one of
 * its rates); otherwise the largest used fraction of a capacity, between 0 and 1.
 */
export function utilization(bucket: Bucket, now: number): number {
  const elapsed = Math.max(0, now - bucket.at);
  let utilization = 0;
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next)
    utilization = Math.max(
      utilization,
      utilizationOf(drain(level.used, level.rate.drainPerMs, elapsed), level.rate.limit, level.rate.unitsPerToken),
    );
  return utilization;
}

/** {@link utilization} of one level with so many units used. */
export function utilizationOf(used: number, limit: number, unitsPerToken: number): number {
  const capacity = limit * unitsPerToken;
  if (used > capacity - unitsPerToken) return Infinity;
  return used > 0 ? used / capacity : 0;
}

/** Units used now, at this rate: those of its level, or those with which a new level would start. Changes nothing. */
export function unitsUsed(bucket: Bucket, rate: Rate, now: number): number {
  const elapsed = Math.max(0, now - bucket.at);
  let most = 0;
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) {
    const used = drain(level.used, level.rate.drainPerMs, elapsed);
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

/** Brings all levels up to `now`. @returns whether nothing is used on any */
function bringUpToDate(bucket: Bucket, now: number): boolean {
  const elapsed = Math.max(0, now - bucket.at);
  bucket.at += elapsed;
  let empty = true;
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) {
    level.used = drain(level.used, level.rate.drainPerMs, elapsed);
    if (level.used > 0) empty = false;
  }
  return empty;
}

/** Changes the first level to a newly configured rate, and merges an override's level of this rate into it. */
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

/** Adds a level for this rate if there is none. The bucket must be up to date. A rate of 0 units has no level. */
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

/**
 * Checks the numbers of a limit check before anything changes: a NaN in a level would never drain.
 * @throws RangeError naming a number that is not an integer from 0 to 2^53 − 1
 */
export function assertCheck({ limit, duration, cost, configured }: LimitCheck): void {
  assertCount("limit", limit);
  assertCount("duration", duration);
  assertCount("cost", cost);
  if (configured === undefined) return;
  assertCount("configured.limit", configured.limit);
  assertCount("configured.duration", configured.duration);
}

function assertCount(name: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${name} must be an integer from 0 to 2^53 - 1`);
}
