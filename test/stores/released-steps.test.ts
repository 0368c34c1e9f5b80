/**
 * Released steps of PostgreSQL's schema stay as they are: databases that have taken one never take it again. What a
 * step is made of stands in several modules, so its whole text is held.
 *
 * So are the names of what a key's row has: a new field comes with a step in both schemas, whose `refuses` counts the
 * keys that have it. Without one an earlier version opens the same tables, and refuses those keys as unreadable.
 */
import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import { KEY_FIELDS } from "../../src/contracts/key-fields.js";
import { STEPS } from "../../src/stores/postgres/schema.js";
import { SCHEMA_VERSION } from "../../src/stores/sqlite/connection/schema.js";

const CHANGED = "a released step changed: leave it as it was, and add a step";

/** The first 16 digits of the SHA-256 of each step, in order. A new step adds its own. */
const RELEASED: readonly string[] = ["6483556c49e4d881", "3b6de4df89ea8c72", "85c5761b402b31b6", "ff172e44cd2fac2c"];

const digestOf = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 16);

it("steps of PostgreSQL are as they were released", () => {
  const digests = STEPS.map((step) => digestOf((typeof step === "function" ? step : step.up)('"keystile"')));
  expect(digests, CHANGED).toEqual(RELEASED);
});

const NEW_FIELD = "a field of a key came or went: add a step to both schemas, then its numbers and fields here";

it("the fields of a key are those of these tables", () => {
  const fields = Object.entries(KEY_FIELDS).flatMap(([name, field]) => ("row" in field ? [name] : []));
  expect({ sqlite: SCHEMA_VERSION, steps: STEPS.length, fields: digestOf(fields.sort().join()) }, NEW_FIELD).toEqual({
    sqlite: 15,
    steps: 4,
    fields: "4586b0c01d684154",
  });
});
