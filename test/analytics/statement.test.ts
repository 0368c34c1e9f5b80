/** Statements beside a scan of every acknowledged call, whatever was done to the keys in between. */
import { expect, it } from "vitest";
import { createAnalytics, createKeyring, createVerifier, memoryStore, type Store } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { dice } from "../model/dice.js";
import { pglite } from "../stores/postgres/support.js";
import { expectBalanced } from "./statement-sums.js";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
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

it.each(STORES)(
  "what a capped key takes is on its owner's statement, also where its account is another's: %s",
  async (_, __, open) => {
    const store = await open();
    let now = START;
    const clock = () => now;
    const keyring = createKeyring(store, { clock });
    const { apiId } = await keyring.createApi({ name: "api" });
    // An end of the owner is no end of its credits.
    await keyring.createIdentity({ externalId: "acme", credits: { remaining: 100 }, expires: START + DAY });
    const { key, keyId } = await keyring.createKey({ apiId, externalId: "acme", credits: { remaining: 10 } });
    const spend = async (cost: number, of?: string) => {
      now += HOUR;
      const verifier = createVerifier(store, { clock, analytics: true });
      if (of === undefined) await verifier.spend({ identity: "acme" }, { cost });
      else expect((await verifier.verify({ key: of, credits: { cost } })).code).toBe("VALID");
      await verifier.close();
    };
    await spend(1, key);
    const next = await keyring.rerollKey({ keyId, expiration: DAY });
    await keyring.updateKey({ keyId: next.keyId, externalId: "other" });
    await spend(2, key);
    const see = async () => {
      const found = await createAnalytics(store, { clock }).statement({ externalId: "acme" }, "2026-10");
      expectBalanced(found);
      return [found.spent, found.unattributed, found.expired, found.closing];
    };
    expect(await see()).toEqual([3, 0, 0, 97]);
    now += 2 * DAY;
    await spend(4);
    expect(await see()).toEqual([7, 0, 0, 93]);
    await store.close();
  },
);

it.each(STORES)(
  "what a key took as a cap stays so, once it has a balance alone, or its owner is gone: %s",
  async (_, __, open) => {
    const store = await open();
    let now = START;
    const clock = () => now;
    const keyring = createKeyring(store, { clock });
    const { apiId } = await keyring.createApi({ name: "api" });
    await keyring.createIdentity({ externalId: "acme", credits: { remaining: 100 } });
    const create = () => keyring.createKey({ apiId, externalId: "acme", credits: { remaining: 10 } });
    const [own, cap] = [await create(), await create()];
    const spend = async (...keys: string[]) => {
      now += HOUR;
      const verifier = createVerifier(store, { clock, analytics: true });
      for (const key of keys) expect((await verifier.verify({ key, credits: { cost: 2 } })).code).toBe("VALID");
      await verifier.close();
    };
    const see = async () => {
      const found = await createAnalytics(store, { clock }).statement({ externalId: "acme" }, "2026-10");
      expectBalanced(found);
      return [found.spent, found.unattributed];
    };
    await spend(own.key, cap.key);
    await spend(own.key, cap.key);
    expect(await see()).toEqual([8, 0]);
    await keyring.updateKey({ keyId: own.keyId, creditsFrom: "key" });
    await spend(own.key, cap.key);
    expect(await see()).toEqual([12, 0]);
    await keyring.deleteIdentity({ identity: "acme", keys: "disable" });
    expect(await see()).toEqual([12, 0]);
    await store.close();
  },
);

it.each(STORES)("a statement has a line for each adjustment, grant, refill and expiry: %s", async (_, __, open) => {
  const store = await open();
  let now = Date.UTC(2026, 9, 5);
  const clock = () => now;
  const keyring = createKeyring(store, { clock, actor: "ada" });
  const { apiId } = await keyring.createApi({ name: "api" });
  const spend = async (key: string, cost: number) => {
    const verifier = createVerifier(store, { clock, analytics: true });
    await verifier.verify({ key, credits: { cost } });
    await verifier.close();
  };
  await spend("nobody", 1);
  const refill = { interval: "daily", amount: 10, rollover: 0 } as const;
  await keyring.createIdentity({ externalId: "acme", credits: { remaining: 50 } });
  const { key } = await keyring.createKey({ apiId, externalId: "acme" });
  const at = (day: number, hour = 0) => (now = Date.UTC(2026, 9, day, hour));
  at(6, 3);
  const bonus = { identity: "acme", amount: 40, priority: 200, expires: Date.UTC(2026, 9, 30, 9) };
  await keyring.grantCredits({ ...bonus, grantId: "order 1", reason: "bonus" });
  at(7, 4);
  await keyring.updateIdentityCredits({ identity: "acme", operation: "decrement", value: 20, reason: "chargeback" });
  await spend(key, 12);
  at(8);
  await keyring.changePlan({ identity: "acme", refill, now: "difference", reason: "plan" });
  at(9, 1);
  await spend(key, 1);
  // Nobody calls after the bonus has expired: the statement knows all the same.
  at(31, 23);
  const analytics = createAnalytics(store, { clock });
  const found = await analytics.statement({ externalId: "acme" }, "2026-10");
  expectBalanced(found);
  expect(found.lines).toEqual([
    line(5, 0, "adjustment", 50, { operation: "createIdentity", actor: "ada" }),
    line(6, 3, "grant", 40, { grantId: "order 1", reason: "bonus" }),
    line(7, 4, "adjustment", -20, { operation: "updateIdentityCredits", reason: "chargeback", actor: "ada" }),
    line(8, 0, "adjustment", 10, { operation: "changePlan", reason: "plan", actor: "ada" }),
    line(9, 0, "refill", 10),
    line(9, 0, "expired", -28),
    line(30, 9, "expired", -40, { grantId: "order 1" }),
  ]);
  expect(found).toMatchObject({ granted: 40, refills: 10, expired: 68, spent: 13, closing: 9, unattributed: 0 });
  expect([found.unexplained, found.countedFrom]).toEqual([0, undefined]);
  expect(found.accounts.map(({ grantId, reason, closing }) => [grantId, reason, closing]).sort()).toEqual(
    [
      ["order 1", "bonus", 0],
      [undefined, undefined, 9],
    ].sort(),
  );
  // And so does the call of another month, which finds it.
  now = Date.UTC(2026, 10, 2);
  await spend(key, 1);
  expect({ ...(await analytics.statement({ externalId: "acme" }, "2026-10")), changes: [] }).toEqual({
    ...found,
    changes: [],
  });
  const next = await analytics.statement({ externalId: "acme" }, "2026-11");
  expectBalanced(next);
  expect([next.opening, next.granted]).toEqual([9, 0]);
  // A key draws on the same accounts.
  const { keyId } = await keyring.whoami({ key });
  expect((await analytics.statement({ keyId }, "2026-10")).lines).toEqual(found.lines);
  await store.close();
});

const line = (day: number, hour: number, kind: string, credits: number, more = {}) => ({
  ...{ time: Date.UTC(2026, 9, day, hour), kind, credits },
  ...more,
});

it.each(STORES)("a statement says what it cannot know: %s", async (_, __, open) => {
  const store = await open();
  let now = Date.UTC(2026, 9, 5);
  const clock = () => now;
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "api" });
  await keyring.createIdentity({ externalId: "old", credits: { remaining: 50 } });
  const { key } = await keyring.createKey({ apiId, externalId: "old" });
  const uncounted = createVerifier(store, { clock });
  await uncounted.verify({ key, credits: { cost: 7 } });
  await uncounted.close();
  now = Date.UTC(2026, 10, 3, 5);
  const verifier = createVerifier(store, { clock, analytics: true });
  await verifier.verify({ key, credits: { cost: 3 } });
  await verifier.close();
  const analytics = createAnalytics(store, { clock });
  const found = await analytics.statement({ externalId: "old" }, "2026-11");
  expectBalanced(found);
  const day = Date.UTC(2026, 10, 3);
  expect(found).toMatchObject({ spent: 10, unattributed: 7, unexplained: 50, countedFrom: day, closing: 40 });
  expect(found.lines).toEqual([{ time: now, kind: "unexplained", credits: 50 }]);
  expect((await analytics.statement({ externalId: "old" }, "2026-12")).countedFrom).toBeUndefined();
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
  const twice = new Map<string, number>();
  const reason = () => (below(2) === 0 ? {} : { reason: `reason ${below(9)}` });
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
    const from = new Set([ownerOf(one)]);
    // Its own credits are a cap inside those of its owner.
    if (one.own && one.owner === "a") from.add("a");
    for (const owner of from) {
      const place = `${owner} ${monthOf()}`;
      spent.set(place, (spent.get(place) ?? 0) + cost);
    }
    if (from.size > 1) twice.set(monthOf(), (twice.get(monthOf()) ?? 0) + cost);
  };
  const change = async () => {
    const one = pick(held);
    const { keyId } = one;
    const kind = below(7);
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
        ...reason(),
      });
    } else if (kind === 4) {
      const value = below(40);
      await keyring.updateIdentityCredits({ identity: "a", operation: "increment", value, ...reason() });
    } else if (kind === 5) {
      const when = [{}, { expiresIn: (1 + below(40)) * DAY }][below(2)];
      const refills = below(3) > 0 ? {} : { refill: { ...refill, amount: 2, rollover: below(3) } };
      const owner = one.own && below(2) === 0 ? { keyId } : { identity: "a" };
      try {
        await keyring.grantCredits({ ...owner, amount: 1 + below(30), ...when, ...refills, ...reason() });
      } catch (error) {
        expect(error).toMatchObject({ code: "CONFLICT" });
      }
    } else if (kind === 6) {
      const plan = { ...refill, amount: 1 + below(9), ...(below(2) === 0 && { rollover: below(60) }) };
      await keyring.changePlan({ identity: "a", refill: plan, now: "difference", ...reason() });
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
  await judge(store, { spent, twice }, now);
  await store.close();
}

type Known = Readonly<Record<"spent" | "twice", ReadonlyMap<string, number>>>;

async function judge(store: Store, { spent, twice }: Known, now: number): Promise<void> {
  const analytics = createAnalytics(store, { clock: () => now });
  const left = new Map<string, number>();
  for (const externalId of OWNERS) {
    let last = 0;
    for (const month of MONTHS) {
      const all = await analytics.statement({ externalId }, month);
      expectBalanced(all);
      expect([externalId, month, all.spent]).toEqual([externalId, month, spent.get(`${externalId} ${month}`) ?? 0]);
      expect(all.opening).toBe(last);
      // A replaced key may have another owner than the one that has its account.
      left.set(month, (left.get(month) ?? 0) + all.unattributed);
      expect(all.closing).toBeGreaterThanOrEqual(0);
      last = all.closing;
    }
  }
  expect([...left.values()]).toEqual(MONTHS.map((month) => twice.get(month) ?? 0));
}
