import { expect, it } from "vitest";
import { createFindings, MAX_NAMED } from "../../src/stores/reconciliation.js";

it("counts all that is broken, and names the first of it", () => {
  const { result, read, name } = createFindings();
  read(2_000);
  read(500);
  for (let i = 0; i < MAX_NAMED + 7; i++) name(`key_${i}`, "does not add up");
  expect([result.accounts, result.broken, result.named.length]).toEqual([2_500, MAX_NAMED + 7, MAX_NAMED]);
  expect(result.named.at(-1)).toEqual({ keyId: `key_${MAX_NAMED - 1}`, problem: "does not add up" });
});
