/**
 * Every order of the steps of the short critical pairs: two operations, each call waiting before and after the store.
 */
import { describe, expect, it } from "vitest";
import { explore } from "./explore.js";
import { CLAUSES, VIOLATIONS } from "./faults.js";
import { type PairName, sceneOf } from "./scenes.js";

/** `npm test` cuts the longest two short, `npm run test:all` the last of them later: all its orders are 80,358. */
const IS_WHOLE = Number(process.env["TEST_RUNS"] ?? 1) === 1;

/** Orders of the first eight and the first twelve choices. */
const BY_DEPTH: readonly (readonly [PairName, number, number])[] = [
  ["spend × credits given to the identity", 37, 76],
  ["spend × move to another identity", 163, 794],
  ["spend × balance of its own", 163, 781],
  ["spend × balance given up for the identity's", 163, 794],
  ["spend × credits null", 163, 794],
  ["spend × reroll of a key that draws", 247, 2_211],
  ["draw × set of the identity", 163, 781],
  ["spend × deletion of the identity", 163, 794],
];

describe("all orders of two operations", () => {
  it.each<readonly [PairName, number, number]>([
    ["spend × calendar change", Infinity, 3_634],
    ["spend × reroll", Infinity, 3_003],
    ["find × revoke", Infinity, 1_820],
    ...BY_DEPTH.map(([name, eight, twelve]) =>
      IS_WHOLE ? ([name, 12, twelve] as const) : ([name, 8, eight] as const),
    ),
    IS_WHOLE ? ["draw × set", Infinity, 1_021] : ["draw × set", 8, 163],
    IS_WHOLE ? ["adopt × delete", 14, 12_441] : ["adopt × delete", 8, 256],
  ])("%s, the first %s choices: %i orders, and none breaks an invariant", async (name, depth, orders) => {
    const { schedules, failed } = await explore(sceneOf(name), depth);
    expect(failed).toBeUndefined();
    expect(schedules).toBe(orders);
  });

  it.each<[PairName, string]>([
    ["spend × calendar change", "counts a period of another calendar in the unit of the balance's own"],
    ["spend × reroll", "gives a rerolled key a balance of its own, read outside its write"],
    ["spend × balance given up for the identity's", "makes a balance that was given up unlimited"],
    ["spend × reroll of a key that draws", "finds a key without the credits of its identity"],
  ])("control: among all orders of %s is one that finds a store that %s", async (name, fault) => {
    expect((await explore(sceneOf(name, { ...VIOLATIONS, ...CLAUSES }[fault]))).failed).toBeDefined();
  });
});
