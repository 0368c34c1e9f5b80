import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { digestKey, digestText, hasIdForm, newId, newKey, shortDigest } from "../../src/lib/hash.js";
import { hasKeyChecksum } from "../key-checksum.js";

const text = fc.string({ unit: "grapheme", maxLength: 600 }).filter((value) => value.isWellFormed());

describe("digestKey", () => {
  it("ruling E5: SHA-256 of the whole key's UTF-8 bytes in standard base64", () => {
    fc.assert(
      fc.property(text, (key) => {
        expect(digestKey(key)).toBe(createHash("sha256").update(key, "utf8").digest("base64"));
      }),
    );
    expect(digestText("sha512", "Ł", "hex")).toBe(createHash("sha512").update("Ł").digest("hex"));
    // Trap 14: an encoding that drops the high byte would make these two one key.
    expect(digestKey("Ł")).not.toBe(digestKey("A"));
  });

  it.each(["no node:crypto at all", "no crypto.hash"])("a runtime with %s digests the same", (lack) => {
    const program = `
      const real = process.getBuiltinModule?.("node:crypto") ?? (await import("node:crypto"));
      const { hash: _, ...older } = real;
      process.getBuiltinModule = () => ${lack === "no crypto.hash" ? "({ ...older, createHash: real.createHash })" : "undefined"};
      const { digestKey, digestText } = await import(${JSON.stringify(new URL("../../src/lib/hash.ts", import.meta.url).href)});
      console.log(JSON.stringify([await digestKey("ключ"), await digestText("sha512", "k", "hex"), await digestText("sha256", "k", "hex")]));`;
    const out = execFileSync(process.execPath, ["--import", "tsx", "--input-type=module", "-e", program], {
      cwd: fileURLToPath(new URL("../..", import.meta.url)),
      encoding: "utf8",
    });
    const expected = [
      createHash("sha256").update("ключ").digest("base64"),
      createHash("sha512").update("k").digest("hex"),
      createHash("sha256").update("k").digest("hex"),
    ];
    expect(JSON.parse(out)).toEqual(expected);
  });
});

describe("newKey", () => {
  it("has at least 128 random bits in Base58 and a checksum that scanners recognise", () => {
    const keys = new Set<string>();
    for (let i = 0; i < 500; i++) {
      const { key, start } = newKey("sk", 16);
      expect(key).toMatch(/^sk_[1-9A-HJ-NP-Za-km-z]{28}$/);
      expect(start).toBe(key.slice(0, 7));
      expect(hasKeyChecksum(key)).toBe(true);
      const flipped = key.slice(0, 10) + (key[10] === "a" ? "b" : "a") + key.slice(11);
      expect(hasKeyChecksum(flipped)).toBe(false);
      keys.add(key);
    }
    expect(keys.size).toBe(500);
  });

  it("has one _ after a prefix that ends with some; a prefix of nothing else stays", () => {
    for (const [prefix, head] of [
      ["sk_live", "sk_live_"],
      ["sk_live_", "sk_live_"],
      ["sk__", "sk_"],
      ["_a", "_a_"],
      ["__", "___"],
    ] as const) {
      const { key, start } = newKey(prefix, 16);
      expect([key.length, key.startsWith(head), start]).toEqual([
        head.length + 28,
        true,
        key.slice(0, head.length + 4),
      ]);
      expect(hasKeyChecksum(key)).toBe(true);
    }
  });

  it("needs no prefix and takes any length that the operations allow", () => {
    expect(newKey(undefined, 16).key).toMatch(/^[1-9A-HJ-NP-Za-km-z]{28}$/);
    expect(newKey("p", 255).key.length).toBeLessThanOrEqual(512);
    expect(hasKeyChecksum("short")).toBe(false);
    expect(hasKeyChecksum(`sk_${"0OIl".repeat(8)}`)).toBe(false);
    expect(hasKeyChecksum("")).toBe(false);
  });
});

describe("newId", () => {
  it("sorts by time and never repeats", () => {
    const ids = [0, 1, 57, 58, 1_700_000_000_000, 1_700_000_000_001, 2 ** 45].map((now) => newId("key", now));
    expect([...ids].sort()).toEqual(ids);
    for (const id of ids) expect(id).toMatch(/^key_[a-zA-Z0-9]{22}$/);
    expect(new Set(Array.from({ length: 10_000 }, () => newId("key", 5))).size).toBe(10_000);
  });

  it("hasIdForm: tells its ids from other prefixes, lengths and characters", () => {
    const id = newId("role");
    expect(hasIdForm("role", id)).toBe(true);
    for (const other of [id.slice(0, -1), `${id}a`, `${id.slice(0, -1)}0`, `${id.slice(0, 5)}l${id.slice(6)}`, "role_"])
      expect(hasIdForm("role", other), other).toBe(false);
    expect(hasIdForm("rol", id)).toBe(false);
    expect(hasIdForm("perm", id)).toBe(false);
  });

  it("uses every character about as often", () => {
    const counts = new Map<string, number>();
    for (let i = 0; i < 4_000; i++)
      for (const character of newId("x", 0).slice(-14)) counts.set(character, (counts.get(character) ?? 0) + 1);
    const expected = (4_000 * 14) / 58;
    expect(counts.size).toBe(58);
    for (const count of counts.values()) expect(Math.abs(count - expected)).toBeLessThan(expected / 4);
  });
});

describe("shortDigest", () => {
  it("ruling C5: is stable, and differs for what differs", () => {
    expect(shortDigest("key_1 requests")).toBe(shortDigest("key_1 requests"));
    expect(shortDigest("")).toMatch(/^[0-9a-f]{16}$/);
    const digests = new Set(Array.from({ length: 200_000 }, (_, i) => shortDigest(`key_${i % 1000} limit-${i}`)));
    expect(digests.size).toBe(200_000);
  });
});
