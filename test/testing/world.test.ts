/** What the tests of a program use: a clock to turn and expectOutcome, on a memory store. */
import { describe, expect, it } from "vitest";
import { createKeyring, createVerifier, memoryStore } from "../../src/index.js";
import { expectOutcome, testClock } from "../../src/testing/index.js";

async function stage() {
  const clock = testClock();
  const store = memoryStore();
  const keyring = createKeyring(store, { clock: clock.now });
  const verifier = createVerifier(store, { clock: clock.now });
  const { apiId } = await keyring.createApi({ name: "documents" });
  const ratelimits = [{ name: "calls", limit: 1, duration: 60_000, autoApply: true }];
  const { key } = await keyring.createKey({ apiId, expiresIn: 120_000, ratelimits, credits: { remaining: 9 } });
  return { clock, verifier, key };
}

describe("testClock", () => {
  it("turns windows and expiry without a sleep, from the same moment in every run", async () => {
    const { clock, verifier, key } = await stage();
    expect(clock.now()).toBe(Date.UTC(2026, 0, 1));
    await expectOutcome(verifier.verify({ key }), "VALID");
    await expectOutcome(verifier.verify({ key }), "RATE_LIMITED");
    clock.advance(60_000);
    await expectOutcome(verifier.verify({ key }), { code: "VALID", credits: 7 });
    clock.advance(60_001);
    await expectOutcome(verifier.verify({ key }), "EXPIRED");
    clock.set(Date.UTC(2026, 0, 1));
    expect((await expectOutcome(verifier.verify({ key }), { valid: false })).code).toBe("RATE_LIMITED");
    clock.advance(-5);
    expect(clock.now()).toBe(Date.UTC(2026, 0, 1) - 5);
    expect(() => clock.advance(0.5)).toThrow(RangeError);
    expect(() => testClock(NaN)).toThrow(RangeError);
  });
});

describe("expectOutcome", () => {
  it("rejects with the whole result, and what was expected", async () => {
    const { verifier, key } = await stage();
    const error = await expectOutcome(verifier.verify({ key }), { code: "VALID", credits: 5 }).catch((e: unknown) => e);
    expect(error).toMatchObject({
      name: "AssertionError",
      actual: { code: "VALID", credits: 8 },
      expected: { credits: 5 },
    });
    expect((error as Error).message).toContain('"credits":8');
    await expect(expectOutcome({ valid: false, code: "NOT_FOUND" }, "VALID")).rejects.toThrow(/NOT_FOUND/);
  });
});
