/**
 * A polluted `Object.prototype`: what some other code put there is no part of a context, an option, a request or a row.
 */
import { describe, expect, it } from "vitest";
import { createAuthenticator } from "../../src/http/index.js";
import {
  createKeyring,
  createRatelimits,
  createVerifier,
  memoryStore,
  type Store,
  type VerifyContext,
} from "../../src/index.js";
import { isPlainObject } from "../../src/lib/check-options.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { failure, limit, NOON } from "./support.js";

const clock = () => NOON;
/** Runs `act` while every object inherits these. */
async function polluted<T>(properties: object, act: () => T | Promise<T>): Promise<T> {
  Object.assign(Object.prototype, properties);
  try {
    return await act();
  } finally {
    for (const name of Object.keys(properties)) Reflect.deleteProperty(Object.prototype, name);
  }
}

const nobody = { workspaceId: "ws_other", may: () => false, mayAny: () => false };
const everything = { workspaceId: "ws_default", may: () => true, mayAny: () => true };

const STORES: readonly (readonly [name: string, open: () => Store])[] = [
  ["memory", memoryStore],
  ["SQLite", () => sqliteStore(":memory:")],
  ["a foreign store", () => ({ ...memoryStore() })],
];

describe.each(STORES)("a polluted prototype: %s", (_name, open) => {
  async function stage() {
    const store = open();
    const keyring = createKeyring(store, { clock });
    const { apiId } = await keyring.createApi({ name: "documents" });
    return { store, keyring, apiId, verifier: createVerifier(store, { clock }) };
  }

  it("tells no address: a key with an allow-list stays FORBIDDEN, with and without a context", async () => {
    const { keyring, apiId, verifier } = await stage();
    const { key } = await keyring.createKey({ apiId, ipAllowlist: ["192.0.2.7"] });
    for (const context of [undefined, {}, { caller: everything }, { clientAddress: undefined }] as readonly (
      | VerifyContext
      | undefined
    )[]) {
      const answer = await polluted({ clientAddress: "192.0.2.7" }, () => verifier.verify({ key }, context));
      expect(answer.code).toBe("FORBIDDEN");
    }
    expect((await verifier.verify({ key }, { clientAddress: "192.0.2.7" })).code).toBe("VALID");
  });

  it("adds no name to a context", async () => {
    const { store, keyring, apiId, verifier } = await stage();
    const { key } = await keyring.createKey({ apiId });
    const check = { namespace: "email", identifier: "user_1", limit: 10, duration: 60_000 };
    const ratelimits = createRatelimits(store, { clock });
    for (const context of [{}, { caller: everything }]) {
      const parts = { apiID: "api_other", apiId: "api_other", idempotencyKey: 5 };
      expect((await polluted(parts, () => verifier.verify({ key }, context))).code).toBe("VALID");
      expect((await polluted(parts, () => ratelimits.limit(check, context))).success).toBe(true);
    }
  });

  it("names no caller", async () => {
    const { store, keyring, apiId, verifier } = await stage();
    const { key } = await keyring.createKey({ apiId });
    const check = { namespace: "email", identifier: "user_1", limit: 10, duration: 60_000 };
    const ratelimits = createRatelimits(store, { clock });
    for (const context of [undefined, {}]) {
      expect((await polluted({ caller: nobody }, () => verifier.verify({ key }, context))).code).toBe("VALID");
      expect((await polluted({ caller: nobody }, () => ratelimits.limit(check, context))).success).toBe(true);
    }
  });

  it("gives a verification no parts, and an answer nothing that the key lacks", async () => {
    const { store, keyring, apiId, verifier } = await stage();
    const { key } = await keyring.createKey({
      apiId,
      permissions: ["a.b"],
      ratelimits: [limit("requests")],
      externalId: "user_1",
    });
    const parts = {
      ...{ name: "polluted", meta: { polluted: true }, expires: NOON - 1, refill: { interval: "daily", amount: 5 } },
      ...{
        permissions: "nothing",
        credits: { cost: 5 },
        tags: ["polluted"],
        migrationId: "polluted",
        own: { limit: 1, duration: 1 },
      },
    };
    const { permissions: _, ...others } = parts;
    const clean = await verifier.verify({ key });
    for (const body of [{ key }, { key, permissions: "a.b" }]) {
      // A new one, since the first remembers what it found before.
      const found = await polluted(others, () => createVerifier(store, { clock }).verify(body));
      expect({ ...found, ratelimits: [], permissions: [], roles: [] }).toStrictEqual({
        ...{ ...clean, ratelimits: [], permissions: [], roles: [] },
      });
    }
    expect((await polluted(parts, () => verifier.verify({ key }))).code).toBe("VALID");
  });

  it("gives a new key nothing that the request lacks", async () => {
    const { keyring, apiId } = await stage();
    const parts = {
      ...{
        name: "polluted",
        expires: NOON - 1,
        enabled: false,
        meta: { a: 1 },
        externalId: "polluted",
        prefix: "polluted",
      },
      ...{
        credits: { remaining: 0 },
        ratelimits: [limit("polluted")],
        permissions: ["polluted"],
        roles: ["polluted"],
        byteLength: 255,
      },
      ...{ ipAllowlist: ["192.0.2.7"], autoApply: true, refill: { interval: "daily", amount: 5 } },
    };
    const { name: __, ...forLimits } = parts;
    const made = [await polluted(parts, () => keyring.createKey({ apiId }))];
    const credits = { remaining: 5 };
    const own = [{ name: "requests", limit: 5, duration: 1_000 }];
    made.push(await polluted(forLimits, () => keyring.createKey({ apiId, credits, ratelimits: own })));
    const first = await keyring.getKey({ keyId: made[0]!.keyId });
    expect(Object.keys(first).sort()).toEqual([
      "apiId",
      "createdAt",
      "creditsFrom",
      "enabled",
      "keyId",
      "start",
      "state",
    ]);
    expect([first.enabled, made[0]!.key.startsWith("polluted")]).toEqual([true, false]);
    const second = await keyring.getKey({ keyId: made[1]!.keyId });
    expect(second).toMatchObject({ credits: { remaining: 5 }, ratelimits: [{ name: "requests", autoApply: false }] });
    expect(second.credits).not.toHaveProperty("refill");
  });

  it("keeps no root key out, and lets none in", async () => {
    const { store, keyring } = await stage();
    const { key, rootKeyId } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
    const { authenticate } = createAuthenticator(store, { clock });
    expect(await polluted({ expires: NOON - 1 }, () => authenticate(`Bearer ${key}`))).toMatchObject({ id: rootKeyId });
  });
});

describe("a polluted prototype: options", () => {
  it("are the program's own alone", async () => {
    const store = memoryStore();
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { key } = await keyring.createKey({ apiId, ratelimits: [limit("requests")] });
    const fail = () => {
      throw new Error("not ours");
    };
    const options = {
      workspaceId: "ws_other",
      clock: fail,
      limiter: { take: fail },
      onOutcome: fail,
      mode: "leased",
      storeTimeout: 1,
    };
    for (const given of [undefined, {}, { cache: {} }]) {
      const verifier = await polluted(options, () => createVerifier(store, given));
      expect((await verifier.verify({ key })).code).toBe("VALID");
    }
    const other = await polluted(options, () => createKeyring(store, {}));
    expect(await other.getWorkspace()).toMatchObject({ id: "ws_default" });
    expect(
      await polluted(options, () =>
        createRatelimits(store)
          .getNamespace({ namespace: "none" })
          .catch(() => "asked"),
      ),
    ).toBe("asked");
  });

  it("a context that inherits from an object without a prototype is none: its caller would be passed over", async () => {
    const inherited = Object.create(Object.assign(Object.create(null) as object, { caller: nobody })) as VerifyContext;
    expect(isPlainObject(inherited)).toBe(false);
    await expect(createVerifier(memoryStore()).verify({ key: "k" }, inherited)).rejects.toThrow(
      /^context must be an object/,
    );
    const error = await failure(createVerifier(memoryStore()).verify({ key: "k" }, { caller: nobody }));
    expect(error.code).toBe("CALLER_FORBIDDEN");
  });
});
