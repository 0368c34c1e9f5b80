/**
 * Remembered refusals: what a bucket held when Redis last said so. Only time refills a bucket, and others only take
 * from it: what does not fit by what is remembered and the time since does not fit in Redis either. So a client that
 * goes on after a refusal costs Redis nothing until its call can fit.
 *
 * Only the latest rates of the buckets are remembered: a refused call brings its rates to Redis, where what is used
 * drains at them from then on. One that is answered here must not come between two of other rates.
 */
import type { LimitVerdict } from "../../contracts/limiter.js";
import { GrowingLru } from "../../lib/growing-lru.js";
import { drain, fits, toVerdict } from "../memory/bucket.js";
import { isDistinct, type ShardCall, type ShardReply } from "./shard-call.js";

/** What is remembered of the buckets of a call. */
export interface Refusal {
  readonly checks: ShardCall["checks"];
  /** Units used, by check. */
  readonly used: readonly number[];
  /** When that was so, by the clock that buckets refill by. */
  readonly at: number;
  /** When that was heard, by a clock that only moves on. */
  readonly heardAt: number;
  /** The call that asks Redis again, while it is in flight: others like it wait for its result. */
  asking: Promise<unknown> | undefined;
}

/**
 * Milliseconds for which a refusal holds without asking, at most. After a flush of Redis, when a call across shards
 * returned what it had taken, or when a faster rate was configured, a bucket has tokens sooner than was told.
 */
const MAX_AGE = 1_000;
const MAX_REMEMBERED = 10_000;
/** UTF-16 units of the names of all buckets. */
const MAX_UNITS = 4_000_000;

const { performance: clock } = globalThis;

/** The same for every call of the same buckets, in the same order. */
const bucketsOf = ({ keys }: ShardCall): string =>
  keys.length === 1 ? (keys[0] as string) : keys.map((key) => `${key.length} ${key} `).join("");

const areAtRatesOf = ({ checks }: ShardCall, known: Refusal): boolean =>
  checks.length === known.checks.length &&
  checks.every(({ rate: { limit, duration }, configured }, i) => {
    const other = known.checks[i] as ShardCall["checks"][number];
    return limit === other.rate.limit && duration === other.rate.duration && configured === other.configured;
  });

/** @param time by the clock that buckets refill by, milliseconds */
export function createRefusals(time: () => number) {
  const remembered = new GrowingLru<Refusal>({
    max: MAX_REMEMBERED,
    maxSize: MAX_UNITS,
    sizeCalculation: (_, buckets) => buckets.length + 1,
  });
  let count = 0;
  return {
    /** How many calls were refused. */
    count: (): number => count,
    /** What is remembered of the buckets of a call. */
    find(call: ShardCall): Refusal | undefined {
      if (remembered.size === 0) return undefined;
      const known = remembered.get(bucketsOf(call));
      return known !== undefined && areAtRatesOf(call, known) ? known : undefined;
    },
    /** The refusal of a call by what is remembered; undefined: Redis must be asked. */
    refuse({ checks }: ShardCall, known: Refusal): readonly LimitVerdict[] | undefined {
      if (clock.now() - known.heardAt > MAX_AGE) return undefined;
      const elapsed = Math.max(0, Math.floor(time() - known.at));
      const used = checks.map(({ rate }, i) => drain(known.used[i] as number, rate.drainPerMs, elapsed));
      const exceeded = checks.map(({ rate, cost }, i) => !fits(used[i] as number, rate, cost));
      if (!exceeded.includes(true)) return undefined;
      count++;
      return checks.map(({ rate }, i) => toVerdict(used[i] as number, rate, exceeded[i] as boolean));
    },
    /** Remembers a reply if the same call would not fit now; otherwise forgets what was remembered. */
    learn(call: ShardCall, { used }: ShardReply): void {
      const { checks } = call;
      // Two checks of one bucket must fit together, which is left to Redis.
      if (isDistinct(call) && checks.some(({ rate, cost }, i) => !fits(used[i] as number, rate, cost)))
        remembered.set(bucketsOf(call), { checks, used, at: time(), heardAt: clock.now(), asking: undefined });
      else if (remembered.size > 0) remembered.delete(bucketsOf(call));
    },
  };
}

export type Refusals = ReturnType<typeof createRefusals>;
