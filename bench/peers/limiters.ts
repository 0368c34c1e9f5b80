/** Limiters alone, in memory: one bucket for each number, nothing else checked. */
import { RateLimiter } from "limiter";
import { RateLimiterMemory } from "rate-limiter-flexible";
import type { LimitVerdict } from "../../src/index.js";
import { memoryLimiter } from "../../src/ratelimit/memory/limiter.js";
import { type Contestant, type Gate, lettersOf } from "./contestant.js";

const namesOf = (keys: number): string[] => Array.from({ length: keys }, (_, n) => `key_${lettersOf(n, 22)}`);

const passes = ({ exceeded }: LimitVerdict): boolean => !exceeded;

/** As anyone would call it: a name, a limit. */
export const keystileByName: Contestant<LimitVerdict> = {
  name: "keystile, memoryLimiter",
  checks: { limit: "exact token buckets; several at once, all or none; bounded memory" },
  async open(keys, { limit, duration }) {
    const limiter = memoryLimiter();
    const names = namesOf(keys);
    const verify = (n: number): LimitVerdict =>
      limiter.take([{ bucket: names[n]!, limit, duration, cost: 1 }], Date.now())[0]!;
    return { verify, passes, close: () => limiter.close() };
  },
};

/** A promise a call; refusals are rejections. */
export const flexible: Contestant<boolean> = {
  name: "rate-limiter-flexible, RateLimiterMemory",
  checks: { limit: "fixed windows; one at a time; a timer for each name" },
  async open(keys, { limit, duration }): Promise<Gate<boolean>> {
    const limiter = new RateLimiterMemory({ points: limit, duration: duration / 1_000 });
    const names = namesOf(keys);
    const verify = async (n: number): Promise<boolean> => {
      try {
        await limiter.consume(names[n]!);
        return true;
      } catch {
        return false;
      }
    };
    return { verify, passes: (passed) => passed, close: () => undefined };
  },
};

/** One object a name; a Map finds it. */
export const limiterPackage: Contestant<boolean> = {
  name: "limiter, RateLimiter in a Map",
  checks: { limit: "token bucket and window together; one at a time; names are yours to bound" },
  async open(keys, { limit, duration }) {
    const names = namesOf(keys);
    const limiters = new Map<string, RateLimiter>();
    for (const name of names) limiters.set(name, new RateLimiter({ tokensPerInterval: limit, interval: duration }));
    const verify = (n: number): boolean => limiters.get(names[n]!)?.tryRemoveTokens(1) ?? false;
    return { verify, passes: (passed) => passed, close: () => undefined };
  },
};
