import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Store } from "../../src/contracts/store.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { memoryStore } from "../../src/stores/memory.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { runs } from "../runs.js";
import { fileBed, memoryBed } from "./beds.js";
import { seedsOf } from "./dice.js";
import { playLeased } from "./leased.js";
import type { Bed } from "./stage.js";

const history = (maxLength: number) =>
  fc.array(fc.noShrink(fc.nat({ max: 2 ** 32 - 1 })), { minLength: 1, maxLength, size: "max" });

async function agree(bed: () => Bed, maxLength: number, numRuns: number): Promise<void> {
  const totals = { granted: 0, refused: 0 };
  const property = fc.asyncProperty(history(maxLength), async (seeds) => {
    const { granted, refused } = await playLeased(seeds, bed());
    totals.granted += granted;
    totals.refused += refused;
  });
  await fc.assert(property, { numRuns, plugins: [fc.unbiased()] });
  expect(totals.granted).toBeGreaterThan(100);
  expect(totals.refused).toBeGreaterThan(50);
}

/** Whether any of a few histories is found out. */
async function isFound(spoil: (store: Store) => Store): Promise<boolean> {
  for (let seed = 1; seed <= 40; seed++) {
    const store = spoil(memoryStore());
    const bed: Bed = { handles: "one", open: () => store, close: () => store.close() };
    const failed = await playLeased(seedsOf(seed, 200), bed).then(
      () => false,
      () => true,
    );
    if (failed) return true;
  }
  return false;
}

describe("leased credits against a model that knows what was there", () => {
  it("memory store: nodes that come, go and crash never grant more than there was, and give back the rest", async () => {
    await agree(memoryBed, 200, runs(40));
  });

  it("SQLite: the same with two handles on one file", async () => {
    await agree(() => fileBed((file) => sqliteStore(file, { durability: "process" })), 200, runs(10));
  });

  it("found: a balance set to what it was, while nodes that slept for a day still held some of it", async () => {
    const seeds = [
      2975313537, 1796393143, 3866733655, 1689633919, 1884316796, 3623506540, 1402886791, 267493400, 345718096,
    ];
    await expect(playLeased(seeds, memoryBed())).resolves.toBeDefined();
  });

  it("one node grants all that is there, whatever its size", async () => {
    for (const size of [1, 7, 1_000]) {
      const store = memoryStore();
      const keyring = createKeyring(store);
      const { apiId } = await keyring.createApi({ name: "leased" });
      const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 333 } });
      const verifier = createVerifier(store, { credits: { mode: "leased", size } });
      const codes = await Promise.all(Array.from({ length: 400 }, async () => (await verifier.verify({ key })).code));
      expect(codes.filter((code) => code === "VALID")).toHaveLength(333);
      await verifier.close();
      expect((await keyring.getKey({ keyId })).credits).toEqual({ remaining: 0 });
    }
  });

  it("control: a draw that leaves the balance as it was is found out", async () => {
    const draws = (store: Store): Store => ({
      ...store,
      async drawCredits(ref, request) {
        const drawn = await store.drawCredits(ref, request);
        if (drawn !== undefined && drawn.drawn > 0)
          await store.returnCredits(ref, { holder: request.holder, spent: request.spent });
        return drawn;
      },
    });
    expect(await isFound(draws)).toBe(true);
  });

  it("control: an end that does not count what was spent is found out", async () => {
    const forgets = (store: Store): Store => ({
      ...store,
      returnCredits: (ref, { holder }) => store.returnCredits(ref, { holder, spent: 0 }),
    });
    expect(await isFound(forgets)).toBe(true);
  });

  it("control: credits that are never given back are found out", async () => {
    expect(await isFound((store) => ({ ...store, returnCredits: () => undefined }))).toBe(true);
  });
});
