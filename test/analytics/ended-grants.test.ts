/** What becomes of a grant once it has ended is on the statement, as it is in the ledger and the counts. */
import { expect, it } from "vitest";
import { createAnalytics, createKeyring, createVerifier, memoryStore, type Store } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { pglite } from "../stores/postgres/support.js";
import { expectBalanced } from "./statement-sums.js";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const NOON = Date.UTC(2026, 10, 10, 12);

const { open: openPostgres } = pglite();
const STORES: readonly [string, () => Promise<Store> | Store][] = [
  ["memory", memoryStore],
  ["sqlite", () => sqliteStore(":memory:")],
  ["postgres", async () => (await openPostgres(1))[0]!],
];

/** A key that draws on grants alone. */
async function opened(open: () => Promise<Store> | Store) {
  const store = await open();
  const time = { now: NOON };
  const clock = () => time.now;
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "api" });
  await keyring.createIdentity({ externalId: "ann", credits: { remaining: 0 } });
  const { key } = await keyring.createKey({ apiId, externalId: "ann" });
  const verifierOf = (more = {}) => createVerifier(store, { clock, analytics: true, ...more });
  const count = async () => {
    const verifier = verifierOf();
    await verifier.verify({ key });
    await verifier.close();
  };
  const grant = (grantId: string, amount: number, more = {}) =>
    keyring.grantCredits({ identity: "ann", grantId, amount, ...more });
  /** Of a grant what was spent, forfeited and expired, and is left. */
  const see = async (id: string) => {
    const all = await createAnalytics(store, { clock }).statement({ externalId: "ann" }, "2026-11");
    expectBalanced(all);
    expect([all.unattributed, all.unexplained, all.countedFrom]).toEqual([0, 0, undefined]);
    return all.accounts.flatMap(({ grantId, granted, spent, forfeited, expired, closing }) =>
      grantId === id ? [{ granted, spent, forfeited, expired, closing }] : [],
    );
  };
  const isEnded = async (id: string) => {
    const { grants } = await keyring.listGrants({ identity: "ann", ended: true });
    return grants.some(({ grantId, endedAt }) => grantId === id && endedAt !== undefined);
  };
  return { store, time, keyring, key, verifierOf, count, grant, see, isEnded };
}

it.each(STORES)("what a settlement says is what is spent, also if a part of it was void: %s", async (_, open) => {
  const { store, keyring, key, verifierOf, count, grant, see } = await opened(open);
  await count();
  await keyring.updateIdentityCredits({ identity: "ann", operation: "increment", value: 100 });
  const verifier = verifierOf();
  const reserve = async () => {
    const found = await verifier.reserve({ key, credits: { cost: 150 } });
    if (!found.valid) throw new Error(found.code);
    return found;
  };
  await grant("refunded", 100, { priority: 200 });
  const first = await reserve();
  await keyring.endGrant({ identity: "ann", grantId: "refunded" });
  expect(await first.commit(130)).toEqual({ settled: true, spent: 100 });
  await verifier.flush();
  expect(await see("refunded")).toEqual([{ granted: 100, spent: 0, forfeited: 50, expired: 0, closing: 0 }]);
  await keyring.updateIdentityCredits({ identity: "ann", operation: "set", value: 100 });
  await grant("other", 100, { priority: 200 });
  const second = await reserve();
  await keyring.updateIdentityCredits({ identity: "ann", operation: "set", value: 5 });
  expect(await second.commit(140)).toEqual({ settled: true, spent: 50 });
  await verifier.flush();
  expect(await see("other")).toEqual([{ granted: 100, spent: 50, forfeited: 0, expired: 0, closing: 50 }]);
  await verifier.close();
  await store.close();
});

it.each(STORES)("of a key with a cap a settlement says what its owner's credits kept: %s", async (_, open) => {
  const { store, keyring, verifierOf, count, see } = await opened(open);
  await count();
  const { apiId } = await keyring.createApi({ name: "capped" });
  await keyring.updateIdentityCredits({ identity: "ann", operation: "set", value: 100 });
  const { key, keyId } = await keyring.createKey({ apiId, externalId: "ann", credits: { remaining: 50 } });
  const verifier = verifierOf();
  for (const [set, spent] of [
    [() => keyring.updateCredits({ keyId, operation: "set", value: 50 }), 30],
    [() => keyring.updateIdentityCredits({ identity: "ann", operation: "set", value: 70 }), 0],
  ] as const) {
    const call = await verifier.reserve({ key, credits: { cost: 40 } });
    if (!call.valid) throw new Error(call.code);
    await set();
    expect(await call.commit(30)).toEqual({ settled: true, spent });
    await verifier.flush();
    // Also that every count is explained.
    await see("none");
  }
  await verifier.close();
  await store.close();
});

it.each(STORES)("a reservation of a grant that has ended is settled on the statement too: %s", async (_, open) => {
  const { store, time, key, verifierOf, count, grant, see, isEnded } = await opened(open);
  await count();
  await grant("pack", 500, { expiresIn: 11 * HOUR });
  const verifier = verifierOf();
  const reserve = async (cost: number) => {
    const found = await verifier.reserve({ key, credits: { cost } }, { timeout: DAY });
    if (!found.valid) throw new Error(found.code);
    return found;
  };
  const [first, second, third] = [await reserve(100), await reserve(50), await reserve(25)];
  time.now += 11 * HOUR;
  await grant("next", 50);
  expect(await isEnded("pack")).toBe(true);
  expect(await first.commit(100)).toEqual({ settled: true, spent: 100 });
  await verifier.flush();
  expect(await see("pack")).toEqual([{ granted: 500, spent: 100, forfeited: 0, expired: 400, closing: 0 }]);
  // On a later day, of one a part, and nothing of another.
  time.now += 2 * HOUR;
  await count();
  expect(await second.commit(20)).toEqual({ settled: true, spent: 20 });
  await verifier.flush();
  expect(await see("pack")).toEqual([{ granted: 500, spent: 120, forfeited: 0, expired: 380, closing: 0 }]);
  await third.release();
  await verifier.close();
  await count();
  expect(await see("pack")).toEqual([{ granted: 500, spent: 120, forfeited: 0, expired: 380, closing: 0 }]);
  await store.close();
});

it.each(STORES)("what a node tells late of a grant that has ended is on the statement: %s", async (_, open) => {
  const { store, time, key, verifierOf, count, grant, see, isEnded } = await opened(open);
  await count();
  await grant("pack", 100, { expiresIn: 11 * HOUR });
  const [late, other] = [verifierOf({ credits: { mode: "leased", size: 10, step: 10, firstStep: 10 } }), verifierOf()];
  const spend = async (verifier: typeof late, cost: number) =>
    expect((await verifier.verify({ key, credits: { cost } })).code).toBe("VALID");
  await spend(late, 3);
  // PostgreSQL looks for what nodes hold when a reserve has timed out.
  await other.reserve({ key, credits: { cost: 1 } }, { timeout: HOUR });
  // What the first has drawn is forfeited by a call of the other, as it seems to have vanished.
  time.now += 10 * HOUR;
  await spend(other, 2);
  await other.close();
  // On the day after its expiry nothing is left in its totals.
  time.now += 2 * HOUR;
  await grant("next", 50);
  expect(await isEnded("pack")).toBe(true);
  expect(await see("pack")).toEqual([{ granted: 100, spent: 2, forfeited: 10, expired: 88, closing: 0 }]);
  await late.close();
  await count();
  expect(await see("pack")).toEqual([{ granted: 100, spent: 5, forfeited: 0, expired: 95, closing: 0 }]);
  await store.close();
});

it.each(STORES)("grants that ended before anything was counted are on the statement: %s", async (_, open) => {
  const { store, time, keyring, key, verifierOf, grant, see, isEnded } = await opened(open);
  const verifier = verifierOf({ analytics: { interval: 60_000 } });
  const spend = async (cost: number) => expect((await verifier.verify({ key, credits: { cost } })).code).toBe("VALID");
  await grant("pack", 100, { expiresIn: HOUR });
  await spend(30);
  time.now += HOUR;
  await grant("refunded", 20);
  expect(await isEnded("pack")).toBe(true);
  await spend(5);
  await keyring.endGrant({ identity: "ann", grantId: "refunded" });
  await verifier.close();
  expect(await see("pack")).toEqual([{ granted: 100, spent: 30, forfeited: 0, expired: 70, closing: 0 }]);
  expect(await see("refunded")).toEqual([{ granted: 20, spent: 5, forfeited: 0, expired: 0, closing: 0 }]);
  await store.close();
});
