/**
 * Every pair of the operations of a plan, one in the midst of the other at each of its calls of the store, with and
 * without a crash of the first: an owner with a plan, a grant and a key that is capped. The judge is the owner's
 * statement. In leased mode both have leases of all three accounts when they meet.
 */
import { expect } from "vitest";
import type { Store } from "../../src/contracts/store.js";
import {
  type Alerts,
  createAlerts,
  createAnalytics,
  createKeyring,
  createVerifier,
  isKeystileError,
  type Keyring,
  type Verifier,
  type CreditsOptions,
} from "../../src/index.js";
import { trust } from "../../src/lib/guards/trusted.js";
import { expectBalanced } from "../analytics/statement-sums.js";

const HOUR = 3_600_000;
/** Two minutes before midnight, when the plan and the cap start anew. */
const START = Date.UTC(2026, 9, 5, 23, 58);
const DAILY = { interval: "daily", rollover: 0 } as const;
const PLAN = 30;
const CAP = 12;
const GRANT = 5;
/** How long credits are reserved. */
const BRIEFLY = { timeout: 20_000 };
/** Each call of a world that leases takes more than one lease has, or less. */
const LEASED = { mode: "leased", size: 4, step: 2, firstStep: 2 } as const;

/** A call of the store that waits: to be made, or to be told of. */
interface Waiting {
  readonly name: string;
  readonly goOn: () => void;
}

/** One process: its calls wait once it is told to. */
class Process {
  readonly waiting: Waiting[] = [];
  isWaiting = false;
  /** Calls that the store has not answered. */
  asked = 0;
  isDead = false;
  readonly verifier: Verifier;
  readonly keyring: Keyring;
  readonly alerts: Alerts;
  /** Credits that its calls were told that they took. */
  acknowledged = 0;

  constructor(store: Store, clock: () => number, credits: CreditsOptions) {
    const { powers, subscribe, pollChanges, ...methods } = store;
    const gated = Object.entries(methods).map(([name, method]: [string, (...given: never[]) => unknown]) => [
      name,
      (...given: never[]) => (this.isWaiting ? this.#wait(name, () => method(...given)) : method(...given)),
    ]);
    const calls = Object.fromEntries(gated) as typeof methods;
    const view = trust({ ...calls, powers, subscribe, pollChanges, close: () => undefined });
    this.verifier = createVerifier(view, { clock, analytics: { interval: 60_000 }, credits });
    this.keyring = createKeyring(view, { clock, actor: "ada" });
    this.alerts = createAlerts(view, { clock, interval: 0, creditsBelow: 5, deliver: () => undefined });
  }

  #wait(name: string, call: () => unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const toBeTold = (tell: () => void) => this.waiting.push({ name: `${name} is answered`, goOn: tell });
      const make = async () => {
        this.asked++;
        try {
          const result = await call();
          toBeTold(() => resolve(result));
        } catch (error) {
          toBeTold(() => reject(error instanceof Error ? error : new Error(String(error))));
        } finally {
          this.asked--;
        }
      };
      this.waiting.push({ name, goOn: () => void make() });
    });
  }
}

/** What a world begins with, and what was acknowledged in it. */
interface World {
  readonly capped: { readonly key: string; readonly keyId: string };
  readonly plain: { readonly key: string; readonly keyId: string };
  /** What is reserved under the cap. */
  readonly reservation: string;
  now: number;
  /** Of what was acknowledged, what reservations kept: a balance that is set or removed lets go of what it held. */
  kept: number;
}

/** What is done, and the most that it may take without saying so, if it ends in between. */
interface Act {
  readonly takes?: number;
  readonly run: (process: Process, world: World) => Promise<unknown>;
}

function keep(process: Process, world: World, credits: number): void {
  process.acknowledged += credits;
  world.kept += credits;
}

const OWNER = { identity: "acme" } as const;
const call =
  (of: "capped" | "plain", cost: number) =>
  async (process: Process, world: World): Promise<void> => {
    const { valid, credits } = await process.verifier.verify({ key: world[of].key, credits: { cost } });
    // Without a balance it takes nothing.
    if (valid && credits !== undefined) process.acknowledged += cost;
  };

export const ACTS = {
  "call within a cap": { takes: 4, run: call("capped", 4) },
  "call over two accounts": { takes: 9, run: call("plain", 9) },
  "spend by id, under a key": {
    takes: 7,
    async run(process) {
      const spent = await process.verifier.spend(OWNER, { cost: 7 }, { idempotencyKey: "job" });
      if (spent.code === "VALID" && spent.repeated !== true) process.acknowledged += 7;
    },
  },
  "reserve and commit": {
    takes: 6,
    async run(process, world) {
      const held = await process.verifier.reserve({ key: world.capped.key, credits: { cost: 6 } }, BRIEFLY);
      if (held.valid && held.credits !== undefined && (await held.commit(2)).settled) keep(process, world, 2);
    },
  },
  settle: {
    takes: 3,
    async run(process, world) {
      if ((await process.verifier.settle(world.reservation, 3)).settled) keep(process, world, 3);
    },
  },
  release: { run: ({ verifier }, world) => verifier.settle(world.reservation, 0) },
  "time-out and call": {
    takes: 4,
    run(process, world) {
      world.now += 30_000;
      return call("capped", 4)(process, world);
    },
  },
  "boundary, expiry and call": {
    takes: 9,
    run(process, world) {
      world.now += HOUR;
      return call("plain", 9)(process, world);
    },
  },
  "end of a grant that is used up": {
    takes: 9,
    async run(process, world) {
      world.now += 30_000;
      await call("plain", 9)(process, world);
      await process.verifier.flush();
    },
  },
  grant: { run: ({ keyring }) => keyring.grantCredits({ ...OWNER, grantId: "order", amount: 6, priority: 200 }) },
  "set of the plan": { run: ({ keyring }) => keyring.updateIdentityCredits({ ...OWNER, operation: "set", value: 8 }) },
  "decrement of the plan": {
    run: ({ keyring }) => keyring.updateIdentityCredits({ ...OWNER, operation: "decrement", value: 25 }),
  },
  "set of the cap": {
    run: ({ keyring }, { capped }) => keyring.updateCredits({ keyId: capped.keyId, operation: "set", value: 5 }),
  },
  "change of plan": {
    run: ({ keyring }) =>
      keyring.changePlan(
        { ...OWNER, refill: { ...DAILY, amount: 50 }, now: "difference" },
        { idempotencyKey: "upgrade" },
      ),
  },
  rotation: { run: ({ keyring }, { capped }) => keyring.rerollKey({ keyId: capped.keyId, expiration: HOUR }) },
  "move of a key": {
    run: ({ keyring }, { capped }) => keyring.updateKey({ keyId: capped.keyId, externalId: "other" }),
  },
  "cap given up": {
    run: ({ keyring }, { capped }) => keyring.updateKey({ keyId: capped.keyId, creditsFrom: "identity" }),
  },
  "key unlimited": { run: ({ keyring }, { capped }) => keyring.updateKey({ keyId: capped.keyId, credits: null }) },
  "owner disabled": { run: ({ keyring }) => keyring.updateIdentity({ ...OWNER, enabled: false }) },
  "owner's end": { run: ({ keyring }, { now }) => keyring.updateIdentity({ ...OWNER, expires: now + 1 }) },
  "deletion of a key": { run: ({ keyring }, { capped }) => keyring.deleteKey({ keyId: capped.keyId }) },
  "deletion of the owner": { run: ({ keyring }) => keyring.deleteIdentity({ ...OWNER, keys: "disable" }) },
  "flush of counts": { run: ({ verifier }) => verifier.close() },
  alert: { run: ({ alerts }) => alerts.run() },
} as const satisfies Record<string, Act>;
export type ActName = keyof typeof ACTS;
/** Under these ends of an operation nothing is wrong: the other came first. */
const REFUSALS: ReadonlySet<string> = new Set(["CONFLICT", "NOT_FOUND", "UNPROCESSABLE_ENTITY", "VERIFIER_CLOSED"]);

/** What is crossed, how far, and on which store. */
export interface Crossing {
  readonly first: ActName;
  readonly second: ActName;
  readonly open: () => Store | Promise<Store>;
  /** Whether the first process may end at any moment. */
  readonly crashes: boolean;
  /** Whether both processes lease credits; else calls are exact. */
  readonly leased?: boolean;
  /** How often one process may be interrupted by the other: 1, one of them anywhere within the other. */
  readonly switches: number;
}

/** Plays every order. @returns how many there are; a failure says which choices led to it */
export async function cross({ first, second, open, ...way }: Crossing): Promise<number> {
  let orders = 0;
  let prefix: readonly number[] | undefined = [];
  while (prefix !== undefined) {
    const chosen: { readonly choice: number; readonly of: number }[] = [];
    const said: string[] = [];
    const choose = (of: number): number => {
      const choice = prefix![chosen.length] ?? 0;
      chosen.push({ choice, of });
      return choice;
    };
    const store = await open();
    try {
      await playOnce(store, [ACTS[first], ACTS[second]], { ...way, choose, say: (text) => said.push(text) });
    } catch (error) {
      const where = `${first} × ${second}, after ${said.join("; ")}`;
      throw new Error(`${where}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
    } finally {
      await store.close();
    }
    orders++;
    while (chosen.length > 0 && chosen.at(-1)!.choice + 1 === chosen.at(-1)!.of) chosen.pop();
    const last = chosen.pop();
    prefix = last && [...chosen.map(({ choice }) => choice), last.choice + 1];
  }
  return orders;
}

interface Play extends Pick<Crossing, "crashes" | "leased" | "switches"> {
  readonly choose: (of: number) => number;
  readonly say: (text: string) => void;
}

async function playOnce(
  store: Store,
  acts: readonly [Act, Act],
  { crashes, leased = false, switches, choose, say }: Play,
): Promise<void> {
  const { processes, world, clock } = await setUp(store, leased);
  const ends = ([0, 1] as const).map(async (i) => {
    processes[i].isWaiting = true;
    try {
      await acts[i].run(processes[i], world);
    } catch (error) {
      if (!isKeystileError(error) || !REFUSALS.has(error.code)) throw error;
    }
    processes[i].isWaiting = false;
  });
  let inFlight = 0;
  let running: 0 | 1 = 0;
  let left = switches;
  for (await settled(processes); ; await settled(processes)) {
    const other: 0 | 1 = running === 0 ? 1 : 0;
    const next = ([running, other] as const).filter((i) => !processes[i].isDead && processes[i].waiting.length > 0);
    if (next.length === 0) break;
    const ways: ("ends" | 0 | 1)[] = next.slice(0, left > 0 ? 2 : 1);
    if (crashes && processes[0].isWaiting && !processes[0].isDead) ways.push("ends");
    const way = ways[choose(ways.length)]!;
    if (way === "ends") {
      say("0 ends");
      processes[0].isDead = true;
      inFlight = acts[0].takes ?? 0;
      continue;
    }
    // Where one has to wait for the other, nothing is switched.
    if (way === other && next.length > 1) left--;
    running = way;
    const { name, goOn } = processes[running].waiting.shift()!;
    say(`${running}: ${name}`);
    goOn();
  }
  for (const [i, end] of ends.entries()) if (!processes[i]!.isDead) await end;
  const isSet = acts.some((act) => act === ACTS["set of the plan"] || act === ACTS["deletion of the owner"]);
  // What was taken from memory, and told to nobody, is lost with the node, and with an account that is gone.
  const isGone = acts.some((act) => act === ACTS["deletion of the owner"]);
  const forgotten = leased ? processes.filter(({ isDead }) => isDead || isGone) : [];
  const letGo = forgotten.reduce((sum, { acknowledged }) => sum + acknowledged, isSet ? world.kept : 0);
  // It counts as forfeited once something else takes from the account.
  const held = leased && processes[0].isDead ? 2 * LEASED.size + (acts[0].takes ?? 0) : 0;
  await judge(store, world, clock, processes, { inFlight, letGo, held });
}

async function setUp(store: Store, leased: boolean) {
  let now = START;
  const clock = () => now;
  const size = store.powers.reserves ? LEASED.size : LEASED.step;
  const credits: CreditsOptions = leased ? { ...LEASED, size } : { mode: "exact" };
  const processes = [new Process(store, clock, credits), new Process(store, clock, credits)] as const;
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "api" });
  // The store keeps totals of accounts from its first count on.
  const first = createVerifier(store, { clock, analytics: true });
  await first.verify({ key: "nobody" });
  await first.close();
  await keyring.createIdentity({
    externalId: "acme",
    credits: { remaining: PLAN, refill: { ...DAILY, amount: PLAN } },
  });
  await keyring.createIdentity({ externalId: "other", credits: { remaining: 100 } });
  await keyring.grantCredits({ ...OWNER, grantId: "bonus", amount: GRANT, priority: 10, expires: START + HOUR / 2 });
  const cap = { remaining: CAP, refill: { ...DAILY, amount: CAP } };
  const capped = await keyring.createKey({ apiId, externalId: "acme", credits: cap });
  const plain = await keyring.createKey({ apiId, externalId: "acme" });
  const [process] = processes;
  const held = await process.verifier.reserve({ key: capped.key, credits: { cost: 5 } }, BRIEFLY);
  if (!held.valid) throw new Error("the reservation that the world begins with was refused");
  const world: World = {
    ...{ capped, plain, reservation: held.id, kept: 0 },
    get now() {
      return now;
    },
    set now(to) {
      now = to;
    },
  };
  if (leased)
    for (const process of processes) for (const of of ["capped", "plain"] as const) await call(of, 1)(process, world);
  return { processes, world, clock };
}

/** Statements balance, say what was acknowledged, and leave what the owner has. */
async function judge(
  store: Store,
  world: World,
  clock: () => number,
  processes: readonly Process[],
  { inFlight, letGo, held }: { readonly inFlight: number; readonly letGo: number; readonly held: number },
): Promise<void> {
  for (const { isDead, verifier } of processes) if (!isDead) await verifier.close();
  // What is still reserved comes back, and accounts are up to date.
  world.now += 30_000;
  const last = createVerifier(store, { clock, analytics: true });
  let acknowledged = processes.reduce((sum, one) => sum + one.acknowledged, 0);
  const keyring = createKeyring(store, { clock });
  for (const identity of ["acme", "other"]) {
    // All of it, so that accounts take back what a node that is gone had leased.
    const { remaining = 0 } = (await keyring.getBalance({ identity }).catch(ifNotThere)) ?? {};
    const cost = Math.max(1, remaining ?? 0);
    if ((await last.spend({ identity }, { cost })).code === "VALID") acknowledged += cost;
  }
  await last.close();
  const analytics = createAnalytics(store, { clock });
  let spent = 0;
  let unattributed = 0;
  for (const externalId of ["acme", "other"]) {
    const found = await analytics.statement({ externalId }, "2026-10").catch(ifNotThere);
    if (found === undefined) continue;
    expectBalanced(found);
    spent += found.spent;
    unattributed += found.unattributed;
    const balance = await keyring.getBalance({ identity: externalId }).catch(ifNotThere);
    if (balance?.remaining === undefined || balance.remaining === null) continue;
    expect(balance.remaining, `what is left of ${externalId}`).toBeLessThanOrEqual(found.closing);
    expect(balance.remaining, `what is left of ${externalId}`).toBeGreaterThanOrEqual(found.closing - held);
  }
  expect(spent, "spent").toBeGreaterThanOrEqual(acknowledged - letGo);
  expect(spent, "spent").toBeLessThanOrEqual(acknowledged + inFlight);
  if (inFlight + letGo === 0) expect(unattributed, "unattributed").toBe(0);
}

function ifNotThere(error: unknown): undefined {
  if (!isKeystileError(error) || error.code !== "NOT_FOUND") throw error;
}

/** All that can run without a choice has run. */
async function settled(processes: readonly Process[]): Promise<void> {
  do await new Promise((resolve) => void setImmediate(resolve));
  while (processes.some(({ asked }) => asked > 0));
}
