import { runInNewContext } from "node:vm";
import { afterEach, beforeEach, describe, expect, expectTypeOf, it, vi } from "vitest";
import type { VerificationCode } from "../../src/contracts/types.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { memoryStore } from "../../src/stores/memory.js";
import { createOutcomes, type OutcomeEvent, redact } from "../../src/verify/outcome-events.js";
import { createVerifier } from "../../src/verify/verifier.js";

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
    void outcomes.close();
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

describe("createOutcomes: options", () => {
  it("queue: what does not fit is dropped and counted", () => {
    for (const queue of [1, 25_000]) {
      const seen: number[] = [];
      const outcomes = createOutcomes(({ time }) => seen.push(time), { queue });
      for (let n = 0; n < 25_001; n++) outcomes.emit(event(n));
      void outcomes.close();
      expect([seen.length, outcomes.dropped()]).toEqual([queue, 25_001 - queue]);
    }
  });

  it("close waits for what the listener has returned", async () => {
    const done: number[] = [];
    const outcomes = createOutcomes(async ({ time }) => {
      await new Promise((resolve) => setTimeout(resolve, 20 * time));
      done.push(time);
    });
    for (const n of [2, 1]) outcomes.emit(event(n));
    await outcomes.close();
    expect(done).toEqual([1, 2]);
  });

  it("close waits no longer than closeTimeout", async () => {
    const outcomes = createOutcomes(() => new Promise(() => undefined), { closeTimeout: 30 });
    outcomes.emit(event(1));
    const began = performance.now();
    await outcomes.close();
    const waited = performance.now() - began;
    expect(waited > 25 && waited < 2_000, String(waited)).toBe(true);
  });

  it("a verifier passes them on, and waits in its own close", async () => {
    const store = memoryStore();
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "api" });
    const { key } = await keyring.createKey({ apiId, externalId: "user_1" });
    const seen: OutcomeEvent[] = [];
    const verifier = createVerifier(store, {
      outcomes: { queue: 2 },
      async onOutcome(outcome) {
        await new Promise((resolve) => setTimeout(resolve, 20));
        seen.push(outcome);
      },
    });
    await Promise.all([1, 2, 3].map(() => verifier.verify({ key })));
    await verifier.close();
    expect(seen.map(({ code, externalId }) => [code, externalId])).toEqual([
      ["VALID", "user_1"],
      ["VALID", "user_1"],
    ]);
    expect(verifier.counters().outcomesDropped).toBe(1);
    expect(() => createVerifier(store, { outcomes: { queue: 0 } })).toThrow(/options\.outcomes\.queue/);
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
    void outcomes.close();
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
    void outcomes.close();
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
