/**
 * How long does a verification from memory take, with keystile and with what else does the job or a part of it, over
 * 1,000 keys?
 */
import { fork } from "node:child_process";
import { median, report, type Row, scaled } from "../harness.js";
import { hashSide } from "../work.js";
import { betterAuthMemory } from "./better-auth.js";
import { byHandMemory } from "./by-hand.js";
import { type Entrant, measureGates } from "./gates.js";
import { keystileLeased, keystileMemory } from "./keystile.js";
import { fastJwtAnew, fastJwtCached, joseHs256 } from "./tokens.js";

const KEYS = scaled(1_000, 50);
const MANY = scaled(10_000, 100);
/** Says which entrant a process is for. */
const ENTRANT = "--entrant=";

const entrants: Entrant[] = [
  { contestant: keystileMemory, keys: KEYS },
  { contestant: keystileMemory, keys: MANY, label: ", 10,000 keys" },
  { contestant: keystileLeased, keys: KEYS },
  { contestant: byHandMemory, keys: KEYS },
  { contestant: byHandMemory, keys: MANY, label: ", 10,000 keys" },
  { contestant: betterAuthMemory, keys: KEYS },
  { contestant: betterAuthMemory, keys: MANY, label: ", 10,000 keys" },
  { contestant: fastJwtAnew, keys: KEYS },
  { contestant: fastJwtCached, keys: KEYS },
  { contestant: joseHs256, keys: KEYS },
];

/**
 * Each in a process of its own, beside H, as a program has one verifier and no other: one engine for three kinds of
 * store in one process took 1,900 ns where the same with one kind took 800.
 */
function inFreshProcess(entrant: number): Promise<Row[]> {
  const child = fork(process.argv[1]!, [...process.argv.slice(2), `${ENTRANT}${entrant}`], {
    execArgv: process.execArgv,
  });
  return new Promise((resolve, reject) => {
    child.once("message", (rows) => resolve(rows as Row[]));
    child.once("error", reject);
    child.once("close", (code) => reject(new Error(`${entrants[entrant]?.contestant.name}: ended with ${code}`)));
  });
}

async function main(): Promise<void> {
  const rows: Row[] = [];
  for (let entrant = 0; entrant < entrants.length; entrant++) {
    const [hash, { name, unit, values, notes }] = (await inFreshProcess(entrant)) as [Row, Row];
    if (entrant === 0) rows.push(hash);
    rows.push({
      name,
      unit,
      values,
      notes: { "× H of its process": (median(values) / median(hash.values)).toFixed(1), ...notes },
    });
  }
  report({
    question:
      "How long does a verification from memory take, with keystile and with what else does the job or a part of it, over 1,000 keys?",
    rows,
  });
}

const asked = process.argv.find((argument) => argument.startsWith(ENTRANT));
if (asked === undefined) await main();
else process.send?.(await measureGates(hashSide(), [entrants[Number(asked.slice(ENTRANT.length))]!]));
