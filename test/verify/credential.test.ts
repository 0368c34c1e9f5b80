/** readHeaders: what a request presents, and whether a signed token was passed over. */
import { describe, expect, it } from "vitest";
import { readHeaders } from "../../src/verify/credential.js";

const TOKEN = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl";
const read = (headers: Record<string, string>, skipTokens = false, names = ["authorization", "x-api-key"]) =>
  readHeaders(names, (name) => headers[name], skipTokens);

describe("readHeaders", () => {
  it.each<[string, Record<string, string>, string | null | undefined]>([
    ["nothing", {}, undefined],
    ["empty headers", { authorization: " ", "x-api-key": "" }, undefined],
    ["a key after an empty header", { authorization: "", "x-api-key": " key " }, "key"],
    ["another scheme", { authorization: "Basic abc" }, undefined],
    ["a scheme that begins like Bearer", { authorization: "Bearers abc", "x-api-key": "key" }, "key"],
    ["a scheme alone", { authorization: "Bearer" }, null],
    ["a key beside a scheme alone", { authorization: "Bearer ", "x-api-key": "key" }, "key"],
    ["two values", { authorization: "Bearer a b" }, null],
    ["values with a tab", { authorization: "Bearer a\tb" }, null],
    ["a Bearer value and a key", { authorization: "bearer  a", "x-api-key": "key" }, "a"],
    ["a token, where tokens are keys", { authorization: `Bearer ${TOKEN}`, "x-api-key": "key" }, TOKEN],
  ])("of %s", (_, headers, presented) => {
    expect(read(headers)).toStrictEqual({ presented, skipped: false });
  });

  it("goes on after an empty header that is not `authorization`", () => {
    expect(read({ "x-key": "", "x-api-key": "key" }, false, ["x-key", "x-api-key"]).presented).toBe("key");
  });

  it("passes over tokens where it is asked to, says so, and passes over nothing else", () => {
    expect(read({ authorization: `Bearer ${TOKEN}` }, true)).toStrictEqual({ presented: undefined, skipped: true });
    expect(read({ authorization: `Bearer ${TOKEN}`, "x-api-key": "key" }, true)).toStrictEqual({
      presented: "key",
      skipped: true,
    });
    expect(read({ authorization: "Bearer key" }, true)).toStrictEqual({ presented: "key", skipped: false });
    // Encrypted ones have five parts; nothing has four.
    expect(read({ authorization: `Bearer ${TOKEN}.a.b` }, true).skipped).toBe(true);
    for (const key of [`${TOKEN}.a`, `a${TOKEN}`, `${TOKEN}!`, "eyJ.a", "eyJ"])
      expect(read({ authorization: `Bearer ${key}` }, true)).toStrictEqual({ presented: key, skipped: false });
  });
});
