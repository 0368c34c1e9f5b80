/**
 * A naive limiter in exact integers of any size: slow, plain, and told apart from the real ones on purpose. Rulings
 * C2–C4, A7.
 */
import type { LimitCheck, LimitSize, LimitVerdict } from "../../src/contracts/limiter.js";
import { lowered } from "../../src/testing/limiter/replay.js";

/** Quotient of integers ≥ 0, rounded up. */
const ceilDiv = (a: bigint, b: bigint): bigint => (a + b - 1n) / b;
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
  limit: bigint;
  duration: bigint;
  used: bigint;
}

interface ModelBucket {
  at: number;
  levels: ModelLevel[];
}

const hasLevel = ({ limit, duration }: LimitSize): boolean => limit > 0 && duration > 0;
const isAt = (level: ModelLevel, { limit, duration }: LimitSize): boolean =>
  level.limit === BigInt(limit) && level.duration === BigInt(duration);
const most = (all: readonly bigint[]): bigint => all.reduce((most, one) => (one > most ? one : most), 0n);
/** What is used at another size, rounded up to the largest units that fit it. */
const converted = ({ used, duration }: ModelLevel, to: LimitSize): bigint => {
  const unit = divisorOf(BigInt(to.limit), BigInt(to.duration)) || 1n;
  return capped(ceilDiv(used * BigInt(to.duration), duration * unit) * unit, BigInt(to.limit), BigInt(to.duration));
};

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
    const own = levels.find((level) => isAt(level, { limit, duration }));
    return own?.used ?? most(levels.map((level) => converted(level, { limit, duration })));
  };
  /** The first level is the configured one; nothing is kept of a full bucket. */
  const adopt = (bucket: ModelBucket, check: LimitCheck): void => {
    const { levels } = bucket;
    const { configured } = check;
    const [base] = levels;
    if (base === undefined) return;
    if (configured !== undefined && hasLevel(configured) && !isAt(base, configured)) {
      const joined = levels.filter((level) => level === base || isAt(level, configured));
      base.used = most(joined.map((level) => converted(level, configured)));
      base.limit = BigInt(configured.limit);
      base.duration = BigInt(configured.duration);
      bucket.levels = levels.filter((level) => level === base || !joined.includes(level));
    }
    open(bucket, check);
  };
  const open = (bucket: ModelBucket, { limit, duration }: LimitSize): void => {
    const { levels } = bucket;
    if (!hasLevel({ limit, duration }) || levels.some((level) => isAt(level, { limit, duration }))) return;
    const level = { limit: BigInt(limit), duration: BigInt(duration), used: used(bucket, limit, duration) };
    const faster = (a: ModelLevel, b: ModelLevel): boolean => a.limit * b.duration > b.limit * a.duration;
    if (levels.length < 4) levels.push(level);
    else {
      const fastest = levels.slice(1).reduce((best, one) => (faster(one, best) ? one : best));
      levels[levels.indexOf(fastest)] = level;
    }
  };
  const charge = (bucket: ModelBucket, check: LimitCheck): void => {
    const { configured, cost } = check;
    if (bucket.levels.length === 0 && configured !== undefined) open(bucket, configured);
    open(bucket, check);
    for (const [i, level] of bucket.levels.entries()) {
      const after = capped(level.used + BigInt(cost) * level.duration, level.limit, level.duration);
      const capacity = level.limit * level.duration;
      const isFree = i > 0 || configured === undefined || isAt(level, check) || after <= capacity;
      level.used = isFree ? after : level.used > capacity ? level.used : capacity;
    }
  };
  const tryOne = (check: LimitCheck, pending: Map<string, bigint>): boolean => {
    adopt(find(check.bucket), check);
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
        const units = used(find(bucket), limit, duration);
        const unit = divisorOf(BigInt(limit), BigInt(duration));
        const free = lowered(BigInt(limit) * BigInt(duration), units);
        const reset = Number(units / unit) / Number(BigInt(limit) / unit);
        return { exceeded, remaining: Number(free / BigInt(duration)), reset };
      });
    },
  };
}
