/** How long does a fresh process take to open a store of 1,000,000 keys and to answer its first call? */
import { fork } from "node:child_process";
import Database from "better-sqlite3";
import { sqliteStore } from "../src/stores/sqlite/index.js";
import { createVerifier } from "../src/verify/verifier.js";
import { openSnapshots } from "./bare.js";
import { report, type Row, scaled } from "./harness.js";
import { digestOf, requestFor } from "./keys.js";
import { kept, openCopy } from "./stores.js";

const KEYS = scaled(1_000_000, 2_000);
const ROUNDS = scaled(9, 2);
/** Verified first: neither the first key of the file nor the last. */
const FIRST = Math.floor(KEYS * 0.6);

/** Milliseconds that a fresh process took. */
interface Start {
  /** From a loaded program to the first answer. */
  readonly opened: number;
  /** From the start of the process, Node's own and the loading of modules included. */
  readonly whole: number;
}

/** @returns what `begin` took, in a process where nothing of the kind was done before */
async function startOf(begin: () => Promise<boolean>): Promise<Start> {
  const began = performance.now();
  const right = await begin();
  const end = performance.now();
  if (!right) throw new Error("the first answer is wrong");
  return { opened: end - began, whole: end };
}

async function openStore(path: string): Promise<boolean> {
  const verifier = createVerifier(sqliteStore(path));
  return (await verifier.verify(requestFor(FIRST))).code === "VALID";
}

async function openBare(path: string): Promise<boolean> {
  const find = new Database(path).prepare<[string], { body: string }>("SELECT body FROM snapshots WHERE digest = ?");
  const row = find.get(digestOf(FIRST));
  return row !== undefined && typeof JSON.parse(row.body) === "object";
}

/**
 * This very program again, as one of the two that are measured. Waits for its end, at which it still holds its file.
 */
function inFreshProcess(...args: readonly string[]): Promise<Start> {
  const child = fork(process.argv[1]!, [...process.argv.slice(2), ...args]);
  let start: Start | undefined;
  child.once("message", (message) => (start = message as Start));
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      if (code === 0 && start !== undefined) resolve(start);
      else reject(new Error(`a fresh process ended with ${code}`));
    });
  });
}

async function main(): Promise<void> {
  const { store, path } = await openCopy({ keys: KEYS, limited: true });
  await store.close();
  (await openSnapshots(KEYS)).close();
  const snapshots = await kept(`snapshots-${KEYS}.db`, () =>
    Promise.reject(new Error("the snapshots should be there by now")),
  );
  const [bare, opened]: [Start[], Start[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    bare.push(await inFreshProcess(`--bare=${snapshots}`));
    opened.push(await inFreshProcess(`--open=${path}`));
  }
  const row = (name: string, values: number[], more: Partial<Row> = {}): Row => ({ name, unit: "ms", values, ...more });
  const [floor, wholeFloor] = ["bare driver: open, one SELECT + JSON.parse", "the same, from the start of the process"];
  report({
    question: "How long does a fresh process take to open a store of 1,000,000 keys and to answer its first call?",
    rows: [
      row(
        floor,
        bare.map((start) => start.opened),
      ),
      row(
        "sqliteStore, createVerifier, the first VALID",
        opened.map((start) => start.opened),
        { floor, goal: "< 50 ms" },
      ),
      row(
        wholeFloor,
        bare.map((start) => start.whole),
      ),
      row(
        "sqliteStore and all, from the start of the process",
        opened.map((start) => start.whole),
        { floor: wholeFloor },
      ),
    ],
  });
}

const [role, path = ""] = (process.argv.at(-1) ?? "").split("=");
if (role === "--bare") process.send?.(await startOf(() => openBare(path)));
else if (role === "--open") process.send?.(await startOf(() => openStore(path)));
else await main();
