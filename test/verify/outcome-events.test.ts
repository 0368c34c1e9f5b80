import { describe, expect, expectTypeOf, it, vi } from "vitest";
import type { VerificationCode } from "../../src/contracts/types.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { memoryStore } from "../../src/stores/memory.js";
import { type OutcomeEvent, redact } from "../../src/verify/outcome-events.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { NOON, world } from "../spec/support.js";

describe("outcome events", () => {
  it("an event names one of the outcomes of contract 2.2, for the compiler too", () => {
    expectTypeOf<OutcomeEvent["code"]>().toEqualTypeOf<VerificationCode>();
  });

  it("hold what a call took, nothing of a refusal or without a balance, and only what applies", async () => {
    const { store, create, apiId, clock } = await world();
    const events: OutcomeEvent[] = [];
    const verifier = createVerifier(store, { clock, onOutcome: (event) => events.push(event) });
    const [paying, free] = [await create({ credits: { remaining: 5 } }), await create()];
    for (const [key, cost] of [
      [paying.key, 3],
      [paying.key, 3],
      [free.key, 3],
      ["unknown", 3],
    ] as const)
      await verifier.verify({ key, credits: { cost }, tags: ["a"] });
    await verifier.close();
    const common = { time: NOON, tags: ["a"], degraded: false, duration: expect.any(Number) as number };
    const found = { ...common, apiId, workspaceId: "ws_default" };
    expect(events).toStrictEqual([
      { ...found, code: "VALID", keyId: paying.keyId, spent: 3, remaining: 2 },
      { ...found, code: "USAGE_EXCEEDED", keyId: paying.keyId, spent: 0, remaining: 2 },
      { ...found, code: "VALID", keyId: free.keyId, spent: 0 },
      { ...common, code: "NOT_FOUND", spent: 0 },
    ]);
  });

  it("a call takes as long as what it waits for", async () => {
    const { store, create, clock } = await world();
    const { key } = await create();
    const durations: number[] = [];
    vi.useFakeTimers({ toFake: ["performance"] });
    try {
      const slow = {
        ...store,
        async findKey(digest: string) {
          await Promise.resolve();
          vi.advanceTimersByTime(20);
          return store.findKey(digest);
        },
      };
      const verifier = createVerifier(slow, { clock, onOutcome: ({ duration }) => durations.push(duration) });
      await verifier.verify({ key });
      await verifier.verify({ key });
      await verifier.close();
    } finally {
      vi.useRealTimers();
    }
    expect(durations).toEqual([20, 0]);
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

describe("redact", () => {
  it("A043, ruling G4: the presented key is blotted out of labels", () => {
    expect(redact(["a=b", "key=sk_1", "sk_1sk_1"], "sk_1")).toEqual(["a=b", "key=[key]", "[key][key]"]);
    const tags = ["a", "b"];
    expect(redact(tags, "sk_1")).toBe(tags);
  });
});
