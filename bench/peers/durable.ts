/**
 * How long does a verification take whose credit is in an SQLite file before the answer, with keystile and with its
 * peers, over 1,000 keys?
 */
import { openBalances } from "../bare.js";
import { report, type Row, scaled } from "../harness.js";
import { endless, sample } from "../keys.js";
import { betterAuthSqlite } from "./better-auth.js";
import { byHandPower, byHandProcess } from "./by-hand.js";
import type { Contestant } from "./contestant.js";
import { measureGates } from "./gates.js";
import { keystilePower, keystileProcess } from "./keystile.js";

const KEYS = scaled(1_000, 50);
const IN_FLIGHT = 64;

/**
 * In turns, since all wait for one disk, which is as busy as it is: each one call at a time, and with
 * {@link IN_FLIGHT}.
 */
async function onDisk(synchronous: "FULL" | "NORMAL", contestants: readonly Contestant[]): Promise<Row[]> {
  const bare = openBalances(KEYS, synchronous);
  const next = endless(sample(KEYS));
  const floor = {
    name: `bare UPDATE in its own transaction, synchronous=${synchronous}`,
    run(operations: number) {
      let right = 0;
      for (let i = 0; i < operations; i++) if (bare.take.run(next()).changes === 1) right++;
      return right;
    },
  };
  const single = contestants.map((contestant) => ({ contestant, keys: KEYS }));
  const together = contestants.map((contestant) => ({
    contestant,
    keys: KEYS,
    inFlight: IN_FLIGHT,
    label: `, ${IN_FLIGHT} in flight`,
  }));
  const rows = await measureGates(floor, [...single, ...together]);
  bare.close();
  return rows;
}

report({
  question:
    "How long does a verification take whose credit is in an SQLite file before the answer, with keystile and with its peers?",
  rows: [
    ...(await onDisk("FULL", [keystilePower, byHandPower, betterAuthSqlite])),
    ...(await onDisk("NORMAL", [keystileProcess, byHandProcess])),
  ],
});
