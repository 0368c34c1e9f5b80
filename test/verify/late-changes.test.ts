/** Changes that other processes make, and stores that take their time to tell of them, or do not tell of new keys. */
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { createRootKeyCache } from "../../src/access/authenticate.js";
import { cachedStore } from "../cache/cached-store.js";
import type { RootKeyRow, Store } from "../../src/contracts/store.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { digestKey } from "../../src/lib/hash.js";
import { sqliteStore, type SqliteStoreOptions } from "../../src/stores/sqlite/index.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { emptyFiles } from "../stores/sqlite/support.js";

let path: () => string;
beforeAll(async () => void (path = await emptyFiles()));

/** A store that takes its time to learn of changes; not `isAwaited`: longer than the test runs. */
const polling = (store: Store, isAwaited = true): Store => ({
  ...store,
  pollChanges: () =>
    isAwaited ? new Promise((resolve) => setTimeout(resolve, 5)).then(() => store.pollChanges("anew")) : undefined,
});
/** A store that tells nothing of keys that are not cached yet. */
const mute = (store: Store): Store => ({ ...store, subscribe: () => () => undefined });

async function world(decorate: (store: Store) => Store, options: SqliteStoreOptions = { staleness: 60_000 }) {
  const file = path();
  const elsewhere = sqliteStore(file);
  const keyring = createKeyring(elsewhere);
  const { apiId } = await keyring.createApi({ name: "docs" });
  // By default it polls when it is told to, and at no other time.
  const here = decorate(sqliteStore(file, options));
  return { elsewhere, keyring, apiId, here };
}
const rootKey = (digest: string): RootKeyRow => ({
  id: "rk_1",
  workspaceId: "ws_default",
  version: 0,
  digest,
  start: "...",
  permissions: [],
  enabled: true,
  createdAt: 0,
});

describe("a pollChanges that returns a promise", () => {
  it.each([{}, { by: "digest" }, { ttl: 60_000 }] as const)(
    "is awaited before a cached key is trusted: %j",
    async (cache) => {
      for (const isAwaited of [true, false]) {
        const { keyring, apiId, here } = await world((store) => polling(store, isAwaited));
        const { key, keyId } = await keyring.createKey({ apiId });
        const verifier = createVerifier(here, { cache });
        for (let i = 0; i < 3; i++) expect((await verifier.verify({ key })).code).toBe("VALID");
        await keyring.updateKey({ keyId, enabled: false });
        // Not awaited, it is the control: such a store serves what was revoked elsewhere.
        expect((await verifier.verify({ key })).code).toBe(isAwaited ? "DISABLED" : "VALID");
        await verifier.close();
        await here.close();
      }
    },
  );

  it("is awaited by cachedStore", async () => {
    const { keyring, apiId, here } = await world(polling);
    const { key, keyId } = await keyring.createKey({ apiId });
    const cached = cachedStore(here);
    const verifier = createVerifier(cached);
    expect((await verifier.verify({ key })).code).toBe("VALID");
    await keyring.updateKey({ keyId, enabled: false });
    expect((await verifier.verify({ key })).code).toBe("DISABLED");
    await verifier.close();
    await here.close();
  });

  it("is awaited before a cached root key is trusted", async () => {
    const { elsewhere, here } = await world(polling);
    const cache = createRootKeyCache(here, (row) => row, 10);
    const row = rootKey("digest");
    await elsewhere.write([{ table: "rootKeys", row }]);
    expect((await cache.find("digest"))?.enabled).toBe(true);
    await elsewhere.write([{ table: "rootKeys", row: { ...row, version: 1, enabled: false } }]);
    expect((await cache.find("digest"))?.enabled).toBe(false);
    cache.close();
    await here.close();
  });
});

describe("a store that does not tell of new keys", () => {
  afterEach(() => void vi.useRealTimers());

  it("finds them within a second all the same, root keys too: so long a miss is used by default", async () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    vi.advanceTimersByTime(10);
    const { elsewhere, keyring, apiId, here } = await world(mute, {});
    const verifier = createVerifier(here);
    const rootKeys = createRootKeyCache(here, (row) => row, 10);
    const { keyId } = await keyring.createKey({ apiId });
    const [row] = await elsewhere.readMany("keys", [keyId]);
    const key = "abcdefgh_0123456789abcdef";
    expect((await verifier.verify({ key })).code).toBe("NOT_FOUND");
    expect(await rootKeys.find("digest")).toBeUndefined();
    const digest = await digestKey(key);
    expect(await elsewhere.insertKeys([{ row: { ...row!, id: "key_other", version: 0, digest } }])).toEqual([true]);
    await elsewhere.write([{ table: "rootKeys", row: rootKey("digest") }]);
    expect(await rootKeys.find("digest")).toBeUndefined();
    // The control: a miss is kept, and nothing but time ends it here.
    expect((await verifier.verify({ key })).code).toBe("NOT_FOUND");
    vi.advanceTimersByTime(1_001);
    expect((await verifier.verify({ key })).code).toBe("VALID");
    expect(await rootKeys.find("digest")).toBeDefined();
    await verifier.close();
    rootKeys.close();
    await here.close();
  });
});
