/**
 * Released steps of PostgreSQL's schema stay as they are: databases that have taken one never take it again. What a
 * step is made of stands in several modules, so its whole text is held.
 */
import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import { STEPS } from "../../src/stores/postgres/schema.js";

const CHANGED = "a released step changed: leave it as it was, and add a step";

/** The first 16 digits of the SHA-256 of each step, in order. A new step adds its own. */
const RELEASED: readonly string[] = ["6483556c49e4d881", "3b6de4df89ea8c72", "85c5761b402b31b6"];

const digestOf = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 16);

it("steps of PostgreSQL are as they were released", () => {
  const digests = STEPS.map((step) => digestOf((typeof step === "function" ? step : step.up)('"keystile"')));
  expect(digests, CHANGED).toEqual(RELEASED);
});
