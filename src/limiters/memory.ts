/** Token buckets in the memory of this process. Port src/limiter.ts, rulings C2–C4, C6. Knows no keys; time is what each call says. */
import { VerifierError } from "../errors.js";
import type { LimitCheck, Limiter, LimitVerdict } from "../limiter.js";
import { charge, fits, isPair, pairMemo, verdictOf, type Pair } from "./bucket.js";
import { bucketTable, newBucket, NOWHERE, type NamedBucket } from "./table.js";

const DEFAULT_SIZE = 1_000_000;
/** A JavaScript Map holds no more than 2^24 entries. */
const LARGEST_SIZE = 10_000_000;

/** Options of {@link memoryLimiter}. */
export interface MemoryLimiterOptions {
  /** The most buckets kept, 1…10_000_000, default 1_000_000. One takes about 150 bytes and its name. */
  readonly size?: number;
}

/** A limiter that answers at once. */
export interface MemoryLimiter extends Limiter {
  /**
   * Takes tokens as port clauses 1–8 say.
   * @throws RangeError when a number of a check is no integer from 0 to 2^53 − 1, or `now` is not finite
   * @throws VerifierError LIMITER_UNAVAILABLE after `close`
   */
  take(checks: readonly LimitCheck[], now: number): readonly LimitVerdict[];
  close(): void;
  /** Buckets kept at the moment. */
  size(): number;
}

/** What one check of a call asks, and whether it may have it. */
interface Claim {
  /** `undefined`: never seen, and nothing to take. */
  readonly bucket: NamedBucket | undefined;
  readonly pair: Pair;
  readonly cost: number;
  readonly exceeded: boolean;
}

/**
 * Token buckets in memory, exact within the process; nothing survives it.
 *
 * Memory is bounded by `size` (ruling C6). Buckets that are full again are dropped as calls come in, without timers. At the bound
 * a newcomer displaces a full bucket, else the fullest of a few; a bucket with less than one whole token left is never displaced.
 * When all of those few refuse, the newcomer itself is refused (`remaining` 0, `reset` its duration): it fails closed.
 *
 * Time is the latest `now` of any call: a clock that steps back counts as one that stands still (ruling A7).
 * @throws TypeError or RangeError naming the option
 * @see rulings C2–C4, C6 · a take is O(1) a check
 */
export function memoryLimiter(options: MemoryLimiterOptions = {}): MemoryLimiter {
  const table = bucketTable(readSize(options));
  const pairOf = pairMemo();
  /** Buckets that the call under way takes from for the first time; empty between calls. */
  const newcomers = new Map<string, NamedBucket>();
  let latest = -Infinity;
  /** Times are counted from the first call: small integers for 24 days, and exact ever after. */
  let origin = NaN;
  let closed = false;

  const newcomer = (name: string): NamedBucket | undefined => (newcomers.size > 0 ? newcomers.get(name) : undefined);

  const advance = (now: number): number => {
    if (latest === -Infinity) origin = Math.floor(now);
    const whole = Math.floor(now) - origin;
    if (whole > latest) table.sweep((latest = whole));
    return latest;
  };

  /** The bucket of a check, by its memo where that still holds. */
  const find = (check: LimitCheck): NamedBucket | undefined => {
    const memo = check.memo as NamedBucket | undefined;
    if (memo !== undefined && table.holds(memo, check.bucket)) return memo;
    const bucket = table.get(check.bucket);
    check.memo = bucket;
    return bucket;
  };

  /**
   * The common call: one check, of a bucket that is there. 40 ns less than two phases.
   * @returns undefined: not the common call
   */
  const takeOne = (check: LimitCheck, now: number): LimitVerdict | undefined => {
    const bucket = find(check);
    if (bucket === undefined || !isPair(bucket.pair, check.limit, check.duration) || bucket.pair.token === 0) return undefined;
    const { pair } = bucket;
    const exceeded = !fits(bucket, pair, check.cost, 0, now);
    if (!exceeded && check.cost > 0) charge(bucket, pair, check.cost, now);
    return verdictOf(bucket, pair, exceeded, now);
  };

  /** First phase: whether the check may have its tokens. They are noted as pending, and nothing is taken. */
  const claim = (check: LimitCheck, now: number): Claim => {
    const { bucket: name, limit, duration, cost } = check;
    let bucket = find(check) ?? newcomer(name);
    const pair = bucket !== undefined && isPair(bucket.pair, limit, duration) ? bucket.pair : pairOf(limit, duration);
    if (!fits(bucket, pair, cost, bucket === undefined ? 0 : bucket.pending, now)) return { bucket, pair, cost, exceeded: true };
    if (cost > 0) {
      if (bucket === undefined) newcomers.set(name, (bucket = newBucket(name, pair, now)));
      else if (bucket.pair.token === 0) bucket.pair = pair;
      bucket.pending += cost;
    }
    return { bucket, pair, cost, exceeded: false };
  };

  /** Keeps the newcomers, all or none. One that is used with a duration of 0 only is always full: it needs no place. */
  const keepNewcomers = (now: number): boolean => {
    const lasting = [...newcomers.values()].filter((bucket) => bucket.pair.token > 0);
    if (!table.makeRoom(lasting.length, now)) return false;
    for (const bucket of lasting) table.add(bucket, now);
    return true;
  };

  /** Second phase: takes what is pending if `granted`, and forgets it either way. */
  const settle = (claims: readonly Claim[], granted: boolean, now: number): void => {
    for (const { bucket, pair, cost } of claims) {
      if (bucket === undefined) continue;
      bucket.pending = 0;
      if (granted && cost > 0) charge(bucket, pair, cost, now);
    }
  };

  return {
    take(checks, now) {
      if (closed) throw new VerifierError("LIMITER_UNAVAILABLE", "The limiter is closed.");
      assertNumbers(checks, now);
      const time = advance(now);
      const count = checks.length;
      if (count === 1) {
        const verdict = takeOne(checks[0] as LimitCheck, time);
        if (verdict !== undefined) return [verdict];
      }
      // Arrays of the right size: one that grows from empty makes room for 17, which costs a fifth of a hot take.
      const claims = new Array<Claim>(count);
      let fit = true;
      for (let i = 0; i < count; i++) {
        const made = claim(checks[i] as LimitCheck, time);
        if (made.exceeded) fit = false;
        claims[i] = made;
      }
      const kept = !fit || newcomers.size === 0 || keepNewcomers(time);
      settle(claims, fit && kept, time);
      const verdicts = new Array<LimitVerdict>(count);
      for (let i = 0; i < count; i++) {
        const { bucket = newcomer((checks[i] as LimitCheck).bucket), pair, cost, exceeded } = claims[i] as Claim;
        const homeless = !kept && cost > 0 && pair.token > 0 && bucket?.slot === NOWHERE;
        verdicts[i] = homeless ? { exceeded: true, remaining: 0, reset: pair.duration } : verdictOf(bucket, pair, exceeded, time);
      }
      if (newcomers.size > 0) newcomers.clear();
      return verdicts;
    },
    close() {
      closed = true;
      table.clear();
    },
    size: () => table.size(),
  };
}

/** Checks the numbers before anything changes: one NaN in a level would make it endless. */
function assertNumbers(checks: readonly LimitCheck[], now: number): void {
  if (!Number.isFinite(now)) throw new RangeError("now must be a finite number of milliseconds");
  for (let i = 0; i < checks.length; i++) {
    const { limit, duration, cost } = checks[i] as LimitCheck;
    assertCount("limit", limit);
    assertCount("duration", duration);
    assertCount("cost", cost);
  }
}

function assertCount(name: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${name} must be an integer from 0 to 2^53 - 1`);
}

function readSize(options: MemoryLimiterOptions): number {
  if (typeof options !== "object" || options === null) throw new TypeError("memoryLimiter: options must be an object");
  for (const name of Object.keys(options))
    if (name !== "size") throw new TypeError(`memoryLimiter: unknown option ${JSON.stringify(name)}`);
  const { size = DEFAULT_SIZE } = options;
  if (typeof size !== "number") throw new TypeError("memoryLimiter: size must be a number");
  if (!Number.isInteger(size) || size < 1 || size > LARGEST_SIZE)
    throw new RangeError(`memoryLimiter: size must be an integer from 1 to ${LARGEST_SIZE}`);
  return size;
}
