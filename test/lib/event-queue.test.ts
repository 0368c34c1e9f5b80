import { runInNewContext } from "node:vm";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createEventQueue } from "../../src/lib/event-queue.js";

interface Event {
  readonly time: number;
}
const event = (time: number): Event => ({ time });

describe("createEventQueue", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("ruling A8: delivers in order, in a later turn", () => {
    const seen: number[] = [];
    const events = createEventQueue<Event>(({ time }) => seen.push(time));
    for (const n of [1, 2, 3]) events.emit(event(n));
    expect(seen).toEqual([]);
    vi.runAllTimers();
    expect(seen).toEqual([1, 2, 3]);
    events.emit(event(4));
    void events.flush();
    expect(seen).toEqual([1, 2, 3, 4]);
    vi.runAllTimers();
    expect(seen).toHaveLength(4);
  });

  it("what cannot wait, and what the listener throws on, is dropped and counted", () => {
    let seen = 0;
    const events = createEventQueue<Event>(({ time }) => {
      if (time === 5) throw new Error("listener");
      seen++;
    });
    for (let n = 0; n < 10_010; n++) events.emit(event(n));
    expect(events.dropped()).toBe(10);
    vi.runAllTimers();
    expect(seen).toBe(9_999);
    expect(events.dropped()).toBe(11);
  });
});

describe("createEventQueue: options", () => {
  it("queue: what does not fit is dropped and counted", () => {
    for (const queue of [1, 25_000]) {
      const seen: number[] = [];
      const events = createEventQueue<Event>(({ time }) => seen.push(time), { queue });
      for (let n = 0; n < 25_001; n++) events.emit(event(n));
      void events.flush();
      expect([seen.length, events.dropped()]).toEqual([queue, 25_001 - queue]);
    }
  });

  it("flush waits for what the listener has returned", async () => {
    const done: number[] = [];
    const events = createEventQueue<Event>(async ({ time }) => {
      await new Promise((resolve) => setTimeout(resolve, 20 * time));
      done.push(time);
    });
    for (const n of [2, 1]) events.emit(event(n));
    await events.flush();
    expect(done).toEqual([1, 2]);
  });

  it("flush waits for the first 100,000 that are open, and counts whatever fails", async () => {
    const open: { resolve: () => void; reject: (error: Error) => void }[] = [];
    const listener = () => new Promise<void>((resolve, reject) => open.push({ resolve, reject }));
    const events = createEventQueue<Event>(listener, { queue: 100_001 });
    for (let n = 0; n <= 100_000; n++) events.emit(event(n));
    let isClosed = false;
    const closing = events.flush().then(() => (isClosed = true));
    const beyond = open.pop()!;
    const last = open.pop()!;
    for (const { resolve } of open) resolve();
    await new Promise((resolve) => setTimeout(resolve, 0));
    expect(isClosed).toBe(false);
    last.resolve();
    await closing;
    beyond.reject(new Error("late"));
    await new Promise((resolve) => setTimeout(resolve, 0));
    expect(events.dropped()).toBe(1);
  });

  it("close waits no longer than closeTimeout", async () => {
    const events = createEventQueue<Event>(() => new Promise(() => undefined), { closeTimeout: 30 });
    events.emit(event(1));
    const began = performance.now();
    await events.flush();
    const waited = performance.now() - began;
    expect(waited > 25 && waited < 2_000, String(waited)).toBe(true);
  });
});

describe("createEventQueue: a listener that answers late", () => {
  it("ruling A8: what it rejects with is dropped and counted, and never rises as an unhandled rejection", async () => {
    const unhandled = vi.fn();
    process.on("unhandledRejection", unhandled);
    const events = createEventQueue<Event>(async ({ time }) => {
      if (time === 2) throw new Error("the analytics service is gone");
    });
    for (const n of [1, 2, 3]) events.emit(event(n));
    void events.flush();
    await new Promise((resolve) => setTimeout(resolve, 0));
    process.off("unhandledRejection", unhandled);
    expect(unhandled).not.toHaveBeenCalled();
    expect(events.dropped()).toBe(1);
  });

  it.each([
    ["an async function of another realm", runInNewContext("async () => { throw new Error('gone') }") as () => unknown],
    [
      "one that answers with a thenable",
      () => ({ then: (_: unknown, fail: (reason: unknown) => void) => fail(new Error("gone")) }),
    ],
    ["one whose answer's `then` throws", () => ({ then: () => JSON.parse("no JSON") as unknown })],
  ])("ruling A8: so with %s", async (_, listener) => {
    const unhandled = vi.fn();
    process.on("unhandledRejection", unhandled);
    const events = createEventQueue<Event>(listener);
    events.emit(event(1));
    void events.flush();
    await new Promise((resolve) => setTimeout(resolve, 0));
    process.off("unhandledRejection", unhandled);
    expect(unhandled).not.toHaveBeenCalled();
    expect(events.dropped()).toBe(1);
  });
});
