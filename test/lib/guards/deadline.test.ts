import { afterEach, describe, expect, it, vi } from "vitest";
import { createDeadline } from "../../../src/lib/guards/deadline.js";

const late = () => new Error("late");
const never = () => new Promise<never>(() => undefined);
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

describe("deadline: what a promise becomes", () => {
  it("its own outcome, if it settles in time", async () => {
    const within = createDeadline(1_000);
    const gone = new Error("gone");
    expect(await within(Promise.resolve(5), late)).toBe(5);
    await expect(within(Promise.reject(gone), late)).rejects.toBe(gone);
    const thenable = { then: (resolve: (value: number) => void) => resolve(6) } as PromiseLike<number>;
    expect(await within(thenable, late)).toBe(6);
  });

  it("a rejection, once the time is over and not before", async () => {
    const began = performance.now();
    await expect(createDeadline(30)(never(), late)).rejects.toThrow("late");
    const took = performance.now() - began;
    expect(took).toBeGreaterThanOrEqual(30);
    expect(took).toBeLessThan(1_000);
  });

  it("each by its own time: later ones wait longer, and those that were answered are left alone", async () => {
    const within = createDeadline(40);
    const order: string[] = [];
    const note = (name: string) => () => void order.push(name);
    const first = within(never(), late).catch(note("first"));
    const answered = within(turn(), late).then(note("answered"), note("wrong"));
    await new Promise((resolve) => setTimeout(resolve, 20));
    const began = performance.now();
    await within(never(), late).catch(note("second"));
    expect(performance.now() - began).toBeGreaterThanOrEqual(40);
    await Promise.all([first, answered]);
    expect(order).toEqual(["answered", "first", "second"]);
  });

  it("what settles afterwards is dropped, a rejection too", async () => {
    const unhandled = vi.fn();
    process.on("unhandledRejection", unhandled);
    let reject: (error: Error) => void = () => undefined;
    let resolve: (value: string) => void = () => undefined;
    const within = createDeadline(5);
    const rejected = within(new Promise((_, no) => (reject = no)), late).catch(
      (error: unknown) => (error as Error).message,
    );
    const resolved = within(new Promise((yes) => (resolve = yes)), late).catch(
      (error: unknown) => (error as Error).message,
    );
    expect(await Promise.all([rejected, resolved])).toEqual(["late", "late"]);
    reject(new Error("too late"));
    resolve("too late");
    await turn();
    await turn();
    process.off("unhandledRejection", unhandled);
    expect(unhandled).not.toHaveBeenCalled();
  });

  it("its own outcome, if that arrived while the event loop was blocked past the deadline", async () => {
    const answer = createDeadline(20)(
      turn().then(() => "arrived"),
      late,
    );
    for (const end = performance.now() + 60; performance.now() < end;);
    expect(await answer).toBe("arrived");
  });

  it("the fake timers of a test neither hold it up nor bring it forward", async () => {
    vi.useFakeTimers();
    const failing = createDeadline(10)(never(), late);
    await expect(failing).rejects.toThrow("late");
    const answered = createDeadline(1_000)(new Promise((resolve) => queueMicrotask(() => resolve(1))), late);
    vi.advanceTimersByTime(5_000);
    expect(await answered).toBe(1);
  });
});

describe("deadline: its timer", () => {
  /** The module as it is loaded while `setTimeout` is watched. */
  async function watched() {
    const delays: (number | undefined)[] = [];
    const timers: { hasRef(): boolean }[] = [];
    const real = globalThis.setTimeout;
    vi.spyOn(globalThis, "setTimeout").mockImplementation((run: () => void, delay?: number) => {
      const timer = real(run, delay);
      delays.push(delay);
      timers.push(timer);
      return timer;
    });
    vi.resetModules();
    const module = await import("../../../src/lib/guards/deadline.js");
    vi.restoreAllMocks();
    return { createDeadline: module.createDeadline, delays, timers };
  }

  it("is one for all that wait, keeps no process alive, and none is set while nothing waits", async () => {
    const { createDeadline, delays, timers } = await watched();
    const within = createDeadline(20);
    expect(delays).toEqual([]);
    const calls = Array.from({ length: 1_000 }, () => within(turn(), late));
    expect(delays).toEqual([20]);
    expect(timers[0]?.hasRef()).toBe(false);
    await Promise.all(calls);
    await new Promise((resolve) => setTimeout(resolve, 60));
    // Where this process stood still, both timers fell due together: the turn that follows comes after this one.
    await new Promise((resolve) => setTimeout(resolve, 5));
    // The one turn in which arrived answers are read first, and then no more.
    expect(delays).toEqual([20, 0]);
    await within(turn(), late);
    expect(delays).toEqual([20, 0, 20]);
  });
});
