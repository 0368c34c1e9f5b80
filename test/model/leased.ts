/**
 * Leased credits under random histories of several nodes. The model is weaker than the other: it knows what was there,
 * not who holds what. Never more is granted than was there; once every node is closed the balance is what was there
 * less what was granted; what a node that crashed held comes back but for what it had in memory.
 */
import { KeystileError } from "../../src/contracts/errors.js";
import type { Store } from "../../src/contracts/store.js";
import type { Refill } from "../../src/contracts/types.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { createVerifier, type Verifier } from "../../src/verify/verifier.js";
import { dice, type Dice } from "./dice.js";
import { boundaries } from "./naive-credits.js";
import { type Bed, START } from "./stage.js";
import { DAY } from "./vocabulary.js";

interface Node {
  readonly verifier: Verifier;
  /** The most that it holds in memory of one key between calls. */
  readonly step: number;
  /** From now on its store does nothing any more. */
  crash(): void;
}

interface Account {
  readonly key: string;
  readonly keyId: string;
  /** All that was ever there since the balance was last set. */
  there: number;
  /** All that was answered VALID since then. */
  granted: number;
  /** The most that nodes that crashed, or slept for a day, can have kept since then. */
  forfeited: number;
  readonly refill: Refill | undefined;
  /** Refills are added to `there` up to this instant; it only moves forward. */
  counted: number;
}

/** The last of them is a cap inside the plan of an owner with a grant: each call takes from three accounts' leases. */
const KEYS = 4;
const OWNER = "acme";
/** More than its key can ever take. */
const PLAN = 10_000_000;
const GRANT = 200;
const NODES = 4;
const TTL = 10_000;

export async function playLeased(seeds: readonly number[], bed: Bed): Promise<{ granted: number; refused: number }> {
  const clock = { now: START };
  const now = () => clock.now;
  let latest = START;
  const stores = [await bed.open(), await bed.open()];
  const keyring = createKeyring(stores[0]!, { clock: now });
  const { apiId } = await keyring.createApi({ name: "leased" });
  await keyring.createIdentity({ externalId: OWNER, credits: { remaining: PLAN } });
  await keyring.grantCredits({ identity: OWNER, grantId: "bonus", amount: GRANT, priority: 1 });
  /** What the owner's key took, and the most that nodes which crashed, or slept, can have kept of its two accounts. */
  const owned = { granted: 0, forfeited: 0 };
  const accounts: Account[] = [];
  for (let i = 0; i < KEYS; i++) {
    const refill: Refill | undefined = i === 2 ? { interval: "daily", amount: 5 } : undefined;
    const there = [40, 1_000, 7, 60][i]!;
    const owner = i === 3 ? { externalId: OWNER } : {};
    const made = await keyring.createKey({ apiId, ...owner, credits: { remaining: there, ...(refill && { refill }) } });
    accounts.push({ ...made, there, granted: 0, forfeited: 0, refill, counted: clock.now });
  }
  const totals = { granted: 0, refused: 0 };
  const settle = (account: Account): void => {
    if (account.refill === undefined || clock.now <= account.counted) return;
    account.there += account.refill.amount * boundaries(account.refill, account.counted, clock.now);
    account.counted = clock.now;
  };
  const verify = async (node: Node, account: Account, cost: number): Promise<void> => {
    settle(account);
    const answer = await node.verifier.verify({ key: account.key, credits: { cost } });
    if (answer.code === "VALID") {
      account.granted += cost;
      if (account === accounts[3]) owned.granted += cost;
    }
    if (answer.code !== "VALID" && answer.code !== "USAGE_EXCEEDED")
      throw new Error(`the engine answered ${answer.code}`);
    totals[answer.valid ? "granted" : "refused"]++;
    if (account.granted > account.there) throw new Error(`${account.granted} granted of ${account.there}`);
    if (!Number.isSafeInteger(answer.credits) || answer.credits! < 0 || answer.credits! > account.there) {
      throw new Error(`a balance of ${String(answer.credits)} shown where ${account.there} ever were`);
    }
  };
  const nodes: Node[] = Array.from({ length: NODES }, (_, i) => startNode(stores[i % 2]!, now, dice(i)));
  const crashed: Node[] = [];
  const step = async (rolled: Dice): Promise<void> => {
    const account = rolled.pick(accounts);
    const at = rolled.below(NODES);
    const kind = rolled.below(100);
    // What another handle wrote is seen from the next turn on.
    if (bed.handles === "two") await new Promise((resolve) => setImmediate(resolve));
    if (kind < 60) return verify(nodes[at]!, account, rolled.pick([0, 1, 1, 1, 2, 3, 9]));
    if (kind < 75) {
      const calls = Array.from(
        { length: 2 + rolled.below(20) },
        () => [rolled.pick(nodes), rolled.pick([1, 1, 2])] as const,
      );
      return void (await Promise.all(calls.map(([node, cost]) => verify(node, account, cost))));
    }
    if (kind < 82) {
      const passed = rolled.pick([1, 500, TTL, 2 * TTL, DAY, -1, -500, -DAY]);
      clock.now = Math.max(START, clock.now + passed);
      latest = Math.max(latest, clock.now);
      // What a node holds is given up a day after its lease expired. Awake, it would have returned it long before.
      if (passed === DAY)
        for (const each of [...accounts, owned, owned]) for (const { step } of nodes) each.forfeited += step;
      return;
    }
    if (kind < 86) {
      // A balance that is set while the clock is behind counts boundaries that the one before has seen: the exact model
      // knows those.
      if (clock.now < latest) return;
      const value = rolled.pick([0, 3, 50, 5_000]);
      await keyring.updateCredits({ keyId: account.keyId, operation: "set", value });
      account.counted = clock.now;
      return void Object.assign(account, { there: value, granted: 0, forfeited: 0 });
    }
    if (kind < 91) {
      settle(account);
      account.there += 10;
      return void (await keyring.updateCredits({ keyId: account.keyId, operation: "increment", value: 10 }));
    }
    const [old] = nodes.splice(at, 1, startNode(stores[at % 2]!, now, rolled));
    if (kind < 96) return old!.verifier.close();
    old!.crash();
    crashed.push(old!);
    // Its reserves come back; what it held in memory does not.
    for (const each of [...accounts, owned, owned]) each.forfeited += old!.step;
  };

  try {
    for (const seed of seeds) await step(dice(seed));
    for (const node of nodes) await node.verifier.close();
    // Reserves of crashed nodes come back when they have expired, with the next draw.
    clock.now = latest + 2 * TTL;
    const last = startNode(stores[0]!, now, dice(0));
    for (const account of accounts) await verify(last, account, 1);
    await last.verifier.close();
    for (const account of accounts) {
      const { credits } = await keyring.getKey({ keyId: account.keyId });
      const due = account.there - account.granted;
      if (credits!.remaining! > due || credits!.remaining! < due - account.forfeited) {
        throw new Error(
          `${account.granted} of ${account.there} granted, at most ${account.forfeited} forfeited, and ${credits!.remaining} are left`,
        );
      }
    }
    const { remaining } = await keyring.getBalance({ identity: OWNER });
    const due = PLAN + GRANT - owned.granted;
    if (remaining! > due || remaining! < due - owned.forfeited)
      throw new Error(
        `${owned.granted} taken of the owner, at most ${owned.forfeited} forfeited, and ${remaining} left`,
      );
  } finally {
    // Crashed ones too: their timers would hold everything else.
    for (const node of [...nodes, ...crashed]) {
      node.crash();
      await node.verifier.close().catch(() => undefined);
    }
    await bed.close();
  }
  return totals;
}

function startNode(store: Store, clock: () => number, rolled: Dice): Node {
  const size = rolled.pick([1, 4, 20, 1_000]);
  const half = rolled.chance(0.5);
  const step = Math.max(1, Math.floor(size / (half ? 2 : 4)));
  const state = { crashed: false };
  const { powers, ...methods } = store;
  const guards = Object.fromEntries(
    Object.entries(methods).map(([name, method]: [string, (...given: never[]) => unknown]) => [
      name,
      (...given: never[]) => {
        if (state.crashed) throw new KeystileError("STORE_CLOSED", "this node crashed");
        return method(...given);
      },
    ]),
  ) as unknown as typeof methods;
  const verifier = createVerifier(
    { powers, ...guards },
    {
      clock,
      credits: { mode: "leased", size, ttl: TTL, ...(half && { step }) },
      cache: { size: 8 },
    },
  );
  return { verifier, step, crash: () => void (state.crashed = true) };
}
