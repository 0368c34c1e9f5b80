import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { keyedHashHex, plainSha256Hex, sha256Hex } from "../../src/lib/sha256.js";

const expected = (text: string): string => createHash("sha256").update(text, "utf8").digest("hex");

describe("plainSha256Hex", () => {
  it("is SHA-256 at every length around the ends of blocks, and of a million letters", () => {
    for (let length = 0; length <= 200; length++) {
      const text = "aß€😀"[length % 4]!.repeat(length);
      if (text.isWellFormed()) expect(plainSha256Hex(text)).toBe(expected(text));
    }
    const million = "a".repeat(1_000_000);
    expect(plainSha256Hex(million)).toBe("cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  });

  it("is what the quick one gives, so that a file is the same wherever it was written", () => {
    for (let i = 0; i < 1_000; i++) {
      const text = String.fromCodePoint(
        ...Array.from({ length: i % 70 }, (_, k) => (i * 7_919 + k * 104_729) % 0xd800),
      );
      expect(plainSha256Hex(text)).toBe(sha256Hex(text));
    }
  });
});

describe("keyedHashHex", () => {
  it("hashes the secret and the text", () => {
    expect(keyedHashHex("5".repeat(64))("ключ")).toBe(expected(`${"5".repeat(64)}ключ`));
  });
});
