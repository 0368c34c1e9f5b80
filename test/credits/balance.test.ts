import { describe, expect, it } from "vitest";
import { type Balance, draw, MAX_BALANCE } from "../../src/credits/balance.js";

describe("draw", () => {
  it("with a reserve beside a balance of up to 2^53 − 1, no credit is made or lost", () => {
    for (let below = 0; below < 8; below++) {
      for (let reserved = 0; reserved < 16; reserved++) {
        for (let cost = 1; cost < 8; cost++) {
          const remaining = MAX_BALANCE - below;
          const balance: Balance = { unlimited: false, remaining, amount: 0, period: 0, generation: 0 };
          const before = { reserved, generation: 0, expires: 1 };
          const request = { holder: "node", cost, step: 5, size: 20, period: 0, now: 0, until: 1 };
          const after = draw(balance, before, request);
          const sum = [after.balance.remaining, after.reserve.reserved, after.drawn].map(BigInt);
          expect(sum.reduce((a, b) => a + b)).toBe(BigInt(remaining) + BigInt(reserved));
        }
      }
    }
  });
});
