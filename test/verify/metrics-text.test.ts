import { expect, it } from "vitest";
import { createKeyring, createVerifier, memoryStore, metricsText } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";

it("metricsText: counters, verifications by outcome and credits of a verifier that counts, and the health of its store", async () => {
  const store = sqliteStore(":memory:");
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "docs" });
  const { key } = await keyring.createKey({ apiId, credits: { remaining: 5 } });
  const verifier = createVerifier(store, { analytics: true });
  for (const cost of [3, 2, 9]) await verifier.verify({ key, credits: { cost } });
  await verifier.verify({ key: "unknown" });
  const text = await metricsText(verifier, store);
  expect(text.split("\n")).toEqual(
    expect.arrayContaining([
      "# TYPE keystile_verifications_total counter",
      'keystile_verifications_total{code="VALID"} 2',
      'keystile_verifications_total{code="USAGE_EXCEEDED"} 1',
      'keystile_verifications_total{code="NOT_FOUND"} 1',
      "keystile_credits_spent_total 5",
      "keystile_outcomes_uncounted_total 0",
      'keystile_limiter_newcomers_refused_total{limits="keys"} 0',
      "keystile_store_ok 1",
    ]),
  );
  expect(text.endsWith("\n")).toBe(true);
  for (const line of text.trimEnd().split("\n"))
    expect(line).toMatch(/^(# (HELP|TYPE) |keystile_\w+(\{\w+="\w+"\})? \d+$)/);
  await verifier.close();
  await store.close();
});

it("metricsText: of a verifier that counts nothing, on a store that tells no health, its counters alone", async () => {
  const store = memoryStore();
  const text = await metricsText(createVerifier(store), store);
  expect(text).toContain("keystile_degraded_total 0\n");
  expect(text).not.toMatch(/verifications_total|credits_spent|store_ok/);
});
