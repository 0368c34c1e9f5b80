import { expect, it } from "vitest";
import { createKeyring, createVerifier, memoryStore, metricsText } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { storeFamilies, verifierFamilies } from "../../src/verify/metrics-text.js";

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

/** The families of a text, each with its type and its samples' labels; a sample stands below its own family. */
function familiesIn(text: string): Readonly<Record<string, readonly string[]>> {
  const families: Record<string, string[]> = {};
  const lines = text.split("\n");
  expect(lines.pop()).toBe("");
  for (const [i, line] of lines.entries()) {
    if (line.startsWith("# HELP ")) continue;
    const [, typed, type] = /^# TYPE (\w+) (counter|gauge)$/.exec(line) ?? [];
    if (typed !== undefined) {
      // Its help before it: a sentence.
      expect(lines[i - 1]).toMatch(new RegExp(`^# HELP ${typed} [A-Z1].+[.]$`));
      families[typed] = [type!];
      continue;
    }
    const [, name, labels = ""] = /^(\w+)(?:\{(\w+="\w+")\})? \d+$/.exec(line) ?? [line];
    expect(Object.keys(families).at(-1)).toBe(name);
    families[name!]!.push(labels);
  }
  return families;
}
const OWN = {
  keystile_degraded_total: ["counter", ""],
  keystile_outcomes_dropped_total: ["counter", ""],
  keystile_outcomes_folded_total: ["counter", ""],
  keystile_outcomes_uncounted_total: ["counter", ""],
  keystile_credits_forfeited_total: ["counter", ""],
  keystile_settlements_late_total: ["counter", ""],
  keystile_limiter_newcomers_refused_total: ["counter", 'limits="keys"'],
  keystile_limiter_buckets_displaced_total: ["counter", 'limits="keys"'],
};

it("metricsText: of a verifier that counts nothing, on a store that tells no health, its counters alone", async () => {
  for (const store of [memoryStore(), { ...memoryStore(), health: "good" } as never, undefined])
    expect(familiesIn(await metricsText(createVerifier(memoryStore()), store))).toEqual(OWN);
});

it("metricsText: of one that counts, and a store that tells its health, those before and after", async () => {
  const store = sqliteStore(":memory:");
  const verifier = createVerifier(store, { analytics: true });
  const families = familiesIn(await metricsText(verifier, store));
  expect(Object.keys(families)).toEqual([
    "keystile_verifications_total",
    "keystile_credits_spent_total",
    ...Object.keys(OWN),
    ...["ok", "wal_bytes", "checkpoints_total", "lock_waits_total", "lock_wait_ms_total", "busy_errors_total"].map(
      (name) => `keystile_store_${name}`,
    ),
    ...["failed_writes_total", "failed_syncs_total", "failed_returns_total", "forfeited_refills_total"].map(
      (name) => `keystile_store_${name}`,
    ),
  ]);
  expect([families["keystile_store_ok"], families["keystile_store_wal_bytes"]]).toEqual([
    ["gauge", ""],
    ["gauge", ""],
  ]);
  await verifier.close();
  await store.close();
});

it("storeFamilies: a store that cannot be relied on is 0", async () => {
  const store = sqliteStore(":memory:");
  const health = await store.health();
  expect(storeFamilies(health)).toContain("keystile_store_ok 1");
  expect(storeFamilies({ ...health, ok: false })).toContain("keystile_store_ok 0");
  await store.close();
});

it("verifierFamilies: limits of namespaces beside those of keys, under their names", () => {
  const keys = { ...createVerifier(memoryStore()).counters(), newcomersRefused: 3, bucketsDisplaced: 4 };
  const text = verifierFamilies(keys, { newcomersRefused: 5, bucketsDisplaced: 6 });
  expect(text.filter((line) => line.startsWith("keystile_limiter"))).toEqual([
    'keystile_limiter_newcomers_refused_total{limits="keys"} 3',
    'keystile_limiter_newcomers_refused_total{limits="namespaces"} 5',
    'keystile_limiter_buckets_displaced_total{limits="keys"} 4',
    'keystile_limiter_buckets_displaced_total{limits="namespaces"} 6',
  ]);
});
