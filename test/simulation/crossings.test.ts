/** Operations of a plan meet: each pair, one in the midst of the other, or after the first has ended at any call. */
import { expect, it } from "vitest";
import { memoryStore, type Store } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { runs } from "../runs.js";
import { ACTS, type ActName, cross } from "./crossings.js";

const NAMES = Object.keys(ACTS) as ActName[];
const WAYS = [
  { crashes: false, switches: 1 },
  { crashes: true, switches: 0 },
] as const;

interface Crossed {
  readonly open: () => Store;
  readonly leased?: boolean;
  /** One of so many pairs is played; with 1 all are, in some minutes. */
  readonly every: number;
}

async function crossAll({ every, ...crossed }: Crossed): Promise<number> {
  let orders = 0;
  for (const [i, first] of NAMES.entries())
    for (const [j, second] of NAMES.entries())
      if ((i * NAMES.length + j) % every === 0)
        for (const way of WAYS) orders += await cross({ first, second, ...crossed, ...way });
  return orders;
}

it.each([
  ["memory", { open: memoryStore, every: 120 / runs(30) }],
  ["SQLite", { open: () => sqliteStore(":memory:"), every: 1_200 / runs(30) }],
  ["memory, leased", { open: memoryStore, leased: true, every: 360 / runs(30) }],
  ["SQLite, leased", { open: () => sqliteStore(":memory:"), leased: true, every: 1_200 / runs(30) }],
] as const)(
  "whatever meets on %s, statements say what was acknowledged, and balances what is left",
  async (_, crossed) => {
    expect(await crossAll(crossed)).toBeGreaterThan(NAMES.length);
  },
);

it("control: a lease whose credits stay in the balance is found out", async () => {
  const open = (): Store => {
    const store = memoryStore();
    return {
      ...store,
      async drawCredits(ref, request) {
        const draw = await store.drawCredits(ref, request);
        await store.returnCredits(ref, request);
        return draw;
      },
    };
  };
  await expect(crossAll({ open, leased: true, every: 20 })).rejects.toThrow("spent");
});
