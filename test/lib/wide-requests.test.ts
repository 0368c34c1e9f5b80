/** A request with 100,000 properties is refused after the first of them. */
import { describe, expect, it } from "vitest";
import { createRatelimits } from "../../src/keyring/ratelimits/create-ratelimits.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { memoryStore } from "../../src/stores/memory.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { failure } from "../keyring/support.js";

const WIDE = 100_000;
const names = Array.from({ length: WIDE }, (_, i) => `p${i}`);

/** An object with 100,000 properties of this value, made at each access. @returns it, and what counts its traps */
function wide(value: unknown): { readonly object: object; readonly counts: { listed: number; asked: number } } {
  const counts = { listed: 0, asked: 0 };
  const object = new Proxy(
    {},
    {
      ownKeys: () => (counts.listed++, names),
      getOwnPropertyDescriptor: () => (counts.asked++, { value, enumerable: true, configurable: true, writable: true }),
      get: () => (counts.asked++, value),
      has: () => (counts.asked++, true),
    },
  );
  return { object, counts };
}

describe("requests with 100,000 properties", () => {
  const store = memoryStore();
  const keyring = createKeyring(store);
  const verifier = createVerifier(store);
  const ratelimits = createRatelimits(store);
  const ids = { migrationId: "m", apiId: "api_1" };
  const limit = { name: "abc", limit: 1, duration: 1_000 };
  const calls: Readonly<Record<string, (given: object) => Promise<unknown>>> = {
    "verify, the request": (given) => verifier.verify(given as never),
    "verify, its credits": (given) => verifier.verify({ key: "k", credits: given as never }),
    "verify, one of its rate limits": (given) => verifier.verify({ key: "k", ratelimits: [given as never] }),
    "createKey, the request": (given) => keyring.createKey(given as never),
    "createKey, its credits": (given) => keyring.createKey({ apiId: "api_1", credits: given as never }),
    "createKey, one of its rate limits": (given) =>
      keyring.createKey({ apiId: "api_1", ratelimits: [limit, given as never] }),
    "createKey, its meta": (given) => keyring.createKey({ apiId: "api_1", meta: { part: given as never } }),
    "migrateKeys, the request": (given) => keyring.migrateKeys(given as never),
    "migrateKeys, a key": (given) => keyring.migrateKeys({ ...ids, keys: [given as never] }),
    "limit, the request": (given) => ratelimits.limit(given as never),
  };

  for (const [call, run] of Object.entries(calls))
    it(`${call}: its names are listed once, and some hundreds of its properties looked at`, async () => {
      const { object, counts } = wide("x");
      expect(await failure(run(object))).toMatchObject({ code: "BAD_REQUEST" });
      // Of free-form data as many as fit its size.
      expect(counts).toEqual({
        listed: 1,
        asked: expect.toSatisfy((n: number) => n < (call.endsWith("meta") ? 32_768 : 500)),
      });
    });

  it("free-form data: properties without a value count too", async () => {
    const { object, counts } = wide(undefined);
    const refused = await failure(keyring.createKey({ apiId: "api_1", meta: object as never }));
    expect(refused).toMatchObject({ code: "BAD_REQUEST" });
    expect(counts.asked).toBeLessThan(250_000);
  });

  it("an object without a value in some thousand properties is as it was", async () => {
    const meta: Record<string, unknown> = Object.fromEntries(names.slice(0, 5_000).map((name) => [name, undefined]));
    const refused = await failure(keyring.createKey({ apiId: "api_1", meta: { ...meta, plan: "pro" } }));
    // The API is what is missing.
    expect(refused).toMatchObject({ code: "NOT_FOUND" });
  });
});
