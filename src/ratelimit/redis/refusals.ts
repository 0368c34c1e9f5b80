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
import type { ShardCall, ShardReply } from "./shard-call.js";

/** What is remembered of the buckets of a call. */
export interface Refusal {
  /** {@link ShardCall.rates} of the call. */
  readonly rates: string;
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

export function createRefusals() {
  const remembered = new GrowingLru<Refusal>({
    max: MAX_REMEMBERED,
    maxSize: MAX_UNITS,
    sizeCalculation: (_, buckets) => buckets.length + 1,
  });
  const find = ({ buckets, rates }: ShardCall): Refusal | undefined => {
    const known = remembered.get(buckets);
    return known?.rates === rates ? known : undefined;
  };
  return {
    /** What is remembered of the buckets of a call. */
    find,
    /**
     * The refusal of a call by what is remembered.
     * @param time by the clock that buckets refill by
     * @returns undefined: Redis must be asked
     */
    refuse(call: ShardCall, time: number): readonly LimitVerdict[] | undefined {
      const known = find(call);
      const { checks } = call;
      if (known === undefined || clock.now() - known.heardAt > MAX_AGE) return undefined;
      const elapsed = Math.max(0, Math.floor(time - known.at));
      const used = checks.map(({ rate }, i) => drain(known.used[i] as number, rate.drainPerMs, elapsed));
      const exceeded = checks.map(({ rate, cost }, i) => !fits(used[i] as number, rate, cost));
      if (!exceeded.includes(true)) return undefined;
      return checks.map(({ rate }, i) => toVerdict(used[i] as number, rate, exceeded[i] as boolean));
    },
    /** Remembers a reply if the same call would not fit now; otherwise forgets what was remembered. */
    learn({ buckets, rates, checks, isDistinct }: ShardCall, { used }: ShardReply, time: () => number): void {
      // Two checks of one bucket must fit together, which is left to Redis.
      if (isDistinct && checks.some(({ rate, cost }, i) => !fits(used[i] as number, rate, cost)))
        remembered.set(buckets, { rates, used, at: time(), heardAt: clock.now(), asking: undefined });
      else remembered.delete(buckets);
    },
  };
}
