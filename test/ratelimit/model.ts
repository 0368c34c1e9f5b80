/**
 * A naive limiter in exact integers of any size: slow, plain, and told apart from the real ones on purpose. Rulings
 * C2–C4, A7.
 */
import type { LimitCheck, LimitVerdict } from "../../src/contracts/limiter.js";
import { ceilDiv, lowered, numbersOf } from "../../src/testing/limiter/replay.js";

const divisorOf = (a: bigint, b: bigint): bigint => (b === 0n ? a : divisorOf(b, a % b));
/**
 * Levels stop at 2^53 − 1 of the largest units that fit the pair: only costs and limits far beyond the schema's bounds
 * get there.
 */
const capped = (units: bigint, limit: bigint, duration: bigint): bigint => {
  const most = BigInt(Number.MAX_SAFE_INTEGER) * divisorOf(limit, duration);
  return units > most ? most : units;
};

interface ModelLevel {
  readonly limit: bigint;
  readonly duration: bigint;
  used: bigint;
}

interface ModelBucket {
  at: number;
  levels: ModelLevel[];
}

/** The memory limiter as its documents put it, without bounds on memory. */
export function modelLimiter(): { take(checks: readonly LimitCheck[], now: number): LimitVerdict[] } {
  const buckets = new Map<string, ModelBucket>();
  let time = -Infinity;

  const bring = (bucket: ModelBucket): void => {
    for (const level of bucket.levels) level.used = lowered(level.used, level.limit * BigInt(time - bucket.at));
    bucket.at = time;
    if (bucket.levels.every(({ used }) => used === 0n)) bucket.levels = [];
  };
  const find = (name: string): ModelBucket => {
    const bucket = buckets.get(name) ?? { at: time, levels: [] };
    buckets.set(name, bucket);
    bring(bucket);
    return bucket;
  };
  const used = ({ levels }: ModelBucket, limit: number, duration: number): bigint => {
    const own = levels.find((level) => level.limit === BigInt(limit) && level.duration === BigInt(duration));
    if (own !== undefined) return own.used;
    const tokens = levels.map((level) => ceilDiv(level.used, level.duration));
    const most = tokens.reduce((most, one) => (one > most ? one : most), 0n);
    return capped(most * BigInt(duration), BigInt(limit), BigInt(duration));
  };
  const charge = (bucket: ModelBucket, { limit, duration, cost }: LimitCheck): void => {
    const { levels } = bucket;
    const known = levels.some((level) => level.limit === BigInt(limit) && level.duration === BigInt(duration));
    if (!known && duration > 0) {
      const level = { limit: BigInt(limit), duration: BigInt(duration), used: used(bucket, limit, duration) };
      if (levels.length < 4) levels.push(level);
      else {
        const faster = (a: ModelLevel, b: ModelLevel): boolean => a.limit * b.duration > b.limit * a.duration;
        const fastest = levels.reduce((best, one) => (faster(one, best) ? one : best));
        levels[levels.indexOf(fastest)] = level;
      }
    }
    for (const level of levels)
      level.used = capped(level.used + BigInt(cost) * level.duration, level.limit, level.duration);
  };
  const tryOne = (check: LimitCheck, pending: Map<string, bigint>): boolean => {
    if (check.cost === 0) return true;
    const wanted = (pending.get(check.bucket) ?? 0n) + BigInt(check.cost);
    if (wanted > BigInt(check.limit)) return false;
    const taken = used(find(check.bucket), check.limit, check.duration);
    if (taken + wanted * BigInt(check.duration) > BigInt(check.limit) * BigInt(check.duration)) return false;
    pending.set(check.bucket, wanted);
    return true;
  };

  return {
    take(checks, now) {
      time = Math.max(time, now);
      const pending = new Map<string, bigint>();
      const fit = checks.map((check) => tryOne(check, pending));
      if (!fit.includes(false)) {
        for (const check of checks) {
          const bucket = find(check.bucket);
          if (check.cost > 0) charge(bucket, check);
        }
      }
      return checks.map(({ bucket, limit, duration }, i) => {
        const exceeded = fit[i] === false;
        if (limit === 0) return { exceeded, remaining: 0, reset: duration };
        if (duration === 0) return { exceeded, remaining: limit, reset: 0 };
        return { exceeded, ...numbersOf(limit, duration, used(find(bucket), limit, duration)) };
      });
    },
  };
}
