/**
 * An owner that takes all it can: it makes, rotates and revokes keys and calls with several at once, while it is
 * granted credits, upgraded by events that come twice, and its keys are moved. What passes is at most what it was
 * given, and its statement says the same to the credit.
 */
import { expect, it } from "vitest";
import {
  createAnalytics,
  createKeyring,
  createVerifier,
  forOwner,
  isKeystileError,
  memoryStore,
  type Store,
} from "../../../src/index.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { dice, seedsOf } from "../../model/dice.js";
import { runs } from "../../runs.js";

const START = Date.UTC(2026, 9, 5);
const MONTHLY = { interval: "monthly", refillDay: 1, rollover: 0 } as const;
const FIRST = 300;

async function play(store: Store, seed: number, isLeased: boolean): Promise<void> {
  const { below, pick } = dice(seed);
  let now = START;
  const clock = () => now;
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "api" });
  const leased = { mode: "leased", size: 40, step: 20, firstStep: 20 } as const;
  // The store keeps totals of accounts from its first count on.
  const first = createVerifier(store, { clock, analytics: true });
  await first.verify({ key: "nobody" });
  await first.close();
  const verifier = createVerifier(store, { clock, analytics: true, ...(isLeased && { credits: leased }) });
  await keyring.createIdentity({
    externalId: "acme",
    credits: { remaining: FIRST, refill: { ...MONTHLY, amount: FIRST } },
  });
  await keyring.createIdentity({ externalId: "other", credits: { remaining: 1_000 } });
  const mine = forOwner(keyring, "acme", { apiId, ceiling: { keys: 6, identity: true, credits: { remaining: 90 } } });
  const keys: { readonly keyId: string; readonly key: string }[] = [];
  const events = new Set<string>();
  const sums = { granted: 0, added: FIRST, spent: 0 };
  let plan = FIRST;
  const isOurs = async (keyId: string) => (await keyring.getKey({ keyId })).identity?.externalId === "acme";
  const acts: (() => Promise<unknown>)[] = [
    async () => keys.push(await mine.create(below(2) === 0 ? {} : { credits: { remaining: below(90) } })),
    async () => keys.push(await mine.rotate({ keyId: pick(keys).keyId, overlap: below(9) * 10_000 })),
    async () => mine.revoke({ keyId: pick(keys).keyId }),
    async () => keyring.updateKey({ keyId: pick(keys).keyId, externalId: pick(["acme", "acme", "other"]) }),
    async () => keyring.updateCredits({ keyId: pick(keys).keyId, operation: "set", value: below(120) }),
    async () => {
      const expiring = below(3) === 0 ? { expiresIn: 1_000 + below(60_000) } : {};
      const grant = { grantId: `order ${below(9)}`, amount: 1 + below(40), priority: below(3) * 100, ...expiring };
      const { created, amount } = await keyring.grantCredits({ identity: "acme", ...grant });
      if (created) sums.granted += amount;
    },
    async () => {
      const amount = FIRST + below(4) * 50;
      const idempotencyKey = `upgrade to ${amount}`;
      const body = { identity: "acme", refill: { ...MONTHLY, amount }, now: "difference" } as const;
      const { repeated } = await keyring.changePlan(body, { idempotencyKey });
      expect(repeated === true).toBe(events.has(idempotencyKey));
      if (repeated !== true) {
        sums.added += Math.max(0, amount - plan);
        plan = amount;
      }
      events.add(idempotencyKey);
    },
    async () => {
      const { keyId, key } = pick(keys);
      const ours = await isOurs(keyId);
      const call = await verifier.reserve({ key, credits: { cost: 1 + below(30) } });
      if (!call.valid) return;
      const kept = below(2);
      const { settled } = await call.commit(kept);
      if (settled && ours) sums.spent += kept;
    },
    async () => {
      const cost = below(12);
      const job = { idempotencyKey: `job ${below(40)} of ${cost}` };
      const result = await verifier.spend({ identity: "acme" }, { cost }, job);
      if (result.code === "VALID" && result.repeated !== true) sums.spent += cost;
    },
  ];
  const call = async () => {
    const { keyId, key } = pick(keys);
    const cost = below(12);
    const ours = await isOurs(keyId);
    const { valid } = await verifier.verify({ key, credits: { cost } });
    if (valid && ours) sums.spent += cost;
  };
  for (let step = 0; step < 250; step++) {
    now += below(3_000);
    const together = keys.length === 0 ? [acts[0]!] : below(2) === 0 ? [call, call, call, call] : [pick(acts)];
    for (const { reason } of (await Promise.allSettled(together.map((act) => act()))) as PromiseRejectedResult[])
      if (reason !== undefined && !(isKeystileError(reason) && REFUSED.has(reason.code))) throw reason;
  }
  await verifier.close();
  const found = await createAnalytics(store, { clock }).statement({ externalId: "acme" }, "2026-10");
  expect([found.granted, found.opening + found.adjustments, found.spent, found.unattributed]).toEqual([
    ...[sums.granted, sums.added, sums.spent, 0],
  ]);
  expect(sums.added + sums.granted - sums.spent - found.expired - found.forfeited).toBe(found.closing);
  expect((await keyring.getBalance({ identity: "acme" })).remaining).toBe(found.closing);
  await store.close();
}

const REFUSED: ReadonlySet<string> = new Set(["CONFLICT", "KEY_LIMIT_REACHED", "NOT_FOUND"]);

it.each(seedsOf(2_028, runs(20)))("memory, seed %i", (seed) => play(memoryStore(), seed, false));
it.each(seedsOf(2_029, runs(20)))("memory, leased, seed %i", (seed) => play(memoryStore(), seed, true));
it.each(seedsOf(2_030, runs(20)))("SQLite, seed %i", (seed) => play(sqliteStore(":memory:"), seed, false));
