/** The suite that every limiter passes: each clause of src/contracts/limiter.ts, under its number. */
import type { Limiter } from "../../contracts/limiter.js";
import { closing } from "../closing.js";
import type { TestFunctions } from "../test-functions.js";
import type { LimiterClause } from "./bed.js";
import { overlappingClauses } from "./overlapping.js";
import { sizesClauses } from "./sizes.js";
import { takingClauses } from "./taking.js";
import { timeClauses } from "./time.js";
import { waitingClauses } from "./waiting.js";

const PARTS = [takingClauses, overlappingClauses, sizesClauses, timeClauses, waitingClauses];

/**
 * Adds a test for each clause of the `Limiter` contract.
 * @param functions of your test runner: `limiterSuite({ describe, it }, "mine", () => myLimiter())`
 * @param title names the limiter in the titles of the tests
 * @param make creates a new limiter without buckets; a test calls it up to 226 times, and closes what it created
 * @see about 80,000 takes in all, 20,000 of them in one test, and all but a few hundred one after the other: a limiter
 *   over the network needs the runner's time limit raised
 */
export function limiterSuite(functions: TestFunctions, title: string, make: () => Limiter | Promise<Limiter>): void {
  functions.describe(`limiter: ${title}`, () => {
    const clause: LimiterClause = (name, body) =>
      void functions.it(name, () => closing(make, async (another) => body(await another(), another)));
    for (const addTo of PARTS) addTo(clause);
  });
}
