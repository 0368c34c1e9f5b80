import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { createAuthenticator } from "../../src/http/index.js";
import { createKeyring, createVerifier, type Limiter, memoryLimiter } from "../../src/index.js";
import { failure, limit, NOON, world } from "./support.js";

/** What another realm or a library answers with: it has `then`, and is no instance of this realm's Promise. */
const foreign = <T>(value: T) => {
  const promise = Promise.resolve(value);
  return { then: promise.then.bind(promise) };
};

describe("the ports: answers that come late, in promises of any kind", () => {
  it("a store's and a limiter's are waited for", async () => {
    const { store, create } = await world();
    const { key } = await create({ credits: { remaining: 2 }, ratelimits: [limit("requests")] });
    const late = (name: "findKey" | "spendCredits" | "pollChanges") => ({
      [name]: (...given: unknown[]) => foreign((store[name] as (...args: unknown[]) => unknown)(...given)),
    });
    const inner = memoryLimiter();
    const limiter = {
      ...inner,
      take: (...given: Parameters<typeof inner.take>) => foreign(inner.take(...given)),
    } as unknown as Limiter;
    const slow = { ...store, ...late("findKey"), ...late("spendCredits"), ...late("pollChanges") };
    for (const options of [{}, { limiter }]) {
      const verifier = createVerifier(slow, { clock: () => NOON, ...options });
      expect(await verifier.verify({ key })).toMatchObject({ code: "VALID" });
      expect(await verifier.verify({ key: "nobody" })).toEqual({ valid: false, code: "NOT_FOUND" });
    }
    const verifier = createVerifier(slow, { clock: () => NOON });
    expect(await verifier.verify({ key })).toMatchObject({ code: "USAGE_EXCEEDED", credits: 0 });
  });

  it("a root key that the store finds late lets its caller in, and an unknown one nobody", async () => {
    const { store, keyring } = await world();
    const { key, rootKeyId } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
    const slow = {
      ...store,
      findRootKey: (digest: string) => foreign(store.findRootKey(digest)),
    } as unknown as typeof store;
    const { authenticate } = createAuthenticator(slow, { clock: () => NOON });
    for (let call = 0; call < 2; call++) expect(await authenticate(`Bearer ${key}`)).toMatchObject({ id: rootKeyId });
    expect((await failure(authenticate("Bearer root_nobody"))).code).toBe("AUTH_KEY_NOT_FOUND");
  });

  it.each([
    ["a thenable", (text: string) => foreign(text)],
    ["a promise of another realm", runInNewContext("async (text) => text") as (text: string) => unknown],
  ])("ruling E3: an algorithm of the program's may answer with %s", async (_, late) => {
    const { store, apiId } = await world();
    const migrationAlgorithms = { reversed: (key: string) => late([...key].reverse().join("")) as Promise<string> };
    const keyring = createKeyring(store, { migrationAlgorithms });
    const { migrationId } = await keyring.createMigration({ id: "old", algorithm: "reversed" });
    await keyring.migrateKeys({ migrationId, apiId, keys: [{ hash: "321_dlo" }] });
    const verifier = createVerifier(store, { migrationAlgorithms });
    expect(await verifier.verify({ key: "old_123", migrationId })).toMatchObject({ code: "VALID" });
  });
});
