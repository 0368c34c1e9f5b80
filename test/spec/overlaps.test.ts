/**
 * An administrator and a verification overlap: whatever the order, no credit is made, lost or counted by another
 * calendar.
 */
import { createHash } from "node:crypto";
import { afterEach, describe, expect, it } from "vitest";
import type { Change, Store } from "../../src/contracts/store.js";
import {
  createKeyring,
  createVerifier,
  memoryStore,
  type OutcomeEvent,
  type VerifierOptions,
} from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { NOON } from "./support.js";

const DAILY = { interval: "daily", amount: 5 } as const;
const MONTHLY = { interval: "monthly", amount: 100_000, refillDay: 1 } as const;
const DAY = 86_400_000;

const stores: Record<string, () => Store> = {
  memory: memoryStore,
  sqlite: () => sqliteStore(":memory:", { durability: "process" }),
};
const modes: Record<string, VerifierOptions["credits"]> = {
  exact: { mode: "exact" },
  leased: { mode: "leased", size: 4, step: 1, firstStep: 1 },
};

/** Runs something once, just before the next call of one method reaches the store. */
function interposed(store: Store) {
  let act: (() => Promise<unknown>) | undefined;
  let method: keyof Store = "spendCredits";
  const before = (name: keyof Store) =>
    (async (...given: never[]) => {
      if (act !== undefined && method === name) {
        const run = act;
        act = undefined;
        await run();
      }
      return (store[name] as (...args: never[]) => unknown)(...given);
    }) as never;
  const names = ["spendCredits", "drawCredits", "write", "readBalances"] as const;
  const decorated: Store = { ...store, ...Object.fromEntries(names.map((name) => [name, before(name)])) };
  return {
    store: decorated,
    once(name: keyof Store, run: () => Promise<unknown>) {
      method = name;
      act = run;
    },
  };
}

describe.each(Object.entries(stores))("%s store", (_, open) => {
  const closing: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  const world = async (options: VerifierOptions = {}) => {
    const store = open();
    const time = { now: NOON };
    const clock = () => time.now;
    const events: OutcomeEvent[] = [];
    const between = interposed(store);
    const keyring = createKeyring(store, { clock });
    const verifier = createVerifier(between.store, {
      clock,
      onOutcome: (event) => void events.push(event),
      ...options,
    });
    closing.push(
      () => store.close(),
      () => verifier.close(),
    );
    const { apiId } = await keyring.createApi({ name: "documents" });
    return { store, time, clock, events, between, keyring, verifier, apiId };
  };

  describe.each(Object.entries(modes))("%s credits", (mode, credits) => {
    const spends = mode === "exact" ? "spendCredits" : "drawCredits";

    it.each([
      ["daily to monthly", DAILY, MONTHLY],
      ["monthly to daily", MONTHLY, DAILY],
      ["daily to none", DAILY, null],
      ["none to monthly", undefined, MONTHLY],
      ["one day of the month to another", { ...MONTHLY, refillDay: 28 }, { ...MONTHLY, refillDay: 1 }],
    ] as const)(
      "the refill changes from %s while a verification is in flight: nothing is minted, nothing is lost",
      async (_title, from, to) => {
        const { verifier, keyring, apiId, between, time } = await world({ credits });
        const body = { apiId, credits: { remaining: 10, ...(from && { refill: from }) } };
        const { key, keyId } = await keyring.createKey(body);
        expect(await verifier.verify({ key, credits: { cost: 4 } })).toMatchObject({ valid: true, credits: 6 });
        between.once(spends, () => keyring.updateKey({ keyId, credits: { refill: to } }));
        expect(await verifier.verify({ key, credits: { cost: 5 } })).toMatchObject({ code: "VALID", credits: 1 });
        expect((await keyring.getKey({ keyId })).credits?.remaining).toBeLessThanOrEqual(1);
        // And the new calendar goes on refilling.
        time.now += 62 * DAY;
        const amount = to?.amount ?? 0;
        const due = to === null ? 0 : to.interval === "daily" ? 62 : 2;
        const credit = 1 + amount * due;
        expect(await verifier.verify({ key, credits: { cost: 2 } })).toMatchObject({
          credits: credit < 2 ? credit : credit - 2,
        });
      },
    );

    it("the limits of a call that starts again are taken once", async () => {
      const { verifier, keyring, apiId, between } = await world({ credits });
      const ratelimits = [{ name: "requests", limit: 2, duration: 60_000, autoApply: true }];
      const { key, keyId } = await keyring.createKey({ apiId, ratelimits, credits: { remaining: 10, refill: DAILY } });
      between.once(spends, () => keyring.updateKey({ keyId, credits: { refill: MONTHLY } }));
      expect(await verifier.verify({ key, credits: { cost: 9 } })).toMatchObject({
        code: "VALID",
        ratelimits: [{ remaining: 1 }],
      });
    });

    it("a call that starts again sees all that changed with the refill: a key that was disabled is DISABLED", async () => {
      const { verifier, keyring, apiId, between } = await world({ credits });
      const { key, keyId } = await keyring.createKey({
        apiId,
        permissions: ["a"],
        credits: { remaining: 10, refill: DAILY },
      });
      between.once(spends, () => keyring.updateKey({ keyId, enabled: false, credits: { refill: MONTHLY } }));
      const answer = await verifier.verify({ key, permissions: "a", credits: { cost: 9 } });
      expect(answer).toEqual({ valid: false, code: "DISABLED", keyId, enabled: false, credits: 10 });
    });

    it("a key that looks like a root key is found again, unless it has become one", async () => {
      const { store, verifier, keyring, apiId, between } = await world({ credits });
      const key = "root_imported";
      const digest = createHash("sha256").update(key).digest("base64");
      const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
      const hash = createHash("sha256").update(key).digest("hex");
      const refilled = { remaining: 10, refill: DAILY };
      const { migrated } = await keyring.migrateKeys({ migrationId, apiId, keys: [{ hash, credits: refilled }] });
      const { keyId } = migrated[0]!;
      between.once(spends, () => keyring.updateKey({ keyId, credits: { refill: MONTHLY } }));
      expect(await verifier.verify({ key, credits: { cost: 9 } })).toMatchObject({ code: "VALID", keyId, credits: 1 });
      const { rootKeyId } = await keyring.createRootKey({ permissions: [] });
      const [root] = await store.readMany("rootKeys", [rootKeyId]);
      between.once(spends, async () => {
        await keyring.updateKey({ keyId, credits: { refill: DAILY } });
        await store.write([{ table: "rootKeys", row: { ...root!, id: "rk_same", version: 0, digest } }]);
      });
      expect(await verifier.verify({ key, credits: { cost: 9 } })).toEqual({ valid: false, code: "NOT_FOUND" });
    });

    it("an early refusal that shows the balance finds it by the new calendar too", async () => {
      const { verifier, keyring, apiId, between } = await world({ credits });
      const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 10, refill: DAILY } });
      between.once("spendCredits", () => keyring.updateKey({ keyId, credits: { refill: MONTHLY } }));
      expect(await verifier.verify({ key, permissions: "missing" })).toMatchObject({
        code: "INSUFFICIENT_PERMISSIONS",
        credits: 10,
      });
    });
  });

  it("another node that remembers the old refill is not believed", async () => {
    const { store, keyring, verifier, apiId, clock } = await world();
    // It hears of no change at all.
    const deaf = createVerifier(
      { ...store, subscribe: () => () => undefined, pollChanges: () => undefined },
      { clock },
    );
    closing.push(() => deaf.close());
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 10, refill: DAILY } });
    for (const one of [verifier, deaf]) expect(await one.verify({ key })).toMatchObject({ valid: true });
    await keyring.updateKey({ keyId, credits: { refill: MONTHLY } });
    for (const one of [deaf, verifier, deaf]) await one.verify({ key });
    expect((await keyring.getKey({ keyId })).credits?.remaining).toBe(5);
  });

  it("what a leased node holds when the refill changes is neither lost nor spent twice", async () => {
    const { store, keyring, apiId, between, clock } = await world();
    const leased = createVerifier(between.store, {
      clock,
      credits: { mode: "leased", size: 100, step: 10, firstStep: 10 },
    });
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 100, refill: DAILY } });
    expect(await leased.verify({ key })).toMatchObject({ valid: true, credits: 99 });
    // Nine are at hand: a call that costs more draws, meets another calendar, and gives them back first.
    between.once("drawCredits", () => keyring.updateKey({ keyId, credits: { refill: MONTHLY } }));
    expect(await leased.verify({ key, credits: { cost: 20 } })).toMatchObject({ valid: true });
    await leased.close();
    expect((await keyring.getKey({ keyId })).credits).toEqual({ remaining: 79, refill: MONTHLY });
    await store.pollChanges("anew");
  });

  it("administration reads a balance by the calendar that it has by then", async () => {
    const { store, keyring, apiId, between, clock } = await world();
    const { keyId } = await keyring.createKey({ apiId, credits: { remaining: 10, refill: DAILY } });
    const reading = createKeyring(between.store, { clock });
    between.once("readBalances", () => keyring.updateKey({ keyId, credits: { refill: MONTHLY } }));
    expect((await reading.getKey({ keyId })).credits).toEqual({ remaining: 10, refill: MONTHLY });
    between.once("readBalances", () => keyring.updateKey({ keyId, credits: null }));
    expect((await reading.getKey({ keyId })).credits).toEqual({ remaining: null });
    await store.pollChanges("anew");
  });

  it("administration shows a key that is removed while its balance is read, as it was read", async () => {
    const { store, keyring, apiId, between, clock } = await world();
    const { keyId } = await keyring.createKey({ apiId, credits: { remaining: 10, refill: DAILY } });
    const reading = createKeyring(between.store, { clock });
    // Between the two, so that the key is gone when it is read again.
    const { readMany } = between.store;
    let reads = 0;
    const removing: Store = {
      ...between.store,
      async readMany(table, ids) {
        if (table === "keys" && ++reads === 2) await keyring.deleteKey({ keyId, permanent: true });
        return readMany(table, ids);
      },
    };
    between.once("readBalances", () => keyring.updateKey({ keyId, credits: { refill: MONTHLY } }));
    const shown = await createKeyring(removing, { clock }).getKey({ keyId });
    expect([reads, shown.credits]).toEqual([2, { remaining: 10, refill: DAILY }]);
    await expect(reading.getKey({ keyId })).rejects.toMatchObject({ code: "NOT_FOUND" });
    await store.pollChanges("anew");
  });

  it.each(Object.entries(modes))(
    "a clock that jumps ahead by 3 years refills 400 days at once, and the event tells what was passed over: %s",
    async (_mode, credits) => {
      const { verifier, keyring, apiId, time, events } = await world({ credits });
      const { key } = await keyring.createKey({ apiId, credits: { remaining: 10, refill: DAILY } });
      time.now += 3 * 365 * DAY;
      expect(await verifier.verify({ key })).toMatchObject({ credits: 10 + 400 * 5 - 1 });
      time.now -= 3 * 365 * DAY;
      expect(await verifier.verify({ key })).toMatchObject({ credits: 10 + 400 * 5 - 2 });
      await verifier.close();
      expect(events.map(({ forfeitedRefills }) => forfeitedRefills)).toEqual([3 * 365 - 400, undefined]);
    },
  );

  it("what a dead leased node left in reserve is shown, and comes back to an exact verifier", async () => {
    const { store, verifier, keyring, apiId, time, clock } = await world();
    const dead = createVerifier(store, {
      clock,
      credits: { mode: "leased", size: 400, step: 100, firstStep: 100, ttl: 10_000 },
    });
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 1_000 } });
    await dead.verify({ key });
    const { credits } = await keyring.getKey({ keyId });
    expect(credits?.reserved).toBeGreaterThan(0);
    // The node has 100 in memory, of which it has spent 1 and not reported it.
    const left = credits!.remaining! + credits!.reserved! - 100;
    expect(await verifier.verify({ key, credits: { cost: left } })).toMatchObject({
      code: "USAGE_EXCEEDED",
      credits: credits!.remaining,
    });
    time.now += 10_001;
    expect((await keyring.getKey({ keyId })).credits).toEqual({ remaining: left });
    expect(await verifier.verify({ key, credits: { cost: left } })).toMatchObject({ code: "VALID", credits: 0 });
    // It was only slow: what it had left comes back.
    await dead.close();
    expect((await keyring.getKey({ keyId })).credits).toEqual({ remaining: 99 });
  });

  it("rerollKey under load copies no credit that is spent meanwhile", async () => {
    const { verifier, keyring, apiId } = await world();
    for (let round = 0; round < 10; round++) {
      const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 1_000 } });
      const spends = async () => {
        let granted = 0;
        for (let i = 0; i < 30; i++) if ((await verifier.verify({ key })).valid) granted++;
        return granted;
      };
      const load = Promise.all([spends(), spends(), spends()]);
      await verifier.verify({ key });
      const fresh = await keyring.rerollKey({ keyId, expiration: 0 });
      const [a, b, c] = await load;
      const copied = (await keyring.getKey({ keyId: fresh.keyId })).credits!.remaining!;
      const old = (await keyring.getKey({ keyId })).credits!.remaining!;
      expect(old).toBe(1_000 - 1 - a - b - c);
      expect(copied).toBeGreaterThanOrEqual(old);
    }
  });

  it("a key that becomes unlimited while a boundary is counted never refills that boundary again", async () => {
    const { keyring, verifier, apiId, between, time } = await world();
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 10, refill: DAILY } });
    // Its clock is a day behind.
    const behind = createKeyring(between.store, { clock: () => NOON });
    time.now += DAY;
    between.once("write", () => verifier.verify({ key }));
    await behind.updateKey({ keyId, credits: null });
    await behind.updateKey({ keyId, credits: { remaining: 0, refill: DAILY } });
    expect(await verifier.verify({ key })).toMatchObject({ code: "USAGE_EXCEEDED", credits: 0 });
    time.now += DAY;
    expect(await verifier.verify({ key })).toMatchObject({ code: "VALID", credits: 4 });
  });

  it("a call in flight while its verifier closes sees what was revoked before it began", async () => {
    const { store, keyring, apiId, clock } = await world();
    const listeners = new Set<(change: Change) => void>();
    const changes: Change[] = [];
    store.subscribe((change) => void changes.push(change));
    // Another process' store: it polls for the changes of this one, and its answers take a while.
    const elsewhere: Store = {
      ...store,
      subscribe(listener) {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
      async pollChanges() {
        await new Promise((resolve) => setImmediate(resolve));
        for (const change of changes.splice(0)) for (const listener of listeners) listener(change);
      },
    };
    const node = createVerifier(elsewhere, { clock });
    const { key, keyId } = await keyring.createKey({ apiId });
    expect(await node.verify({ key })).toMatchObject({ code: "VALID" });
    await keyring.updateKey({ keyId, enabled: false });
    const verification = node.verify({ key });
    await node.close();
    expect(await verification).toMatchObject({ code: "DISABLED" });
  });
});
