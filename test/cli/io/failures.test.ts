import { describe, expect, it } from "vitest";
import { isFailure, toFailure, toKebab, usage } from "../../../src/cli/io/failures.js";
import { collectRange, toInteger, toRequestLimit, toTime } from "../../../src/cli/io/parsers.js";
import { count } from "../../../src/cli/io/text.js";
import { badRequest, KeystileError } from "../../../src/contracts/errors.js";

describe("toFailure", () => {
  it("leaves a failure as it is, and knows one by its brand", () => {
    const failure = usage("wrong", ["here"]);
    expect(toFailure(failure)).toBe(failure);
    expect([isFailure(failure), isFailure(new Error("wrong"))]).toEqual([true, false]);
  });

  it.each([
    [badRequest([{ location: "body.apiId", message: "is required" }]), 2],
    [new KeystileError("NOT_FOUND", "The key was not found"), 1],
    [new KeystileError("CONFLICT", "taken"), 1],
    [new KeystileError("CALLER_FORBIDDEN", "no"), 3],
    [new KeystileError("STORE_BUSY", "busy"), 3],
    [new KeystileError("DRIVER_MISSING", "run: npm install"), 3],
  ])("%s ends with %i", (error, code) => expect(toFailure(error).exitCode).toBe(code));

  it("names the code of what lies behind a fault of the file, and nothing else of it", () => {
    const cause = Object.assign(new Error("root_canary"), { code: "SQLITE_IOERR_SHMOPEN" });
    expect(toFailure(new KeystileError("STORE_FAILED", "the database failed", { cause })).message).toBe(
      "the database failed (SQLITE_IOERR_SHMOPEN)",
    );
    expect(toFailure(new KeystileError("STORE_FAILED", "the database failed", { cause: "root_canary" })).message).toBe(
      "the database failed",
    );
  });

  it("says nothing of what nobody foresaw but its kind", () => {
    const secret = "root_canary";
    const system = Object.assign(new Error(`open '${secret}'`), { code: "EACCES", syscall: "open" });
    const errors = [
      new TypeError(secret),
      system,
      Object.assign(new Error(secret), { code: "SQLITE_IOERR" }),
      secret,
      undefined,
    ];
    const texts = errors.map((error) => toFailure(error).message);
    expect(texts).toEqual([
      "something unexpected went wrong (TypeError)",
      "open failed: EACCES",
      "something unexpected went wrong (SQLITE_IOERR)",
      "something unexpected went wrong (string)",
      "something unexpected went wrong (undefined)",
    ]);
  });
});

describe("parsers", () => {
  it("toInteger: digits between its bounds", () => {
    const parse = toInteger(1, 10);
    expect([parse("1"), parse("10")]).toEqual([1, 10]);
    for (const text of ["0", "11", "1.5", "1e1", "-1", "", " 1", "0x1"])
      expect(() => parse(text), text).toThrow("from 1 to 10");
  });

  it("toTime: milliseconds or a date", () => {
    expect([toTime("1800000000000"), toTime("2027-01-31T00:00:00Z")]).toEqual([
      1_800_000_000_000,
      Date.UTC(2027, 0, 31),
    ]);
    expect([toTime("2027-01-31"), toTime("2027-01-31T01:30+01:30")]).toEqual([
      Date.UTC(2027, 0, 31),
      Date.UTC(2027, 0, 31),
    ]);
    expect(() => toTime("1800000000")).toThrow("must be in milliseconds, not seconds; did you mean 1800000000000?");
    for (const text of ["soon", "", "1.5", "-1", "99999999999999999999", "2027-13-01"])
      expect(() => toTime(text), text).toThrow();
  });

  it("toTime, ruling G5: no day that no calendar has, and no time without its zone", () => {
    for (const text of [
      "2027-02-30",
      "2027-02-29T00:00:00Z",
      "2027-01-31T00:00:00",
      "2027-01-31 10:00",
      "2027-01-31 (noon)",
      "2027-01-31T24:01Z",
    ])
      expect(() => toTime(text), text).toThrow();
  });

  it("toRequestLimit: calls and seconds", () => {
    expect(toRequestLimit("1000/60")).toEqual({ limit: 1_000, duration: 60_000 });
    expect(toRequestLimit("1/2592000")).toEqual({ limit: 1, duration: 2_592_000_000 });
    for (const text of ["0/60", "10/0", "10", "10/2592001", "10/60/1", "a/b", "1e3/60"])
      expect(() => toRequestLimit(text), text).toThrow();
  });

  it("collectRange: addresses and ranges, one after another", () => {
    expect(collectRange("10.0.0.0/8", collectRange("::1", undefined))).toEqual(["::1", "10.0.0.0/8"]);
    expect(() => collectRange("everyone", undefined)).toThrow("IP address");
  });
});

it("toKebab: a property as a flag", () =>
  expect(["apiId", "key", "ipAllowlist"].map(toKebab)).toEqual(["api-id", "key", "ip-allowlist"]));
it("count: groups of three", () =>
  expect([0, 999, 1_000, 1_234_567].map(count)).toEqual(["0", "999", "1,000", "1,234,567"]));
