/** Rulings C2–C4, A7 once more: buckets in exact fractions. Nothing is ever dropped for space here. */
import type { LimitCheck, LimitVerdict } from "../../src/contracts/limiter.js";

/**
 * What is used, seen with one limit and duration: `used` counts tokens × `duration`, so that a millisecond drains
 * `limit`.
 */
interface Level {
  readonly limit: bigint;
  readonly duration: bigint;
  used: bigint;
}

interface Bucket {
  at: number;
  levels: Level[];
}

/** One node's buckets. */
export interface ModelLimiter {
  take(checks: readonly LimitCheck[], now: number): LimitVerdict[];
}

const MAX_LEVELS = 4;

export function modelLimiter(): ModelLimiter {
  const buckets = new Map<string, Bucket>();
  let latest = -Infinity;

  const settled = (name: string): Level[] => {
    const bucket = buckets.get(name);
    if (bucket === undefined) return [];
    const elapsed = BigInt(latest - bucket.at);
    bucket.at = latest;
    for (const level of bucket.levels) level.used = most(0n, level.used - level.limit * elapsed);
    // Full again: as if never seen (ruling C6).
    if (bucket.levels.every(({ used }) => used === 0n)) buckets.delete(name);
    return buckets.has(name) ? bucket.levels : [];
  };

  return {
    take(checks, now) {
      // A clock that steps back stands still.
      latest = Math.max(latest, now);
      const pending = new Map<string, bigint>();
      const exceeded = checks.map(({ bucket, limit, duration, cost }) => {
        if (cost === 0) return false;
        const wanted = (pending.get(bucket) ?? 0n) + BigInt(cost);
        if (wanted > BigInt(limit)) return true;
        const used = duration === 0 ? 0n : usedOf(settled(bucket), BigInt(limit), BigInt(duration));
        if (used + wanted * BigInt(duration) > BigInt(limit) * BigInt(duration)) return true;
        pending.set(bucket, wanted);
        return false;
      });
      if (!exceeded.includes(true)) for (const check of checks) if (check.cost > 0) charge(check);
      return checks.map(({ bucket, limit, duration }, i) =>
        verdict(exceeded[i]!, BigInt(limit), BigInt(duration), settled(bucket)),
      );
    },
  };

  /** Takes are charged in their order, each to all levels of its bucket. */
  function charge(check: LimitCheck): void {
    const { bucket, cost, configured = check } = check;
    const levels = settled(bucket);
    const isOverride = configured.limit !== check.limit || configured.duration !== check.duration;
    // The limit itself is used up by an override, but goes into no debt.
    const space = (level: Level) =>
      isOverride && level === find(levels, BigInt(configured.limit), BigInt(configured.duration))
        ? level.limit * level.duration
        : null;
    for (const { limit, duration } of [configured, check]) {
      const pair = { limit: BigInt(limit), duration: BigInt(duration) };
      // With a duration of 0 nothing stays used: a bucket that is full otherwise stays so.
      if (duration === 0 || find(levels, pair.limit, pair.duration) !== undefined) continue;
      const level = open(levels, pair);
      level.used = least(level.used, space(level) ?? level.used);
    }
    for (const level of levels) {
      const used = level.used + BigInt(cost) * level.duration;
      level.used = least(used, most(level.used, space(level) ?? used));
    }
    if (levels.length > 0) buckets.set(bucket, { at: latest, levels });
  }
}

/** Opens a level with the most tokens used on any; beyond four the one that drains fastest gives way. */
function open(levels: Level[], pair: { limit: bigint; duration: bigint }): Level {
  const level = { ...pair, used: usedOf(levels, pair.limit, pair.duration) };
  if (levels.length < MAX_LEVELS) {
    levels.push(level);
    return level;
  }
  let fastest = 0;
  levels.forEach(({ limit, duration }, i) => {
    const other = levels[fastest]!;
    if (limit * other.duration > other.limit * duration) fastest = i;
  });
  levels[fastest] = level;
  return level;
}

/** What is used as this pair sees it: its own level, or the most tokens used on any, rounded up (ruling C2). */
function usedOf(levels: readonly Level[], limit: bigint, duration: bigint): bigint {
  const own = find(levels, limit, duration);
  if (own !== undefined) return own.used;
  return levels.reduce((used, level) => most(used, ceil(level.used, level.duration)), 0n) * duration;
}

function find(levels: readonly Level[], limit: bigint, duration: bigint): Level | undefined {
  return levels.find((level) => level.limit === limit && level.duration === duration);
}

function verdict(exceeded: boolean, limit: bigint, duration: bigint, levels: readonly Level[]): LimitVerdict {
  if (limit === 0n) return { exceeded, remaining: 0, reset: Number(duration) };
  if (duration === 0n) return { exceeded, remaining: Number(limit), reset: 0 };
  const used = usedOf(levels, limit, duration);
  const left = most(0n, limit * duration - used) / duration;
  return { exceeded, remaining: Number(left), reset: Number(ceil(used, limit)) };
}

const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const most = (a: bigint, b: bigint): bigint => (a > b ? a : b);
const ceil = (a: bigint, b: bigint): bigint => (a + b - 1n) / b;
