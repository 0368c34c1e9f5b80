import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { isKeystileError } from "../../src/contracts/errors.js";
import { createAlgorithms, type MigrationAlgorithms } from "../../src/lib/migration-hashes.js";

const digest = (algorithm: string, text: string, encoding: "hex" | "base64" | "base64url") =>
  createHash(algorithm).update(text).digest(encoding);
const known = createAlgorithms({ reversed: (key) => [...key].reverse().join("") });

describe("createAlgorithms", () => {
  it.each(["hex", "base64", "base64url"] as const)("ruling E3: sha256 and sha512 are read in %s", (encoding) => {
    const key = "key-with-~-bits-9";
    expect(known.importHash("sha256", digest("sha256", key, encoding))).toEqual({
      foreignDigest: digest("sha256", key, "base64"),
      digest: digest("sha256", key, "base64"),
    });
    expect(known.importHash("sha512", digest("sha512", key, encoding))).toEqual({
      foreignDigest: digest("sha512", key, "base64"),
    });
    expect(known.foreignDigest("sha512", key)).toBe(digest("sha512", key, "base64"));
    expect(known.foreignDigest("sha256", key)).toBe(digest("sha256", key, "base64"));
  });

  it("ruling E3: upper-case hex and missing or present padding are one hash", () => {
    const forms = [
      digest("sha256", "k", "hex").toUpperCase(),
      digest("sha256", "k", "base64").replace("=", ""),
      `${digest("sha256", "k", "base64url")}=`,
    ];
    for (const form of forms)
      expect(known.importHash("sha256", form)?.foreignDigest).toBe(digest("sha256", "k", "base64"));
  });

  it("ruling E3: what is no hash of the algorithm is told apart (A177: MD5, SHA-1)", () => {
    const wrong = [
      "abc",
      digest("md5", "k", "hex"),
      digest("sha1", "k", "hex"),
      digest("sha512", "k", "hex"),
      "z".repeat(64),
      "!".repeat(43),
      `${digest("sha256", "k", "base64")}==`,
      `${"A".repeat(42)}B`,
    ];
    for (const hash of wrong) expect(known.importHash("sha256", hash), hash).toBeUndefined();
    expect(known.importHash("sha512", digest("sha256", "k", "hex"))).toBeUndefined();
    expect(known.importHash("prefixed-api-key", digest("sha256", "k", "base64"))).toBeUndefined();
    expect(known.importHash("nothing", digest("sha256", "k", "hex"))).toBeUndefined();
  });

  it("ruling E3: prefixed-api-key hashes what follows the last underscore of three parts or more", () => {
    const expected = digest("sha256", "long", "base64");
    expect(known.foreignDigest("prefixed-api-key", "my_short_long")).toBe(expected);
    expect(known.foreignDigest("prefixed-api-key", "my_company_short_long")).toBe(expected);
    expect(known.foreignDigest("prefixed-api-key", "short_long")).toBeUndefined();
    expect(known.importHash("prefixed-api-key", digest("sha256", "long", "hex"))).toEqual({ foreignDigest: expected });
  });

  it("ruling E3: a registered function serves under its name, its hashes as given", () => {
    expect(known.knows("reversed")).toBe(true);
    expect(known.importHash("reversed", "cba")).toEqual({ foreignDigest: "cba" });
    expect(known.foreignDigest("reversed", "abc")).toBe("cba");
    expect(known.knows("other")).toBe(false);
    expect(known.foreignDigest("other", "abc")).toBeUndefined();
    expect(() => known.assertUsable("reversed")).not.toThrow();
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

  it.each(["bcrypt", "argon2id", "scrypt", "PBKDF2"])(
    "ruling E3, A173: %s cannot be looked up by hash, and the error says so",
    (name) => {
      expect(() => known.assertUsable(name)).toThrow(/no key can be found by it/);
    },
  );

  it("an unknown algorithm is a 400 at body.algorithm", () => {
    for (const name of ["md5", "toString", "__proto__", "SHA256"]) {
      const caught = (() => {
        try {
          known.assertUsable(name);
        } catch (error) {
          return error;
        }
        return undefined;
      })();
      expect(isKeystileError(caught) && caught.errors[0]?.location, name).toBe("body.algorithm");
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
