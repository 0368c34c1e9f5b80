/** How many refusals a store keeps: of a bounded number of keys, and of each workspace its share. */
import { describe, expect, it } from "vitest";
import { type OutcomeCell, OUTCOMES, type Refusal } from "../../src/contracts/outcomes.js";
import type { Store } from "../../src/contracts/store.js";
import { memoryStore } from "../../src/index.js";
import { REFUSED_KEYS } from "../../src/stores/outcome-entries.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { pglite } from "./postgres/support.js";

const { open } = pglite();
const NOON = Date.UTC(2026, 10, 10, 12);
const PIECE = 50;
const TOO_MANY = 500;

const stores: Readonly<Record<string, () => Promise<Store>>> = {
  memory: () => Promise.resolve(memoryStore()),
  SQLite: () => Promise.resolve(sqliteStore(":memory:")),
  PostgreSQL: async () => (await open(1))[0]!,
};
const refusal = (time: number): Refusal => ({ time, code: "DISABLED", cost: 1 });
const cellOf = (workspaceId: string, n: number): OutcomeCell => ({
  ...{ workspaceId, apiId: "api_1", keyId: `key_${workspaceId}_${n}`, externalId: "", minute: NOON, tags: [] },
  ...{ counts: OUTCOMES.map(() => 1), spent: 0, refusals: [refusal(NOON + n)] },
});

describe.each(Object.keys(stores))("refusals on %s", (name) => {
  it("of the keys of one workspace never push out those of another, and are bounded", async () => {
    const store = await stores[name]!();
    let seq = 0;
    const count = (cells: readonly OutcomeCell[]) =>
      store.countOutcomes({ source: "one", seq: ++seq, at: NOON, maxTagSets: 10, cells });
    await count([0, 1, 2].map((n) => cellOf("quiet", n)));
    await count([cellOf("loud", 0), cellOf("late", 0)]);
    for (let n = 0; n < REFUSED_KEYS + TOO_MANY; n += PIECE)
      await count(Array.from({ length: PIECE }, (_, i) => cellOf("loud", n + i)));
    const isKept = async (workspaceId: string, n: number) =>
      (await store.readRefusals!({ workspaceId, keyId: `key_${workspaceId}_${n}` })).length === 1;
    for (const [workspaceId, n] of [
      ["quiet", 0],
      ["quiet", 2],
      ["late", 0],
    ] as const)
      expect(await isKept(workspaceId, n), workspaceId).toBe(true);
    const kept = [];
    for (const n of [0, TOO_MANY - PIECE - 10, TOO_MANY + 150, REFUSED_KEYS + TOO_MANY - 1])
      kept.push(await isKept("loud", n));
    expect(kept, "the oldest are forgotten, a hundred at a time").toEqual([false, false, true, true]);
    await store.close();
  }, 120_000);
});
