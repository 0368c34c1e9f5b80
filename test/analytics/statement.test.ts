/** Statements beside a scan of every acknowledged call, whatever was done to the keys in between. */
import { expect, it } from "vitest";
import { createAnalytics, createKeyring, createVerifier, memoryStore, type Store } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { dice } from "../model/dice.js";
import { pglite } from "../stores/postgres/support.js";

const HOUR = 3_600_000;
const START = Date.UTC(2026, 9, 25);
const MONTHS = ["2026-10", "2026-11", "2026-12"] as const;
const OWNERS = ["a", "b", "c"] as const;
type Owner = (typeof OWNERS)[number];

/** A key, and which keys share its account, the newest last; `own`: it has credits of its own. */
interface Held {
  readonly keyId: string;
  readonly key: string;
  owner: Owner;
  readonly own: boolean;
  readonly account: Held[];
}

const { open: openPostgres } = pglite();
const STORES: readonly [string, number, () => Promise<Store> | Store][] = [
  ["memory", 900, memoryStore],
  ["sqlite", 900, () => sqliteStore(":memory:")],
  ["postgres", 150, async () => (await openPostgres(1))[0]!],
];

it.each(STORES)("a statement is what every acknowledged call adds up to: %s", async (_, steps, open) => {
  for (const seed of [1, 2]) await play(await open(), steps, seed);
});

it.each(STORES)("a key of nobody has statements too, and so has what replaced it: %s", async (_, __, open) => {
  const store = await open();
  let now = START;
  const clock = () => now;
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "api" });
  const first = await keyring.createKey({ apiId, credits: { remaining: 10 } });
  const spend = async (key: string, cost: number) => {
    now += HOUR;
    const verifier = createVerifier(store, { clock, analytics: true });
    expect((await verifier.verify({ key, credits: { cost } })).code).toBe("VALID");
    await verifier.close();
  };
  await spend(first.key, 3);
  const second = await keyring.rerollKey({ keyId: first.keyId, expiration: 60_000 });
  await spend(second.key, 2);
  await keyring.deleteKey({ keyId: first.keyId, permanent: true });
  await spend(second.key, 1);
  const found = await createAnalytics(store, { clock }).statement({ keyId: second.keyId }, "2026-10");
  const { opening, refills, adjustments, spent, forfeited, closing } = found;
  expect([spent, closing]).toEqual([6, 4]);
  expect(opening + refills + adjustments - spent - forfeited).toBe(closing);
  await store.close();
});

it.each(STORES)("a change of credits by 0 is of the day that the keyring's clock shows: %s", async (_, __, open) => {
  const store = await open();
  let now = START;
  const clock = () => now;
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "api" });
  const { key, keyId } = await keyring.createKey({ apiId, externalId: "a", credits: { remaining: 10 } });
  for (const cost of [3, 2]) {
    const verifier = createVerifier(store, { clock, analytics: true });
    expect((await verifier.verify({ key, credits: { cost } })).code).toBe("VALID");
    await verifier.close();
    now += HOUR;
    await keyring.updateCredits({ keyId, operation: "increment", value: 0 });
  }
  const { spent, days } = await createAnalytics(store, { clock }).statement({ externalId: "a" }, "2026-10");
  expect([spent, days]).toEqual([5, [{ day: START, spent: 5 }]]);
  await store.close();
});

async function play(store: Store, steps: number, seed: number): Promise<void> {
  const { below, pick } = dice(seed);
  let now = START;
  const clock = () => now;
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "api" });
  const count = () => createVerifier(store, { clock, analytics: { interval: 60_000 } });
  let verifier = count();
  const refill = { interval: "daily", amount: 5 } as const;
  await keyring.createIdentity({ externalId: "a", credits: { remaining: 200, refill } });
  await keyring.createIdentity({ externalId: "b" });
  // From here on accounts are kept with every change.
  await verifier.verify({ key: "nobody" });
  await verifier.close();
  verifier = count();

  let held: Held[] = [];
  const spent = new Map<string, number>();
  const monthOf = () => new Date(now).toISOString().slice(0, 7);
  const ownerOf = ({ own, owner, account }: Held) =>
    own ? account.filter((one) => held.includes(one)).at(-1)!.owner : owner;
  const create = async () => {
    const owner = pick(OWNERS);
    const own = below(3) > 0;
    const made = await keyring.createKey({
      apiId,
      externalId: owner,
      ...(own && { credits: { remaining: 50, refill } }),
    });
    const account: Held[] = [];
    account.push({ ...made, owner, own, account });
    held.push(account[0]!);
  };
  const verify = async () => {
    const one = pick(held);
    const cost = below(4);
    const { valid, credits } = await verifier.verify({ key: one.key, credits: { cost } });
    if (!valid || credits === undefined) return;
    const place = `${ownerOf(one)} ${monthOf()}`;
    spent.set(place, (spent.get(place) ?? 0) + cost);
  };
  const change = async () => {
    const one = pick(held);
    const { keyId } = one;
    const kind = below(5);
    if (kind === 0) {
      one.owner = pick(OWNERS);
      await keyring.updateKey({ keyId, externalId: one.owner });
    } else if (kind === 1 && one.account.at(-1) === one) {
      const made = await keyring.rerollKey({ keyId, expiration: 40 * HOUR });
      const next = { ...one, ...made };
      one.account.push(next);
      held.push(next);
    } else if (kind === 2 && held.length > 3) {
      await keyring.deleteKey({ keyId, permanent: below(2) === 0 });
      held = held.filter((other) => other !== one);
    } else if (kind === 3 && one.own) {
      await keyring.updateCredits({
        keyId,
        operation: pick(["set", "increment", "decrement"] as const),
        value: below(30),
      });
    } else if (kind === 4) {
      const value = below(40);
      await keyring.updateIdentityCredits({ identity: "a", operation: "increment", value });
    }
  };
  for (let i = 0; i < 6; i++) await create();
  for (let step = 0; step < steps; step++) {
    const rolled = below(20);
    if (rolled === 0) await create();
    else if (rolled < 4) await change();
    else await verify();
    const next = now + below(6) * (HOUR / 4) * Math.ceil(900 / steps);
    // Of a month belongs what was written in it.
    if (rolled === 19 || monthOf() !== new Date(next).toISOString().slice(0, 7)) {
      await verifier.close();
      verifier = count();
    }
    now = next;
  }
  await verifier.close();
  await judge(store, spent);
  await store.close();
}

async function judge(store: Store, spent: ReadonlyMap<string, number>): Promise<void> {
  const analytics = createAnalytics(store);
  const left = new Map<string, number>();
  for (const externalId of OWNERS) {
    let last = 0;
    for (const month of MONTHS) {
      const all = await analytics.statement({ externalId }, month);
      const { opening, refills, adjustments, forfeited, closing, unattributed } = all;
      expect([externalId, month, all.spent]).toEqual([externalId, month, spent.get(`${externalId} ${month}`) ?? 0]);
      expect(opening).toBe(last);
      expect(opening + refills + adjustments - all.spent - forfeited).toBe(closing);
      expect(all.days.reduce((sum, day) => sum + day.spent, 0)).toBe(all.spent);
      // A replaced key may have another owner than the one that has its account.
      left.set(month, (left.get(month) ?? 0) + unattributed);
      expect(closing).toBeGreaterThanOrEqual(0);
      last = closing;
    }
  }
  expect([...left.values()]).toEqual(MONTHS.map(() => 0));
}
