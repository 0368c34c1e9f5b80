import { describe, expect, expectTypeOf, it } from "vitest";
import type { VerificationCode } from "../../src/contracts/types.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { memoryStore } from "../../src/stores/memory.js";
import { type OutcomeEvent, redact } from "../../src/verify/outcome-events.js";
import { createVerifier } from "../../src/verify/verifier.js";

describe("outcome events", () => {
  it("an event names one of the outcomes of spec §2.2, for the compiler too", () => {
    expectTypeOf<OutcomeEvent["code"]>().toEqualTypeOf<VerificationCode>();
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
