/** Contestants as sides of a measurement: opened, tried at their checks, asked at random, counted at the end. */
import { measure, type Rounds, type Row, type Side } from "../harness.js";
import { endless, sample } from "../keys.js";
import { AMPLE, assertGuards, type Contestant, type Gate, type Terms } from "./contestant.js";

/** A contestant and the number of keys that it shall hold. */
export interface Entrant {
  readonly contestant: Contestant;
  readonly keys: number;
  /** Calls in flight, default 1. */
  readonly inFlight?: number;
  /** Added to its name. */
  readonly label?: string;
}

/** How they are measured. */
export interface Measured extends Rounds {
  /** Default {@link AMPLE}. */
  readonly terms?: Terms;
}

/**
 * Measures each entrant beside `floor`, keys at random. One that judges permissions is tried at refusing first.
 * @throws Error when an entrant refuses a key, lets in one that it must not, or ends with other balances than it must
 */
export async function measureGates(
  floor: Side,
  entrants: readonly Entrant[],
  { terms = AMPLE, ...rounds }: Measured = {},
): Promise<Row[]> {
  const gates: Gate<unknown>[] = [];
  const sides: Side[] = [floor];
  for (const { contestant, keys, inFlight = 1, label = "" } of entrants) {
    const name = contestant.name + label;
    const gate = await contestant.open(keys, terms);
    gates.push(gate);
    const guards = contestant.checks.permissions !== undefined;
    if (guards) await assertGuards(name, gate, keys);
    const run = inFlight === 1 ? oneByOne(gate, keys) : together(gate, keys, inFlight);
    const check = (operations: number): Promise<void> =>
      assertSpent(name, gate, keys, terms.credits, guards ? operations + 1 : operations);
    sides.push({ name, floor: floor.name, run, check });
  }
  const rows = await measure(sides, rounds);
  for (const gate of gates) await gate.close();
  return rows.map((row, i) => {
    const contestant = entrants[i - 1]?.contestant;
    return contestant === undefined ? row : { ...row, notes: { ...contestant.checks } };
  });
}

function oneByOne(gate: Gate<unknown>, keys: number): Side["run"] {
  const next = endless(sample(keys));
  return async (operations) => {
    let right = 0;
    for (let i = 0; i < operations; i++) {
      const answer = gate.verify(next());
      if (gate.passes(answer instanceof Promise ? await answer : answer)) right++;
    }
    return right;
  };
}

function together(gate: Gate<unknown>, keys: number, inFlight: number): Side["run"] {
  const next = endless(sample(keys));
  return async (operations) => {
    let begun = 0;
    let right = 0;
    const work = async (): Promise<void> => {
      while (begun++ < operations) if (gate.passes(await gate.verify(next()))) right++;
    };
    await Promise.all(Array.from({ length: inFlight }, work));
    return right;
  };
}

/** Where credits are counted, so many must be gone. */
async function assertSpent(
  name: string,
  gate: Gate<unknown>,
  keys: number,
  credits: number,
  expected: number,
): Promise<void> {
  if (gate.balance === undefined) return;
  let spent = 0;
  for (let n = 0; n < keys; n++) spent += credits - ((await gate.balance(n)) ?? NaN);
  if (spent !== expected) throw new Error(`${name}: ${spent} credits were spent by ${expected} verifications`);
}
