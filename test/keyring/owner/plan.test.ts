/**
 * A customer's plan: so many credits a month, whatever keys the customer has. A greedy owner makes, replaces and
 * revokes keys, and an administrator moves them about; what is granted is the plan and its refills, to the last credit.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import {
  createKeyring,
  createVerifier,
  forOwner,
  isKeystileError,
  memoryStore,
  type Store,
} from "../../../src/index.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { dice } from "../../model/dice.js";
import { boundaries } from "../../model/naive-credits.js";
import { runs } from "../../runs.js";
import { DAY, NOON } from "../support.js";

const folder = mkdtempSync(join(tmpdir(), "plan-"));
afterAll(() => rmSync(folder, { recursive: true }));

const PLAN = { remaining: 1_000, refill: { interval: "monthly", amount: 1_000, refillDay: 1 } } as const;
const OTHER = { remaining: 50, refill: { interval: "daily", amount: 7 } } as const;
const PLANS = { ada: PLAN, bob: OTHER } as const;
type Owner = keyof typeof PLANS;
/** What an owner may always meet: too many keys, a key that is gone, or more than it may ask for. */
const REFUSALS = ["KEY_LIMIT_REACHED", "NOT_FOUND", "CONFLICT", "BAD_REQUEST"];

async function story(store: Store, steps: number, seed: number) {
  const time = { now: NOON };
  const clock = () => time.now;
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "documents" });
  for (const [externalId, credits] of Object.entries(PLANS)) await keyring.createIdentity({ externalId, credits });
  const ceiling = { keys: 6, identity: true } as const;
  const owners = {
    ada: forOwner(keyring, "ada", { apiId, ceiling }),
    bob: forOwner(keyring, "bob", { apiId, ceiling }),
  };
  const verifiers = [
    createVerifier(store, { clock, usage: false }),
    createVerifier(store, { clock, usage: false, credits: { mode: "leased", size: 40, ttl: 600_000 } }),
  ];
  const keys: { keyId: string; key: string }[] = [];
  const roll = dice(seed);
  let granted = 0;
  let refused = 0;
  const ofOwner = async (act: () => Promise<object>): Promise<void> => {
    try {
      const made = await act();
      if ("key" in made) keys.push(made as (typeof keys)[number]);
    } catch (error) {
      if (!isKeystileError(error) || !REFUSALS.includes(error.code)) throw error;
    }
  };
  const verify = async (): Promise<void> => {
    const { key } = roll.pick(keys);
    const { code } = await roll.pick(verifiers).verify({ key, credits: { cost: 1 } });
    if (code === "VALID") granted++;
    if (code === "USAGE_EXCEEDED") refused++;
  };
  for (let step = 0; step < steps; step++) {
    const owner = owners[roll.pick(["ada", "bob"] as const)];
    const { keyId = "key_gone" } = keys.length === 0 ? {} : roll.pick(keys);
    const kind = roll.below(12);
    if (kind < 3) await ofOwner(() => owner.create(roll.chance(0.3) ? { credits: { remaining: 1_000_000 } } : {}));
    else if (kind < 5) await ofOwner(() => owner.revoke({ keyId }));
    else if (kind < 7) await ofOwner(() => owner.rotate({ keyId, overlap: roll.pick([0, 1_000, DAY]) }));
    else if (kind < 9) await ofOwner(() => keyring.updateKey({ keyId, externalId: roll.pick(["ada", "bob"]) }));
    else if (kind < 10) await ofOwner(() => keyring.rerollKey({ keyId, expiration: roll.pick([0, DAY]) }));
    else if (kind < 11) time.now += roll.below(DAY / 8);
    for (let calls = keys.length === 0 ? 0 : roll.below(8); calls > 0; calls--) await verify();
    keys.splice(0, keys.length - 30);
  }
  for (const verifier of verifiers) await verifier.close();
  const left = async (externalId: Owner): Promise<number> =>
    (await keyring.getIdentity({ identity: externalId })).credits?.remaining ?? NaN;
  const due = (externalId: Owner): number => {
    const { remaining, refill } = PLANS[externalId];
    return remaining + refill.amount * boundaries(refill, NOON, time.now);
  };
  return { granted, refused, plan: due("ada") + due("bob"), left: (await left("ada")) + (await left("bob")) };
}

describe("a plan of an owner", () => {
  it("SQLite: through random revocations, creations, rerolls and moves the plan and its refills are granted", async () => {
    const store = sqliteStore(join(folder, "keys.db"), { durability: "process" });
    const { granted, refused, plan, left } = await story(store, Math.max(200, runs(10_000)), 1);
    expect(granted).toBe(plan - left);
    expect(granted).toBeGreaterThan(400);
    // The plan ended the calls, and not the story.
    expect(refused).toBeGreaterThan(0);
    await store.close();
  });

  it("memory: the same", async () => {
    const { granted, plan, left } = await story(memoryStore(), Math.max(200, runs(2_000)), 2);
    expect(granted).toBe(plan - left);
  });
});
