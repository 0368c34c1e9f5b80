/** Counters that many hosts share, in Redis and in PostgreSQL: one for each number, nothing else checked. */
import { Redis } from "ioredis";
import { RateLimiterPostgres, RateLimiterRedis, type SharedLimiter } from "rate-limiter-flexible";
import type { KeyRecord, Spend, Store } from "../../src/contracts/store.js";
import type { LimitVerdict } from "../../src/index.js";
import { redisLimiter } from "../../src/ratelimit/redis/index.js";
import { connect, openPool } from "../connect.js";
import { digestOf, keyIdOf, keyRow } from "../keys.js";
import { prepare } from "../stores.js";
import type { Contestant, Gate, Terms } from "./contestant.js";

/** Prefixes of its own for each opening, so that none meets what another left. */
let openings = 0;
const nextPrefix = (): string => `peers${++openings}:`;

function openRedis(url: string): Redis {
  return new Redis(url).on("error", () => undefined);
}

/** @param url of a Redis server */
export const keystileRedis = (url: string): Contestant<LimitVerdict> => ({
  name: "keystile, redisLimiter",
  checks: { limit: "token buckets; several at once, all or none; a refusal takes nothing; deadline and breaker" },
  async open(_keys, { limit, duration }) {
    const prefix = nextPrefix();
    const gateOf = (): Gate<LimitVerdict> => {
      const redis = openRedis(url);
      // A busy machine is no failure of Redis.
      const limiter = redisLimiter(redis, { prefix, deadline: 60_000 });
      const take = async (n: number, cost: number): Promise<LimitVerdict> => {
        const bucket = keyIdOf(n);
        return (await limiter.take([{ bucket, shard: bucket, limit, duration, cost }], 0))[0]!;
      };
      return {
        verify: (n) => take(n, 1),
        passes: ({ exceeded }) => !exceeded,
        balance: async (n) => (await take(n, 0)).remaining,
        close() {
          limiter.close();
          redis.disconnect();
        },
        join: async () => gateOf(),
      };
    };
    return gateOf();
  },
});

/** Opens connections of its own, and a limiter on them. */
type Connect = (prefix: string, terms: Terms) => Promise<readonly [SharedLimiter, close: () => void | Promise<void>]>;

function flexible(name: string, limit: string, connectTo: Connect): Contestant<boolean> {
  return {
    name: `rate-limiter-flexible, ${name}`,
    checks: { limit },
    async open(_keys, terms) {
      const prefix = nextPrefix();
      const gateOf = async (): Promise<Gate<boolean>> => {
        const [limiter, close] = await connectTo(prefix, terms);
        return {
          async verify(n) {
            try {
              await limiter.consume(keyIdOf(n));
              return true;
            } catch (refusal) {
              if (refusal instanceof Error) throw refusal;
              return false;
            }
          },
          passes: (passed) => passed,
          balance: async (n) => (await limiter.get(keyIdOf(n)))?.remainingPoints ?? terms.limit,
          close,
          join: gateOf,
        };
      };
      return gateOf();
    },
  };
}

/** @param url of a Redis server */
export const flexibleRedis = (url: string): Contestant<boolean> =>
  flexible(
    "RateLimiterRedis",
    "fixed windows; one at a time; refused calls count",
    async (keyPrefix, { limit, duration }) => {
      const storeClient = openRedis(url);
      const limiter = new RateLimiterRedis({ storeClient, keyPrefix, points: limit, duration: duration / 1_000 });
      return [limiter, () => storeClient.disconnect()];
    },
  );

/** @param url of a database */
export const flexiblePostgres = (url: string): Contestant<boolean> =>
  flexible(
    "RateLimiterPostgres",
    "fixed windows; one at a time; refused calls count; survives a power cut",
    async (prefix, { limit, duration }) => {
      const storeClient = openPool(url);
      const options = { storeClient, keyPrefix: prefix.slice(0, -1), points: limit, duration: duration / 1_000 };
      const limiter = await new Promise<SharedLimiter>((resolve, reject) => {
        const made = new RateLimiterPostgres(options, (error) => {
          if (error === undefined) resolve(made);
          else reject(error);
        });
      });
      return [limiter, () => storeClient.end()];
    },
  );

/**
 * What keystile counts in PostgreSQL: credits. Limits of many hosts are Redis's. @param newDatabase makes an empty one,
 * and tells its address
 */
export const keystileCredits = (newDatabase: () => Promise<string>): Contestant<Spend | undefined> => ({
  name: "keystile, postgresStore.spendCredits",
  checks: {
    limit: "none: credits, refilled daily, monthly or never; a refusal takes nothing; survives a power cut",
    credits: "exact, across hosts",
  },
  async open(keys, { credits }) {
    const url = await newDatabase();
    const first = connect(url);
    await first.store.setUp();
    await prepare(first.store);
    const balance = { remaining: credits, amount: 0, period: 0 };
    await first.store.insertKeys(Array.from({ length: keys }, (_, n) => ({ ...keyRow(n, true), balance })));
    const found = await Promise.all(Array.from({ length: keys }, (_, n) => first.store.findKey(digestOf(n))));
    const refs = found.map((record) => (record as KeyRecord).ref);
    const gateOf = (store: Store, close: () => Promise<void>): Gate<Spend | undefined> => ({
      verify: (n) => store.spendCredits(refs[n]!, 1, 0, 0),
      passes: (spend) => spend?.ok === true,
      balance: async (n) =>
        (await store.readBalances([{ keyId: keyIdOf(n), period: 0 }], 0))[0]?.remaining ?? undefined,
      close,
      async join() {
        const next = connect(url);
        return gateOf(next.store, next.close);
      },
    });
    return gateOf(first.store, first.close);
  },
});
