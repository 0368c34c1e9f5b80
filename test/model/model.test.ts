import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Store } from "../../src/contracts/store.js";
import { memoryStore } from "../../src/stores/memory.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { fileBed, memoryBed } from "./beds.js";
import { seedsOf } from "./dice.js";
import { FAULTS } from "./faults.js";
import { play } from "./play.js";
import { shrink } from "./shrink.js";
import type { Bed } from "./stage.js";

/** A history is a list of step seeds: dropping some leaves a history, which is how a failing one gets short. */
const history = (maxLength: number) =>
  fc.array(fc.noShrink(fc.nat({ max: 2 ** 32 - 1 })), { minLength: 1, maxLength, size: "max" });
const CODES = [
  "VALID",
  "NOT_FOUND",
  "DISABLED",
  "EXPIRED",
  "FORBIDDEN",
  "INSUFFICIENT_PERMISSIONS",
  "RATE_LIMITED",
  "USAGE_EXCEEDED",
  "BAD_REQUEST",
];

async function agree(bed: () => Bed, maxLength: number, numRuns: number): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(history(maxLength), async (seeds) => void (await play(seeds, bed(), counts))),
    { numRuns, plugins: [fc.unbiased()] },
  );
  return counts;
}

describe("the engine against a naive model of the specification", () => {
  it("memory store: every answer of random histories is the model's, whole", async () => {
    const counts = await agree(memoryBed, 250, 60);
    // A history that never comes to a check tests nothing of it.
    for (const code of CODES) expect(counts.get(code), code).toBeGreaterThan(0);
  });

  it("SQLite: the same with two handles on one file, stops and crashes in between", async () => {
    const counts = await agree(() => fileBed((file) => sqliteStore(file, { durability: "process" })), 300, 12);
    // So few histories need not come to the rarest ones.
    expect(CODES.filter((code) => counts.has(code)).length).toBeGreaterThanOrEqual(6);
  });

  it.each(Object.entries(FAULTS))(
    "control: a store that %s is found out, and the history fails again",
    async (_name, spoil) => {
      const seed = await findFailure(spoil);
      expect(await fails(seedsOf(seed, LENGTH), spoil)).toBe(true);
    },
  );

  it("control: a failing history is made short", async () => {
    const spoil = FAULTS["takes a cost of 0 for 1"]!;
    const seed = await findFailure(spoil);
    const short = await shrink(seedsOf(seed, LENGTH), (seeds) => fails(seeds, spoil), 150);
    expect(await fails(short, spoil)).toBe(true);
    expect(short.length).toBeLessThan(20);
  });
});

const LENGTH = 250;
type Spoil = (store: Store) => Store;

async function findFailure(spoil: Spoil): Promise<number> {
  for (let seed = 1; seed <= 100; seed++) if (await fails(seedsOf(seed, LENGTH), spoil)) return seed;
  return expect.unreachable("no history found the fault");
}

function fails(seeds: readonly number[], spoil: Spoil): Promise<boolean> {
  const store = spoil(memoryStore());
  return play(seeds, { handles: "one", open: () => store, close: () => store.close() }).then(
    () => false,
    () => true,
  );
}
