import { describe, expect, it } from "vitest";
import { nearest } from "../../src/lib/nearest.js";

describe("nearest", () => {
  const NAMES = ["READ_ONLY", "REQUEST_LIMIT", "LIMITER", "TRUSTED_PROXY", "ROOT_KEY", "DB"];

  it.each([
    ["READONLY", "READ_ONLY"],
    ["read-only", "READ_ONLY"],
    ["LIMITTER", "LIMITER"],
    ["TRUSTED_PROXIES", "TRUSTED_PROXY"],
    ["ROOTKEY", "ROOT_KEY"],
    ["DBS", "DB"],
    ["COLOUR", undefined],
    ["", undefined],
    ["X".repeat(300), undefined],
  ])("of %j is %j", (text, name) => {
    expect(nearest(text, NAMES)).toBe(name);
  });
});
