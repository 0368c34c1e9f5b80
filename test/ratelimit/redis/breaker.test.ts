/** When calls are given up, when none is made, and what ends that. */
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Breaker } from "../../../src/ratelimit/redis/breaker.js";

// Before the breaker is loaded, which captures the timers.
vi.useFakeTimers();
const { createBreaker } = await import("../../../src/ratelimit/redis/breaker.js");

/** Settles after so many milliseconds of the tests' clock, which `pass` turns. */
const wait = (ms: number): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, ms));
const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

const DEADLINE = 30;
const never = (): Promise<never> => new Promise(() => undefined);
const fails = (): Promise<never> => Promise.reject(new Error("gone"));
let breaker: Breaker<{ readonly shard: string }>;
let probes: number;
const ONE = { shard: "one" };
const breakerWith = (probe: (count: number, shard: string) => Promise<unknown>, isOneServer = true): void => {
  probes = 0;
  breaker = createBreaker(DEADLINE, ({ shard }) => probe(++probes, shard), isOneServer);
};
const failed = async (call: Promise<unknown>, after = 0, target = ONE): Promise<void> => {
  const rejected = expect(breaker.guard(call, target)).rejects.toMatchObject({ code: "LIMITER_UNAVAILABLE" });
  await pass(after);
  await rejected;
};
const isOpen = (target = ONE): boolean => {
  try {
    breaker.assertClosed(target);
    return false;
  } catch (error) {
    expect(error).toMatchObject({ code: "LIMITER_UNAVAILABLE", cause: expect.any(Error) as Error });
    return true;
  }
};
const openIt = async (): Promise<void> => {
  for (let i = 0; i < 5; i++) await failed(fails());
  expect(isOpen()).toBe(true);
};
afterEach(() => breaker.close());

it("five failures in a row open it, a rejection or a deadline alike; a success in between starts again", async () => {
  breakerWith(never);
  for (let i = 0; i < 4; i++) await (i % 2 === 0 ? failed(fails()) : failed(never(), DEADLINE + 1));
  expect(isOpen()).toBe(false);
  expect(await breaker.guard(Promise.resolve("taken"), ONE)).toBe("taken");
  for (let i = 0; i < 4; i++) await failed(fails());
  expect(isOpen()).toBe(false);
  await failed(never(), DEADLINE + 1);
  expect(isOpen()).toBe(true);
  expect(breaker.failedCalls()).toBe(10);
});

it("a call that was begun before and succeeds leaves it open: a probe decides", async () => {
  breakerWith(never);
  const slow = breaker.guard(wait(10), ONE);
  await openIt();
  await pass(10);
  await slow;
  expect(isOpen()).toBe(true);
});

it("a probe that succeeds in time closes it, one that fails does not, and no more are made then", async () => {
  breakerWith((count) => (count === 1 ? fails() : Promise.resolve()));
  await openIt();
  await pass(199);
  expect([isOpen(), probes]).toEqual([true, 0]);
  await pass(1);
  expect([isOpen(), probes]).toEqual([true, 1]);
  await pass(199);
  expect([isOpen(), probes]).toEqual([true, 1]);
  await pass(1);
  expect([isOpen(), probes]).toEqual([false, 2]);
  await pass(300);
  expect(probes).toBe(2);
  for (let i = 0; i < 4; i++) await failed(fails());
  expect(isOpen()).toBe(false);
});

it("an answer that comes late does not close it, and is followed by another probe at once", async () => {
  breakerWith((count) => (count < 3 ? wait(DEADLINE * 4) : Promise.resolve()));
  await openIt();
  await pass(200 + DEADLINE * 2);
  expect([isOpen(), probes]).toEqual([true, 1]);
  await pass(DEADLINE * 8);
  expect([isOpen(), probes]).toEqual([false, 3]);
});

it("one probe at a time: one that never settles is replaced after a second, and later ones after longer", async () => {
  breakerWith(never);
  await openIt();
  await pass(1_000);
  expect(probes).toBe(1);
  await pass(600);
  expect(probes).toBe(2);
  await pass(1_400);
  expect(probes).toBe(2);
});

it("what never settles is asked again after 1, 2, 4 seconds, and then once a minute", async () => {
  const at: number[] = [];
  breakerWith(() => {
    at.push(Date.now());
    return never();
  });
  await openIt();
  await pass(200_000);
  const gaps = at.slice(1).map((time, i) => time - (at[i] as number));
  expect(gaps).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
});

it.each([
  ["succeeds", () => wait(1_500)],
  ["fails", () => wait(1_500).then(fails)],
])("a probe that %s after another took its place changes nothing", async (_, first) => {
  breakerWith((count) => (count === 1 ? first() : never()));
  await openIt();
  await pass(1_600);
  expect([isOpen(), probes]).toEqual([true, 2]);
  await pass(800);
  expect([isOpen(), probes]).toEqual([true, 2]);
});

it("close ends the probes, and a probe that succeeds afterwards changes nothing", async () => {
  breakerWith(() => wait(10));
  await openIt();
  await pass(205);
  breaker.close();
  await pass(300);
  expect([isOpen(), probes <= 1]).toEqual([true, true]);
});

describe("shards", () => {
  const [live, other, dead, alsoDead] = ["live", "other", "dead", "also dead"].map((shard) => ({ shard })) as [
    typeof ONE,
    typeof ONE,
    typeof ONE,
    typeof ONE,
  ];
  const answer = (target: typeof ONE): Promise<unknown> => breaker.guard(Promise.resolve(), target);
  /** Only these answer probes. */
  const onlyAnswering = (...shards: string[]) => {
    return (_: number, shard: string) => (shards.includes(shard) ? wait(2) : fails());
  };

  it("of a cluster, those that failed leave open the one that answers", async () => {
    breakerWith(onlyAnswering("live"), false);
    await answer(live);
    for (let i = 0; i < 100; i++) {
      await failed(fails(), 1, i % 3 === 0 ? dead : alsoDead);
      expect([isOpen(live), isOpen(other)]).toEqual([false, false]);
    }
    // One probe asks for all the failures of 200 ms.
    expect(probes).toBeLessThanOrEqual(2);
  });

  it("of a cluster, calls that fail at once do as well", async () => {
    breakerWith(onlyAnswering("live"), false);
    await answer(live);
    await Promise.all(Array.from({ length: 20 }, (_, i) => failed(fails(), 0, i % 2 === 0 ? dead : alsoDead)));
    expect(isOpen(live)).toBe(false);
    await pass(5);
    expect(isOpen(live)).toBe(false);
  });

  it("of a cluster, one that failed five times is shut alone where nothing else has answered", async () => {
    breakerWith(fails, false);
    for (let i = 0; i < 5; i++) await failed(fails(), 0, dead);
    expect([isOpen(dead), isOpen(live)]).toEqual([true, false]);
    await answer(live);
    expect(isOpen(live)).toBe(false);
  });

  it("of a cluster that is gone all are shut after five failures, as of one server", async () => {
    breakerWith(never, false);
    await answer(live);
    for (let i = 0; i < 4; i++) await failed(never(), DEADLINE + 1, i % 2 === 0 ? dead : live);
    expect(isOpen(other)).toBe(false);
    await failed(never(), DEADLINE + 1, dead);
    expect([isOpen(other), isOpen(live), isOpen(dead)]).toEqual([true, true, true]);
    expect(probes).toBe(1);
  });

  it("what is wanted is asked by the probe, so that a shard that answers opens all", async () => {
    breakerWith(onlyAnswering("live"), false);
    for (let i = 0; i < 5; i++) await failed(fails(), 0, i % 2 === 0 ? dead : alsoDead);
    expect(isOpen(live)).toBe(true);
    await pass(205);
    expect(isOpen(live)).toBe(false);
  });

  it("of one server all are shut after five failures, and opened as soon as another answers", async () => {
    breakerWith(onlyAnswering("live"));
    await answer(live);
    await Promise.all(Array.from({ length: 5 }, () => failed(fails(), 0, dead)));
    await pass(3);
    expect(isOpen(live)).toBe(false);
    breakerWith(never);
    await answer(live);
    await Promise.all(Array.from({ length: 5 }, () => failed(fails(), 0, dead)));
    expect([isOpen(live), isOpen(other)]).toEqual([true, true]);
  });
});
