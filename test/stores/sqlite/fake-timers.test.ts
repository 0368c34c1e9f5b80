import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import { keyRow } from "../suite.js";
import { addKeys, change, codeOf, inspect, temporaryPaths, withApi, withoutTicks } from "./support.js";

const path = temporaryPaths();
const { setImmediate: nextImmediate } = globalThis;

describe("sqliteStore: under the fake timers of a program's tests", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("keys are made, changed and verified", { timeout: 30_000 }, async () => {
    const store = sqliteStore(path());
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 2 } });
    const verifier = createVerifier(store);
    expect(await verifier.verify({ key })).toMatchObject({ code: "VALID", credits: 1 });
    await keyring.updateKey({ keyId, enabled: false });
    expect(await verifier.verify({ key })).toMatchObject({ code: "DISABLED" });
    await verifier.close();
    await store.close();
  });

  it("spends in a row are answered, though microtasks are faked too", { timeout: 30_000 }, async () => {
    const store = await withApi(sqliteStore(path()));
    const [ref] = await addKeys(store, 1);
    // Once calls were seen to come alone, what takes a transaction waits for the end of its callback only.
    for (let i = 0; i < 8; i++) await store.spendCredits(ref!, 1, 0, 0);
    const both = withoutTicks(() => [
      store.spendCredits(ref!, 1, 0, 0),
      store.spendCredits(ref!, 1, 0, 0),
      store.adoptDigest(ref!, "d"),
    ]);
    expect(await Promise.all(both)).toMatchObject([{ remaining: 91 }, { remaining: 90 }, false]);
    await store.close();
  });

  it("what finds share ends with their turn", async () => {
    const place = path();
    const store = await withApi(sqliteStore(place));
    await addKeys(store, 1);
    await change(store, "key_000001", { name: "other" });
    await Promise.all(withoutTicks(() => [1, 2, 3].map(() => store.findKey("digest-1"))));
    await new Promise<void>(nextImmediate);
    const checkpoint = inspect(place, (db) => db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()) as { busy: number };
    expect(checkpoint.busy).toBe(0);
    await store.close();
  });

  it("a call that waits for a lock gets STORE_BUSY in the end", { timeout: 30_000 }, async () => {
    const place = path();
    const store = await withApi(sqliteStore(place, { busyTimeout: 30 }));
    const [ref] = await addKeys(store, 1);
    const other = new Database(place);
    other.exec("BEGIN IMMEDIATE");
    expect(await codeOf(() => store.spendCredits(ref!, 1, 0, 0))).toBe("STORE_BUSY");
    expect(await codeOf(() => store.insertKeys([{ row: keyRow(2) }]))).toBe("STORE_BUSY");
    other.close();
    const fresh = path();
    const first = new Database(fresh);
    first.pragma("journal_mode = WAL");
    first.exec("BEGIN IMMEDIATE; CREATE TABLE mine (x)");
    expect(await codeOf(() => sqliteStore(fresh, { busyTimeout: 20 }))).toBe("STORE_BUSY");
    first.close();
    await store.close();
  });
});
