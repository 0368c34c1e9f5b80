import { describe, expect, it } from "vitest";
import { isKeystileError } from "../../src/contracts/errors.js";
import type { LimitCheck, Limiter, LimitVerdict } from "../../src/contracts/limiter.js";
import { withFallback, withoutFallback } from "../../src/ratelimit/fallback.js";
import { memoryLimiter, placedLimiter } from "../../src/ratelimit/memory/limiter.js";

const START = 1_700_000_000_000;
const check = (cost = 1, limit = 10, duration = 1_000, bucket = "b"): LimitCheck => ({ bucket, limit, duration, cost });

const answering = (answer: unknown): Limiter => ({ take: () => answer as LimitVerdict[] });
const rejecting = (cause: Error): Limiter => ({ take: () => Promise.reject(cause) });
const throwing = (cause: unknown): Limiter => ({
  take: () => {
    throw cause;
  },
});
const later = (limiter: Limiter): Limiter => ({
  take: (checks, now) => Promise.resolve().then(() => limiter.take(checks, now)),
});

const gone = new Error("connection refused");
const MALFORMED: readonly (readonly [string, unknown])[] = [
  ["nothing", undefined],
  ["null", null],
  ["no array", { length: 1 }],
  ["too few", []],
  ["too many", Array(2).fill({ exceeded: false, remaining: 1, reset: 1 })],
  ["a verdict that is null", [null]],
  ["a verdict that is absent", [undefined]],
  ["a verdict that is text", ["exceeded"]],
  ["a verdict that is a function", [Object.assign(() => 1, { exceeded: false, remaining: 1, reset: 1 })]],
  ["exceeded is no boolean", [{ exceeded: 0, remaining: 1, reset: 1 }]],
  ["remaining is NaN", [{ exceeded: false, remaining: NaN, reset: 1 }]],
  ["remaining is below 0", [{ exceeded: false, remaining: -1, reset: 1 }]],
  ["remaining is absent", [{ exceeded: false, reset: 1 }]],
  ["reset is endless", [{ exceeded: false, remaining: 1, reset: Infinity }]],
  ["reset is text", [{ exceeded: false, remaining: 1, reset: "1" }]],
];

describe("degrading: a limiter that answers", () => {
  it("ruling C7: passes the answer on, at once when it comes at once", () => {
    const limiter = withFallback(memoryLimiter(), { local: answering(undefined) });
    expect(limiter.take([check(3)], START)).toEqual({
      verdicts: [{ exceeded: false, remaining: 7, reset: 300 }],
      degraded: false,
    });
    expect(limiter.take([check(8)], START)).toEqual({
      verdicts: [{ exceeded: true, remaining: 7, reset: 300 }],
      degraded: false,
    });
    expect(limiter.take([], START)).toEqual({ verdicts: [], degraded: false });
    expect(limiter.degradedCalls()).toBe(0);
  });

  it("ruling C7: waits for a promise, any thenable included", async () => {
    const limiter = withFallback(later(memoryLimiter()), { local: answering(undefined), nodes: 4 });
    const answer = limiter.take([check(3)], START);
    expect(answer).toBeInstanceOf(Promise);
    expect(await answer).toEqual({ verdicts: [{ exceeded: false, remaining: 7, reset: 300 }], degraded: false });
    const verdicts = [{ exceeded: false, remaining: 1, reset: 1 }];
    const thenable = { then: (resolve: (value: unknown) => void) => resolve(verdicts) };
    const foreign = withFallback(answering(thenable), { onFailure: "deny", local: memoryLimiter() }).take(
      [check()],
      START,
    );
    expect(foreign).toBeInstanceOf(Promise);
    expect(await foreign).toEqual({ verdicts, degraded: false });
    expect(limiter.degradedCalls()).toBe(0);
  });

  it("ruling C7: comes back to the limiter as soon as it answers again", async () => {
    let up = false;
    const real = memoryLimiter();
    const limiter = withFallback(
      { take: (checks, now) => (up ? real.take(checks, now) : Promise.reject(gone)) },
      { local: memoryLimiter() },
    );
    expect(await limiter.take([check(10)], START)).toMatchObject({ degraded: true });
    up = true;
    expect(limiter.take([check(10)], START)).toMatchObject({ verdicts: [{ exceeded: false }], degraded: false });
    expect(limiter.degradedCalls()).toBe(1);
  });
});

describe("degrading: a limiter that cannot answer", () => {
  it.each([
    ["throws", throwing(gone)],
    ["rejects", rejecting(gone)],
  ])("ruling C7: local is the default when it %s, and each call is counted", async (_how, broken) => {
    const limiter = withFallback(broken, { local: memoryLimiter() });
    expect(await limiter.take([check(3)], START)).toEqual({
      verdicts: [{ exceeded: false, remaining: 7, reset: 300 }],
      degraded: true,
    });
    expect(await limiter.take([check(8)], START)).toEqual({
      verdicts: [{ exceeded: true, remaining: 7, reset: 300 }],
      degraded: true,
    });
    expect(limiter.degradedCalls()).toBe(2);
  });

  it("ruling C7: a limiter that throws at once leads to a local answer at once, and a local one may take its time", async () => {
    expect(withFallback(throwing(gone), { local: memoryLimiter() }).take([check()], START)).not.toBeInstanceOf(Promise);
    const slow = withFallback(throwing(gone), { local: later(memoryLimiter()), nodes: 2 }).take([check()], START);
    expect(slow).toBeInstanceOf(Promise);
    expect(await slow).toMatchObject({ verdicts: [{ exceeded: false, remaining: 4 }], degraded: true });
  });

  it("ruling C7: deny throws LIMITER_UNAVAILABLE with the cause, and counts", async () => {
    const limiter = withFallback(throwing(gone), { onFailure: "deny", local: memoryLimiter() });
    expect(() => limiter.take([check()], START)).toThrow(
      expect.objectContaining({ code: "LIMITER_UNAVAILABLE", status: 503, cause: gone }),
    );
    expect(limiter.degradedCalls()).toBe(1);
    const late = withFallback(rejecting(gone), { onFailure: "deny", local: memoryLimiter() });
    const failure: unknown = await Promise.resolve(late.take([check()], START)).catch((error: unknown) => error);
    expect(isKeystileError(failure)).toBe(true);
    expect(failure).toMatchObject({ code: "LIMITER_UNAVAILABLE", cause: gone });
    expect(late.degradedCalls()).toBe(1);
  });

  it("ruling C7, C4: allow lets pass what a full bucket would", async () => {
    const limiter = withFallback(rejecting(gone), { onFailure: "allow", local: throwing(gone) });
    const { verdicts, degraded } = await limiter.take([check(), check(10), check(0, 0), check(11), check(1, 0)], START);
    expect(degraded).toBe(true);
    expect(verdicts.map(({ exceeded }) => exceeded)).toEqual([false, false, false, true, true]);
    expect(verdicts[0]).toEqual({ exceeded: false, remaining: 10, reset: 0 });
    for (let i = 0; i < 50; i++)
      expect((await limiter.take([check(10)], START)).verdicts).toEqual([{ exceeded: false, remaining: 10, reset: 0 }]);
    expect(limiter.degradedCalls()).toBe(51);
  });

  it.each(MALFORMED)("ruling C7: a malformed answer is a failure: %s", async (_what, answer) => {
    for (const broken of [answering(answer), answering(Promise.resolve(answer))]) {
      const denying = withFallback(broken, { onFailure: "deny", local: memoryLimiter() });
      const failure: unknown = await Promise.resolve()
        .then(() => denying.take([check()], START))
        .catch((error: unknown) => error);
      expect(failure).toMatchObject({
        code: "LIMITER_UNAVAILABLE",
        message: "The rate limiter is unavailable.",
        cause: new TypeError("The limiter's result is malformed: expected one verdict per check."),
      });
      const local = withFallback(broken, { local: memoryLimiter() });
      expect(await local.take([check()], START)).toMatchObject({
        verdicts: [{ exceeded: false, remaining: 9 }],
        degraded: true,
      });
      expect(local.degradedCalls()).toBe(1);
    }
  });

  it("ruling C7: no array is malformed even where no check was asked", () => {
    expect(withFallback(answering(undefined), { local: memoryLimiter() }).take([], START)).toEqual({
      verdicts: [],
      degraded: true,
    });
  });

  it.each(MALFORMED)("a malformed answer of the local limiter never passes: %s", async (_what, answer) => {
    for (const local of [answering(answer), answering(Promise.resolve(answer))]) {
      const limiter = withFallback(throwing(gone), { local });
      const failure: unknown = await Promise.resolve()
        .then(() => limiter.take([check()], START))
        .catch((error: unknown) => error);
      expect(failure).toMatchObject({ code: "LIMITER_UNAVAILABLE" });
    }
  });

  it("ruling C7: one that does not settle in time has failed, and the cause says so", async () => {
    const silent = answering(new Promise(() => undefined));
    const denying = withFallback(silent, { onFailure: "deny", timeout: 2, local: memoryLimiter() });
    await expect(Promise.resolve(denying.take([check()], START))).rejects.toMatchObject({
      code: "LIMITER_UNAVAILABLE",
      cause: new Error("The limiter did not answer within 2 ms."),
    });
    expect(denying.degradedCalls()).toBe(1);
  });

  it("what the local limiter throws rises as it is", async () => {
    const own = new RangeError("cost must be an integer");
    expect(() => withFallback(throwing(gone), { local: throwing(own) }).take([check()], START)).toThrow(own);
    await expect(
      Promise.resolve(withFallback(rejecting(gone), { local: rejecting(own) }).take([check()], START)),
    ).rejects.toBe(own);
  });
});

describe("degrading: a limiter that counts in fractions", () => {
  it("ruling C4: whole tokens are shown, and reset as it is, since the wait is made of it", async () => {
    const counting: Limiter = { take: () => [{ exceeded: false, remaining: 1.5, reset: 1_500.2 }] };
    const limiter = withFallback(counting, { local: answering(undefined) });
    expect(await limiter.take([check(1)], START)).toEqual({
      verdicts: [{ exceeded: false, remaining: 1, reset: 1_500.2 }],
      degraded: false,
    });
  });
});

describe("degrading: a node's share", () => {
  /** What the local limiter is asked. */
  const asked = (nodes: number, one: LimitCheck): LimitCheck => {
    let seen: readonly LimitCheck[] = [];
    const local: Limiter = {
      take: (checks) => {
        seen = checks;
        return checks.map(() => ({ exceeded: false, remaining: 0, reset: 0 }));
      },
    };
    void withFallback(throwing(gone), { local, nodes }).take([one], START);
    return seen[0]!;
  };

  it("ruling C7: is limit / nodes, rounded down, in the same duration", () => {
    const whole = check(2, 10);
    expect(asked(1, whole)).toBe(whole);
    expect(asked(3, check(2, 10))).toEqual(check(2, 3));
    expect(asked(10, check(2, 10))).toEqual(check(2, 1));
    expect(asked(2, check(2, 11, 60_000, "other"))).toEqual(check(2, 5, 60_000, "other"));
  });

  it("ruling C7: a limit smaller than the nodes is one token in a longer time", () => {
    expect(asked(11, check(1, 10, 1_000))).toEqual(check(1, 1, 1_100));
    expect(asked(7, check(1, 3, 1_000))).toEqual(check(1, 1, 2_334));
    expect(asked(Number.MAX_SAFE_INTEGER, check(1, 1, 2_592_000_000)).duration).toBe(Number.MAX_SAFE_INTEGER);
  });

  it("ruling C2: what the limit has by itself is shared alike", () => {
    const own = { limit: 10, duration: 1_000 };
    expect(asked(3, { ...check(1, 100, 60_000), configured: own }).configured).toEqual({ limit: 3, duration: 1_000 });
    expect(asked(20, { ...check(1, 100, 60_000), configured: own }).configured).toEqual({ limit: 1, duration: 2_000 });
    expect(asked(3, check(1)).configured).toBeUndefined();
  });

  it("ruling C4: limit 0 and duration 0 stay as they are", () => {
    expect(asked(4, check(1, 0, 1_000))).toEqual(check(1, 0, 1_000));
    expect(asked(4, check(1, 10, 0))).toEqual(check(1, 10, 0));
    expect(asked(4, check(1, 2, 0))).toEqual(check(1, 2, 0));
    const closed = { limit: 0, duration: 1_000 };
    expect(asked(4, { ...check(), configured: closed }).configured).toEqual(closed);
  });

  it.each([
    [10, 3],
    [10, 10],
    [3, 7],
    [1, 4],
    [100, 8],
  ])(
    "ruling C7: limit %i on %i nodes grants no more than all together may, bar the first full buckets",
    (limit, nodes) => {
      const cluster = Array.from({ length: nodes }, () =>
        withFallback(throwing(gone), { local: memoryLimiter(), nodes }),
      );
      let sum = 0;
      for (let now = START; now < START + 10_000; now += 10) {
        for (const node of cluster) {
          const { verdicts } = node.take([check(1, limit, 1_000)], now) as { verdicts: readonly LimitVerdict[] };
          if (!verdicts[0]!.exceeded) sum++;
        }
      }
      expect(sum).toBeLessThanOrEqual(Math.max(limit, nodes) + limit * 10);
      expect(sum).toBeGreaterThanOrEqual(Math.min(nodes, limit));
    },
  );
});

describe("degrading: calls at once on all nodes", () => {
  it.each([
    [1, 4, 4],
    [2, 3, 3],
    [3, 4, 4],
    [4, 4, 4],
    [10, 3, 9],
  ])("ruling C7: of limit %i, %i nodes grant %i, at least one each", (limit, nodes, granted) => {
    let sum = 0;
    for (let i = 0; i < nodes; i++) {
      const node = withFallback(throwing(gone), { local: memoryLimiter(), nodes });
      for (let call = 0; call < limit; call++) {
        const { verdicts } = node.take([check(1, limit)], START) as { verdicts: readonly LimitVerdict[] };
        if (!verdicts[0]!.exceeded) sum++;
      }
    }
    expect(sum).toBe(granted);
  });
});

describe("degrading: what a limiter counts", () => {
  const local = memoryLimiter({ size: 1 });
  local.take([check(10, 10, 1_000, "a")], START);
  local.take([check(10, 10, 1_000, "b")], START);

  it("is told together with what the local one counts", () => {
    const counting = { ...memoryLimiter(), counters: () => ({ newcomersRefused: 2, bucketsDisplaced: 5 }) };
    expect(withFallback(counting, { local }).counters()).toEqual({ newcomersRefused: 3, bucketsDisplaced: 5 });
    expect(withFallback(answering([]), { local }).counters()).toEqual({ newcomersRefused: 1, bucketsDisplaced: 0 });
    expect(withFallback(counting, { local: counting }).counters()).toEqual({
      newcomersRefused: 4,
      bucketsDisplaced: 10,
    });
  });

  it.each([
    ["nothing", () => undefined],
    ["no numbers", () => ({ newcomersRefused: NaN, bucketsDisplaced: "5" })],
    [
      "an error",
      () => {
        throw gone;
      },
    ],
  ])("is 0 where it tells %s", (_, counters) => {
    const limiter = { ...memoryLimiter(), counters } as unknown as Limiter;
    expect(withFallback(limiter, { local }).counters()).toEqual({ newcomersRefused: 1, bucketsDisplaced: 0 });
  });
});

describe("the built-in limiter", () => {
  it("is never degraded, and passes its counters on", () => {
    const taker = withoutFallback(placedLimiter({ size: 1 }));
    expect(taker.take([check(3)], START)).toEqual({
      verdicts: [{ exceeded: false, remaining: 7, reset: 300 }],
      degraded: false,
    });
    void taker.take([check(7)], START);
    void taker.take([check(1, 10, 1_000, "other")], START);
    expect(taker.degradedCalls()).toBe(0);
    expect(taker.counters()).toEqual({ newcomersRefused: 1, bucketsDisplaced: 0 });
  });
});
