/** When keys were last used, and the start of imported keys: written in the background, to real stores. */
import { createHash } from "node:crypto";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { Store } from "../../src/contracts/store.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { startOf } from "../../src/lib/hash.js";
import { memoryStore } from "../../src/stores/memory.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import type { CachedKey } from "../../src/cache/cached-key.js";
import { createKeyUsage } from "../../src/verify/key-usage.js";
import { createVerifier } from "../../src/verify/verifier.js";
import type { VerifierOptions } from "../../src/verify/verifier-options.js";
import { temporaryPaths } from "../stores/sqlite/support.js";
import { buildWriter } from "../rigs/workers.js";

const path = temporaryPaths();
/** 2026-03-10T12:00:30Z */
const NOW = Date.UTC(2026, 2, 10, 12, 0, 30);
const MINUTE = 60_000;
let thread: URL;
beforeAll(async () => {
  thread = await buildWriter();
});
const STORES: readonly (readonly [string, () => Store])[] = [
  ["memory", memoryStore],
  ["SQLite", () => sqliteStore(path())],
  ["SQLite with a writer thread", () => sqliteStore(path(), { writer: thread })],
];
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

/** What a note reads of a key that was not used before. */
const keyOf = (keyId: string) => ({ keyId, usedMinute: NaN, usedIn: () => undefined }) as unknown as CachedKey;

/** Counts calls of a store. */
function counting(store: Store) {
  const calls: string[] = [];
  const counted = Object.fromEntries(
    Object.entries(store).map(([name, value]: [string, unknown]) => [
      name,
      typeof value !== "function"
        ? value
        : (...given: unknown[]): unknown => {
            calls.push(name);
            return (value as (...given: unknown[]) => unknown)(...given);
          },
    ]),
  ) as unknown as Store;
  return { counted, calls, of: (name: string) => calls.filter((call) => call === name).length };
}

async function world(store: Store, options: VerifierOptions = {}) {
  const time = { now: NOW };
  const clock = () => time.now;
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "api" });
  const importKeys = async (texts: readonly string[]) => {
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const { migrated } = await keyring.migrateKeys({
      migrationId,
      apiId,
      keys: texts.map((text) => ({ hash: sha256(text) })),
    });
    return migrated.map(({ keyId }) => keyId);
  };
  return { time, keyring, apiId, importKeys, verifier: createVerifier(store, { clock, ...options }) };
}

afterEach(() => void vi.useRealTimers());

describe.each(STORES)("lastUsedAt, %s", (_, open) => {
  it("is the minute of the last verification, in getKey, whoami and listKeys", async () => {
    const store = open();
    const { keyring, verifier, apiId, time } = await world(store);
    const [used, unused] = [await keyring.createKey({ apiId }), await keyring.createKey({ apiId, enabled: false })];
    for (const later of [0, MINUTE, 2 * MINUTE + 7]) {
      time.now = NOW + later;
      expect((await verifier.verify({ key: used.key })).code).toBe("VALID");
    }
    expect("lastUsedAt" in (await keyring.getKey({ keyId: used.keyId }))).toBe(false);
    await verifier.close();
    const at = Date.UTC(2026, 2, 10, 12, 2);
    expect((await keyring.getKey({ keyId: used.keyId })).lastUsedAt).toBe(at);
    expect((await keyring.whoami({ key: used.key })).lastUsedAt).toBe(at);
    const listed = (await keyring.listKeys({ apiId })).data.map((key) => [key.keyId, key.lastUsedAt] as const);
    expect(new Map(listed)).toEqual(
      new Map([
        [used.keyId, at],
        [unused.keyId, undefined],
      ]),
    );
    expect("lastUsedAt" in (await keyring.getKey({ keyId: unused.keyId }))).toBe(false);
    // A successor has not been used; nor does a change of the key forget.
    const next = await keyring.rerollKey({ keyId: used.keyId, expiration: 0 });
    expect("lastUsedAt" in (await keyring.getKey({ keyId: next.keyId }))).toBe(false);
    expect((await keyring.getKey({ keyId: used.keyId })).lastUsedAt).toBe(at);
    await store.close();
  });
});

describe("lastUsedAt", () => {
  it("counts refusals of a key that was found as uses, and nothing of a key that was not", async () => {
    const store = memoryStore();
    const { keyring, verifier, apiId } = await world(store);
    const disabled = await keyring.createKey({ apiId, enabled: false });
    expect((await verifier.verify({ key: disabled.key })).code).toBe("DISABLED");
    expect((await verifier.verify({ key: "unknown" })).code).toBe("NOT_FOUND");
    await verifier.close();
    expect((await keyring.getKey({ keyId: disabled.keyId })).lastUsedAt).toBe(Date.UTC(2026, 2, 10, 12));
  });

  it("is written some seconds later, in one call for all keys, once a minute for each", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    const { counted, of } = counting(memoryStore());
    const { keyring, verifier, apiId, time } = await world(counted);
    const keys = await Promise.all(Array.from({ length: 30 }, () => keyring.createKey({ apiId })));
    const verifyAll = async () => {
      for (let i = 0; i < 5; i++) await Promise.all(keys.map(({ key }) => verifier.verify({ key })));
    };
    await verifyAll();
    expect(of("recordUses")).toBe(0);
    expect(vi.getTimerCount()).toBe(1);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(of("recordUses")).toBe(1);
    expect(vi.getTimerCount()).toBe(0);
    await verifyAll();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(of("recordUses")).toBe(1);
    time.now += MINUTE;
    await verifyAll();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(of("recordUses")).toBe(2);
    for (const key of keys)
      expect((await keyring.getKey({ keyId: key.keyId })).lastUsedAt).toBe(Date.UTC(2026, 2, 10, 12, 1));
  });

  it("is off by option, and on stores without the power; to ask for it there is an error", async () => {
    const lacking = { ...memoryStore(), powers: { ...memoryStore().powers, usage: false } };
    for (const [store, options] of [
      [memoryStore(), { usage: false }],
      [lacking, {}],
    ] as const) {
      const { counted, of } = counting(store);
      const { keyring, verifier, apiId } = await world(counted, options);
      const key = await keyring.createKey({ apiId });
      await verifier.verify({ key: key.key });
      await verifier.close();
      expect(of("recordUses")).toBe(0);
      expect("lastUsedAt" in (await keyring.getKey({ keyId: key.keyId }))).toBe(false);
    }
    expect(() => createVerifier(lacking, { usage: true })).toThrow(
      expect.objectContaining({
        code: "STORE_POWER_MISSING",
        detail: 'options.usage needs the power "usage", which this store lacks',
      }) as Error,
    );
  });

  it("a verifier that cannot be made does not subscribe to the store", () => {
    const { counted, of } = counting({ ...memoryStore(), powers: { ...memoryStore().powers, usage: false } });
    expect(() => createVerifier(counted, { usage: true })).toThrow(/the power "usage"/);
    expect(of("subscribe")).toBe(0);
  });

  it("a store that fails to record fails no verification, and the next minute is recorded", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    const store = memoryStore();
    let fails = true;
    const { keyring, verifier, apiId, time } = await world({
      ...store,
      recordUses: (uses) => (fails ? Promise.reject(new Error("disk")) : store.recordUses(uses)),
    });
    const key = await keyring.createKey({ apiId });
    expect((await verifier.verify({ key: key.key })).valid).toBe(true);
    await vi.advanceTimersByTimeAsync(5_000);
    fails = false;
    time.now += MINUTE;
    expect((await verifier.verify({ key: key.key })).valid).toBe(true);
    await vi.advanceTimersByTimeAsync(5_000);
    expect((await keyring.getKey({ keyId: key.keyId })).lastUsedAt).toBe(Date.UTC(2026, 2, 10, 12, 1));
  });

  it("what is used while notes are written is written with the next, or at the end", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    const store = memoryStore();
    const written: string[][] = [];
    let finish: (() => void) | undefined;
    let hangs = true;
    const { keyring, verifier, apiId, time } = await world({
      ...store,
      async recordUses(uses) {
        written.push(uses.map(({ keyId }) => keyId));
        if (hangs) await new Promise<void>((resolve) => (finish = resolve));
        hangs = false;
        await store.recordUses(uses);
      },
    });
    const [first, second] = [await keyring.createKey({ apiId }), await keyring.createKey({ apiId })];
    await verifier.verify({ key: first.key });
    await vi.advanceTimersByTimeAsync(5_000);
    await verifier.verify({ key: second.key });
    await vi.advanceTimersByTimeAsync(60_000);
    // One at a time: the second waits until the first is written.
    expect(written).toEqual([[first.keyId]]);
    finish!();
    await vi.advanceTimersByTimeAsync(4_999);
    expect(written).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(written).toEqual([[first.keyId], [second.keyId]]);
    // The end waits for what is being written, and writes the rest itself: no timer is left.
    finish = undefined;
    hangs = true;
    time.now += MINUTE;
    await verifier.verify({ key: first.key });
    await vi.advanceTimersByTimeAsync(5_000);
    await verifier.verify({ key: second.key });
    const closing = verifier.close();
    finish!();
    await closing;
    expect(written.slice(2)).toEqual([[first.keyId], [second.keyId]]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("a use and a start that come while notes are written are both written with the next", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    const store = memoryStore();
    let finish: (() => void) | undefined;
    const { keyring, verifier, apiId, importKeys } = await world({
      ...store,
      async recordUses(uses) {
        if (finish === undefined) await new Promise<void>((resolve) => (finish = resolve));
        await store.recordUses(uses);
      },
    });
    const text = "sk_live_0123456789abcdefghij";
    const [keyId] = (await importKeys([text])) as [string];
    await verifier.verify({ key: (await keyring.createKey({ apiId })).key });
    await vi.advanceTimersByTimeAsync(5_000);
    await verifier.verify({ key: text });
    finish!();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(await keyring.getKey({ keyId })).toMatchObject({
      start: "sk_live_0123",
      lastUsedAt: Date.UTC(2026, 2, 10, 12),
    });
  });

  it("of more than a call of the store takes, the rest goes with the next, a turn later", async () => {
    const store = memoryStore();
    const sizes: number[] = [];
    const usage = createKeyUsage({ ...store, recordUses: (uses) => void sizes.push(uses.length) }, true);
    const note = (i: number) => usage.note(keyOf(`key_${i}`), "text", NOW);
    for (let i = 0; i < 2_500; i++) note(i);
    let turns = 0;
    let timer = setImmediate(function next() {
      turns++;
      timer = setImmediate(next);
    });
    await usage.close();
    clearImmediate(timer);
    expect(sizes).toEqual([1_000, 1_000, 500]);
    expect(turns).toBeGreaterThan(0);
    note(2_500);
    await usage.close();
    expect(sizes).toHaveLength(3);
  });

  it("is bounded: of more than 100,000 keys in one minute the others go unrecorded, and known ones are replaced", async () => {
    const times: number[] = [];
    const usage = createKeyUsage(
      { ...memoryStore(), recordUses: (uses) => void times.push(...uses.map(({ usedAt }) => usedAt)) },
      true,
    );
    for (let i = 0; i < 100_010; i++) usage.note(keyOf(`key_${i}`), "text", NOW);
    usage.note(keyOf("key_0"), "text", NOW + MINUTE);
    await usage.close();
    const minute = Date.UTC(2026, 2, 10, 12);
    expect(times).toHaveLength(100_000);
    expect(times.filter((time) => time !== minute)).toEqual([minute + MINUTE]);
  });

  it("a read-only store verifies, and records nothing", async () => {
    const file = path();
    const writable = sqliteStore(file);
    const { keyring, apiId } = await world(writable);
    const key = await keyring.createKey({ apiId });
    const store = sqliteStore(file, { readonly: true });
    const verifier = createVerifier(store, { clock: () => NOW });
    expect((await verifier.verify({ key: key.key })).valid).toBe(true);
    await verifier.close();
    expect("lastUsedAt" in (await keyring.getKey({ keyId: key.keyId }))).toBe(false);
    await store.close();
    await writable.close();
  });
});

describe.each(STORES)("start of an imported key, %s", (_, open) => {
  it("is filled in once a verification has shown its text, and not before", async () => {
    const store = open();
    const { keyring, verifier, importKeys } = await world(store);
    const texts = ["sk_live_0123456789abcdefghij", "0123456789abcdefghij", "abcdefghijklmnopqrst"];
    const [first, second, third] = (await importKeys(texts)) as [string, string, string];
    const start = async (keyId: string) => (await keyring.getKey({ keyId })).start;
    for (const text of texts.slice(0, 2)) expect((await verifier.verify({ key: text })).code).toBe("VALID");
    expect(await start(first)).toBe("...");
    await verifier.close();
    expect([await start(first), await start(second), await start(third)]).toEqual(["sk_live_0123", "0123", "..."]);
    expect("updatedAt" in (await keyring.getKey({ keyId: first }))).toBe(false);
    await store.close();
  });
});

describe("start of an imported key", () => {
  it("is there within a tenth of a second, also behind a prefix that the import named", async () => {
    vi.useFakeTimers();
    const { keyring, verifier, apiId } = await world(memoryStore());
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const text = "acme_0123456789abcdefghij";
    const keys = [{ hash: sha256(text), prefix: "acme" }];
    const { migrated } = await keyring.migrateKeys({ migrationId, apiId, keys });
    const { keyId } = migrated[0]!;
    expect(await keyring.getKey({ keyId })).toMatchObject({ start: "acme_..." });
    await verifier.verify({ key: text });
    await vi.advanceTimersByTimeAsync(100);
    expect(await keyring.getKey({ keyId })).toMatchObject({ start: "acme_0123" });
  });

  it("is written together with others, once", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    const { counted, of, calls } = counting(memoryStore());
    const { verifier, importKeys, keyring } = await world(counted, { usage: false });
    const texts = Array.from({ length: 50 }, (_, i) => `text-${i}-0123456789abcdefghij`);
    const ids = await importKeys(texts);
    calls.length = 0;
    for (let i = 0; i < 3; i++) await Promise.all(texts.map((key) => verifier.verify({ key })));
    await vi.advanceTimersByTimeAsync(5_000);
    expect([of("readMany"), of("write")]).toEqual([1, 1]);
    for (const keyId of ids) expect((await keyring.getKey({ keyId })).start).toBe("text");
    await Promise.all(texts.map((key) => verifier.verify({ key })));
    await vi.advanceTimersByTimeAsync(60_000);
    expect(of("write")).toBe(1);
  });

  it.each([
    ["that was deleted meanwhile", "sk_live_0123456789abcdefghij", true],
    ["whose text is too short to show any of it", "0123456789abcdefghi", false],
  ])("is not written for a key %s, and is for those beside it", async (_, text, isDeleted) => {
    for (const beside of [[], ["sk_test_0123456789abcdefghij"]]) {
      const { counted, of, calls } = counting(memoryStore());
      const { keyring, verifier, importKeys } = await world(counted);
      const [keyId, ...others] = (await importKeys([text, ...beside])) as [string, ...string[]];
      for (const key of [text, ...beside]) expect((await verifier.verify({ key })).code).toBe("VALID");
      if (isDeleted) await keyring.deleteKey({ keyId, permanent: true });
      calls.length = 0;
      await verifier.close();
      expect(of("write")).toBe(beside.length);
      for (const other of others) expect((await keyring.getKey({ keyId: other })).start).toBe("sk_test_0123");
    }
  });

  it("a migration that hashes a part of the key shows it too, and gives the native digest as before", async () => {
    const store = memoryStore();
    const { keyring, verifier, apiId } = await world(store);
    const { migrationId } = await keyring.createMigration({ algorithm: "prefixed-api-key" });
    const { migrated } = await keyring.migrateKeys({
      migrationId,
      apiId,
      keys: [{ hash: sha256("0123456789abcdefghij") }],
    });
    const key = "my_abcdefgh_0123456789abcdefghij";
    expect((await verifier.verify({ key, migrationId })).code).toBe("VALID");
    await verifier.close();
    const keyId = migrated[0]!.keyId;
    expect((await keyring.getKey({ keyId })).start).toBe("my_abcdefgh_0123");
    expect((await keyring.whoami({ key })).keyId).toBe(keyId);
  });

  it("startOf: leaves sixteen characters secret, and shows visible ASCII alone", () => {
    for (const [text, start] of [
      ["sk_0123456789abcdefghij", "sk_0123"],
      ["0123456789abcdefghij", "0123"],
      ["0123456789abcdefghi", "..."],
      ["sk_0123456789abcdefghi", "..."],
      ["with space and a long rest", "with"],
      ["a\nb0123456789abcdefghij", "..."],
      ["日本0123456789abcdefghij", "..."],
      [`${"p".repeat(40)}_0123456789abcdefghij`, "pppp"],
    ] as const)
      expect(startOf(text), text).toBe(start);
  });
});
