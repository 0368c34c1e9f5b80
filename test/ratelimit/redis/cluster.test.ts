/**
 * Three masters, each with a third of the slots: every verification is in one of them, and calls across them are all or
 * nothing.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { LimitCheck } from "../../../src/contracts/limiter.js";
import { createKeyring, createVerifier, memoryStore } from "../../../src/index.js";
import { redisLimiter, type RedisLimiter } from "../../../src/ratelimit/redis/limiter.js";
import { noRedisServer, startCluster, type TestRedis } from "../../servers/redis.js";
import { CLUSTERS, type Connected } from "./clients.js";

const check = (n: number, limit = 10): LimitCheck => ({
  bucket: `key_${n} requests`,
  shard: `key_${n}`,
  limit,
  duration: 3_600_000,
  cost: 1,
});

describe.skipIf(noRedisServer !== undefined)("redisLimiter: a cluster", () => {
  let nodes: readonly TestRedis[];
  beforeAll(async () => {
    nodes = await startCluster();
  });
  afterAll(async () => {
    for (const node of nodes) await node.close();
  });
  const keysPerNode = () => Promise.all(nodes.map(async (node) => Number(await node.cli("dbsize"))));

  describe.each(Object.keys(CLUSTERS))("%s", (name) => {
    let connected: Connected;
    let limiter: RedisLimiter;
    beforeAll(async () => {
      connected = await CLUSTERS[name]!(nodes[0]!.port);
      limiter = redisLimiter(connected.client, { deadline: 10_000 });
    });
    afterAll(async () => {
      limiter.close();
      connected.disconnect();
      for (const node of nodes) await node.cli("flushall");
    });

    it("finds the server of each shard, and takes from all of them", async () => {
      for (let n = 0; n < 60; n++) expect(await limiter.take([check(n)], 0)).toMatchObject([{ remaining: 9 }]);
      const counts = await keysPerNode();
      expect(Math.min(...counts)).toBeGreaterThan(0);
      expect(counts.reduce((sum, count) => sum + count)).toBe(60);
    });

    it("a call across shards takes all or nothing", async () => {
      const all = Array.from({ length: 12 }, (_, n) => check(100 + n));
      expect(await limiter.take(all, 0)).toMatchObject(Array(12).fill({ exceeded: false, remaining: 9 }));
      const one = [...all, check(200, 0)];
      const refused = await limiter.take(one, 0);
      expect(refused.map(({ exceeded }) => exceeded)).toEqual([...Array<boolean>(12).fill(false), true]);
      expect(await limiter.take(all, 0)).toMatchObject(Array(12).fill({ exceeded: false, remaining: 8 }));
    });

    it("a key's own limits and its identity's are one call of the script", async () => {
      const store = memoryStore();
      const keyring = createKeyring(store);
      const { apiId } = await keyring.createApi({ name: "documents" });
      const limit = (limitName: string) => ({ name: limitName, limit: 2, duration: 60_000, autoApply: true });
      await keyring.createIdentity({ externalId: "customer", ratelimits: [limit("shared")] });
      const ratelimits = [limit("own"), limit("other")];
      const verifier = createVerifier(store, { limiter });
      for (let i = 0; i < 8; i++) {
        const { key } = await keyring.createKey({ apiId, externalId: "customer", ratelimits });
        const before = limiter.counters().scriptCalls;
        expect((await verifier.verify({ key })).code).toBe(i < 2 ? "VALID" : "RATE_LIMITED");
        expect(limiter.counters().scriptCalls - before).toBe(1);
      }
      expect(limiter.counters().failedCalls).toBe(0);
    });
  });
});
