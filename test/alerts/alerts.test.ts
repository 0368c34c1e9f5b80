/** Bounds that are passed and left again, on every store: who is told of what, how often. */
import { describe, expect, it } from "vitest";
import {
  type Alert,
  type AlertsOptions,
  createAlerts,
  createKeyring,
  createVerifier,
  memoryStore,
  type Store,
} from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { testClock } from "../../src/testing/index.js";
import { pglite } from "../stores/postgres/support.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const NOON = Date.UTC(2026, 10, 10, 12);

const postgres = pglite();
const STORES: readonly [string, () => Store | Promise<Store>][] = [
  ["memory", () => memoryStore()],
  ["sqlite", () => sqliteStore(":memory:")],
  ["postgres", async () => (await postgres.open(1))[0]!],
];

async function world(open: () => Store | Promise<Store>, options: Partial<AlertsOptions>) {
  const store = await open();
  const clock = testClock(NOON);
  const keyring = createKeyring(store, { clock: clock.now });
  const { apiId } = await keyring.createApi({ name: "documents" });
  const told: Alert[] = [];
  const settings = { clock: clock.now, interval: 0, deliver: (alert: Alert) => told.push(alert), ...options };
  const alerts = createAlerts(store, settings);
  /** A run, a minute later. */
  const run = async () => {
    clock.advance(MINUTE);
    await alerts.run();
    return told.splice(0).map(({ id: _, time: __, workspaceId: ___, ...said }) => said);
  };
  return { store, clock, keyring, apiId, alerts, told, run, settings };
}

describe.each(STORES)("createAlerts on %s", (_name, open) => {
  it("credits: each crossing is told once, with hysteresis", async () => {
    const { store, keyring, apiId, run } = await world(open, { creditsBelow: 100 });
    const { keyId } = await keyring.createKey({ apiId, externalId: "ann", credits: { remaining: 100 } });
    await keyring.createKey({ apiId });
    const set = (value: number) => keyring.updateCredits({ keyId, operation: "set", value });
    const low = (remaining: number) => ({ type: "credits.low", keyId, externalId: "ann", remaining });
    expect(await run()).toEqual([]);
    await set(99);
    expect(await run()).toEqual([low(99)]);
    // Around the bound: one crossing.
    for (const value of [100, 98, 119, 50]) {
      await set(value);
      expect(await run()).toEqual([]);
    }
    await set(120);
    expect(await run()).toEqual([]);
    await set(7);
    expect(await run()).toEqual([low(7)]);
    await store.close();
  });

  it("credits: of an identity once for all its keys, and of keys that replaced each other once", async () => {
    const { store, keyring, apiId, run, clock } = await world(open, { creditsBelow: 10 });
    const { identityId } = await keyring.createIdentity({ externalId: "ben", credits: { remaining: 20 } });
    for (let i = 0; i < 3; i++) await keyring.createKey({ apiId, externalId: "ben" });
    const { keyId, key } = await keyring.createKey({ apiId, credits: { remaining: 20 } });
    expect(await run()).toEqual([]);
    await keyring.updateIdentityCredits({ identity: "ben", operation: "set", value: 4 });
    const next = await keyring.rerollKey({ keyId, expiration: HOUR });
    const verifier = createVerifier(store, { clock: clock.now });
    await verifier.verify({ key, credits: { cost: 15 } });
    await verifier.close();
    const said = await run();
    expect(said).toHaveLength(2);
    expect(said).toContainEqual({ type: "credits.low", identityId, externalId: "ben", remaining: 4 });
    expect(said).toContainEqual({ type: "credits.low", keyId: next.keyId, remaining: 5 });
    expect(await run()).toEqual([]);
    // The one that is named goes, and the balance stays as low.
    await keyring.deleteKey({ keyId: next.keyId });
    for (let i = 0; i < 3; i++) expect(await run()).toEqual([]);
    await store.close();
  });

  it("credits: due refills count; disabled and expired keys, and deleted APIs, are not looked at", async () => {
    const { store, keyring, apiId, run, clock } = await world(open, { creditsBelow: 10 });
    const daily = { interval: "daily", amount: 50 } as const;
    const refilled = await keyring.createKey({ apiId, credits: { remaining: 5, refill: daily } });
    const credits = { remaining: 1 };
    const disabled = await keyring.createKey({ apiId, credits, enabled: false });
    await keyring.createKey({ apiId, credits, expires: NOON + 1 });
    const { apiId: other } = await keyring.createApi({ name: "other" });
    await keyring.createKey({ apiId: other, credits });
    await keyring.deleteApi({ apiId: other });
    expect(await run()).toMatchObject([{ keyId: refilled.keyId, remaining: 5 }]);
    clock.advance(DAY);
    expect(await run()).toEqual([]);
    await keyring.updateCredits({ keyId: refilled.keyId, operation: "set", value: 3 });
    await keyring.updateKey({ keyId: disabled.keyId, enabled: true });
    expect((await run()).map((said) => "keyId" in said && said.keyId).sort()).toEqual(
      [refilled.keyId, disabled.keyId].sort(),
    );
    await store.close();
  });

  it("credits: a share of the plan, or of what was given where there is no plan", async () => {
    const { store, keyring, apiId, told, run } = await world(open, { creditsBelow: { share: 0.1 } });
    const refill = { interval: "monthly", amount: 1_000, refillDay: 1 } as const;
    await keyring.createIdentity({ externalId: "ann", credits: { remaining: 1_000, refill } });
    const { keyId } = await keyring.createKey({ apiId, credits: { remaining: 50 } });
    await keyring.createKey({ apiId, externalId: "ann" });
    await keyring.createKey({ apiId, externalId: "ann" });
    const setOwner = (value: number) => keyring.updateIdentityCredits({ identity: "ann", operation: "set", value });
    expect(await run()).toEqual([]);
    await setOwner(100);
    await keyring.updateCredits({ keyId, operation: "decrement", value: 45 });
    // A tenth of the 5 that were given in all: 0.5.
    expect(await run()).toEqual([]);
    await setOwner(99);
    await keyring.updateCredits({ keyId, operation: "increment", value: 95 });
    await run();
    expect(told).toEqual([]);
    await keyring.updateCredits({ keyId, operation: "decrement", value: 100 });
    await setOwner(119);
    expect(await run()).toEqual([]);
    await setOwner(120);
    await run();
    await setOwner(7);
    expect(await run()).toMatchObject([{ externalId: "ann", remaining: 7 }]);
    await store.close();
  });

  it("credits: a share counts grants, but those that are spent after the plan", async () => {
    const { store, keyring, apiId, run, clock } = await world(open, { creditsBelow: { share: 0.1 } });
    const refill = { interval: "monthly", amount: 1_000, refillDay: 1, rollover: 0 } as const;
    await keyring.createIdentity({ externalId: "plan", credits: { remaining: 1_000, refill } });
    await keyring.createIdentity({ externalId: "packs", credits: { remaining: 0 } });
    await keyring.createIdentity({ externalId: "new", credits: { remaining: 0 } });
    for (const identity of ["plan", "packs"])
      await keyring.grantCredits({ identity, grantId: "overage", amount: 10_000, refill, priority: 255 });
    await keyring.grantCredits({ identity: "packs", grantId: "order_1", amount: 500 });
    const keys = await Promise.all(
      ["plan", "packs", "new"].map((externalId) => keyring.createKey({ apiId, externalId })),
    );
    const verifier = createVerifier(store, { clock: clock.now });
    const spend = (i: number, cost: number) => verifier.verify({ key: keys[i]!.key, credits: { cost } });
    await spend(0, 900);
    await spend(1, 450);
    expect(await run()).toEqual([]);
    await spend(0, 1);
    const reserved = await verifier.reserve({ key: keys[1]!.key, credits: { cost: 40 } });
    expect(await run()).toMatchObject([{ externalId: "plan", remaining: 99 }]);
    if (reserved.valid) await reserved.commit(1);
    expect(await run()).toMatchObject([{ externalId: "packs", remaining: 49 }]);
    await keyring.grantCredits({ identity: "packs", grantId: "order_2", amount: 100 });
    await run();
    await spend(1, 100);
    expect(await run()).toMatchObject([{ externalId: "packs", remaining: 49 }]);
    await verifier.close();
    await store.close();
  });

  it("credits: of a grant with a refill a share counts what one refill adds, however many there were", async () => {
    const { store, keyring, apiId, run, clock } = await world(open, { creditsBelow: { share: 0.1 } });
    await keyring.createIdentity({ externalId: "ann", credits: { remaining: 0 } });
    const refill = { interval: "daily", amount: 20, rollover: 0 } as const;
    await keyring.grantCredits({ identity: "ann", grantId: "free", amount: 20, refill, priority: 0 });
    await keyring.grantCredits({ identity: "ann", grantId: "order_1", amount: 1_000 });
    const { key } = await keyring.createKey({ apiId, externalId: "ann" });
    const verifier = createVerifier(store, { clock: clock.now });
    for (let day = 0; day < 100; day++) {
      await verifier.verify({ key });
      clock.advance(DAY);
    }
    // A tenth of 20 and 1,000 is 102; of all that came in it would be 302.
    await verifier.verify({ key, credits: { cost: 918 } });
    expect(await run()).toEqual([]);
    await verifier.verify({ key });
    expect(await run()).toMatchObject([{ externalId: "ann", remaining: 101 }]);
    await verifier.close();
    await store.close();
  });

  it("credits: who has used up all grants is told of, and who never had one is not", async () => {
    const { store, keyring, apiId, run, clock } = await world(open, { creditsBelow: { share: 0.1 } });
    for (const externalId of ["used", "expired", "ended", "overage", "new"])
      await keyring.createIdentity({ externalId, credits: { remaining: 0 } });
    const grant = (identity: string, terms: { readonly priority?: number; readonly expiresIn?: number } = {}) =>
      keyring.grantCredits({ identity, grantId: `of_${identity}`, amount: 500, ...terms });
    await grant("used");
    await grant("expired", { expiresIn: DAY });
    await grant("ended");
    await grant("overage", { priority: 200 });
    const keys = new Map<string, string>();
    for (const externalId of ["used", "expired", "ended", "overage", "new"])
      keys.set(externalId, (await keyring.createKey({ apiId, externalId })).key);
    expect(await run()).toEqual([]);
    const verifier = createVerifier(store, { clock: clock.now });
    for (const externalId of ["used", "overage"])
      await verifier.verify({ key: keys.get(externalId)!, credits: { cost: 500 } });
    // Ends the grants that are used up.
    await verifier.flush();
    expect((await keyring.listGrants({ identity: "used", ended: true })).grants[0]).toHaveProperty("endedAt");
    await keyring.endGrant({ identity: "ended", grantId: "of_ended" });
    clock.advance(DAY + 1);
    const told = (await run()).map((alert) => alert.type === "credits.low" && [alert.externalId, alert.remaining]);
    expect(told.sort()).toEqual([
      ["ended", 0],
      ["expired", 0],
      ["used", 0],
    ]);
    expect(await run()).toEqual([]);
    await keyring.grantCredits({ identity: "used", grantId: "again", amount: 500 });
    expect(await run()).toEqual([]);
    await verifier.verify({ key: keys.get("used")!, credits: { cost: 460 } });
    expect(await run()).toMatchObject([{ externalId: "used", remaining: 40 }]);
    await verifier.close();
    await store.close();
  });

  it("credits: once all grants have ended the bound is that of the one that ended last", async () => {
    const { store, keyring, apiId, run, clock } = await world(open, { creditsBelow: { share: 0.1 } });
    await keyring.createIdentity({ externalId: "ann", credits: { remaining: 0 } });
    const { key } = await keyring.createKey({ apiId, externalId: "ann" });
    const verifier = createVerifier(store, { clock: clock.now });
    const useUp = async (grantId: string, amount: number) => {
      await keyring.grantCredits({ identity: "ann", grantId, amount });
      await verifier.verify({ key, credits: { cost: amount } });
      await keyring.endGrant({ identity: "ann", grantId });
      clock.advance(HOUR);
    };
    await useUp("large", 500);
    await useUp("small", 40);
    expect(await run()).toMatchObject([{ externalId: "ann", remaining: 0 }]);
    // More than a fifth above 4, and far below 50: the alert ends, and may be raised again.
    await keyring.grantCredits({ identity: "ann", grantId: "next", amount: 10 });
    expect(await run()).toEqual([]);
    await verifier.verify({ key, credits: { cost: 10 } });
    expect(await run()).toMatchObject([{ externalId: "ann", remaining: 0 }]);
    await verifier.close();
    await store.close();
  });

  it("credits: what is reserved or leased is not gone", async () => {
    const { store, keyring, apiId, run, clock } = await world(open, { creditsBelow: 50 });
    const { key } = await keyring.createKey({ apiId, credits: { remaining: 100 } });
    const verifier = createVerifier(store, { clock: clock.now, credits: { mode: "leased" } });
    const call = await verifier.reserve({ key, credits: { cost: 80 } });
    await verifier.verify({ key });
    await verifier.verify({ key });
    expect(await run()).toEqual([]);
    if (call.valid) await call.commit(80);
    expect(await run()).toMatchObject([{ type: "credits.low" }]);
    await verifier.close();
    await store.close();
  });

  it("rules: each tells by its own bound, whatever another has told, under its name", async () => {
    const rules = [
      { name: "soon", creditsBelow: { share: 0.2 } },
      { name: "urgent", creditsBelow: { share: 0.05 } },
    ];
    const { store, keyring, run } = await world(open, { rules });
    const { apiId } = await keyring.createApi({ name: "other" });
    const refill = { interval: "daily", amount: 100 } as const;
    const { keyId } = await keyring.createKey({ apiId, credits: { remaining: 100, refill } });
    const ruled = async (value: number) => {
      await keyring.updateCredits({ keyId, operation: "set", value });
      return (await run()).map((said) => [(said as Alert).rule, "remaining" in said && said.remaining]);
    };
    expect(await ruled(19)).toEqual([["soon", 19]]);
    expect(await ruled(4)).toEqual([["urgent", 4]]);
    // Back from one bound, and not from the other.
    expect(await ruled(10)).toEqual([]);
    expect(await ruled(3)).toEqual([["urgent", 3]]);
    expect(await ruled(24)).toEqual([]);
    expect(await ruled(18)).toEqual([["soon", 18]]);
    await store.close();
  });

  it("programs with different bounds: an alert ends by the bound that it passed", async () => {
    const { store, keyring, apiId, run, settings, clock } = await world(open, { creditsBelow: 100 });
    const other = createAlerts(store, { ...settings, creditsBelow: 50 });
    await keyring.createKey({ apiId, credits: { remaining: 70 } });
    expect(await run()).toHaveLength(1);
    for (let i = 0; i < 5; i++) {
      clock.advance(MINUTE);
      await other.run();
      expect(await run()).toEqual([]);
    }
    await store.close();
  });

  it("expiry: once per key and time, not of keys that are replaced nor of short-lived ones", async () => {
    const { store, keyring, apiId, run, clock } = await world(open, { expiresWithin: 7 * DAY });
    const expires = NOON + 30 * DAY;
    const { keyId } = await keyring.createKey({ apiId, externalId: "cem", expires });
    await keyring.createKey({ apiId, expires: NOON + 2 * DAY });
    const old = await keyring.createKey({ apiId, expires });
    await keyring.createKey({ apiId, expires, enabled: false });
    const expiring = (at: number) => [{ type: "key.expiring", keyId, apiId, externalId: "cem", expires: at }];
    clock.set(NOON + 20 * DAY);
    expect(await run()).toEqual([]);
    await keyring.rerollKey({ keyId: old.keyId, expiration: 5 * DAY });
    expect(await run()).toEqual([]);
    clock.set(NOON + 24 * DAY);
    expect((await run()).filter((said) => "keyId" in said && said.keyId === keyId)).toEqual(expiring(expires));
    expect(await run()).toEqual([]);
    // Extended by an hour each hour it is always within.
    await keyring.updateKey({ keyId, expires: NOON + 31 * DAY });
    expect(await run()).toEqual([]);
    await keyring.updateKey({ keyId, expires: expires + 30 * DAY });
    expect(await run()).toEqual([]);
    clock.set(NOON + 54 * DAY);
    expect((await run()).filter((said) => "keyId" in said && said.keyId === keyId)).toEqual(
      expiring(expires + 30 * DAY),
    );
    await store.close();
  });

  it("expiry: of a customer once for all its keys, and again for another time", async () => {
    const { store, keyring, run, clock } = await world(open, { expiresWithin: 7 * DAY });
    const expires = NOON + 30 * DAY;
    const { identityId } = await keyring.createIdentity({ externalId: "dan", expires });
    await keyring.createIdentity({ externalId: "eve", expires, enabled: false });
    await keyring.createIdentity({ externalId: "fay" });
    const expiring = (at: number) => [{ type: "identity.expiring", identityId, externalId: "dan", expires: at }];
    expect(await run()).toEqual([]);
    clock.set(NOON + 24 * DAY);
    expect(await run()).toEqual(expiring(expires));
    expect(await run()).toEqual([]);
    await keyring.updateIdentity({ identity: "dan", expires: NOON + 31 * DAY });
    expect(await run()).toEqual([]);
    await keyring.updateIdentity({ identity: "dan", expires: NOON + 60 * DAY });
    expect(await run()).toEqual([]);
    clock.set(NOON + 54 * DAY);
    expect(await run()).toEqual(expiring(NOON + 60 * DAY));
    await store.close();
  });

  it("keys of customers that are disabled or have expired are not told of", async () => {
    const { store, keyring, apiId, run, clock } = await world(open, { creditsBelow: 10, expiresWithin: 7 * DAY });
    const expires = NOON + 30 * DAY;
    await keyring.createIdentity({ externalId: "off", enabled: false, credits: { remaining: 1 } });
    await keyring.createIdentity({ externalId: "gone", expires: NOON + 2 * DAY });
    for (const externalId of ["off", "gone"]) {
      await keyring.createKey({ apiId, externalId, expires });
      await keyring.createKey({ apiId, externalId, credits: { remaining: 1 } });
    }
    clock.set(NOON + 24 * DAY);
    expect(await run()).toEqual([]);
    await keyring.updateIdentity({ identity: "off", enabled: true });
    expect((await run()).map(({ type }) => type).sort()).toEqual(["credits.low", "credits.low", "key.expiring"]);
    await store.close();
  });

  it("refusals: an API is told of once while its share stays high", async () => {
    const { store, keyring, apiId, run, clock } = await world(open, { refusedShare: 0.2 });
    const { key } = await keyring.createKey({ apiId, permissions: ["a"] });
    const verify = async (good: number, bad: number) => {
      const verifier = createVerifier(store, { clock: clock.now, analytics: true });
      for (let i = 0; i < good; i++) await verifier.verify({ key, permissions: "a" });
      for (let i = 0; i < bad; i++) await verifier.verify({ key, permissions: "b" });
      for (let i = 0; i < 50; i++) await verifier.verify({ key: "unknown" });
      await verifier.close();
    };
    await verify(50, 49);
    expect(await run()).toEqual([]);
    await verify(1, 0);
    const refused = { type: "verifications.refused", apiId };
    expect(await run()).toEqual([{ ...refused, total: 100, refused: 49 }]);
    expect(await run()).toEqual([]);
    clock.advance(2 * HOUR);
    expect(await run()).toEqual([]);
    await verify(80, 20);
    expect(await run()).toEqual([{ ...refused, total: 100, refused: 20 }]);
    await store.close();
  });

  it("a thousand at once are all delivered, and listed in pages", async () => {
    const { store, keyring, apiId, run, alerts } = await world(open, { creditsBelow: 10 });
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const hashOf = (i: number) => i.toString(16).padStart(64, "0");
    const keys = Array.from({ length: 1_000 }, (_, i) => ({ hash: hashOf(i), credits: { remaining: i % 10 } }));
    await keyring.migrateKeys({ migrationId, apiId, keys });
    expect(new Set((await run()).map((said) => "keyId" in said && said.keyId)).size).toBe(1_000);
    expect(await run()).toEqual([]);
    const listed = new Set<unknown>();
    let pages = 0;
    for (let cursor: number | undefined, isLast = false; !isLast; pages++) {
      const page = await alerts.list("raised", cursor);
      for (const { alert } of page.alerts) listed.add(alert.id);
      ({ cursor } = page);
      isLast = cursor === undefined;
    }
    expect([listed.size, pages]).toEqual([1_000, 11]);
    expect(await alerts.list("pending")).toEqual({ alerts: [] });
    await store.close();
  });

  it("what fails is tried again after ever longer pauses, and is dead in the end", async () => {
    let fails = true;
    const errors: unknown[] = [];
    const times: number[] = [];
    const { store, keyring, apiId, alerts, clock, told } = await world(open, {
      creditsBelow: 10,
      deliver(alert) {
        times.push(clock.now());
        if (fails) throw new Error("no mail server");
        told.push(alert);
      },
      onError: (error) => errors.push(error),
    });
    await keyring.createKey({ apiId, credits: { remaining: 1 } });
    expect(await alerts.run()).toEqual({ raised: 1, delivered: 0, failed: 1 });
    const [pending] = (await alerts.list("pending")).alerts;
    expect(pending).toMatchObject({ tries: 1, due: NOON + 5_000, alert: { type: "credits.low", remaining: 1 } });
    for (;;) {
      const { alerts: waiting } = await alerts.list("pending");
      if (waiting.length === 0) break;
      clock.set(waiting[0]!.due! - 1);
      expect(await alerts.run()).toMatchObject({ failed: 0 });
      clock.advance(1);
      await alerts.run();
    }
    const pauses = times.slice(1).map((time, i) => time - times[i]!);
    expect(pauses).toEqual([5_000, ...[5, 30, 120, 300, 600, 840].map((minutes) => minutes * MINUTE)]);
    expect(errors).toHaveLength(8);
    const { alerts: dead } = await alerts.list("dead");
    expect(dead).toEqual([{ alert: pending!.alert, tries: 8 }]);
    // The next one is delivered, and the dead one stays where it is.
    fails = false;
    await keyring.createKey({ apiId, credits: { remaining: 2 } });
    expect(await alerts.run()).toEqual({ raised: 1, delivered: 1, failed: 0 });
    expect(told).toMatchObject([{ remaining: 2 }]);
    expect((await alerts.list("dead")).alerts).toHaveLength(1);
    await store.close();
  });

  it("a function that returns a response which is not ok has delivered nothing", async () => {
    let status = 500;
    const errors: unknown[] = [];
    const { store, keyring, apiId, alerts, clock } = await world(open, {
      creditsBelow: 10,
      deliver: async () => new Response(null, { status }),
      onError: (error) => errors.push(error),
    });
    await keyring.createKey({ apiId, credits: { remaining: 1 } });
    expect(await alerts.run()).toEqual({ raised: 1, delivered: 0, failed: 1 });
    expect(errors).toEqual([new Error("options.deliver returned a response with status 500")]);
    status = 204;
    clock.advance(MINUTE);
    expect(await alerts.run()).toEqual({ raised: 0, delivered: 1, failed: 0 });
    await alerts.close();
    await store.close();
  });

  it("what a process took that vanished is delivered by another", async () => {
    const { store, keyring, apiId, clock, settings, told } = await world(open, { creditsBelow: 10 });
    await keyring.createKey({ apiId, credits: { remaining: 1 } });
    const vanished = createAlerts(store, { ...settings, timeout: 60_000, deliver: () => new Promise(() => undefined) });
    // Its delivery times out long after the store is closed.
    vanished.run().catch(() => undefined);
    // Up to the moment at which it is taken.
    const dueOf = async () => (await vanished.list("pending")).alerts[0]?.due ?? 0;
    while ((await dueOf()) <= clock.now()) await new Promise((resolve) => setTimeout(resolve));
    const other = createAlerts(store, settings);
    expect(await other.run()).toEqual({ raised: 0, delivered: 0, failed: 0 });
    clock.advance(110_000);
    expect(await other.run()).toEqual({ raised: 0, delivered: 1, failed: 0 });
    expect(told).toHaveLength(1);
    await store.close();
  });

  it("processes that end during a delivery use up none of its tries", async () => {
    const { store, keyring, apiId, clock, settings, alerts, told } = await world(open, { creditsBelow: 10 });
    await keyring.createKey({ apiId, credits: { remaining: 1 } });
    const never = () => new Promise(() => undefined);
    for (let n = 0; n < 10; n++) {
      const before = clock.now();
      createAlerts(store, { ...settings, deliver: never })
        .run()
        .catch(() => undefined);
      while (((await alerts.list("pending")).alerts[0]?.due ?? 0) <= before)
        await new Promise((resolve) => setTimeout(resolve));
      clock.advance(60_000);
    }
    expect((await alerts.list("pending")).alerts).toMatchObject([{ tries: 0 }]);
    expect(await alerts.run()).toEqual({ raised: 0, delivered: 1, failed: 0 });
    expect(told).toHaveLength(1);
    await store.close();
  });
});

describe("createAlerts: options", () => {
  const deliver = () => undefined;
  const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
  it.each([
    [{}, "options.deliver"],
    [{ deliver, creditsBelow: 0 }, "options.creditsBelow"],
    [{ deliver, expiresWithin: 1_000 }, "options.expiresWithin"],
    [{ deliver, refusedShare: 20 }, "options.refusedShare"],
    [{ deliver, interval: 1 }, "options.interval"],
    [{ deliver: { url: "http://example.com", secret } }, "options.deliver.url must be an https address"],
    [{ deliver: { url: "https://a:b@example.com", secret } }, "options.deliver.url"],
    [{ deliver: { url: "ftp://localhost", secret } }, "options.deliver.url"],
    [{ deliver: { url: "https://example.com" } }, "options.deliver.secret"],
    [{ deliver: { url: "https://example.com", secret: "whsec_c2hvcnQ=" } }, "options.deliver.secret"],
    [{ deliver: { secret } }, "options.deliver.url"],
    [{ deliver: { url: "https://example.com", secret, header: "x" } }, "options.deliver.header"],
  ])("%j is refused by the name of the option", (options, name) => {
    expect(() => createAlerts(memoryStore(), options as never)).toThrow(name);
    expect(() => createAlerts(memoryStore(), options as never)).not.toThrow(secret);
  });

  it("says which power a store lacks", () => {
    const store = memoryStore();
    const without = (power: string) => ({ ...store, powers: { ...store.powers, [power]: false } });
    for (const power of ["alerts", "search", "analytics"])
      expect(() => createAlerts(without(power), { deliver, refusedShare: 0.5 })).toThrow(`"${power}"`);
    expect(() => createAlerts(without("analytics"), { deliver, creditsBelow: 1, interval: 0 })).not.toThrow();
    expect(() => createAlerts({ ...store, takeAlerts: undefined } as never, { deliver })).toThrow("takeAlerts");
  });

  it("one watch that fails keeps no other from its work, and the run rejects with its error", async () => {
    const store = memoryStore();
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    await keyring.createKey({ apiId, credits: { remaining: 1 } });
    const told: Alert[] = [];
    const failing: Store = { ...store, readOutcomes: () => Promise.reject(new Error("the disk")) };
    const alerts = createAlerts(failing, {
      ...{ refusedShare: 0.5, creditsBelow: 5, interval: 0 },
      deliver: (alert) => told.push(alert),
    });
    await expect(alerts.run()).rejects.toThrow("the disk");
    expect(told).toHaveLength(1);
  });

  it("what a process took that ended is delivered once it is due, not at the next run", async () => {
    const store = memoryStore();
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    await keyring.createKey({ apiId, credits: { remaining: 1 } });
    const settings = { creditsBelow: 5, timeout: 60_000 };
    const ended = createAlerts(store, { ...settings, interval: 0, deliver: () => new Promise(() => undefined) });
    const began = Date.now();
    ended.run().catch(() => undefined);
    while ((await ended.list("pending")).alerts.length === 0) await new Promise((resolve) => setTimeout(resolve));
    const told: Alert[] = [];
    // Due two seconds after the first run, which is a second after the start.
    const clock = () => Date.now() + 110_000 - 3_000;
    const other = createAlerts(store, { ...settings, clock, deliver: (alert) => told.push(alert) });
    while (told.length === 0 && Date.now() < began + 20_000) await new Promise((resolve) => setTimeout(resolve, 20));
    await other.close();
    expect(told).toHaveLength(1);
  }, 30_000);

  it("the timer runs by itself, retries in time, and ends with close", async () => {
    const store = memoryStore();
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    await keyring.createKey({ apiId, credits: { remaining: 1 } });
    const told: Alert[] = [];
    const alerts = createAlerts(store, { creditsBelow: 5, interval: 250, deliver: (alert) => told.push(alert) });
    while (told.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    await alerts.close();
    await keyring.createKey({ apiId, credits: { remaining: 2 } });
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect(told).toHaveLength(1);
    expect(await alerts.run()).toEqual({ raised: 0, delivered: 0, failed: 0 });
  });
});

describe("options of createAlerts", () => {
  const deliver = () => undefined;
  it("without any bound it is told at once", () => {
    expect(() => createAlerts(memoryStore(), { deliver, interval: 0 })).toThrow(
      "options has no bound; give creditsBelow, expiresWithin or refusedShare, or rules",
    );
    expect(() => createAlerts(memoryStore(), { deliver, interval: 0, rules: [] })).toThrow("options has no bound");
  });

  it.each<[string, object]>([
    ["options.rules must be a list", { rules: {} }],
    ["options.rules[0] has no bound", { rules: [{ name: "a" }] }],
    ["options.rules[0] has no bound", { rules: [{ name: "a", creditsBelow: undefined }] }],
    ["options.rules[0].name must be", { rules: [{ creditsBelow: 1 }] }],
    ["options.rules[0].name must be", { rules: [{ name: "a b", creditsBelow: 1 }] }],
    ["options.rules[1].name is that of another rule", { rules: [1, 2].map((n) => ({ name: "a", creditsBelow: n })) }],
    ["options.rules[0].belowCredits is not an option", { rules: [{ name: "a", belowCredits: 1 }] }],
    ["options.creditsBelow must be", { creditsBelow: 0 }],
    ["options.creditsBelow.share must be above 0", { creditsBelow: { share: 10 } }],
    ["options.creditsBelow must be an integer, or { share }", { creditsBelow: {} }],
  ])("%s", (message, options) => {
    expect(() => createAlerts(memoryStore(), { deliver, interval: 0, ...options })).toThrow(message);
  });
});
