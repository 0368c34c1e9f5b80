/** Operations of a plan meet: each pair, one in the midst of the other, or after the first has ended at any call. */
import { expect, it } from "vitest";
import { memoryStore } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { runs } from "../runs.js";
import { ACTS, type ActName, cross } from "./crossings.js";

const NAMES = Object.keys(ACTS) as ActName[];
const WAYS = [
  { crashes: false, switches: 1 },
  { crashes: true, switches: 0 },
] as const;

/** @param every one of so many pairs is played; with 1 all are, in some minutes */
it.each([
  ["memory", memoryStore, 120 / runs(30)],
  ["SQLite", () => sqliteStore(":memory:"), 1_200 / runs(30)],
] as const)(
  "whatever meets on %s, statements say what was acknowledged, and balances what is left",
  async (_, open, every) => {
    let orders = 0;
    for (const [i, first] of NAMES.entries())
      for (const [j, second] of NAMES.entries())
        if ((i * NAMES.length + j) % every === 0)
          for (const way of WAYS) orders += await cross({ first, second, open, ...way });
    expect(orders).toBeGreaterThan(NAMES.length);
  },
);
