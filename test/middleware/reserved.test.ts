/** Guards of calls whose price is known afterwards, on every framework: what is kept, and what comes back. */
import { once } from "node:events";
import { setImmediate as nextTurn } from "node:timers/promises";
import express from "express";
import { afterEach, describe, expect, it, vi } from "vitest";
import { createKeyring, createVerifier, memoryStore } from "../../src/index.js";
import { apiKey as expressGuard } from "../../src/middleware/express.js";
import { createGuard, type VerifiedKey, verifiedKey } from "../../src/middleware/guard.js";
import { AFTER_CUT, endingWith } from "../../src/middleware/reserved.js";
import { apiKey as webGuard } from "../../src/middleware/web.js";
import { testClock } from "../../src/testing/index.js";
import { BEDS, handling, listen } from "./beds.js";

async function world() {
  const store = memoryStore();
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "models" });
  const ratelimits = [{ name: "requests", limit: 10, duration: 60_000, autoApply: true }];
  const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 10_000 }, ratelimits });
  const verifier = createVerifier(store);
  const balance = async () => {
    const { remaining, reserved = 0 } = (await keyring.getKey({ keyId })).credits!;
    return [remaining, reserved];
  };
  const headers = { authorization: `Bearer ${key}` };
  return { verifier, apiId, key, headers, balance };
}

/** The end of a response comes after the client has it. */
const settledAs = async (balance: () => Promise<(number | null)[]>, remaining: number) =>
  expect.poll(balance, { interval: 5, timeout: 20_000 }).toEqual([remaining, 0]);

afterEach(() => {
  handling.act = undefined;
  vi.useRealTimers();
});

describe.each(BEDS)("a guard that reserves: $name", ({ start, hasBody }) => {
  it("the handler commits what the call did cost, once", async () => {
    const { verifier, apiId, headers, balance } = await world();
    const said: unknown[] = [];
    handling.act = async ({ commit }) => {
      said.push(await balance(), await commit(1_234), await commit(1_234));
    };
    const app = await start(verifier, { apiId, reserve: 4_000 });
    const response = await app.call(headers);
    expect(response.status).toBe(200);
    await response.text();
    expect(said).toEqual([[6_000, 4_000], { settled: true, spent: 1_234 }, { settled: false, reason: "settled" }]);
    await settledAs(balance, 10_000 - 1_234);
    await app.close();
    await verifier.close();
  });

  it("not settled, all is kept after a 2xx and comes back after an error", async () => {
    const { verifier, apiId, headers, balance } = await world();
    const app = await start(verifier, { apiId, reserve: 4_000 });
    await (await app.call(headers)).text();
    await settledAs(balance, 6_000);
    handling.act = () => {
      throw Object.assign(new Error("the model is down"), { statusCode: 503 });
    };
    // Without a server the error rises.
    const failed = await app.call(headers).catch(() => Response.error());
    await failed.text();
    if (hasBody) expect(failed.ok).toBe(false);
    await settledAs(balance, 6_000);
    await app.close();
    await verifier.close();
  });

  it("`unsettled` decides otherwise", async () => {
    const { verifier, apiId, headers, balance } = await world();
    const app = await start(verifier, { apiId, reserve: 4_000, unsettled: "release" });
    await (await app.call(headers)).text();
    await settledAs(balance, 10_000);
    await app.close();
    await verifier.close();
  });

  it("more than there is is refused, and takes nothing; limits are taken once", async () => {
    const { verifier, apiId, key, headers, balance } = await world();
    const app = await start(verifier, { apiId, reserve: 10_001 });
    expect((await app.call(headers)).status).toBe(429);
    expect(await balance()).toEqual([10_000, 0]);
    await app.close();
    const two = await start(verifier, { apiId, reserve: 100 }, { cost: 30 });
    handling.act = ({ commit }) => commit(7);
    await (await two.call(headers)).text();
    await settledAs(balance, 10_000 - 7);
    const { ratelimits } = await verifier.verify({ key, credits: { cost: 0 } });
    // One of the call that was refused for its credits, one of the next, and one of this.
    expect(ratelimits![0]!.remaining).toBe(7);
    await two.close();
    await verifier.close();
  });
});

describe("a guard that reserves", () => {
  it("a body that streams is settled at its end, and a minute after the client has gone away", async () => {
    const { verifier, apiId, headers, balance } = await world();
    let use: (key: VerifiedKey) => unknown = () => undefined;
    let leave: (key: VerifiedKey) => unknown = () => undefined;
    const route = webGuard(verifier, { apiId, reserve: 1_000 }, (_request, key) => {
      const body = new ReadableStream({
        async pull(controller) {
          controller.enqueue(new TextEncoder().encode("token "));
          await use(key);
        },
        cancel: () => void leave(key),
      });
      return new Response(body);
    });
    const stream = async () => (await route(new Request("http://localhost/", { headers }))).body!.getReader();
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    const reader = await stream();
    await reader.read();
    const cancelled = reader.cancel();
    await vi.advanceTimersByTimeAsync(AFTER_CUT - 1);
    expect(await balance()).toEqual([9_000, 1_000]);
    await vi.advanceTimersByTimeAsync(1);
    await cancelled;
    expect(await balance()).toEqual([9_000, 0]);
    // Settled by the handler while it streams.
    use = (key) => void key.commit(3);
    const second = await stream();
    await second.read();
    await second.read();
    await second.cancel();
    expect(await balance()).toEqual([8_997, 0]);
    // And after the client has gone away, which nothing waits for any longer then.
    use = () => undefined;
    leave = async (key) => (await nextTurn(), key.commit(5));
    const third = await stream();
    await third.read();
    await third.cancel();
    expect(await balance()).toEqual([8_992, 0]);
    await verifier.close();
  });

  it("on Node a client that goes away pays what the handler commits afterwards, also before the first byte", async () => {
    const { verifier, apiId, headers, balance } = await world();
    const app = express();
    const said: unknown[] = [];
    for (const [path, first] of [
      ["/stream", "token "],
      ["/whole", undefined],
    ] as const)
      app.get(path, expressGuard(verifier, { apiId, reserve: 1_000 }), async (req, res) => {
        if (first !== undefined) res.write(first);
        const left = once(res, "close");
        arrived();
        await left;
        await nextTurn();
        said.push(await verifiedKey(req).commit(7));
      });
    let arrived = (): void => undefined;
    const { url, close } = await listen(app);
    for (const path of ["/stream", "/whole"]) {
      const leaving = new AbortController();
      const handled = new Promise<void>((resolve) => (arrived = resolve));
      const response = fetch(`${url}${path}`, { headers, signal: leaving.signal }).then((answer) => answer.text());
      response.catch(() => undefined);
      await handled;
      leaving.abort();
      await expect(response).rejects.toThrow("aborted");
    }
    await settledAs(balance, 10_000 - 14);
    const settled = { settled: true, spent: 7 };
    expect(said).toEqual([settled, settled]);
    await close();
    await verifier.close();
  });

  it("a handler that never settles for a client that has gone away: `unsettled` decides before the time-out", async () => {
    for (const [reserveTimeout, waits] of [
      [undefined, AFTER_CUT],
      [10_000, 5_000],
    ] as const) {
      const { verifier, apiId, headers, balance } = await world();
      const guard = createGuard<object>(verifier, { apiId, reserve: 100, reserveTimeout });
      const request = {};
      const decision = await guard.check({ request, memory: request, header: (name) => (headers as never)[name] });
      if (decision.outcome !== "pass") throw new Error(decision.outcome);
      vi.useFakeTimers({ toFake: ["setTimeout"] });
      const ended = decision.end!(200, true);
      await vi.advanceTimersByTimeAsync(waits - 1);
      expect(await balance()).toEqual([9_900, 100]);
      await vi.advanceTimersByTimeAsync(1);
      await ended;
      expect(await balance()).toEqual([9_900, 0]);
      vi.useRealTimers();
      await verifier.close();
    }
  });

  it("a client that went away, or was answered, while its key was verified leaves nothing reserved", async () => {
    const { verifier, apiId, headers, balance } = await world();
    let arrived = (): void => undefined;
    const arriving = new Promise<void>((resolve) => (arrived = resolve));
    let leave: Promise<unknown> = Promise.resolve();
    const slow: typeof verifier = {
      ...verifier,
      reserve: async (...given) => {
        await leave;
        return verifier.reserve(...given);
      },
    };
    const app = express();
    app.get("/left", (_req, res, next) => {
      leave = once(res, "close");
      arrived();
      next();
    });
    const shortly = { reserveTimeout: 1_000, unsettled: "commit" } as const;
    app.get("/left", expressGuard(slow, { apiId, reserve: 100, ...shortly }), () => undefined);
    app.get("/answered", (_req, res, next) => (res.status(504).end("too slow"), next()));
    app.get("/answered", expressGuard(verifier, { apiId, reserve: 1_000 }));
    // Express knows a handler of errors by its four parameters.
    app.use((_error: unknown, _req: unknown, _res: unknown, _next: unknown) => undefined);
    const { url, close } = await listen(app);
    const leaving = new AbortController();
    const response = fetch(`${url}/left`, { headers, signal: leaving.signal });
    response.catch(() => undefined);
    await arriving;
    leaving.abort();
    await settledAs(balance, 10_000 - 100);
    expect((await fetch(`${url}/answered`, { headers })).status).toBe(504);
    await settledAs(balance, 10_000 - 100);
    await close();
    await verifier.close();
  });

  it("an upgrade goes on: it is settled by its handler or by the time-out", async () => {
    const ended: number[] = [];
    const upgraded = { status: 101, body: null } as Response;
    expect(await endingWith(upgraded, async (status) => void ended.push(status))).toBe(upgraded);
    expect(ended).toEqual([]);
  });

  it("what lasts longer than the time-out commits too late; `reserveTimeout` is longer", async () => {
    for (const [reserveTimeout, settled] of [
      [undefined, false],
      [600_000, true],
    ] as const) {
      const clock = testClock(1_000_000);
      const store = memoryStore();
      const keyring = createKeyring(store, { clock: clock.now });
      const { apiId } = await keyring.createApi({ name: "models" });
      const { key } = await keyring.createKey({ apiId, credits: { remaining: 100 } });
      const verifier = createVerifier(store, { clock: clock.now });
      const guard = createGuard<object>(verifier, { apiId, reserve: 100, reserveTimeout });
      const request = {};
      const decision = await guard.check({ request, memory: request, header: () => `Bearer ${key}` });
      if (decision.outcome !== "pass") throw new Error(decision.outcome);
      clock.advance(400_000);
      expect(await decision.apiKey.commit(10)).toMatchObject({ settled });
      await verifier.close();
    }
  });

  it("a commit that fails leaves it to the end of the response", async () => {
    const { verifier, apiId, headers, balance } = await world();
    const guard = createGuard<object>(verifier, { apiId, reserve: 100 });
    const request = {};
    const decision = await guard.check({ request, memory: request, header: (name) => (headers as never)[name] });
    if (decision.outcome !== "pass") throw new Error(decision.outcome);
    await expect(decision.apiKey.commit(101)).rejects.toThrow(RangeError);
    await decision.end!(200);
    expect(await balance()).toEqual([9_900, 0]);
    expect(Object.keys(decision.apiKey)).not.toContain("commit");
    await verifier.close();
  });

  it("of a guard that reserves nothing there is nothing to commit; a verifier that cannot reserve is told at once", async () => {
    const { verifier, apiId, headers } = await world();
    const guard = createGuard<object>(verifier, { apiId });
    const request = {};
    const decision = await guard.check({ request, memory: request, header: (name) => (headers as never)[name] });
    if (decision.outcome !== "pass") throw new Error(decision.outcome);
    expect(decision.end).toBeUndefined();
    await expect(decision.apiKey.commit(1)).rejects.toThrow("the guard reserves no credits");
    expect(() => createGuard({ verify: verifier.verify }, { reserve: 1 })).toThrow(
      "verifier lacks the method reserve()",
    );
    expect(() => createGuard(verifier, { reserve: 0 })).toThrow("options.reserve");
    await verifier.close();
  });
});
