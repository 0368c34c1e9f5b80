/**
 * Does a key with 100 credits and 50 calls a minute let 50 of 200 calls in that come at once, and does a window of 30
 * days hold?
 */
import { report, type Row } from "../harness.js";
import { betterAuthMemory, betterAuthSqlite } from "./better-auth.js";
import { byHandMemory, byHandPower, byHandProcess } from "./by-hand.js";
import type { Contestant, Gate, Terms } from "./contestant.js";
import { keystileLeased, keystileMemory, keystilePower, keystileProcess } from "./keystile.js";
import { flexible, keystileByName, limiterPackage } from "./limiters.js";
import { fastJwtAnew } from "./tokens.js";

const CALLS = 200;
const RUSH: Terms = { credits: 100, limit: 50, duration: 60_000 };
/** The longest window of the specification (§8): more milliseconds than a timer of the platform can hold. */
const LONGEST: Terms = { credits: 1_000, limit: 5, duration: 2_592_000_000 };
/** Long enough for a timer that overflows to fire; in this time a bucket of five a month gains nothing. */
const PAUSE_MS = 50;

/** How many of so many calls at once passed. */
async function passing(gate: Gate<unknown>, calls: number): Promise<number> {
  const answers = await Promise.all(Array.from({ length: calls }, () => gate.verify(0)));
  return answers.filter((answer) => gate.passes(answer)).length;
}

async function creditsLeft(gate: Gate<unknown>): Promise<string> {
  if (gate.balance === undefined) return "counts none";
  const left = await gate.balance(0);
  return left === undefined ? "none: it deleted the key" : String(left);
}

/** Takes what a long window allows, and asks again a moment later. */
async function windowHolds(contestant: Contestant): Promise<string> {
  const gate = await contestant.open(1, LONGEST);
  try {
    const first = await passing(gate, LONGEST.limit);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    const more = await passing(gate, LONGEST.limit);
    if (first !== LONGEST.limit) return `lets in ${first} of ${LONGEST.limit}`;
    return more === 0 ? "refuses" : `lets in ${more} more`;
  } catch (error) {
    return `fails: ${(error as Error).message}`;
  } finally {
    await gate.close();
  }
}

async function ask(contestant: Contestant): Promise<Row> {
  const gate = await contestant.open(1, RUSH);
  const passed = await passing(gate, CALLS);
  const left = await creditsLeft(gate);
  await gate.close();
  const notes = {
    "credits left (50)": left,
    "a window of 30 days, used up, after 50 ms": await windowHolds(contestant),
  };
  return { name: contestant.name, unit: "calls", values: [passed], goal: "50", notes };
}

const rows: Row[] = [];
for (const contestant of [
  keystileMemory,
  keystileLeased,
  keystileProcess,
  keystilePower,
  byHandMemory,
  byHandProcess,
  byHandPower,
  betterAuthMemory,
  betterAuthSqlite,
  fastJwtAnew,
  keystileByName,
  flexible,
  limiterPackage,
]) {
  rows.push(await ask(contestant));
}
report({
  question:
    "How many of 200 calls at once does a key with 100 credits and 50 calls a minute let in, and does a window of 30 days hold?",
  rows,
});
