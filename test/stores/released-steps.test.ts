/**
 * Released steps of PostgreSQL's schema stay as they are: databases that have taken one never take it again. What a
 * step is made of stands in several modules, so its whole text is held.
 */
import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import { STEPS } from "../../src/stores/postgres/schema.js";

const CHANGED = "a released step changed: leave it as it was, and add a step";

/** The first 16 digits of the SHA-256 of each step, in order. A new step adds its own. */
const RELEASED = ["e195fc2173bee43c", "0f81643c0464a39e", "ab8b88319d264620", "48b19f3a18632ed4"];

const digestOf = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 16);

it("steps of PostgreSQL are as they were released", () => {
  const digests = STEPS.map((step) => digestOf(step('"keystile"')));
  expect(digests, CHANGED).toEqual(RELEASED);
});
