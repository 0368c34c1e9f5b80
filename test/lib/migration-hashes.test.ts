import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createAlgorithms, type MigrationAlgorithms } from "../../src/lib/migration-hashes.js";

const digest = (algorithm: string, text: string) => createHash(algorithm).update(text).digest("base64");
const known = createAlgorithms({ reversed: (key) => [...key].reverse().join("") });

describe("createAlgorithms", () => {
  it("ruling E3: sha256 and sha512 of a key in standard base64", () => {
    const key = "key-with-~-bits-9";
    expect(known.foreignDigest("sha512", key)).toBe(digest("sha512", key));
    expect(known.foreignDigest("sha256", key)).toBe(digest("sha256", key));
  });

  it("ruling E3: prefixed-api-key hashes what follows the last underscore of three parts or more", () => {
    const expected = digest("sha256", "long");
    expect(known.foreignDigest("prefixed-api-key", "my_short_long")).toBe(expected);
    expect(known.foreignDigest("prefixed-api-key", "my_company_short_long")).toBe(expected);
    expect(known.foreignDigest("prefixed-api-key", "short_long")).toBeUndefined();
  });

  it("ruling E3: a registered function serves under its name, its hashes as given", () => {
    expect(known.knows("reversed")).toBe(true);
    expect(known.foreignDigest("reversed", "abc")).toBe("cba");
    expect(known.knows("other")).toBe(false);
    expect(known.foreignDigest("other", "abc")).toBeUndefined();
  });

  it("ruling E3: a registered function that returns no text is the programmer's mistake, and the error shows no key", async () => {
    for (const nonsense of [undefined, null, 5, new Uint8Array(32), {}]) {
      for (const result of [() => nonsense, () => Promise.resolve(nonsense)]) {
        const { foreignDigest } = createAlgorithms({ own: result as () => string });
        const asked = (async () => foreignDigest("own", "sk_secret"))();
        await expect(asked).rejects.toThrow(new TypeError("options.migrationAlgorithms.own must return a string"));
      }
    }
  });

  it("a wrong registration is a TypeError that names it", () => {
    expect(() => createAlgorithms({ mine: "sha1" } as unknown as MigrationAlgorithms)).toThrow(
      /options\.migrationAlgorithms\.mine must be a function/,
    );
    expect(() => createAlgorithms({ sha256: (key) => key })).toThrow(/sha256: this name is built in/);
    expect(() => createAlgorithms(null as never)).toThrow(TypeError);
    expect(() => createAlgorithms(5 as never)).toThrow(TypeError);
  });
});
