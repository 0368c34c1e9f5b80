import { describe, expect, it } from "vitest";
import type { Change, KeyRecord, Store } from "../../src/contracts/store.js";
import { rehearseFills } from "./fills.js";

async function stale(between?: (store: Store) => Store): Promise<{ stale: number; judged: number }> {
  const totals = { stale: 0, judged: 0 };
  for (let seed = 1; seed <= 20; seed++) {
    const report = await rehearseFills(seed, between);
    totals.stale += report.stale;
    totals.judged += report.judged;
  }
  return totals;
}

describe("slow fills beside changes", () => {
  it("clause 9: no fill that began before a change brings the old record back", async () => {
    const report = await stale();
    expect(report.stale).toBe(0);
    expect(report.judged).toBeGreaterThan(1_000);
  });

  it("control: a memory whose fills do not mind what changed meanwhile is found out", async () => {
    const naive = (store: Store): Store => {
      const known = new Map<string, KeyRecord>();
      store.subscribe((change) =>
        typeof change === "object" && "digest" in change ? void known.delete(change.digest) : known.clear(),
      );
      return {
        ...store,
        async findKey(digest) {
          const hit = known.get(digest);
          if (hit !== undefined) return hit;
          const found = await store.findKey(digest);
          if (found !== undefined) known.set(digest, found);
          return found;
        },
      };
    };
    expect((await stale(naive)).stale).toBeGreaterThan(0);
  });

  it("control: a store that tells of a change late is found out", async () => {
    const late = (store: Store): Store => ({
      ...store,
      subscribe: (listener: (change: Change) => void) =>
        store.subscribe((change) => void setTimeout(listener, 2, change)),
    });
    expect((await stale(late)).stale).toBeGreaterThan(0);
  });
});
