/** The view for people who ask in SQL: its balances are those that keystile tells, at the moment of the question. */
import { describe, expect, it } from "vitest";
import { createKeyring, createVerifier } from "../../../../src/index.js";
import { digestKey } from "../../../../src/lib/hash.js";
import { inspect, openStores, temporaryPaths } from "../support.js";

const path = temporaryPaths();
const open = openStores();
const DAY = 86_400_000;

const overviewOf = (place: string, keyId: string) =>
  inspect(place, (db) =>
    db
      .prepare("SELECT credits, credits_leased, credits_spent FROM keystile_key_overview WHERE key_id = ?")
      .raw()
      .get(keyId),
  );

describe("keystile_key_overview", () => {
  it("U2: has each balance as it is told, with the store in use: spent, refilled, leased, given up, unlimited", async () => {
    const place = path();
    const store = open(place);
    let now = Date.now() - 3 * DAY;
    const keyring = createKeyring(store, { clock: () => now });
    const { apiId } = await keyring.createApi({ name: "documents" });
    const spent = await keyring.createKey({ apiId, credits: { remaining: 1_000 } });
    const refill = { interval: "daily", amount: 7 } as const;
    const refilled = await keyring.createKey({ apiId, credits: { remaining: 5, refill } });
    const unlimited = await keyring.createKey({ apiId });
    const verifier = createVerifier(store);
    for (let round = 1; round <= 5; round++) {
      const results = await Promise.all(Array.from({ length: 10 }, () => verifier.verify({ key: spent.key })));
      expect(Math.min(...results.map(({ credits }) => credits!))).toBe(1_000 - 10 * round);
      expect(overviewOf(place, spent.keyId)).toEqual([1_000 - 10 * round, 0, 10 * round]);
    }
    expect(overviewOf(place, unlimited.keyId)).toEqual([null, null, null]);

    now = Date.now();
    const due = (await keyring.getKey({ keyId: refilled.keyId })).credits?.remaining;
    // Unless a day ended between the two questions.
    const shown = [due, due! + refill.amount];
    expect(shown).toContain((overviewOf(place, refilled.keyId) as number[])[0]);
    expect(due).toBeGreaterThanOrEqual(5 + 3 * refill.amount);

    const { ref } = (await store.findKey(await digestKey(spent.key)))!;
    const draw = { spent: 0, cost: 1, step: 250, size: 250, period: 0, now };
    await store.drawCredits(ref, { ...draw, holder: "alive", until: now + DAY });
    expect(overviewOf(place, spent.keyId)).toEqual([700, 250, 50]);
    await store.drawCredits(ref, { ...draw, holder: "dead", step: 10, size: 100, until: now - 2_000 });
    // What was only reserved for the dead one is back. What it has in hand counts as leased until somebody draws.
    expect(overviewOf(place, spent.keyId)).toEqual([690, 260, 50]);
    expect((await keyring.getKey({ keyId: spent.keyId })).credits).toEqual({ remaining: 690, reserved: 250 });
    await store.drawCredits(ref, { ...draw, holder: "alive", until: now + DAY });
    expect((await keyring.getKey({ keyId: spent.keyId })).credits).toMatchObject({
      remaining: (overviewOf(place, spent.keyId) as number[])[0],
      reserved: (overviewOf(place, spent.keyId) as number[])[1],
    });
    await verifier.close();
  });

  it("has the credits of an identity for each key that draws on them", async () => {
    const place = path();
    const store = open(place);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    await keyring.createIdentity({ externalId: "ada", credits: { remaining: 20 } });
    const bodies = [{}, { credits: { remaining: 3 } }, { creditsFrom: "none" as const }];
    const keys = await Promise.all(bodies.map((body) => keyring.createKey({ apiId, externalId: "ada", ...body })));
    const verifier = createVerifier(store);
    await verifier.verify({ key: keys[0]!.key, credits: { cost: 5 } });
    const shown = () => keys.map(({ keyId }) => (overviewOf(place, keyId) as unknown[])[0]);
    expect(shown()).toEqual([15, 3, null]);
    await keyring.updateKey({ keyId: keys[1]!.keyId, creditsFrom: "identity" });
    expect(shown()).toEqual([15, 15, null]);
    // Without them nobody has any, and what was given up is no balance.
    await keyring.updateIdentity({ identity: "ada", credits: null });
    expect(shown()).toEqual([null, null, null]);
    await verifier.close();
  });

  it("has the state of the owner beside that of the key", async () => {
    const place = path();
    const keyring = createKeyring(open(place));
    const { apiId } = await keyring.createApi({ name: "documents" });
    await keyring.createIdentity({ externalId: "off", enabled: false, expires: Date.UTC(2100, 0, 1) });
    for (const externalId of ["off", "on", undefined])
      await keyring.createKey({ apiId, ...(externalId !== undefined && { externalId }) });
    const select = "SELECT external_id, enabled, owner_enabled, owner_expires FROM keystile_key_overview";
    expect(inspect(place, (db) => db.prepare(`${select} ORDER BY external_id`).raw().all())).toEqual([
      [null, 1, null, null],
      ["off", 1, 0, "2100-01-01T00:00:00.000Z"],
      ["on", 1, 1, null],
    ]);
  });
});
