/**
 * Released steps of both schemas stay as they are: databases that have taken one never take it again. What a step is
 * made of stands in several modules, so its whole text is held.
 *
 * So is what a key's row has, by name and shape: a new field, or one of another shape, comes with a step in both
 * schemas, whose `refuses` counts the keys that have it. Without one an earlier version opens the same tables, and
 * misreads those keys.
 */
import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import { KEY_FIELDS, type KeyField } from "../../src/contracts/key-fields.js";
import { STEPS } from "../../src/stores/postgres/schema.js";
import { CREATE, SCHEMA_VERSION, STEPS as SQLITE_STEPS } from "../../src/stores/sqlite/connection/schema.js";

const CHANGED = "a released step changed: leave it as it was, and add a step";
const NEW = "a step that is new: its digest goes to the end of this list";

/** The first 16 digits of the SHA-256 of each step, in order. A new step adds its own. */
const RELEASED: Readonly<Record<string, readonly string[]>> = {
  SQLite: [
    "aca2bee678a45dff",
    "07e4d0d70f1075a9",
    "79f052e8e15fe138",
    "1ea0b89060d43fc6",
    "462d39b61ed552e4",
    "c62559a0cea36486",
    "7dbe72fed88c7d9e",
    "f14c12df43907808",
    "637a642da8605203",
    "e3b0c44298fc1c14",
    "a4171dfb07bcb072",
    "55ea53d7ef074e99",
    "b7814432af7a2376",
    "8fc05564a9611934",
    "e3b0c44298fc1c14",
    "85c499abf371fe0e",
    "422c4e2d1222d4ec",
    "6c9b56db5cb463c6",
    "dcd815b3fae34c7b",
  ],
  PostgreSQL: [
    "6483556c49e4d881",
    "3b6de4df89ea8c72",
    "85c5761b402b31b6",
    "abd5803c8e46daaf",
    "071172d5d3794d70",
    "399750c04d621bba",
    "2b17f8b8ef556c2b",
    "92dbb5a4fb2bb8d4",
    "e3b0c44298fc1c14",
    "a3aa9fb6c2b64ad6",
    "bbeda5474898851e",
    "8c511a105b58ed60",
    "627aebaeb9ff5ce3",
    "07b27cd6ba538a83",
    "2a0b8fad0578e8a9",
    "d76b0a81fae0eea5",
    "55ce63a22df1d8ca",
    "56541babce6e3c1c",
    "c7f692aef2ca97b0",
    "88a9b2912a42afa6",
    "bca10ae8d2557507",
    "0e9f04e29fcb3868",
    "a8c701916415e37b",
  ],
};

const digestOf = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 16);

const TEXTS: Readonly<Record<string, readonly string[]>> = {
  SQLite: [CREATE, ...SQLITE_STEPS.map((step) => (typeof step === "string" ? step : step.up))],
  PostgreSQL: STEPS.map((step) => (typeof step === "function" ? step : step.up)('"keystile"')),
};

it.each(Object.keys(RELEASED))("steps of %s are as they were released", (store) => {
  const digests = TEXTS[store]!.map(digestOf);
  const released = RELEASED[store]!;
  expect(digests.slice(0, released.length), CHANGED).toEqual(released);
  expect(digests, NEW).toEqual(released);
});

const NEW_FIELD =
  "a field of a key came, went or has another shape: add a step to both schemas, then its numbers and fields here";

it("the fields of a key are those of these tables", () => {
  const fields = Object.entries<KeyField>(KEY_FIELDS).flatMap(([name, { row, absent }]) =>
    row === undefined ? [] : [JSON.stringify([name, row, absent === true])],
  );
  expect({ sqlite: SCHEMA_VERSION, steps: STEPS.length, fields: digestOf(fields.sort().join()) }, NEW_FIELD).toEqual({
    sqlite: 27,
    steps: 23,
    fields: "9d324a01dc346bb7",
  });
});
