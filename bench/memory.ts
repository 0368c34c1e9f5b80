/** How many bytes does a remembered key take, beyond the text that it must hold? */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Limiter } from "../src/contracts/limiter.js";
import type { KeyRecord, Store } from "../src/contracts/store.js";
import { createVerifier } from "../src/verify/verifier.js";
import type { VerifierOptions } from "../src/verify/verifier-options.js";
import { report, type Row, scaled } from "./harness.js";
import { keyRow, PERMISSIONS } from "./keys.js";
import { openCopy } from "./stores.js";
import { LARGE_LEASES, remember } from "./work.js";

/** Just below a power of two, where hash tables are fullest: the best that they get. */
const KEYS = scaled(125_000, 1_000);
const ROUNDS = scaled(5, 2);

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** Bytes of all that this process holds on to. */
async function held(): Promise<number> {
  // In a turn of its own, so that nothing is held by what has just ended; twice, since finalizers run after the first.
  await new Promise(setImmediate);
  collect();
  await new Promise(setImmediate);
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/**
 * Text of a key's own in its answers: its id and name, and the id of its limit. What keys have in common can be shared.
 */
function textOf(n: number): number {
  const { row } = keyRow(n, true);
  return row.id.length + (row.name ?? "").length + (row.ratelimits[0]?.id ?? "").length;
}

/** Keys that a store holds, and the mean length of their text. */
interface Kind {
  readonly store: Store;
  readonly text: number;
}

function mean(lengthOf: (n: number) => number): number {
  let sum = 0;
  for (let n = 0; n < KEYS; n++) sum += lengthOf(n);
  return sum / KEYS;
}

/** Keeps no buckets, so that only the record is weighed. */
const forgetful: Limiter = {
  take: (checks) => checks.map(({ limit, duration }) => ({ exceeded: false, remaining: limit, reset: duration })),
  close: () => undefined,
};

const { store } = await openCopy({ keys: KEYS, limited: true }, { durability: "process" });

const alike: Kind = { store, text: mean(textOf) };

/** What every key was granted and no query asks for. */
const SPARE = PERMISSIONS[2];
const ownPermission = (n: number): string => `audit.${n}`;

function withOwnPermission(record: KeyRecord): KeyRecord {
  const own = ownPermission(Number(record.keyId.replace("key_", "")));
  return { ...record, permissions: record.permissions.map((name) => (name === SPARE ? own : name)) };
}

/**
 * The same keys, each with one permission that no other has. What a store remembers of such names is bounded, and not
 * weighed here.
 */
const apart: Kind = {
  store: {
    ...store,
    async findKey(digest) {
      const record = await store.findKey(digest);
      return record && withOwnPermission(record);
    },
  },
  text: alike.text + mean((n) => ownPermission(n).length),
};

/** Bytes a key of a verifier that has verified each of them once. `cost` 0 takes no lease. */
async function weigh(from: Store, options: VerifierOptions, cost: number): Promise<number> {
  const before = await held();
  const verifier = createVerifier(from, { ...options, cache: { size: KEYS } });
  await remember(verifier, KEYS, { cost });
  const bytes = ((await held()) - before) / KEYS;
  await verifier.close();
  return bytes;
}

async function beyondText(
  name: string,
  kind: Kind,
  options: VerifierOptions,
  cost: number,
  goal?: string,
): Promise<Row> {
  const values: number[] = [];
  for (let round = 0; round < ROUNDS; round++) values.push((await weigh(kind.store, options, cost)) - kind.text);
  return { name, unit: "bytes", values, ...(goal !== undefined && { goal }) };
}

/** Notes of uses, of which at most 100,000 wait for some seconds, are weighed apart. */
const settled: VerifierOptions = { usage: false };
// What all verifiers share is made by the first, which is not counted.
await weigh(store, {}, 0);
const rows: Row[] = [
  { name: "text: key id, name, limit id", unit: "bytes", values: [alike.text] },
  await beyondText(
    "beyond it: the record, ready to be verified",
    alike,
    { ...settled, limiter: forgetful },
    0,
    "≤ 300",
  ),
  await beyondText("beyond it: the record and its bucket in the limiter", alike, settled, 0),
  await beyondText("beyond it: the record, its bucket and its lease", alike, { ...settled, credits: LARGE_LEASES }, 1),
  await beyondText("beyond it: the record, while its use waits to be written", alike, { limiter: forgetful }, 0),
  { name: "text: the same, and of three permissions one that no other key has", unit: "bytes", values: [apart.text] },
  await beyondText("beyond it: the record, ready to be verified", apart, { ...settled, limiter: forgetful }, 0),
];
await store.close();
report({ question: "How many bytes does a remembered key take, beyond the text that it must hold?", rows });
