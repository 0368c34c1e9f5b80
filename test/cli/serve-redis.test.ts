/** `keystile serve --limiter redis://…` with a real server: shared limits, and a password that nobody gets to see. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { CLIENTS, connectRedis, type OpenRedis } from "../../src/cli/redis-client.js";
import { noRedisServer, startRedis, type TestRedis, wait } from "../servers/redis.js";
import { folder, run, serve } from "./support.js";
import { join } from "node:path";

const FOLDER = folder();
const db = (name: string) => join(FOLDER, name);
const PASSWORD = "canary-8Kq2Zx7";

describe.skipIf(noRedisServer !== undefined)("serve --limiter redis://…", () => {
  let redis: TestRedis;
  let url: string;
  beforeAll(async () => {
    redis = await startRedis(["--requirepass", PASSWORD]);
    url = redis.url.replace("//", `//:${PASSWORD}@`);
  });
  afterAll(() => redis.close());

  it("two servers with a database each share the limits, and no output holds the password", async () => {
    const first = await serve(db("first.db"), ["--limiter", url, "--log", "--request-limit", "5/3600"]);
    const second = await serve(db("second.db"), ["--log", "--request-limit", "5/3600"], {
      env: { KEYSTILE_LIMITER: url },
    });
    const statusAt = async ({ url: at, rootKey }: typeof first) => {
      const headers = { authorization: `Bearer ${rootKey}`, "content-type": "application/json" };
      return (await fetch(`${at}/v2/keys.whoami`, { method: "POST", headers, body: "{}" })).status;
    };
    const statuses: number[] = [];
    for (let i = 0; i < 4; i++) statuses.push(await statusAt(first), await statusAt(second));
    // Both serve the default workspace.
    expect(statuses.filter((status) => status !== 429)).toHaveLength(5);
    await redis.kill();
    // What is remembered refuses for a second at most.
    await wait(1_010);
    expect(await statusAt(first)).not.toBe(429);
    await redis.restart();
    for (const { banner, ...server } of [first, second]) {
      const { code, stdout, stderr } = await server.stop();
      expect(code).toBe(0);
      expect(stdout + stderr + banner).not.toContain(PASSWORD);
    }
  });

  it("starts without its Redis, and says so", async () => {
    const server = await serve(db("without.db"), ["--limiter", `redis://:${PASSWORD}@127.0.0.1:1`]);
    const { stderr, stdout } = await server.stop();
    expect(stderr).toContain("warning: the Redis of --limiter is out of reach (ECONNREFUSED)");
    expect(stderr + stdout).not.toContain(PASSWORD);
  });

  describe("a Redis that takes no tokens", () => {
    let other: TestRedis;
    beforeEach(async () => {
      other = await startRedis();
      await other.cli("acl", "setuser", "app", "on", `>${PASSWORD}`, "~app:*", "+@all");
      await other.cli("acl", "setuser", "plain", "on", `>${PASSWORD}`, "~*", "+@all", "-@scripting");
    });
    afterEach(() => other.close());
    const as = (user: string) => other.url.replace("//", `//${user}:${PASSWORD}@`);

    it.each<readonly [string, () => Promise<unknown>, () => string, RegExp]>([
      ["a read-only replica", () => other.cli("replicaof", "127.0.0.1", "1"), () => other.url, /\(READONLY You can't/],
      [
        "out of memory",
        () => other.cli("config", "set", "maxmemory", "1"),
        () => other.url,
        /\(OOM command not allowed/,
      ],
      ["a user without its keys", async () => undefined, () => as("app"), /\(NOPERM .* key/],
      ["a user without scripts", async () => undefined, () => as("plain"), /\(NOPERM .*evalsha/],
    ])("%s: it starts with a warning that says what Redis said", async (name, prepare, limiter, reason) => {
      await prepare();
      const server = await serve(db(`${name}.db`), [], { env: { KEYSTILE_LIMITER: limiter() } });
      const { stderr, stdout } = await server.stop();
      expect(stderr).toMatch(
        /^warning: the Redis of --limiter takes no tokens \(.*\); until it does, limits count here alone$/m,
      );
      expect(stderr).toMatch(reason);
      expect(stderr).not.toMatch(/script:/);
      expect(stderr + stdout).not.toContain(PASSWORD);
    });

    it("one that does is not warned of, and is left without a bucket", async () => {
      const server = await serve(db("fine.db"), ["--limiter", other.url]);
      await vi.waitFor(async () => expect(await other.cli("keys", "*")).toBe("\n"));
      expect((await server.stop()).stderr).not.toContain("warning");
    });

    it.each(["killed", "stopped", "replica"] as const)(
      "%s while it serves: a line when it is lost, one when it is back",
      async (how) => {
        const server = await serve(db(`${how}.db`), ["--limiter", other.url, "--log", "--request-limit", "1000/60"]);
        const headers = { authorization: `Bearer ${server.rootKey}`, "content-type": "application/json" };
        const call = async (times: number) => {
          for (let i = 0; i < times; i++)
            await fetch(`${server.url}/v2/keys.whoami`, { method: "POST", headers, body: "{}" });
        };
        await call(1);
        if (how === "killed") await other.kill();
        else if (how === "stopped") other.signal("SIGSTOP");
        else await other.cli("replicaof", "127.0.0.1", "1");
        await call(20);
        if (how === "killed") await other.restart();
        else if (how === "stopped") other.signal("SIGCONT");
        else await other.cli("replicaof", "no", "one");
        await vi.waitFor(async () => {
          await call(1);
          expect(server.output()).toContain('"limiter":"back"');
        }, 10_000);
        const { stderr } = await server.stop();
        const lines = stderr.split("\n").filter((line) => line.includes('"limiter"'));
        expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
          {
            time: expect.any(Number) as number,
            limiter: "lost",
            reason: how === "replica" ? expect.stringMatching(/^READONLY /) : "no answer",
          },
          { time: expect.any(Number) as number, limiter: "back" },
        ]);
      },
    );

    it("failing now and then while it serves: one line", async () => {
      const server = await serve(db("flapping.db"), ["--limiter", other.url, "--request-limit", "1000/60"]);
      const headers = { authorization: `Bearer ${server.rootKey}`, "content-type": "application/json" };
      for (const memory of ["1", "0", "1", "0", "1", "0"]) {
        await other.cli("config", "set", "maxmemory", memory);
        await fetch(`${server.url}/v2/keys.whoami`, { method: "POST", headers, body: "{}" });
      }
      const { stderr } = await server.stop();
      expect(stderr.match(/"limiter":"\w+"/g)).toEqual(['"limiter":"lost"']);
    });

    it("lost at the start and back later: the warning, and one line", async () => {
      await other.cli("config", "set", "maxmemory", "1");
      const server = await serve(db("later.db"), ["--limiter", other.url, "--request-limit", "1000/60"]);
      const headers = { authorization: `Bearer ${server.rootKey}`, "content-type": "application/json" };
      const call = () => fetch(`${server.url}/v2/keys.whoami`, { method: "POST", headers, body: "{}" });
      for (let i = 0; i < 3; i++) await call();
      await other.cli("config", "set", "maxmemory", "0");
      await vi.waitFor(async () => {
        await call();
        expect(server.output()).toContain('"limiter":"back"');
      }, 10_000);
      const { stderr } = await server.stop();
      expect(stderr.match(/takes no tokens|"limiter":"\w+"/g)).toEqual(["takes no tokens", '"limiter":"back"']);
    });
  });

  it.each([
    [[], [true, true, true, true]],
    [
      ["--nodes", "2"],
      [true, true, false, false],
    ],
  ])("without its Redis, and %j, it counts its share of a limit", async (flags, expected) => {
    const limiter = ["--limiter", "redis://127.0.0.1:1"];
    const server = await serve(db(`share-${flags.length}.db`), [...limiter, ...flags]);
    const headers = { authorization: `Bearer ${server.rootKey}`, "content-type": "application/json" };
    const body = JSON.stringify({ namespace: "email", identifier: "user_1", limit: 4, duration: 3_600_000 });
    const passed: unknown[] = [];
    for (let i = 0; i < 4; i++) {
      const response = await fetch(`${server.url}/v2/ratelimit.limit`, { method: "POST", headers, body });
      passed.push(((await response.json()) as { data: { success: unknown } }).data.success);
    }
    expect(passed).toEqual(expected);
    await server.stop();
  });

  it("without its Redis --request-limit counts its share too", async () => {
    const flags = ["--limiter", "redis://127.0.0.1:1", "--nodes", "2", "--request-limit", "4/3600"];
    const server = await serve(db("share-requests.db"), flags);
    const headers = { authorization: `Bearer ${server.rootKey}`, "content-type": "application/json" };
    const isLimited: boolean[] = [];
    for (let i = 0; i < 4; i++) {
      const { status } = await fetch(`${server.url}/v2/keys.whoami`, { method: "POST", headers, body: "{}" });
      isLimited.push(status === 429);
    }
    expect(isLimited).toEqual([false, false, true, true]);
    await server.stop();
  });

  it.each([
    [
      "a wrong password",
      () => redis.url.replace("//", "//:not-canary-8Kq2Zx7@"),
      3,
      "refuses the user or password (WRONGPASS)",
    ],
    ["no password", () => redis.url, 3, "refuses the user or password (NOAUTH)"],
    ["no URL", () => `redis//:${PASSWORD}@localhost`, 2, "must be memory, file, or a Redis as redis://HOST:PORT"],
    ["another kind", () => `postgres://:${PASSWORD}@localhost`, 2, "must be memory, file, or a Redis"],
    ["no host", () => "redis://", 2, "must be memory, file, or a Redis"],
    ["a database that is no number", () => `${url}/canary`, 2, "perhaps with /NUMBER of a database"],
    ["a space before it", () => ` ${url}`, 2, "must be memory, file, or a Redis"],
    ["a line break after it", () => `${url}\n`, 2, "must be memory, file, or a Redis"],
  ])("%s is refused without being repeated", async (_, address, code, message) => {
    for (const options of [["--limiter", address()], []]) {
      const env = options.length === 0 ? { KEYSTILE_LIMITER: address() } : {};
      const ran = await run(["serve", "--db", db("refused.db"), "--port", "0", ...options], { env });
      expect([ran.code, ran.stdout]).toEqual([code, ""]);
      expect(ran.stderr).toContain(message);
      if (code === 2)
        expect(ran.stderr).toContain(options.length === 0 ? "KEYSTILE_LIMITER: must" : "--limiter <where>");
      expect(ran.stderr).not.toContain("canary");
    }
  });

  describe("connectRedis", () => {
    const absent: OpenRedis = () => Promise.reject(Object.assign(new Error("none"), { code: "ERR_MODULE_NOT_FOUND" }));
    const { redis: nodeRedis } = CLIENTS as { readonly redis: OpenRedis };

    it("takes the next client where one is not installed, and says what to install where none is", async () => {
      const { unreachable, close } = await connectRedis(url, { ioredis: absent, redis: nodeRedis });
      close();
      expect(unreachable).toBeUndefined();
      await expect(connectRedis(url, { ioredis: absent, redis: absent })).rejects.toThrow("npm install ioredis");
    });

    it("a client that does not load for another reason is no missing one", async () => {
      const broken: OpenRedis = () => Promise.reject(new Error("broken"));
      await expect(connectRedis(url, { ioredis: broken, redis: nodeRedis })).rejects.toThrow("broken");
    });

    it("one that answers nothing is out of reach after two seconds", async () => {
      const silent: OpenRedis = async () => ({
        client: async () => undefined,
        ready: new Promise(() => undefined),
        close: () => undefined,
      });
      expect((await connectRedis(url, { silent })).unreachable).toBe("no answer");
    });
  });
});
