/** What an owner has, account by account. */
import { expect, it } from "vitest";
import {
  createKeyring,
  createVerifier,
  explain,
  forOwner,
  KeystileError,
  memoryStore,
  type Store,
} from "../../src/index.js";

const NOON = Date.UTC(2026, 2, 10, 12);
const DAY = 86_400_000;
const MONTHLY = { interval: "monthly", amount: 1_000, refillDay: 1, rollover: 0 } as const;

async function world(store: Store = memoryStore()) {
  const clock = () => NOON;
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "api" });
  await keyring.createIdentity({ externalId: "acme", credits: { remaining: 700, refill: MONTHLY } });
  return { store, clock, keyring, apiId };
}

it("lists the plan and the open grants in the order in which they are spent, with what is reserved and what comes next", async () => {
  const { store, clock, keyring, apiId } = await world();
  const mine = forOwner(keyring, "acme", { apiId });
  const next = { at: Date.UTC(2026, 3, 1), amount: 1_000 };
  const plan = { owner: "identity", kind: "plan", remaining: 700, of: 1_000, next };
  expect(await mine.balance()).toEqual({ remaining: 700, accounts: [plan] });
  await keyring.grantCredits({ identity: "acme", grantId: "gone", amount: 5, expiresIn: DAY, priority: 200 });
  await keyring.grantCredits({ identity: "acme", grantId: "bonus", amount: 50, expiresIn: DAY, reason: "welcome" });
  const daily = { interval: "daily", amount: 20, rollover: 0 } as const;
  await keyring.grantCredits({ identity: "acme", grantId: "free", amount: 20, refill: daily });
  const verifier = createVerifier(store, { clock });
  const { key, keyId } = await keyring.createKey({ apiId, externalId: "acme", credits: { remaining: 90 } });
  await verifier.reserve({ key, credits: { cost: 30 } });
  const of = (kind: string, more: object) => ({ owner: "identity", kind, ...more });
  const accounts = [
    of("grant", {
      ...{ grantId: "free", priority: 100, of: 20, remaining: 0, reserved: 20 },
      next: { at: Date.UTC(2026, 2, 11), amount: 20 },
    }),
    of("grant", {
      ...{ grantId: "bonus", priority: 100, of: 50, remaining: 40, reserved: 10 },
      ...{ expires: NOON + DAY, reason: "welcome" },
    }),
    plan,
    of("grant", { grantId: "gone", priority: 200, of: 5, remaining: 5, expires: NOON + DAY }),
  ];
  expect(await keyring.getBalance({ identity: "acme" })).toEqual({ remaining: 745, accounts });
  const own = { owner: "key", kind: "plan", remaining: 60, reserved: 30 };
  expect(await keyring.getBalance({ keyId })).toEqual({ remaining: 60, accounts: [own, ...accounts] });
  expect((await keyring.getKey({ keyId })).accounts).toEqual([own, ...accounts]);
  const only = await keyring.createKey({ apiId, credits: { remaining: 3 } });
  expect(await keyring.getBalance({ keyId: only.keyId })).toMatchObject({ remaining: 3, accounts: [{ owner: "key" }] });
});

it("is null where nobody has credits", async () => {
  const { keyring, apiId } = await world();
  const nothing = { remaining: null, accounts: [] };
  expect(await forOwner(keyring, "nobody", { apiId }).balance()).toEqual(nothing);
  await keyring.createIdentity({ externalId: "free" });
  expect(await keyring.getBalance({ identity: "free" })).toEqual(nothing);
  const { keyId } = await keyring.createKey({ apiId });
  expect(await keyring.getBalance({ keyId })).toEqual(nothing);
  await expect(keyring.getBalance({ identity: "nobody" })).rejects.toMatchObject({ code: "NOT_FOUND" });
});

it("of a balance that is damaged nothing can be spent", async () => {
  const inner = memoryStore();
  const { keyring } = await world(inner);
  await keyring.grantCredits({ identity: "acme", grantId: "bonus", amount: 5 });
  expect((await keyring.getBalance({ identity: "acme" })).remaining).toBe(705);
  const damaged: Store = {
    ...inner,
    readBalances() {
      throw new KeystileError("STORE_INVALID", "made by the test");
    },
  };
  const there = createKeyring(damaged, { clock: () => NOON });
  const { accounts } = await there.getBalance({ identity: "acme" });
  expect(accounts.map(({ remaining }) => remaining)).toEqual([0, 0]);
  const { credits } = await there.getIdentity({ identity: "acme" });
  expect(credits).toEqual({ remaining: 0, refill: MONTHLY, invalid: true });
  // Another grant does not end the one that cannot be read.
  await there.grantCredits({ identity: "acme", grantId: "second", amount: 1 });
  const { grants } = await keyring.listGrants({ identity: "acme" });
  expect(grants.map(({ grantId, remaining }) => [grantId, remaining]).sort()).toEqual([
    ["bonus", 5],
    ["second", 1],
  ]);
});

it("explain lists the accounts that a call would take from, and who decides", async () => {
  const { store, clock, keyring, apiId } = await world();
  await keyring.grantCredits({ identity: "acme", grantId: "bonus", amount: 50, expiresIn: DAY });
  const { keyId } = await keyring.createKey({ apiId, externalId: "acme", credits: { remaining: 900 } });
  const { checks } = await explain(createVerifier(store, { clock }), { keyId, credits: { cost: 800 } });
  expect(checks.at(-1)).toEqual({
    ...{ code: "USAGE_EXCEEDED", passes: false, cost: 800, creditsFrom: "both", remaining: 750, decidedBy: "identity" },
    accounts: [
      { owner: "key", remaining: 900 },
      { owner: "identity", grantId: "bonus", remaining: 50, expires: NOON + DAY },
      { owner: "identity", remaining: 700 },
    ],
  });
});
