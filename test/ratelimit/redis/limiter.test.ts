/**
 * What the suite of limiters does not ask of one in Redis: its arithmetic beside the memory limiter's, shards, keys,
 * expiry and what it remembers.
 */
import { createHash } from "node:crypto";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { describe, expect, it, vi } from "vitest";
import type { LimitVerdict } from "../../../src/contracts/limiter.js";
import { memoryLimiter } from "../../../src/ratelimit/memory/limiter.js";
import { redisLimiter } from "../../../src/ratelimit/redis/limiter.js";
import { SCRIPT } from "../../../src/ratelimit/redis/script.js";
import { noRedis, wait } from "../../servers/redis.js";
import { withSeeds } from "../../../src/testing/random.js";
import { runs } from "../../runs.js";
import { check, scriptCalls, START, testServer } from "./support.js";

const MAX = Number.MAX_SAFE_INTEGER;
const isRefused = (verdicts: readonly LimitVerdict[]) => verdicts.some(({ exceeded }) => exceeded);

describe.skipIf(noRedis !== undefined)("redisLimiter", () => {
  const bed = testServer();
  const { limiterOf } = bed;

  it("has the verdicts of the memory limiter, whatever sizes, overrides, shards and buckets a call mixes (property)", async () => {
    await withSeeds(runs(150), async (random) => {
      // One that remembers refusals may show what was left a moment ago, and decides the same.
      const [remembering, reference] = [limiterOf({ clock: "caller", prefix: "remembering:" }), memoryLimiter()];
      const size = () => ({
        limit: random.pick([0, 1, random.integer(2, 12), random.integer(1, 1_000_000)]),
        duration: random.pick([0, 1, random.integer(1, 5_000), random.integer(1_000, 2_592_000_000)]),
      });
      // Four sizes: of more, one that gave way to a call that was returned counts as the slowest, which grants less.
      const own = { ...size(), limit: random.integer(1, 12) };
      const sizes = [own, size(), size(), size()] as const;
      let now = START;
      for (let i = 0; i < 25; i++) {
        now += random.pick([0, 1, random.integer(1, 5_000), random.integer(1, 86_400_000)]);
        const checks = Array.from({ length: random.integer(1, 4) }, () => {
          const shard = random.pick([undefined, "key_1", "id 2}"]);
          return check({
            ...random.pick(sizes),
            bucket: `${shard ?? "alone"} ${random.integer(1, 2)}`,
            shard,
            cost: random.pick([0, 1, 1, random.integer(1, 12), random.integer(1, 1_000_000)]),
            configured: random.pick([undefined, undefined, own]),
          });
        });
        const expected = reference.take(checks, now);
        const about = JSON.stringify({ i, now, checks });
        expect(await limiterOf({ clock: "caller" }).take(checks, now), about).toEqual(expected);
        const verdicts = await remembering.take(checks, now);
        expect(isRefused(verdicts), about).toBe(isRefused(expected));
      }
      await bed.client.flushall();
    });
  });

  it("2^53 − 1 survives, there and back", async () => {
    const node = await createClient({ url: bed.server.url }).connect();
    for (const over of [bed.client, node]) {
      const limiter = redisLimiter(over, { prefix: `${over === bed.client}:`, clock: "caller", deadline: 10_000 });
      const one = check({ limit: MAX, duration: 1, cost: MAX - 1 });
      expect(await limiter.take([one], START)).toEqual([
        { exceeded: false, remaining: 1, reset: expect.closeTo(1, 9) },
      ]);
      expect(await limiter.take([check({ limit: 1, duration: MAX })], START)).toMatchObject([{ exceeded: true }]);
      const slow = check({ bucket: "key_1 slow", limit: 1, duration: MAX });
      expect(await limiter.take([slow], START)).toEqual([{ exceeded: false, remaining: 0, reset: MAX }]);
      expect(await limiter.take([slow], START)).toEqual([{ exceeded: true, remaining: 0, reset: MAX }]);
    }
    node.destroy();
  });

  it("sizes whose units exceed 2^53 have the verdicts of the memory limiter", async () => {
    const [limiter, reference] = [limiterOf({ clock: "caller" }), memoryLimiter()];
    for (const [limit, duration] of [
      [1_000_000_007, 9_000_000_000_000_001],
      [MAX, MAX - 2],
      [MAX - 1, 1_000_003],
    ] as const) {
      const one = check({ bucket: `key_1 ${limit}`, limit, duration, cost: Math.ceil(limit / 3) });
      for (const now of [START, START + 1, START + 1e6, START + 1e15, START + 2e15])
        expect(await limiter.take([one], now), `${limit} ${duration} ${now}`).toEqual(reference.take([one], now));
    }
  });

  describe("server's clock", () => {
    it("a bucket is gone once it is full, and is never without an expiry", async () => {
      const limiter = limiterOf();
      await limiter.take([check({ limit: 10, duration: 15_000 })], 0);
      const [key] = await bed.client.keys("*");
      const left = await bed.client.pttl(key!);
      expect(left).toBeGreaterThan(0);
      expect(left).toBeLessThanOrEqual(1_500);
      await vi.waitFor(async () => expect(await bed.client.exists(key!)).toBe(0), 20_000);
      await limiter.take([check({ cost: 0 }), check({ bucket: "other", cost: 0 })], 0);
      expect(await bed.client.keys("*")).toEqual([]);
    });

    /** As a server finds a bucket whose clock is behind that of the one that wrote it. */
    const writeAhead = async (key: string, ms: number): Promise<void> => {
      const value = (await bed.client.getBuffer(key))!;
      value.writeDoubleLE(value.readDoubleLE(0) + ms, 0);
      await bed.client.set(key, value, "PX", 3_600_000);
    };

    it.each([1, 2])(
      "after a failover to a clock an hour behind it mints nothing, and refills (%i limits)",
      async (n) => {
        const checks = [check({ limit: 10, duration: 2_000, cost: 10 }), check({ bucket: "other", limit: 100 })].slice(
          0,
          n,
        );
        expect(isRefused(await limiterOf().take(checks, 0))).toBe(false);
        await writeAhead("keystile:{key_1}:key_1 requests", 3_600_000);
        const one = checks.map((each) => ({ ...each, cost: 1 }));
        // The first call only moves the bucket's time.
        expect(await limiterOf().take(one, 0)).toMatchObject([{ exceeded: true, remaining: 0 }, {}].slice(0, n));
        let tries = 0;
        while (isRefused(await limiterOf().take(one, 0))) {
          expect(++tries).toBeLessThan(100);
          await wait(50);
        }
      },
    );

    it("a clock that is behind by less than a bucket takes to refill leaves its time as it is", async () => {
      const one = check({ limit: 1, duration: 1_000_000 });
      await limiterOf().take([one], 0);
      const key = "keystile:{key_1}:key_1 requests";
      await writeAhead(key, 900_000);
      const written = await bed.client.getBuffer(key);
      for (let i = 0; i < 3; i++) expect(isRefused(await limiterOf().take([one], 0))).toBe(true);
      expect(await bed.client.getBuffer(key)).toEqual(written);
    });
  });

  describe("a value that is no bucket", () => {
    const key = "keystile:{key_1}:key_1 requests";
    const packed = (...numbers: number[]): Buffer => {
      const value = Buffer.alloc(numbers.length * 8);
      numbers.forEach((number, i) => value.writeDoubleLE(number, i * 8));
      return value;
    };
    const [limit, duration] = [10, 60_000];
    const later = () => Date.now() + 1e12;

    it.each<readonly [string, () => Buffer | string]>([
      ["a text", () => "hello"],
      ["an empty text", () => ""],
      ["32 NUL", () => "\0".repeat(32)],
      ["56 x", () => "x".repeat(56)],
      ["a time without levels", () => packed(Date.now())],
      ["more levels than there are", () => packed(Date.now(), ...Array(5).fill([limit, duration, 1]).flat())],
      ["a time that is not a number", () => packed(NaN, limit, duration, 60_000)],
      ["a time at infinity", () => packed(Infinity, limit, duration, 60_000)],
      ["so much used that it is not finite", () => packed(later(), limit, duration, Infinity)],
      ["a number used that is none", () => packed(Date.now(), limit, duration, NaN)],
      ["less than nothing used", () => packed(later(), limit, duration, -1e9)],
      ["more used than a level can hold", () => packed(Date.now(), limit, duration, 2 ** 54)],
      ["a part of a unit used at another rate", () => packed(later(), limit, 1_000, 0.5)],
      ["a rate of nothing", () => packed(Date.now(), 0, duration, 6_000)],
      ["a negative duration", () => packed(Date.now(), limit, -duration, 6_000)],
    ])("%s counts as none, alone and with other limits, and is replaced", async (_, value) => {
      for (const checks of [
        [check()],
        [check(), check({ bucket: "other" })],
        [check({ limit: 20, configured: check() })],
      ]) {
        await bed.client.set(key, value());
        const fresh = limiterOf();
        expect((await fresh.take([{ ...checks[0]!, cost: 0 }], 0))[0]).toMatchObject({ remaining: checks[0]!.limit });
        expect((await fresh.take(checks, 0))[0]).toEqual({
          exceeded: false,
          remaining: checks[0]!.limit - 1,
          reset: expect.any(Number),
        });
        expect((await limiterOf().take(checks, 0))[0]).toMatchObject({ remaining: checks[0]!.limit - 2 });
        expect(await bed.client.pttl(key)).toSatisfy((left: number) => left > 0 && left <= duration);
      }
    });

    it("of another type: the same, with one call of the script", async () => {
      for (const checks of [[check()], [check(), check({ bucket: "other" })]]) {
        await bed.client.del(key);
        await bed.client.rpush(key, "a list");
        const before = await scriptCalls(bed.client);
        expect((await limiterOf().take(checks, 0))[0]).toMatchObject({ exceeded: false, remaining: 9 });
        expect((await scriptCalls(bed.client)) - before).toBe(1);
        expect(await bed.client.type(key)).toBe("string");
      }
    });

    it("one that may not be read is a failure, and not none", async () => {
      await bed.client.call("ACL", "SETUSER", "blind", "on", "nopass", "~*", "+@all", "-get");
      const blind = new Redis(bed.server.url, { username: "blind", password: "any" });
      const limiter = redisLimiter(blind, { deadline: 10_000 });
      const failure = {
        code: "LIMITER_UNAVAILABLE",
        cause: { message: expect.stringContaining("can't run this command") },
      };
      await expect(limiter.take([check()], 0)).rejects.toMatchObject(failure);
      expect(await bed.client.dbsize()).toBe(0);
      limiter.close();
      blind.disconnect();
    });
  });

  it("keys: prefix, shard as the hash tag, bucket; other shards than plain words as a digest, so that no two meet", async () => {
    const limiter = limiterOf();
    await limiter.take([check(), check({ bucket: "key_1 a:b}" })], 0);
    expect((await bed.client.keys("*")).sort()).toEqual([
      "keystile:{key_1}:key_1 a:b}",
      "keystile:{key_1}:key_1 requests",
    ]);
    await bed.client.flushall();
    const odd = [
      ["a}:x", "b"],
      ["a", "x}:b"],
      [undefined, ""],
      [undefined, "}"],
      ["", "é"],
    ] as const;
    for (const [shard, bucket] of odd) await limiterOf({ prefix: "" }).take([check({ shard, bucket })], 0);
    const keys = await bed.client.keys("*");
    expect(keys).toHaveLength(odd.length);
    for (const key of keys) expect(key).toMatch(/^\{[a-zA-Z0-9_-]{1,64}\}:/);
  });

  it("one verification is one call of the script, which another server may not know yet", async () => {
    const limiter = limiterOf();
    const checks = ["a", "b", "c"].map((bucket) => check({ bucket }));
    await limiter.take(checks, 0);
    const before = await scriptCalls(bed.client);
    await limiter.take(checks, 0);
    expect((await scriptCalls(bed.client)) - before).toBe(1);
    await bed.client.script("FLUSH");
    expect(await limiter.take(checks, 0)).toMatchObject(Array(3).fill({ exceeded: false, remaining: 7 }));
    expect(await bed.client.script("EXISTS", createHash("sha1").update(SCRIPT).digest("hex"))).toEqual([1]);
  });

  describe("several shards", () => {
    const x = check({ bucket: "x", shard: "x", limit: 3 });
    const y = check({ bucket: "y", shard: "y", limit: 1 });

    it("all are taken, or none: what one refused the others have back, at each of their rates", async () => {
      const limiter = limiterOf({ clock: "caller" });
      expect(await limiter.take([x, y], START)).toMatchObject([{ remaining: 2 }, { remaining: 0 }]);
      const both = [{ ...x, limit: 100, configured: { limit: 3, duration: 60_000 } }, y];
      for (let i = 0; i < 5; i++) {
        // Without what it remembers: each must ask, take and return.
        const fresh = limiterOf({ clock: "caller" });
        expect(await fresh.take(both, START)).toMatchObject([
          { exceeded: false, remaining: 99 },
          { exceeded: true, remaining: 0 },
        ]);
      }
      expect(await limiter.take([{ ...x, cost: 0 }], START)).toEqual([
        { exceeded: false, remaining: 2, reset: 20_000 },
      ]);
      expect(await bed.client.keys("*")).toHaveLength(2);
    });

    it("a bucket that held all it had taken is gone again", async () => {
      const limiter = limiterOf();
      expect(await limiter.take([x, { ...y, cost: 2 }], 0)).toMatchObject([{ remaining: 3 }, { exceeded: true }]);
      expect(await bed.client.dbsize()).toBe(0);
    });

    it("calls at once over shared buckets are granted no more than the scarcest, and take no more than was granted", async () => {
      const buckets = Array.from({ length: 6 }, (_, n) => check({ bucket: `b${n}`, shard: `s${n}`, limit: 20 }));
      const limiters = [limiterOf({ clock: "caller" }), limiterOf({ clock: "caller" })];
      const taken = new Map<string, number>();
      const calls = Array.from({ length: 200 }, async (_, n) => {
        const [one, other] = [buckets[n % 6]!, buckets[(n * 5 + 1) % 6]!];
        const chosen = one === other ? [one] : [one, other];
        const verdicts = await limiters[n % 2]!.take(chosen, START);
        if (verdicts.some(({ exceeded }) => exceeded)) return;
        for (const { bucket } of chosen) taken.set(bucket, (taken.get(bucket) ?? 0) + 1);
      });
      await Promise.all(calls);
      const fresh = limiterOf({ clock: "caller" });
      for (const bucket of buckets) {
        const [{ remaining } = { remaining: -1 }] = await fresh.take([{ ...bucket, cost: 0 }], START);
        expect(20 - remaining, bucket.bucket).toBe(taken.get(bucket.bucket) ?? 0);
      }
    });

    it("while one is remembered to refuse, the others are not touched", async () => {
      const limiter = limiterOf();
      await limiter.take([y], 0);
      expect((await limiter.take([y], 0))[0]).toMatchObject({ exceeded: true });
      const before = await bed.client.dbsize();
      expect(await limiter.take([x, y], 0)).toMatchObject([{ exceeded: false, remaining: 3 }, { exceeded: true }]);
      expect(await bed.client.dbsize()).toBe(before);
    });
  });

  it("of a call that only looked, since one refuses, nothing is returned when another shard fails", async () => {
    const limiter = redisLimiter(
      async ([name = "", ...rest], key) => {
        if (key.includes("{bad}")) throw new Error("gone");
        return bed.client.call(name, ...rest);
      },
      { deadline: 10_000 },
    );
    const [good, full, bad] = ["good", "full", "bad"].map((shard) => check({ bucket: shard, shard, limit: 1 }));
    await limiter.take([full!], 0);
    expect(isRefused(await limiter.take([full!], 0))).toBe(true);
    const calls = await scriptCalls(bed.client);
    await expect(limiter.take([good!, full!, bad!], 0)).rejects.toMatchObject({ code: "LIMITER_UNAVAILABLE" });
    await wait(50);
    expect((await scriptCalls(bed.client)) - calls).toBe(1);
    limiter.close();
  });

  describe("remembered refusals", () => {
    it("refuses by itself without a promise until the call fits, then asks; a smaller cost that fits is not refused", async () => {
      const limiter = limiterOf({ clock: "caller" });
      await limiter.take([check({ cost: 8 })], START);
      expect(await limiter.take([check({ cost: 5 })], START)).toEqual([
        { exceeded: true, remaining: 2, reset: 48_000 },
      ]);
      const asked = limiter.counters().scriptCalls;
      const later = [{ exceeded: true, remaining: 4, reset: 30_001 }];
      expect(limiter.take([check({ cost: 5 })], START + 17_999)).toEqual(later);
      expect(limiter.counters().scriptCalls).toBe(asked);
      expect(await limiter.take([check({ cost: 5 })], START + 18_000)).toMatchObject([
        { exceeded: false, remaining: 0 },
      ]);
      const other = limiterOf({ clock: "caller" });
      expect(await other.take([check({ cost: 3 })], START + 18_000)).toMatchObject([{ exceeded: true }]);
      expect(await other.take([check({ cost: 1 })], START + 24_000)).toMatchObject([{ exceeded: false }]);
    });

    it("a call with one limit that refuses and one that does not shows both as they stand, and takes neither", async () => {
      const limiter = limiterOf({ clock: "caller" });
      const both = [check({ bucket: "wide", limit: 100 }), check({ bucket: "narrow", limit: 1 })];
      await limiter.take(both, START);
      const refused = [
        { exceeded: false, remaining: 99, reset: 600 },
        { exceeded: true, remaining: 0, reset: 60_000 },
      ];
      expect(limiter.take(both, START)).toEqual(refused);
      expect(await limiterOf({ clock: "caller" }).take(both, START)).toEqual(refused);
    });

    it("several checks of one bucket are left to Redis", async () => {
      const limiter = limiterOf({ clock: "caller" });
      // By itself the second one fits.
      const checks = [6, 6, 20].map((cost) => check({ cost }));
      for (let i = 0; i < 2; i++)
        expect(await limiter.take(checks, START)).toMatchObject([false, true, true].map((exceeded) => ({ exceeded })));
      expect(limiter.counters()).toMatchObject({ scriptCalls: 2, rememberedRefusals: 0 });
    });
  });

  it("counters tell calls of the script, remembered refusals and failures; close ends it and leaves the client", async () => {
    const limiter = limiterOf();
    await limiter.take([check({ limit: 1 })], 0);
    await limiter.take([check({ limit: 1 })], 0);
    expect(limiter.counters()).toEqual({
      newcomersRefused: 0,
      bucketsDisplaced: 0,
      scriptCalls: 1,
      rememberedRefusals: 1,
      failedCalls: 0,
    });
    limiter.close();
    expect(() => limiter.take([check()], 0)).toThrow(expect.objectContaining({ code: "LIMITER_UNAVAILABLE" }));
    expect(await bed.client.ping()).toBe("PONG");
  });

  it("what Redis cannot be asked with is refused before it is asked", () => {
    const limiter = limiterOf();
    expect(limiter.take([], 0)).toEqual([]);
    expect(() => limiter.take([check()], NaN)).toThrow(/now must be a finite number/);
    expect(() => limiter.take([check({ cost: -1 })], 0)).toThrow(/cost must be an integer/);
    expect(() => limiter.take([check({ bucket: "\ud800" })], 0)).toThrow(/bucket must be a well-formed text/);
    expect(() => limiter.take([check({ shard: "s".repeat(2_049) })], 0)).toThrow(/shard must be a well-formed text/);
    expect(() => limiter.take([check({ bucket: 1 as never, shard: "s" })], 0)).toThrow(/bucket must be/);
    expect(limiter.counters().scriptCalls).toBe(0);
  });
});

describe("redisLimiter: options", () => {
  const send = async () => "0 0";

  it.each([
    [{ prefix: "{tag}" }, /options\.prefix must be up to 100 characters/],
    [{ prefix: "with space" }, /options\.prefix/],
    [{ deadline: 0 }, /options\.deadline must be from 1 to 60000/],
    [{ clock: "mine" }, /options\.clock must be one of: server, caller/],
    [{ timeout: 5 }, /options\.timeout is not an option; there are: prefix, deadline, clock/],
  ])("%j is refused", (options, message) => {
    expect(() => redisLimiter(send, options as never)).toThrow(message);
  });

  it.each([undefined, null, {}, "redis://localhost", { call: 1 }])("%j is no client", (client) => {
    expect(() => redisLimiter(client as never)).toThrow(/client must be one of ioredis or redis, or a function/);
  });

  it.each(["", "0", "0 x", "0 1 0 1", "OK", null, 5])("an answer such as %j is a failure", async (answer) => {
    const limiter = redisLimiter(async () => answer);
    await expect(limiter.take([check()], 0)).rejects.toMatchObject({ code: "LIMITER_UNAVAILABLE" });
  });

  it("shards that were granted while another failed, or too late, have their tokens back", async () => {
    const modes: string[] = [];
    const limiter = redisLimiter(
      async ([, , count, key = "", header = ""]) => {
        modes.push(`${key} ${header}`);
        if (key.includes("{bad}")) throw new Error("gone");
        if (key.includes("{late}") && header === "take") await wait(60);
        return header === "take" ? `0 60000/10 60000 60000 0 1` : `0 0${count === "1" ? "" : "?"}`;
      },
      { prefix: "", deadline: 30 },
    );
    const shards = ["good", "late", "bad"].map((shard) => check({ bucket: shard, shard }));
    await expect(limiter.take(shards, 0)).rejects.toMatchObject({ code: "LIMITER_UNAVAILABLE" });
    await wait(100);
    expect(modes.slice(3).sort()).toEqual(["{good}:good undo", "{late}:late undo"]);
  });

  it("a cluster of node-redis is told the first key", async () => {
    const seen: unknown[] = [];
    const cluster = {
      getSlotRandomNode: () => undefined,
      async sendCommand(...args: unknown[]) {
        seen.push(...args.slice(0, 2));
        return "0 0";
      },
    };
    await redisLimiter(cluster).take([check()], 0);
    expect(seen).toEqual(["keystile:{key_1}:key_1 requests", false]);
  });

  it("a function may throw, and is given the command and its first key", async () => {
    const seen: unknown[] = [];
    const limiter = redisLimiter((command, firstKey) => {
      seen.push(command[0], command[3], firstKey);
      throw new Error("not connected");
    });
    await expect(limiter.take([check()], 0)).rejects.toMatchObject({ code: "LIMITER_UNAVAILABLE" });
    const key = "keystile:{key_1}:key_1 requests";
    expect(seen).toEqual(["EVALSHA", key, key]);
  });
});
