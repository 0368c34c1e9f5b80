/** Another plan for a customer: the refill and what it gives more, once, on every store. */
import { describe, expect, it } from "vitest";
import { createKeyring, createVerifier, memoryStore, type Store } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { pglite } from "../stores/postgres/support.js";

const NOON = Date.UTC(2026, 2, 10, 12);
const DAY = 86_400_000;
const postgres = pglite();
const STORES: readonly (readonly [string, () => Store | Promise<Store>])[] = [
  ["memory", memoryStore],
  ["sqlite", () => sqliteStore(":memory:")],
  ["postgres", async () => (await postgres.open(1))[0]!],
];
const SMALL = { interval: "monthly", amount: 1_000, refillDay: 1, rollover: 0 } as const;
const LARGE = { ...SMALL, amount: 10_000 } as const;

async function world(open: () => Store | Promise<Store>) {
  const store = await open();
  const time = { now: NOON };
  const clock = () => time.now;
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "models" });
  await keyring.createIdentity({ externalId: "acme", credits: { remaining: 300, refill: SMALL } });
  const { key, keyId } = await keyring.createKey({ apiId, externalId: "acme" });
  const credits = async () => (await keyring.getIdentity({ identity: "acme" })).credits;
  return { store, time, clock, keyring, apiId, key, keyId, credits };
}

describe.each(STORES)("changePlan on %s", (_, open) => {
  it("an upgrade by a webhook that comes twice adds the difference once, and refills by the new plan", async () => {
    const { store, time, clock, keyring, key, credits } = await world(open);
    const upgrade = { identity: "acme", refill: LARGE, now: "difference" } as const;
    const event = { idempotencyKey: "evt_1" };
    expect(await keyring.changePlan(upgrade, event)).toEqual({ remaining: 9_300, refill: LARGE });
    const verifier = createVerifier(store, { clock });
    await verifier.verify({ key, credits: { cost: 50 } });
    for (let i = 0; i < 3; i++)
      expect(await keyring.changePlan(upgrade, event)).toEqual({ remaining: 9_250, refill: LARGE, repeated: true });
    expect(await credits()).toEqual({ remaining: 9_250, refill: LARGE });
    await expect(keyring.changePlan({ ...upgrade, refill: SMALL }, event)).rejects.toMatchObject({
      code: "IDEMPOTENCY_MISMATCH",
    });
    time.now = Date.UTC(2026, 3, 1);
    expect(await verifier.verify({ key })).toMatchObject({ code: "VALID", credits: 9_999 });
    await verifier.close();
    await store.close();
  });

  it("a smaller plan takes nothing away; without `now` the balance stays until the next boundary", async () => {
    const { store, time, keyring, credits } = await world(open);
    await keyring.changePlan({ identity: "acme", refill: LARGE });
    expect(await credits()).toEqual({ remaining: 300, refill: LARGE });
    await keyring.changePlan({ identity: "acme", refill: SMALL, now: "difference" });
    expect(await credits()).toEqual({ remaining: 300, refill: SMALL });
    time.now = Date.UTC(2026, 3, 1);
    expect(await credits()).toEqual({ remaining: 1_000, refill: SMALL });
    await store.close();
  });

  it("another calendar, of a key without a refill: all of the first plan is the difference", async () => {
    const { store, time, keyring, apiId } = await world(open);
    const { keyId } = await keyring.createKey({ apiId, credits: { remaining: 5 } });
    const refill = { interval: "daily", amount: 40, timeZone: "Europe/Berlin", rollover: 0 } as const;
    expect(await keyring.changePlan({ keyId, refill, now: "difference" })).toEqual({ remaining: 45, refill });
    // The same again adds nothing: there is no difference.
    expect(await keyring.changePlan({ keyId, refill, now: "difference" })).toEqual({ remaining: 45, refill });
    time.now += DAY;
    expect((await keyring.getKey({ keyId })).credits).toEqual({ remaining: 40, refill });
    await store.close();
  });

  it("an owner without credits, and two owners or none, are told at their place", async () => {
    const { store, keyring, keyId } = await world(open);
    await keyring.createIdentity({ externalId: "free" });
    const at = (location: string) => ({ code: "BAD_REQUEST", errors: [expect.objectContaining({ location })] });
    await expect(keyring.changePlan({ identity: "free", refill: SMALL })).rejects.toMatchObject(at("body.identity"));
    await expect(keyring.changePlan({ keyId, refill: SMALL })).rejects.toMatchObject(at("body.keyId"));
    await expect(keyring.changePlan({ refill: SMALL } as never)).rejects.toMatchObject(at("body.identity"));
    await expect(keyring.changePlan({ keyId, identity: "acme", refill: SMALL } as never)).rejects.toMatchObject(
      at("body.identity"),
    );
    await expect(keyring.changePlan({ identity: "acme", refill: SMALL, now: "all" } as never)).rejects.toMatchObject(
      at("body.now"),
    );
    await store.close();
  });
});
