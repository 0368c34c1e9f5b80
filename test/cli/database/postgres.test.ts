/** Addresses of PostgreSQL servers, as the command line shows them. */
import { describe, expect, it } from "vitest";
import { withoutCredentials } from "../../../src/cli/database/postgres.js";

describe("withoutCredentials", () => {
  it.each([
    ["postgres://user:secret@host:5433/app", "postgres://host:5433/app"],
    ["postgresql://user:se%40cr%2Fet@host/app?sslmode=require", "postgresql://host/app"],
    ["postgres:///app?host=/tmp&password=secret", "postgres:///app"],
    ["postgres://host/app", "postgres://host/app"],
  ])("%s", (address, shown) => {
    expect(withoutCredentials(address)).toBe(shown);
  });

  it.each(["12#34", "12/34", "12?34", "a@12/34", "a@12#34", "a@12?3@4", "%%12#", "12#"])(
    "nothing of a password that is not encoded is shown, but how to write it: %s",
    (password) => {
      const address = `postgres://user:${password}@host/app`;
      let message = "";
      expect(() => {
        try {
          withoutCredentials(address);
        } catch (error) {
          ({ message } = error as Error);
          throw error;
        }
      }).toThrow(/%2F/);
      expect(message).not.toMatch(/12|34/);
    },
  );
});
