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
const REMEMBERED_PAIRS = 256;

/** A limit and a duration, and what they mean in units. */
export interface Pair {
  readonly limit: number;
  /** Milliseconds. */
  readonly duration: number;
  /** Units of one token; 0 with a duration of 0: nothing stays used. */
  readonly token: number;
  /** Units that drain each millisecond. */
  readonly speed: number;
  /** Units that fit. */
  readonly capacity: number;
}

/** What is used of a bucket, seen with one pair. */
export interface Level {
  pair: Pair;
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
export function toPair(limit: number, duration: number): Pair {
  // Always reduced: the smaller the units, the more pairs are exact.
  const divisor = greatestCommonDivisor(limit, duration) || 1;
  const token = duration / divisor;
  const capacity = limit * token;
  if (capacity <= MAX_UNITS) return { limit, duration, token, speed: limit / divisor, capacity };
  const smallToken = Math.floor(MAX_UNITS / limit);
  // The factor outweighs three roundings to nearest, so that a drain is never too fast.
  const speed = ((smallToken * limit) / duration) * (1 - 2 ** -51);
  return { limit, duration, token: smallToken, speed, capacity: smallToken * limit };
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

/** {@link toPair} that shares recent answers, so that buckets of one limit share one pair. Holds at most 256. */
export function pairMemo(): (limit: number, duration: number) => Pair {
  const recent = new Array<Pair | undefined>(REMEMBERED_PAIRS).fill(undefined);
  return (limit, duration) => {
    const slot = (limit ^ duration) & (REMEMBERED_PAIRS - 1);
    const known = recent[slot];
    if (known !== undefined && isPair(known, limit, duration)) return known;
    const pair = toPair(limit, duration);
    recent[slot] = pair;
    return pair;
  };
}

/** Whether `pair` was made of these two. */
export function isPair(pair: Pair, limit: number, duration: number): boolean {
  return pair.limit === limit && pair.duration === duration;
}

/**
 * Whether `cost` more tokens fit now. Changes nothing.
 * @param bucket `undefined`: never seen, so full
 * @param cost tokens, 0…2^53 − 1; 0 always fits (ruling C4)
 * @param pending tokens that earlier checks of the same call are about to take
 */
export function fits(bucket: Bucket | undefined, pair: Pair, cost: number, pending: number, now: number): boolean {
  if (cost === 0) return true;
  const wanted = pending + cost;
  if (wanted > pair.limit) return false;
  return unitsUsed(bucket, pair, now) <= pair.capacity - wanted * pair.token;
}

/**
 * How a bucket stands now with this pair. Changes nothing; allocates the answer.
 * @returns `remaining` 0…limit; `reset` by the bucket's own time, and `duration` where the limit is 0: no wait helps there
 */
export function verdictOf(bucket: Bucket | undefined, pair: Pair, exceeded: boolean, now: number): LimitVerdict {
  if (pair.limit === 0) return { exceeded, remaining: 0, reset: pair.duration };
  if (pair.token === 0) return { exceeded, remaining: pair.limit, reset: 0 };
  const used = unitsUsed(bucket, pair, now);
  return { exceeded, remaining: tokensLeft(used, pair.capacity, pair.token), reset: untilFull(used, pair.speed) };
}

/** Whole tokens that still fit. */
export function tokensLeft(used: number, capacity: number, token: number): number {
  return used < capacity ? Math.floor((capacity - used) / token) : 0;
}

/** Milliseconds until nothing is used. */
export function untilFull(used: number, speed: number): number {
  return Math.min(MAX_UNITS, Math.ceil(used / speed));
}

/** Units still used after `elapsed` milliseconds. A product past 2^53 is inexact, but then past every level too. */
export function drain(used: number, speed: number, elapsed: number): number {
  const left = used - Math.floor(elapsed * speed);
  return left > 0 ? left : 0;
}

/**
 * Takes `cost` > 0 tokens that fit: brings all levels up to now, opens those that are missing, and charges them all.
 * @param own the pair of the limit itself, where `pair` is an override: what is taken is used up there too, until nothing is left, and
 *   comes back at its own speed. No debt: else a key used with a generous override would be locked for days once that ends
 */
export function charge(bucket: Bucket, pair: Pair, cost: number, now: number, own = pair): void {
  if (bringUpToDate(bucket, now)) {
    bucket.pair = firstOf(pair, own);
    bucket.next = undefined;
  }
  const isOverride = !isPair(own, pair.limit, pair.duration);
  if (own.token > 0) open(bucket, own, isOverride ? own.capacity : MAX_UNITS);
  if (pair.token > 0) open(bucket, pair, MAX_UNITS);
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) {
    const most = isOverride && isPair(level.pair, own.limit, own.duration) ? Math.max(level.used, own.capacity) : MAX_UNITS;
    level.used = Math.min(most, level.used + cost * level.pair.token);
  }
}

/** The pair a bucket begins with: with a duration of 0 nothing stays used. */
export function firstOf(pair: Pair, own: Pair): Pair {
  return own.token > 0 ? own : pair;
}

/**
 * How much of a bucket is used now: 0 when it is full, `Infinity` when it refuses (less than one whole token left with any
 * pair it is used with), else the largest used part of a capacity, between 0 and 1.
 */
export function strain(bucket: Bucket, now: number): number {
  const elapsed = elapsedSince(bucket, now);
  let strain = 0;
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) {
    strain = Math.max(strain, strainOf(drained(level, elapsed), level.pair.capacity, level.pair.token));
  }
  return strain;
}

/** {@link strain} of one level. */
export function strainOf(used: number, capacity: number, token: number): number {
  if (used > capacity - token) return Infinity;
  return used > 0 ? used / capacity : 0;
}

/** A clock that steps back counts as one that stands still (ruling A7). */
function elapsedSince(bucket: Bucket, now: number): number {
  return now > bucket.at ? now - bucket.at : 0;
}

function drained(level: Level, elapsed: number): number {
  return drain(level.used, level.pair.speed, elapsed);
}

/** Units used as this pair sees them: those of its level, or the tokens a new level would start with. */
function unitsUsed(bucket: Bucket | undefined, pair: Pair, now: number): number {
  if (bucket === undefined) return 0;
  const elapsed = elapsedSince(bucket, now);
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) {
    if (isPair(level.pair, pair.limit, pair.duration)) return drained(level, elapsed);
  }
  return Math.min(MAX_UNITS, tokensUsed(bucket, elapsed) * pair.token);
}

/** The most tokens used on any level, rounded up. */
function tokensUsed(bucket: Bucket, elapsed: number): number {
  let most = 0;
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) {
    const used = drained(level, elapsed);
    if (used > 0) most = Math.max(most, Math.ceil(used / level.pair.token));
  }
  return most;
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

/** Makes sure that a bucket that is up to date has a level for this pair. @param most units that a new one begins with at most */
function open(bucket: Bucket, pair: Pair, most: number): void {
  let count = 0;
  let last: Level = bucket;
  let fastest: Level = bucket;
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) {
    if (isPair(level.pair, pair.limit, pair.duration)) return;
    if (level.pair.speed / level.pair.token > fastest.pair.speed / fastest.pair.token) fastest = level;
    last = level;
    count++;
  }
  const used = Math.min(most, tokensUsed(bucket, 0) * pair.token);
  if (count < MAX_LEVELS) last.next = { pair, used, next: undefined };
  else {
    fastest.pair = pair;
    fastest.used = used;
  }
}
