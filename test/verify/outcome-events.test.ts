import { runInNewContext } from "node:vm";
import { afterEach, beforeEach, describe, expect, expectTypeOf, it, vi } from "vitest";
import type { VerificationCode } from "../../src/contracts/types.js";
import { createOutcomes, type OutcomeEvent, redact } from "../../src/verify/outcome-events.js";

const event = (n: number): OutcomeEvent => ({ time: n, code: "VALID", tags: [], spent: 0, degraded: false });

describe("createOutcomes", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("ruling A8: delivers in order, in a later turn", () => {
    const seen: number[] = [];
    const outcomes = createOutcomes(({ time }) => seen.push(time));
    for (const n of [1, 2, 3]) outcomes.emit(event(n));
    expect(seen).toEqual([]);
    vi.runAllTimers();
    expect(seen).toEqual([1, 2, 3]);
    outcomes.emit(event(4));
    outcomes.close();
    expect(seen).toEqual([1, 2, 3, 4]);
    vi.runAllTimers();
    expect(seen).toHaveLength(4);
  });

  it("an event names one of the outcomes of spec §2.2, for the compiler too", () => {
    expectTypeOf<OutcomeEvent["code"]>().toEqualTypeOf<VerificationCode>();
  });

  it("what cannot wait, and what the listener throws on, is dropped and counted", () => {
    let seen = 0;
    const outcomes = createOutcomes(({ time }) => {
      if (time === 5) throw new Error("listener");
      seen++;
    });
    for (let n = 0; n < 10_010; n++) outcomes.emit(event(n));
    expect(outcomes.dropped()).toBe(10);
    vi.runAllTimers();
    expect(seen).toBe(9_999);
    expect(outcomes.dropped()).toBe(11);
  });
});

describe("createOutcomes: a listener that answers late", () => {
  it("ruling A8: what it rejects with is dropped and counted, and never rises as an unhandled rejection", async () => {
    const unhandled = vi.fn();
    process.on("unhandledRejection", unhandled);
    const outcomes = createOutcomes(async ({ time }) => {
      if (time === 2) throw new Error("the analytics service is gone");
    });
    for (const n of [1, 2, 3]) outcomes.emit(event(n));
    outcomes.close();
    await new Promise((resolve) => setTimeout(resolve, 0));
    process.off("unhandledRejection", unhandled);
    expect(unhandled).not.toHaveBeenCalled();
    expect(outcomes.dropped()).toBe(1);
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
    const outcomes = createOutcomes(listener);
    outcomes.emit(event(1));
    outcomes.close();
    await new Promise((resolve) => setTimeout(resolve, 0));
    process.off("unhandledRejection", unhandled);
    expect(unhandled).not.toHaveBeenCalled();
    expect(outcomes.dropped()).toBe(1);
  });
});

describe("redact", () => {
  it("A043, ruling G4: the presented key is blotted out of labels", () => {
    expect(redact(["a=b", "key=sk_1", "sk_1sk_1"], "sk_1")).toEqual(["a=b", "key=[key]", "[key][key]"]);
    const tags = ["a", "b"];
    expect(redact(tags, "sk_1")).toBe(tags);
  });
});
