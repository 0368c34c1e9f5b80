/** What takes real time: the server's clock, what is remembered between calls, and what many buckets take. */
import { describe, expect, it } from "vitest";
import { noRedis, wait } from "../../servers/redis.js";
import { check, START, scriptCalls, testServer } from "./support.js";

describe.skipIf(noRedis !== undefined)("redisLimiter, in real time", () => {
  const bed = testServer();
  const { limiterOf } = bed;

  it("grants exactly the limit and what refills, whatever the callers' clocks say", async () => {
    const limiters = [limiterOf(), limiterOf()];
    const one = check({ limit: 20, duration: 1_000 });
    const began = performance.now();
    let granted = 0;
    while (performance.now() - began < 700) {
      const clock = START + Math.random() * 1e9;
      for (const limiter of limiters) if (!(await limiter.take([one], clock))[0]!.exceeded) granted++;
    }
    // A bucket refills by the millisecond of the server.
    const refilled = ((performance.now() - began + 2) * 20) / 1_000;
    expect(granted).toBeGreaterThanOrEqual(20 + 12);
    expect(granted).toBeLessThanOrEqual(20 + refilled);
  });

  it("10,000 calls a second on a limit of 100 a minute cost at most 2 calls of the script a second", async () => {
    const limiter = limiterOf();
    const one = check({ limit: 100 });
    while (!(await limiter.take([one], 0))[0]!.exceeded);
    const [before, began] = [await scriptCalls(bed.client), performance.now()];
    const window = 3_000;
    const calls: unknown[] = [];
    let granted = 0;
    for (let made = 0; performance.now() - began < window; await wait(1)) {
      for (; made < (performance.now() - began) * 10; made++) {
        const taken = Promise.resolve(limiter.take([one], 0));
        calls.push(taken.then(([verdict]) => verdict!.exceeded || granted++));
      }
    }
    await Promise.all(calls);
    expect(calls.length).toBeGreaterThan(20_000);
    // Exact nevertheless: 100 a minute refill 5 in 3 s.
    expect(granted).toBeGreaterThanOrEqual(4);
    expect(granted).toBeLessThanOrEqual(6);
    expect(((await scriptCalls(bed.client)) - before) / (window / 1_000)).toBeLessThanOrEqual(2);
    expect(limiter.counters().rememberedRefusals).toBeGreaterThan(19_000);
  });

  it("asks again after a second at most: a flushed Redis grants", async () => {
    const limiter = limiterOf();
    await limiter.take([check({ cost: 10 })], 0);
    expect(limiter.take([check()], 0)).toMatchObject([{ exceeded: true }]);
    await bed.client.flushall();
    expect(limiter.take([check()], 0)).toMatchObject([{ exceeded: true }]);
    await wait(1_010);
    expect(await limiter.take([check()], 0)).toMatchObject([{ exceeded: false, remaining: 9 }]);
  });

  it("a bucket of a key takes 168 bytes, and at most 250 with the tables that Redis has for all", async () => {
    const limiter = limiterOf();
    const name = (n: number) => `key_1a2B3c4D${10_000_000_000_000 + n}`;
    const used = async () => Number(/used_memory:(\d+)/.exec(await bed.client.info("memory"))![1]);
    const before = await used();
    const takes = Array.from({ length: 20_000 }, (_, n) =>
      limiter.take([check({ bucket: `${name(n)} requests`, shard: name(n) })], 0),
    );
    await Promise.all(takes);
    expect(await bed.client.memory("USAGE", `keystile:{${name(7)}}:${name(7)} requests`)).toBeLessThanOrEqual(168);
    expect(((await used()) - before) / 20_000).toBeLessThanOrEqual(250);
  });
});
