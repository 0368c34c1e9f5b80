/**
 * Whatever a callback of the program does, the process goes on, and nobody is let in by it. A callback that has no row
 * in test/callbacks/rows.ts fails test/structure.test.ts.
 */
import { setImmediate as nextTurn, setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Callback, ROWS } from "./callbacks/rows.js";

const failure = (): Error => new Error("of the callback");
const fail = (): never => {
  throw failure();
};
/** Every trap throws. */
const trapped = (): object => new Proxy({}, new Proxy({}, { get: () => fail }));

/** What a callback may do, whatever its type says. */
const HOSTILE: Readonly<Record<string, () => unknown>> = {
  throws: fail,
  rejects: () => Promise.reject(failure()),
  "rejects later": async () => {
    await nextTurn();
    fail();
  },
  "resolves with true": () => Promise.resolve(true),
  "never settles": () => new Promise(() => undefined),
  "returns a proxy whose traps throw": trapped,
  "returns a thenable whose then throws": () => ({ then: fail }),
  "returns a thenable whose then cannot be read": () => Object.defineProperty({}, "then", { get: fail }),
  "returns a thenable that rejects": () => ({
    then: (_: unknown, reject: (error: Error) => void) => reject(failure()),
  }),
};

/** What would have ended the process. */
const fatal: unknown[] = [];
const note = (error: unknown) => void fatal.push(error);
beforeAll(() => void process.on("unhandledRejection", note).on("uncaughtException", note));
afterAll(() => void process.off("unhandledRejection", note).off("uncaughtException", note));

describe.each(Object.entries(ROWS))("callbacks: %s", (_name, { run, always, isUncalled = false }) => {
  it.each(Object.entries(HOSTILE))("%s: the process goes on, and nobody is let in", async (how, act) => {
    let calls = 0;
    let tellCalled = (): void => undefined;
    const called = new Promise<void>((resolve) => (tellCalled = resolve));
    const callback = (() => {
      calls++;
      tellCalled();
      return act();
    }) as Callback;
    // An error by the name of its class, so that a mistake of a row is not taken for a refusal.
    const running = run(callback).catch((error: unknown) => (error as Error).name);
    // What decides by a promise that never settles may wait with it, once it has been called.
    const waits = async () => {
      if (!isUncalled) await called;
      return pause(200, "waits");
    };
    const outcome = await (how === "never settles" && always === undefined
      ? Promise.race([running, waits()])
      : running);
    // A rejection is called unhandled once the turn in which it came is over.
    for (let turn = 0; turn < 3; turn++) await nextTurn();
    expect(fatal.splice(0)).toEqual([]);
    expect(calls > 0, "called").toBe(!isUncalled);
    if (always === undefined) expect(outcome).not.toBe("in");
    else expect(outcome).toMatch(always);
  });
});
