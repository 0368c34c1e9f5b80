/** The types of results: what a program can rely on after it looked at `valid` or `code`. */
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import {
  createKeyring,
  createVerifier,
  type JsonObject,
  memoryStore,
  type V2KeysVerifyKeyResponseData,
  type VerificationCode,
  type VerificationResult,
} from "../../src/index.js";

/** Compiles only if every code is listed. */
function describeResult(result: VerificationResult): string {
  switch (result.code) {
    case "VALID":
    case "DISABLED":
    case "EXPIRED":
    case "FORBIDDEN":
    case "INSUFFICIENT_PERMISSIONS":
    case "RATE_LIMITED":
    case "USAGE_EXCEEDED":
      return result.keyId;
    case "NOT_FOUND":
      return "unknown";
    default:
      return result satisfies never;
  }
}

describe("the result of a verification", () => {
  it("tells `keyId` by `valid` and by `code`, and its codes are the eight that are known", async () => {
    const store = memoryStore();
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { key, keyId } = await keyring.createKey({ apiId });
    const verifier = createVerifier(store);
    const result = await verifier.verify({ key });
    expectTypeOf(result.code).toEqualTypeOf<VerificationCode>();
    expectTypeOf(result.keyId).toEqualTypeOf<string | undefined>();
    if (!result.valid) throw new Error("the key is valid");
    expectTypeOf(result.code).toEqualTypeOf<"VALID">();
    expectTypeOf(result.keyId).toEqualTypeOf<string>();
    expectTypeOf(result.meta).toEqualTypeOf<JsonObject | undefined>();
    expect([describeResult(result), describeResult(await verifier.verify({ key: "unknown" }))]).toEqual([
      keyId,
      "unknown",
    ]);
  });

  it("of a server admits codes that are not known yet", () => {
    const later: V2KeysVerifyKeyResponseData = { valid: false, code: "SUSPENDED" };
    expect(later.code).toBe("SUSPENDED");
    expectTypeOf<VerificationResult>().toExtend<V2KeysVerifyKeyResponseData>();
    // @ts-expect-error a verifier in the own process returns none of them
    const known: VerificationResult = { valid: false, code: "SUSPENDED" };
    expect(known.valid).toBe(false);
  });

  it("has the schema's type of `meta`", () => {
    const verifier = createVerifier(memoryStore(), {
      meta: z.object({ since: z.string().transform((text) => new Date(text)) }),
    });
    type Result = Awaited<ReturnType<typeof verifier.verify>>;
    expectTypeOf<Extract<Result, { valid: true }>["meta"]>().toEqualTypeOf<{ since: Date } | undefined>();
    expectTypeOf<ReturnType<typeof createVerifier>>().toEqualTypeOf<import("../../src/index.js").Verifier>();
    expect(verifier.counters().degraded).toBe(0);
  });
});
