/** The script that makes the tables, as a text: what name of a schema it takes. */
import { describe, expect, it } from "vitest";
import { setUpScript } from "../../../src/stores/postgres/index.js";

describe("setUpScript", () => {
  it.each(["My Schema", "1st", "", "a".repeat(49), "it's", "$step$", 'a"b', undefined, 7])(
    "refuses %j, which no store takes for a schema either",
    (name) => {
      expect(() => setUpScript(name as string)).toThrow(
        new TypeError("schema must be 1 to 48 characters of a-z, 0-9 and _, not beginning with a digit"),
      );
    },
  );

  it("takes every name that a store takes", () => {
    for (const name of ["keystile", "_1", "a".repeat(48)]) expect(setUpScript(name)).toContain(`"${name}".meta`);
  });
});
