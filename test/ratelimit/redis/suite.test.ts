/** Every clause of the contract, with every client, against a real server. */
import { afterAll, beforeAll, describe } from "vitest";
import { redisLimiter } from "../../../src/ratelimit/redis/limiter.js";
import { noRedis, startRedis, type TestRedis } from "../../servers/redis.js";
import { limiterSuite } from "../suite.js";
import { CLIENTS, type Connected } from "./clients.js";

describe.skipIf(noRedis !== undefined)("redis: the suite of limiters", () => {
  let redis: TestRedis;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis.close());

  describe.each(Object.keys(CLIENTS))("%s", (name) => {
    let connected: Connected;
    let made = 0;
    beforeAll(async () => {
      connected = await CLIENTS[name]!(redis.url);
    });
    afterAll(() => connected.disconnect());

    // A long deadline: what is tried here is arithmetic, on machines as busy as they may be.
    limiterSuite("Redis", () =>
      redisLimiter(connected.client, {
        prefix: `${name} ${made++}:`.replaceAll(" ", "_"),
        clock: "caller",
        deadline: 10_000,
      }),
    );
  });
});
