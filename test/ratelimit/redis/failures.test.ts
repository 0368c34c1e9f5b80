/**
 * Redis hung, gone, slow and back, with clients as they are by default: how long calls take, what verifiers are told,
 * and when it is over.
 */
import { connect, createServer, type Server, type Socket } from "node:net";
import { once } from "node:events";
import { Redis } from "ioredis";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { LimitCheck } from "../../../src/contracts/limiter.js";
import { createKeyring, createVerifier, memoryStore, type OutcomeEvent } from "../../../src/index.js";
import { redisLimiter, type RedisLimiter } from "../../../src/ratelimit/redis/limiter.js";
import { noRedisServer, startRedis, type TestRedis, wait } from "../../servers/redis.js";
import { CLIENTS, type Connected } from "./clients.js";

const DEADLINE = 50;
/** What a call may take beyond it. */
const GRACE = 20;
let bucket = 0;
/** Of a new bucket each: nothing is remembered of it. */
const check = (over: Partial<LimitCheck> = {}): LimitCheck => ({
  bucket: `key_${++bucket} requests`,
  limit: 10,
  duration: 3_600_000,
  cost: 1,
  ...over,
});

describe.skipIf(noRedisServer !== undefined)("redisLimiter: failures", () => {
  const open: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of open.splice(0).reverse()) await close();
  });
  const start = async (name: string, config: readonly string[] = []) => {
    const redis = await startRedis(config);
    open.push(() => redis.close());
    return { redis, ...(await limiterOn(redis.url, name)) };
  };
  const limiterOn = async (url: string, name: string): Promise<Connected & { readonly limiter: RedisLimiter }> => {
    const connected = await CLIENTS[name]!(url);
    const limiter = redisLimiter(connected.client, { deadline: DEADLINE });
    open.push(
      () => connected.disconnect(),
      () => limiter.close(),
    );
    // A deadline of 50 ms is not one for starting up.
    for (let i = 0; i < 20; i++) if ((await timed(limiter)).isGranted) break;
    return { ...connected, limiter };
  };
  /**
   * How long a take took in ms, and whether it was granted; a rejection says LIMITER_UNAVAILABLE. By how much a timer
   * of the same length came late does not count: other programs had the processor.
   */
  const timed = async (limiter: RedisLimiter, one = check()): Promise<{ ms: number; isGranted: boolean }> => {
    const began = performance.now();
    const control = wait(DEADLINE).then(() => performance.now() - began - DEADLINE);
    let isGranted = false;
    try {
      isGranted = !(await limiter.take([one], Date.now()))[0]!.exceeded;
    } catch (error) {
      expect(error).toMatchObject({ code: "LIMITER_UNAVAILABLE" });
    }
    const ms = performance.now() - began;
    return { ms: ms < DEADLINE ? ms : ms - (await control), isGranted };
  };
  /** Milliseconds until takes are granted again; calls go on meanwhile. */
  const untilGranted = async (limiter: RedisLimiter, longest = 5_000): Promise<number> => {
    const began = performance.now();
    while (performance.now() - began < longest) {
      if ((await timed(limiter)).isGranted) return performance.now() - began;
      await wait(10);
    }
    return Infinity;
  };
  const breakAndRecover = async (
    limiter: RedisLimiter,
    stop: () => unknown,
    recover: () => unknown,
  ): Promise<{ longest: number; afterFive: number; back: number }> => {
    await stop();
    let longest = 0;
    let afterFive = 0;
    // Most may be found out without waiting.
    for (let i = 0; i < 60; i++) {
      const { ms, isGranted } = await timed(limiter);
      expect(isGranted).toBe(false);
      longest = Math.max(longest, ms);
      if (i >= 5) afterFive = Math.max(afterFive, ms);
      if (i >= 5) await wait(10);
    }
    await recover();
    return { longest, afterFive, back: await untilGranted(limiter) };
  };
  const expectInTime = ({ longest, afterFive, back }: Awaited<ReturnType<typeof breakAndRecover>>): void => {
    expect(longest).toBeLessThanOrEqual(DEADLINE + GRACE);
    expect(afterFive).toBeLessThanOrEqual(GRACE);
    expect(back).toBeLessThanOrEqual(1_000);
  };

  describe.each(Object.keys(CLIENTS))("%s", (name) => {
    it("stopped and continued: no call beyond the deadline, none waits after five, back within a second", async () => {
      const { redis, limiter } = await start(name);
      const report = await breakAndRecover(
        limiter,
        () => redis.signal("SIGSTOP"),
        () => redis.signal("SIGCONT"),
      );
      expectInTime(report);
      expect(limiter.counters().failedCalls).toBeGreaterThanOrEqual(60);
    });

    it("what calls take after they have failed is returned, whatever they ask for", async () => {
      const { redis, limiter } = await start(name);
      const size = { limit: 1_000, duration: 2_592_000_000 };
      const override = { ...size, limit: 500, configured: size };
      const [alone, one, other, overridden, twice, full, here, there] = Array.from({ length: 8 }, () => check(size));
      const many = Array.from({ length: 20 }, () => check({ ...size, shard: "many" }));
      const calls: readonly (readonly LimitCheck[])[] = [
        [alone!],
        [
          { ...one!, shard: "two" },
          { ...other!, shard: "two" },
        ],
        [{ ...overridden!, ...override }],
        [twice!, twice!],
        [{ ...full!, cost: 800 }],
        many,
        [here!, there!],
      ];
      const before = calls.flatMap((checks) => checks.map((each) => ({ ...each, cost: 100 })));
      for (const each of before) await vi.waitFor(() => limiter.take([each], 0), 5_000);
      // Remembered, so that of smaller calls one asks first.
      expect(await limiter.take([{ ...full!, cost: 950 }], 0)).toMatchObject([{ exceeded: true }]);
      const left = async () => {
        const fresh = redisLimiter(client, { deadline: 5_000 });
        const verdicts = await Promise.all(before.map((each) => fresh.take([{ ...each, cost: 0 }], 0)));
        fresh.close();
        return verdicts.map(([verdict]) => verdict!.remaining);
      };
      const client = new Redis(redis.url);
      open.push(() => client.disconnect());
      const expected = await left();
      redis.signal("SIGSTOP");
      const failing = Array.from({ length: 5 }, () => calls.map(async (checks) => limiter.take(checks, 0))).flat();
      const settled = await Promise.allSettled(failing);
      expect(new Set(settled.map(({ status }) => status))).toEqual(new Set(["rejected"]));
      redis.signal("SIGCONT");
      await untilGranted(limiter);
      await vi.waitFor(async () => expect(await left()).toEqual(expected), 2_000);
      // Nor is it returned twice.
      await wait(100);
      expect(await left()).toEqual(expected);
    });

    it("killed and started again: the same", async () => {
      const { redis, limiter } = await start(name);
      expectInTime(
        await breakAndRecover(
          limiter,
          () => redis.kill(),
          () => redis.restart(),
        ),
      );
    });
  });

  it("calls at once all settle in time when the server hangs", async () => {
    for (let attempt = 1; ; attempt++) {
      const { redis, limiter } = await start("ioredis 6");
      redis.signal("SIGSTOP");
      const began = performance.now();
      const taken = Array.from({ length: 500 }, async () => limiter.take([check()], 0));
      const control = wait(DEADLINE).then(() => performance.now() - began - DEADLINE);
      const settled = await Promise.allSettled(taken);
      const ms = performance.now() - began;
      expect(new Set(settled.map(({ status }) => status))).toEqual(new Set(["rejected"]));
      redis.signal("SIGCONT");
      expect(await untilGranted(limiter)).toBeLessThanOrEqual(1_000);
      if (ms - (await control) <= DEADLINE + GRACE) return;
      // The control tells of the host's delays before the deadline, and not of those after it.
      expect(attempt).toBeLessThan(4);
    }
  });

  it("shards that were taken while another failed have their tokens back", async () => {
    const { redis } = await start("ioredis 6");
    const client = new Redis(redis.url);
    open.push(() => client.disconnect());
    const limiter = redisLimiter(
      async ([name = "", ...rest], key) => {
        if (key.includes("{bad}")) throw new Error("CLUSTERDOWN Hash slot not served");
        return client.call(name, ...rest);
      },
      { deadline: 1_000 },
    );
    open.push(() => limiter.close());
    const good = check({ shard: "good" });
    await expect(limiter.take([good, check({ shard: "bad" })], 0)).rejects.toMatchObject({
      code: "LIMITER_UNAVAILABLE",
    });
    await wait(50);
    expect(await limiter.take([{ ...good, cost: 0 }], 0)).toMatchObject([{ remaining: 10 }]);
  });

  it("a dead slot fails alone: calls of others are granted by Redis all the while", async () => {
    const { redis } = await start("ioredis 6");
    const client = new Redis(redis.url);
    open.push(() => client.disconnect());
    await client.ping();
    const limiter = redisLimiter(
      async ([name = "", ...rest], key) => {
        if (key.includes("{dead")) throw new Error("CLUSTERDOWN Hash slot not served");
        return client.call(name, ...rest);
      },
      { deadline: 1_000 },
    );
    open.push(() => limiter.close());
    const granted = async (shard: string) => (await timed(limiter, check({ shard }))).isGranted;
    expect(await granted("live")).toBe(true);
    for (let round = 0; round < 5; round++) {
      const burst = Array.from({ length: 10 }, (_, n) => granted(`dead_${n % (round + 1)}`));
      expect(await granted("live")).toBe(true);
      expect(new Set(await Promise.all(burst))).toEqual(new Set([false]));
      expect(await granted(`live_${round}`)).toBe(true);
      await wait(100);
    }
    // Of several shards at once, what failed is blamed.
    for (let i = 0; i < 10; i++)
      await expect(limiter.take([check({ shard: "live" }), check({ shard: "dead" })], 0)).rejects.toThrow();
    expect(await granted("live")).toBe(true);
  });

  it("an answer that comes late does not close the circuit: a network that became slow is given up", async () => {
    const { redis } = await start("ioredis 6");
    const proxy = await startProxy(redis);
    open.push(() => proxy.close());
    const { limiter } = await limiterOn(`redis://127.0.0.1:${proxy.port}`, "ioredis 6");
    proxy.setDelay(200);
    const times: number[] = [];
    for (let i = 0; i < 60; i++) {
      times.push((await timed(limiter)).ms);
      if (i >= 5) await wait(20);
    }
    expect(Math.max(...times)).toBeLessThanOrEqual(DEADLINE + GRACE);
    expect(times.filter((ms) => ms > GRACE).length).toBe(5);
    proxy.setDelay(0);
    expect(await untilGranted(limiter)).toBeLessThanOrEqual(1_000);
  });

  it("connections that are cut, and one that answers nothing: the same bounds", async () => {
    const { redis } = await start("redis 6");
    const proxy = await startProxy(redis);
    open.push(() => proxy.close());
    const { limiter } = await limiterOn(`redis://127.0.0.1:${proxy.port}`, "redis 6");
    proxy.setDelay(Infinity);
    for (let i = 0; i < 10; i++) expect((await timed(limiter)).ms).toBeLessThanOrEqual(DEADLINE + GRACE);
    proxy.cut();
    proxy.setDelay(0);
    expect(await untilGranted(limiter)).toBeLessThanOrEqual(1_000);
  });

  it("a server that refuses commands is unavailable, and nothing waits for it", async () => {
    const { redis, limiter } = await start("ioredis 6");
    await redis.cli("config", "set", "maxmemory", "1");
    for (let i = 0; i < 20; i++) {
      const { ms, isGranted } = await timed(limiter);
      expect(isGranted).toBe(false);
      expect(ms).toBeLessThanOrEqual(DEADLINE + GRACE);
    }
    await redis.cli("config", "set", "maxmemory", "0");
    expect(await untilGranted(limiter)).toBeLessThanOrEqual(1_000);
  });

  describe("calls of many limits", () => {
    const LARGE_DEADLINE = DEADLINE + 450;
    const many = (): LimitCheck[] => Array.from({ length: 1_000 }, () => check({ shard: "large" }));
    let isGone = false;
    let large = 0;
    /** On a server that works on one call after the other, and for `busy` ms on a large one. */
    const limiterThatTakes = async (busy: number) => {
      const { redis } = await start("ioredis 6");
      const client = new Redis(redis.url);
      open.push(() => client.disconnect());
      await client.ping();
      let last: Promise<unknown> = Promise.resolve();
      isGone = false;
      large = 0;
      const limiter = redisLimiter(
        ([name = "", ...rest]) => {
          const isLarge = rest.length > 100;
          if (isLarge) large++;
          if (isGone) return new Promise(() => undefined);
          const own = last.then(() => (isLarge ? wait(busy) : undefined));
          if (busy < LARGE_DEADLINE) last = own;
          // Of large calls a small part, so that only `busy` decides how long they take.
          return own.then(() => (isLarge ? Array(1_000).fill("0 1").join(" ") : client.call(name, ...rest)));
        },
        { deadline: DEADLINE },
      );
      open.push(() => limiter.close());
      await timed(limiter);
      expect((await timed(limiter)).isGranted).toBe(true);
      return limiter;
    };

    it("many at once wait for their turn, fail nobody, and let others through", async () => {
      const limiter = await limiterThatTakes(20);
      const failed = limiter.counters().failedCalls;
      const taken = Array.from({ length: 12 }, async () => limiter.take(many(), 0));
      for (let i = 0; i < 10; i++) {
        expect((await timed(limiter)).isGranted).toBe(true);
        await wait(10);
      }
      expect((await Promise.all(taken)).map((verdicts) => verdicts.length)).toEqual(Array(12).fill(1_000));
      expect(limiter.counters().failedCalls).toBe(failed);
    });

    it("those that are late for others shut nothing, are not made, and settle in time", async () => {
      const limiter = await limiterThatTakes(60_000);
      const calls = Array.from({ length: 12 }, many);
      const began = performance.now();
      const taken = calls.map(async (checks) => limiter.take(checks, 0));
      const control = wait(LARGE_DEADLINE).then(() => performance.now() - began - LARGE_DEADLINE);
      const settled = await Promise.allSettled(taken);
      const ms = performance.now() - began;
      expect(ms - (await control)).toBeLessThanOrEqual(LARGE_DEADLINE + GRACE);
      expect(new Set(settled.map(({ status }) => status))).toEqual(new Set(["rejected"]));
      // A second one only if it came so much later that it had the time of a small call left.
      expect(large).toBeLessThanOrEqual(2);
      expect((await timed(limiter)).isGranted).toBe(true);
    });

    it("five that had Redis to themselves show that it is gone", async () => {
      const limiter = await limiterThatTakes(60_000);
      isGone = true;
      for (let i = 0; i < 5; i++)
        await expect(limiter.take(many(), 0)).rejects.toMatchObject({ code: "LIMITER_UNAVAILABLE" });
      const { scriptCalls } = limiter.counters();
      expect(() => limiter.take(many(), 0)).toThrow("unavailable");
      expect(limiter.counters().scriptCalls).toBe(scriptCalls);
    });
  });

  describe("a verifier", () => {
    const LIMIT = 40;
    const verifierOn = async (limiter: RedisLimiter, onLimiterFailure: "local" | "deny" | "allow") => {
      const store = memoryStore();
      const keyring = createKeyring(store);
      const { apiId } = await keyring.createApi({ name: "documents" });
      const ratelimits = [{ name: "requests", limit: LIMIT, duration: 3_600_000, autoApply: true }];
      const { key } = await keyring.createKey({ apiId, ratelimits });
      const events: OutcomeEvent[] = [];
      const verifier = createVerifier(store, {
        limiter,
        onLimiterFailure,
        onOutcome: (event) => void events.push(event),
      });
      open.push(() => verifier.close());
      return { key, verifier, events };
    };

    it.each(["killed", "stopped", "flushed"] as const)(
      "%s: says degraded, and grants at most the limit and one capacity more",
      async (how) => {
        const { redis, limiter } = await start("ioredis 6");
        const { key, verifier, events } = await verifierOn(limiter, "local");
        let granted = 0;
        const verify = async (calls: number) => {
          for (let i = 0; i < calls; i++) if ((await verifier.verify({ key })).code === "VALID") granted++;
        };
        await verify(LIMIT + 5);
        expect(granted).toBe(LIMIT);
        expect(verifier.counters().degraded).toBe(0);
        if (how === "flushed") await redis.cli("flushall");
        else if (how === "killed") await redis.kill();
        else redis.signal("SIGSTOP");
        // What is remembered refuses for a second at most.
        await wait(1_010);
        await verify(LIMIT + 20);
        expect(verifier.counters().degraded > 0).toBe(how !== "flushed");
        if (how === "killed") await redis.restart();
        if (how === "stopped") redis.signal("SIGCONT");
        await wait(1_000);
        await verify(LIMIT + 20);
        // One that was killed has lost its buckets, after this process had counted by itself.
        const most = how === "killed" ? 3 * LIMIT : 2 * LIMIT;
        expect(granted).toBeGreaterThanOrEqual(LIMIT);
        expect(granted).toBeLessThanOrEqual(most);
        await wait(20);
        expect(events.some(({ degraded }) => degraded)).toBe(how !== "flushed");
      },
    );

    it("deny refuses the call, allow lets it pass", async () => {
      const { redis, limiter } = await start("ioredis 6");
      const deny = await verifierOn(limiter, "deny");
      const allow = await verifierOn(limiter, "allow");
      redis.signal("SIGSTOP");
      await expect(deny.verifier.verify({ key: deny.key })).rejects.toMatchObject({ code: "LIMITER_UNAVAILABLE" });
      for (let i = 0; i < LIMIT * 2; i++) expect((await allow.verifier.verify({ key: allow.key })).code).toBe("VALID");
    });
  });
});

interface Proxy {
  readonly port: number;
  /** Milliseconds by which answers are late; Infinity: none comes. */
  setDelay(ms: number): void;
  cut(): void;
  close(): void;
}

/** A proxy before Redis whose answers can be held up. */
async function startProxy({ port }: TestRedis): Promise<Proxy> {
  let delay = 0;
  const sockets = new Set<Socket>();
  const server: Server = createServer((client) => {
    const upstream = connect(port, "127.0.0.1");
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => undefined).on("close", () => (client.destroy(), upstream.destroy()));
    }
    client.pipe(upstream);
    upstream.on("data", (chunk) => {
      if (delay === 0) client.write(chunk);
      else if (delay !== Infinity) setTimeout(() => client.write(chunk), delay);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
    sockets.clear();
  };
  return {
    port: (server.address() as { port: number }).port,
    setDelay: (ms) => void (delay = ms),
    cut,
    close: () => (cut(), void server.close()),
  };
}
