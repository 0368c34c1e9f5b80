/**
 * Runs of the simulator. One seed decides the world and the schedule, and reproduces both; a schedule is a list of
 * short words, one a step, so that a failing one can be printed, played again and made short. A word that fits no more,
 * because earlier ones were dropped, is skipped.
 */
import type { CreditsOptions } from "../../src/verify/verifier-options.js";
import { dice, type Dice } from "../model/dice.js";
import { shrink } from "../model/shrink.js";
import {
  APIS,
  anyOperation,
  BALANCES,
  DAY,
  IDENTITIES,
  importedKey,
  keyBody,
  MIGRATION,
  type Names,
  presented,
  REFILLS,
  ROLES,
} from "./operations.js";
import { type Fate, FATES, type PendingCall } from "./ports.js";
import { VirtualTime } from "./virtual-time.js";
import { Violation } from "./violation.js";
import { type Bed, type Plant, type Settings, World } from "./world.js";

/** How often what goes wrong, of 1,000 steps. */
interface Rates {
  readonly faults: number;
  readonly crashes: number;
  readonly jumps: number;
}

export interface Run {
  readonly seed: number;
  /** Most steps that the scheduler chooses; coming to rest takes more. */
  readonly length: number;
  readonly bed: (seed: number) => Bed | Promise<Bed>;
  readonly plant?: Plant | undefined;
  /** Plays these steps instead of choosing. */
  readonly replay?: readonly string[];
  readonly isTraced?: boolean;
}

export interface Outcome {
  /** Steps made, those of coming to rest included. */
  readonly steps: number;
  readonly schedule: readonly string[];
  readonly trace: readonly string[];
  readonly violation: Violation | undefined;
}

/** Two minutes before a daily boundary, and before that of most months. */
const STARTS = [Date.UTC(2024, 0, 30, 23, 58), Date.UTC(2024, 1, 28, 23, 58), Date.UTC(2024, 4, 14, 12)] as const;
const JUMPS = [
  1,
  500,
  1_000,
  5_000,
  60_000,
  60_000,
  DAY,
  31 * DAY,
  500 * DAY,
  -1,
  -500,
  -60_000,
  -DAY,
  -31 * DAY,
] as const;
/** Milliseconds that pass between two steps, where a store counts them. */
const WAITS = [1, 5, 20, 60, 300] as const;
const MAX_FLIGHTS = 4;

/** Plays one schedule. @throws whatever is not a violation */
export async function simulate({ seed, length, bed: makeBed, plant, replay, isTraced = false }: Run): Promise<Outcome> {
  const time = new VirtualTime();
  const bed = await makeBed(seed);
  const restore = time.install();
  const schedule: string[] = [];
  let world: World | undefined;
  try {
    const source = dice(seed);
    // For what tells one listener from another.
    if (bed.connections !== undefined) {
      const chance = dice(seed);
      time.chance = () => chance.below(2 ** 32) / 2 ** 32;
    }
    const settings = settingsOf(source, plant);
    const rates = ratesOf(source);
    world = new World(time, bed, settings);
    if (isTraced) world.trace = [];
    const names = await setUp(world, source);
    if (replay === undefined) {
      for (let i = 0; i < length; i++) {
        const word = choose(world, dice(source.below(2 ** 32)), rates);
        schedule.push(word);
        await play(world, names, word);
      }
    } else {
      for (const word of replay) if (await play(world, names, word)) schedule.push(word);
    }
    await world.finish();
    return { steps: world.step, schedule, trace: world.trace ?? [], violation: undefined };
  } catch (error) {
    if (!(error instanceof Violation)) throw error;
    return { steps: world?.step ?? 0, schedule, trace: world?.trace ?? [], violation: error };
  } finally {
    time.owner = undefined;
    restore();
    await bed.close();
  }
}

/** A failing schedule with all the steps dropped that it fails without, in the same clause. */
export async function shorten(run: Run, { schedule, violation }: Outcome, budget = 2_000): Promise<Outcome> {
  const replayed = (indices: readonly number[]) => simulate({ ...run, replay: indices.map((i) => schedule[i]!) });
  const fails = async (indices: readonly number[]) => (await replayed(indices)).violation?.clause === violation?.clause;
  const short = await shrink(
    schedule.map((_, i) => i),
    fails,
    budget,
  );
  return simulate({ ...run, replay: short.map((i) => schedule[i]!), isTraced: true });
}

function settingsOf(source: Dice, plant: Plant | undefined): Settings {
  const slots = 2 + source.below(3);
  const credits = Array.from({ length: slots }, (): CreditsOptions => {
    if (source.chance(0.5)) return { mode: "exact" };
    const size = source.pick([1, 4, 20, 100]);
    const step = Math.max(1, Math.floor(size / source.pick([1, 2, 4])));
    const first = source.chance(0.5) ? {} : { firstStep: step };
    return { mode: "leased", size, step, ...first, ttl: 1_000, keys: source.pick([1, 100]), closeTimeout: 2_000 };
  });
  return {
    credits,
    hearsAtOnce: source.chance(0.5),
    isPollSync: source.chance(0.3),
    sharesLimiter: plant?.limiter !== undefined || source.chance(0.15),
    cacheSize: source.pick([1, 2, 8]),
    start: source.pick(STARTS),
    plant,
  };
}

function ratesOf(source: Dice): Rates {
  return {
    faults: source.pick([0, 0, 20, 60]),
    crashes: source.pick([0, 0, 3, 8]),
    jumps: source.pick([0, 10, 30]),
  };
}

/** APIs, roles, a migration and the first keys. */
async function setUp(world: World, source: Dice): Promise<Names> {
  const apiIds: string[] = [];
  await world.setUp(async (keyring) => {
    for (let i = 0; i < APIS; i++) apiIds.push((await keyring.createApi({ name: `api ${i}` })).apiId);
    await keyring.createPermission({ name: "read", slug: "docs.read" });
    for (const name of ROLES) await keyring.createRole({ name, permissions: ["docs.read"] });
    for (const externalId of IDENTITIES)
      if (source.chance(0.5))
        await keyring.createIdentity({ externalId, credits: { remaining: source.pick(BALANCES), refill: REFILLS[1] } });
    await keyring.createMigration({ id: MIGRATION, algorithm: "sha512" });
    for (let i = 1 + source.below(2); i > 0; i--) {
      const { key } = await keyring.createKey(keyBody(source, source.pick(apiIds)));
      world.records.add(presented(key), 0);
    }
    if (source.chance(0.3)) {
      const { hash } = importedKey(0);
      const credits = { remaining: 10, refill: REFILLS[1] };
      await keyring.migrateKeys({ migrationId: MIGRATION, apiId: apiIds[0]!, keys: [{ hash, credits }] });
    }
    if (source.chance(0.5)) for (const i of [0, 1]) world.records.add(importedKey(i), 0);
  });
  return { apiIds };
}

/** The scheduler's next step, as a word. */
function choose(world: World, roll: Dice, { faults, crashes, jumps }: Rates): string {
  const calls = world.calls();
  const slot = roll.below(world.slots.length);
  if (world.bed.connections !== undefined && roll.chance(0.1)) return `w${roll.pick(WAITS)}`;
  const kind = roll.below(1_000);
  if (kind < crashes) return `x${slot}:${roll.below(2 ** 16)}`;
  if (kind < crashes + jumps) return `j${slot}:${roll.pick(JUMPS)}`;
  if (kind < crashes + jumps + 5) return `c${slot}`;
  if (kind < crashes + jumps + 25) return `t${world.slots[slot]!.ordinal}`;
  if (world.orphans.length > 0 && roll.chance(0.1)) return `o${roll.below(world.orphans.length)}`;
  if (calls.length === 0 || (world.slots[slot]!.flights.size < MAX_FLIGHTS && roll.chance(0.2))) {
    return `b${slot}:${roll.below(2 ** 32)}`;
  }
  const call = roll.pick(calls);
  const place = `${call.client.ordinal}:${call.client.calls.indexOf(call)}`;
  // Returns of leases are rare, and what they do when they fail is not.
  const rate = call.method === "returnCredits" ? 8 * faults : faults;
  if (call.phase === "before" && roll.below(1_000) < rate) return `f${place}:${roll.pick(FATES)}`;
  return `g${place}`;
}

/** Makes the step that a word tells. @returns whether it fitted */
async function play(world: World, names: Names, word: string): Promise<boolean> {
  const [first = "", second = "", third = ""] = word.slice(1).split(":");
  const at = Number(first);
  const value = Number(second);
  const callAt = (): PendingCall | undefined => world.client(at)?.calls[value];
  switch (word.charAt(0)) {
    case "b": {
      const client = world.slots[at];
      if (client === undefined || world.records.count === 0) return false;
      await world.begin(client, anyOperation(world, names, dice(value), value));
      return true;
    }
    case "g": {
      const call = callAt();
      if (call !== undefined) await world.advance(call);
      return call !== undefined;
    }
    case "f": {
      const call = callAt();
      if (call?.phase !== "before") return false;
      await world.fail(call, fateOf(call, third as Fate));
      return true;
    }
    case "o": {
      const orphan = world.orphans[at];
      if (orphan !== undefined) await world.makeOrphan(orphan);
      return orphan !== undefined;
    }
    case "t": {
      const client = world.client(at);
      return client !== undefined && world.fire(client);
    }
    case "j":
      if (world.slots[at] === undefined) return false;
      world.jump(world.slots[at], value);
      return true;
    case "w":
      world.wait(at);
      return true;
    case "x":
      if (world.slots[at] === undefined) return false;
      // One bit for each call in flight: whether it was sent before the client died.
      world.crash(at, (_, i) => ((value >> i) & 1) === 1);
      return true;
    case "c":
      if (world.slots[at] === undefined) return false;
      await world.close(at);
      return true;
    default:
      throw new TypeError(`"${word}" is no step`);
  }
}

/** Reads change nothing, so for them a late call is a failed one. */
function fateOf({ method }: PendingCall, fate: Fate): Fate {
  return fate === "late" && (method === "pollChanges" || method === "take") ? "failed" : fate;
}
