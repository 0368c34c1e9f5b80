/** What `flush` writes, and what it waits for. */
import { createHash } from "node:crypto";
import { describe, expect, it, vi } from "vitest";
import { KeystileError } from "../../src/contracts/errors.js";
import type { Store } from "../../src/contracts/store.js";
import { createKeyring, createVerifier, memoryStore, type VerifierOptions } from "../../src/index.js";
import { trust } from "../../src/lib/guards/trusted.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { pglite } from "../stores/postgres/support.js";

const NOON = Date.UTC(2026, 2, 10, 12);
const DAY = 86_400_000;
const clock = () => NOON;
const { open } = pglite();

async function countedIn(store: Store): Promise<number> {
  const query = { level: "day", workspaceId: "ws_default", by: ["keyId"], maxRows: 10 } as const;
  const rows = await store.readOutcomes({ ...query, from: NOON - DAY / 2, to: NOON + DAY / 2 });
  return rows.reduce((sum, { counts }) => sum + counts.reduce((all, count) => all + count, 0), 0);
}

/** A verifier that counts, on a store whose `countOutcomes` is what the test says. */
async function world(
  countOutcomes: (store: Store) => Store["countOutcomes"] = (store) => store.countOutcomes,
  options: VerifierOptions = {},
) {
  const store = memoryStore();
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "documents" });
  const { key, keyId } = await keyring.createKey({ apiId });
  const verifier = createVerifier(trust({ ...store, countOutcomes: countOutcomes(store) }), {
    ...{ clock, analytics: { interval: 60_000 } },
    ...options,
  });
  const getKey = () => keyring.getKey({ keyId });
  return { store, verifier, verify: () => verifier.verify({ key }), getKey, counted: () => countedIn(store) };
}

describe.each([
  ["memory", async () => memoryStore()],
  ["SQLite", async () => sqliteStore(":memory:")],
  ["PostgreSQL", async () => (await open(1))[0]!],
] as const)("flush on %s", (_, make) => {
  it("writes counts, when keys were last used, and the first characters of imported keys", async () => {
    const store: Store = await make();
    const keyring = createKeyring(store, { clock });
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { key, keyId } = await keyring.createKey({ apiId });
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const old = "old_0123456789abcdefghij";
    const hash = createHash("sha256").update(old).digest("hex");
    const { migrated } = await keyring.migrateKeys({ migrationId, apiId, keys: [{ hash }] });
    const verifier = createVerifier(store, { clock, analytics: { interval: 60_000 } });
    for (const text of [key, key, old]) await verifier.verify({ key: text });
    expect(await countedIn(store)).toBe(0);
    await verifier.flush();
    expect(await countedIn(store)).toBe(3);
    expect((await keyring.getKey({ keyId })).lastUsedAt).toBe(NOON);
    expect((await keyring.getKey({ keyId: migrated[0]!.keyId })).start).toBe("old_0123");
    await verifier.flush();
    await verifier.close();
    await verifier.flush();
    expect(await countedIn(store)).toBe(3);
    await store.close?.();
  });
});

describe("flush", () => {
  it("writes also what was counted while an earlier write was under way", async () => {
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    const { verifier, verify, counted } = await world((store) => async (flush) => {
      await released;
      return store.countOutcomes(flush);
    });
    await verify();
    const first = verifier.flush();
    await verify();
    const second = verifier.flush();
    release();
    await Promise.all([first, second]);
    expect(await counted()).toBe(2);
  });

  it("notes of keys that came while notes were written are written too", async () => {
    const store = memoryStore();
    const keyring = createKeyring(store, { clock });
    const { apiId } = await keyring.createApi({ name: "documents" });
    const keys = await Promise.all([0, 1].map(() => keyring.createKey({ apiId })));
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    const recordUses: Store["recordUses"] = async (uses) => (await released, store.recordUses(uses));
    const verifier = createVerifier(trust({ ...store, recordUses }), { clock });
    await verifier.verify({ key: keys[0]!.key });
    const first = verifier.flush();
    await verifier.verify({ key: keys[1]!.key });
    const second = verifier.flush();
    release();
    await Promise.all([first, second]);
    for (const { keyId } of keys) expect((await keyring.getKey({ keyId })).lastUsedAt).toBe(NOON);
  });

  it("a piece of which nobody knows whether it was written is sent again at once, and counts once", async () => {
    let sent = 0;
    const { verifier, verify, counted } = await world((store) => async (flush) => {
      const result = await store.countOutcomes(flush);
      if (++sent === 1) throw new Error("the connection was lost");
      return result;
    });
    const nextTurn = () => new Promise((resolve) => setImmediate(resolve));
    await verify();
    // By itself it waits a second, which never passes here.
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    try {
      void verifier.flush();
      while (sent === 0 || vi.getTimerCount() === 0) await nextTurn();
      await verifier.flush();
    } finally {
      vi.useRealTimers();
    }
    expect([sent, await counted()]).toEqual([2, 1]);
  });

  it("does not wait for ever, and what the store has not taken is counted later", async () => {
    const timers: { act: () => void; ms: number }[] = [];
    const simulated = Symbol.for("keystile.timers");
    let isBusy = true;
    const { verifier, verify, counted } = await world((store) => (flush) => {
      if (isBusy) throw new KeystileError("STORE_BUSY", "made by the test");
      return store.countOutcomes(flush);
    });
    await verify();
    Object.assign(globalThis, {
      [simulated]: {
        setTimeout: (act: () => void, ms: number) => timers.push({ act, ms }),
        clearTimeout: () => undefined,
      },
    });
    try {
      const flushing = verifier.flush();
      expect(timers.map(({ ms }) => ms)).toEqual([5_000]);
      timers[0]!.act();
      await flushing;
    } finally {
      Reflect.deleteProperty(globalThis, simulated);
    }
    expect(verifier.counters()).toMatchObject({ outcomesUncounted: 0 });
    isBusy = false;
    await verifier.close();
    expect(await counted()).toBe(1);
  });

  it("delivers waiting events, and waits for what the listener returns", async () => {
    const told: string[] = [];
    const onOutcome = async ({ code }: { code: string }) => {
      await new Promise((resolve) => setTimeout(resolve, 10));
      told.push(code);
    };
    const { verifier, verify } = await world(undefined, { onOutcome });
    await verify();
    await verifier.flush();
    expect(told).toEqual(["VALID"]);
  });
});
