/**
 * Every order of the steps of the short critical pairs: two operations, each call waiting before and after the store.
 */
import { describe, expect, it } from "vitest";
import { explore } from "./explore.js";
import { VIOLATIONS } from "./faults.js";
import { type PairName, sceneOf } from "./scenes.js";

/** `npm test` cuts the longest two short; `npm run test:all` and `npm run simulate -- --explore` do not. */
const IS_WHOLE = Number(process.env["KEYSTILE_RUNS"] ?? 1) === 1;

describe("all orders of two operations", () => {
  it.each<[PairName, number, number]>([
    ["spend × calendar change", Infinity, 2_240],
    ["spend × reroll", Infinity, 924],
    ["find × revoke", Infinity, 1_001],
    IS_WHOLE ? ["draw × set", Infinity, 9_150] : ["draw × set", 8, 163],
    IS_WHOLE ? ["adopt × delete", Infinity, 11_368] : ["adopt × delete", 8, 247],
  ])("%s, the first %s choices: %i orders, and none breaks an invariant", async (name, depth, orders) => {
    const { schedules, failed } = await explore(sceneOf(name), depth);
    expect(failed).toBeUndefined();
    expect(schedules).toBe(orders);
  });

  it.each<[PairName, string]>([
    ["spend × calendar change", "counts a period of another calendar in the unit of the balance's own"],
    ["spend × reroll", "gives a rerolled key a balance of its own, read outside its write"],
  ])("control: among all orders of %s is one that finds a store that %s", async (name, fault) => {
    expect((await explore(sceneOf(name, VIOLATIONS[fault]))).failed).toBeDefined();
  });
});
