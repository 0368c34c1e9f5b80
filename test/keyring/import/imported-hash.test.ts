import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { explainAlgorithm, readHash } from "../../../src/keyring/import/imported-hash.js";
import { createAlgorithms } from "../../../src/lib/migration-hashes.js";

const digest = (algorithm: string, text: string, encoding: "hex" | "base64" | "base64url") =>
  createHash(algorithm).update(text).digest(encoding);
const algorithms = createAlgorithms({ reversed: (key) => [...key].reverse().join("") });

describe("readHash", () => {
  it.each(["hex", "base64", "base64url"] as const)("ruling E3: sha256 and sha512 are read in %s", (encoding) => {
    const key = "key-with-~-bits-9";
    expect(readHash(algorithms, "sha256", digest("sha256", key, encoding))).toEqual({
      foreignDigest: digest("sha256", key, "base64"),
      digest: digest("sha256", key, "base64"),
    });
    expect(readHash(algorithms, "sha512", digest("sha512", key, encoding))).toEqual({
      foreignDigest: digest("sha512", key, "base64"),
    });
  });

  it("ruling E3: upper-case hex and missing or present padding are one hash", () => {
    const forms = [
      digest("sha256", "k", "hex").toUpperCase(),
      digest("sha256", "k", "base64").replace("=", ""),
      `${digest("sha256", "k", "base64url")}=`,
    ];
    for (const form of forms)
      expect(readHash(algorithms, "sha256", form)?.foreignDigest).toBe(digest("sha256", "k", "base64"));
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
    for (const hash of wrong) expect(readHash(algorithms, "sha256", hash), hash).toBeUndefined();
    expect(readHash(algorithms, "sha512", digest("sha256", "k", "hex"))).toBeUndefined();
    expect(readHash(algorithms, "prefixed-api-key", digest("sha256", "k", "base64"))).toBeUndefined();
    expect(readHash(algorithms, "nothing", digest("sha256", "k", "hex"))).toBeUndefined();
  });

  it("ruling E3: prefixed-api-key takes its hashes in hex", () => {
    expect(readHash(algorithms, "prefixed-api-key", digest("sha256", "long", "hex"))).toEqual({
      foreignDigest: digest("sha256", "long", "base64"),
    });
  });

  it("ruling E3: the hashes of a registered function are kept as they are given", () => {
    expect(readHash(algorithms, "reversed", "cba")).toEqual({ foreignDigest: "cba" });
    expect(explainAlgorithm(algorithms, "reversed")).toBeUndefined();
    for (const [character, most] of [
      ["x", 1_024],
      ["\u00e9", 512],
      ["\u20ac", 341],
      ["\u{1f511}", 256],
    ] as const) {
      const longest = character.repeat(most);
      expect(readHash(algorithms, "reversed", longest)).toEqual({ foreignDigest: longest });
      expect(readHash(algorithms, "reversed", `${longest}${character}`)).toBeUndefined();
    }
  });
});

describe("explainAlgorithm", () => {
  it.each(["bcrypt", "argon2id", "scrypt", "PBKDF2"])(
    "ruling E3, A173: %s cannot be looked up by hash, and the error says so",
    (name) => {
      expect(explainAlgorithm(algorithms, name)?.message).toMatch(/no key can be found by it/);
    },
  );

  it("an unknown algorithm is a problem, and the fix names the known ones", () => {
    for (const name of ["md5", "toString", "__proto__", "SHA256"])
      expect(explainAlgorithm(algorithms, name)?.fix, name).toContain("sha256");
  });
});
