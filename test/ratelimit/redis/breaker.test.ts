/** When calls are given up, when none is made, and what ends that. */
import { afterEach, expect, it, vi } from "vitest";
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
let breaker: Breaker;
let probes: number;
const breakerWith = (probe: (count: number) => Promise<unknown>): void => {
  probes = 0;
  breaker = createBreaker(DEADLINE, () => probe(++probes));
};
const failed = async (call: Promise<unknown>, after = 0): Promise<void> => {
  const rejected = expect(breaker.guard(call)).rejects.toMatchObject({ code: "LIMITER_UNAVAILABLE" });
  await pass(after);
  await rejected;
};
const isOpen = (): boolean => {
  try {
    breaker.assertClosed();
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
  expect(await breaker.guard(Promise.resolve("taken"))).toBe("taken");
  for (let i = 0; i < 4; i++) await failed(fails());
  expect(isOpen()).toBe(false);
  await failed(never(), DEADLINE + 1);
  expect(isOpen()).toBe(true);
  expect(breaker.failedCalls()).toBe(10);
});

it("a call that was begun before and succeeds leaves it open: a probe decides", async () => {
  breakerWith(never);
  const slow = breaker.guard(wait(10));
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

it("close ends the probes, and a probe that succeeds afterwards changes nothing", async () => {
  breakerWith(() => wait(10));
  await openIt();
  await pass(205);
  breaker.close();
  await pass(300);
  expect([isOpen(), probes <= 1]).toEqual([true, true]);
});
