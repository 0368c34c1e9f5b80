/**
 * What changes with 10,000,000 keys: cold, hot and uniform cost, memory, the file, the start, and the longest pause for
 * garbage?
 */
import { existsSync, statSync } from "node:fs";
import { PerformanceObserver } from "node:perf_hooks";
import type { Store } from "../src/contracts/store.js";
import { sqliteStore } from "../src/stores/sqlite/index.js";
import { createVerifier } from "../src/verify/verifier.js";
import { openSnapshots, type Snapshots } from "./bare.js";
import { measure, report, type Row, scaled, type Side } from "./harness.js";
import { digestOf, endless, requestFor, sample } from "./keys.js";
import { largeSnapshots, largeStore } from "./large.js";
import { openCopy } from "./stores.js";
import { H, hashSide, remember, verifySide } from "./work.js";

const ASKED = process.argv.find((argument) => argument.startsWith("--keys="))?.slice("--keys=".length);
const KEYS = scaled(Number(ASKED ?? 10_000_000), 2_000);
if (!Number.isSafeInteger(KEYS) || KEYS < 1_000) throw new RangeError("--keys must be an integer, 1,000 or more");
/** What the others are compared with. */
const FEW = scaled(100_000, 1_000);
/** Of the keys in the file, those that fit the memory of a common server. */
const REMEMBERED = Math.min(KEYS, 1_000_000);
const IN_USE = Math.min(KEYS, 4_096);
/** Different keys that are asked for, so that the requests themselves are not what is measured. */
const MOST_ASKED = 1_000_000;

const count = (n: number): string => n.toLocaleString("en-US");
const MB = 2 ** 20;
const rows: Row[] = [];
const note = (name: string, unit: Row["unit"], value: number): void => void rows.push({ name, unit, values: [value] });
const resident = (): number => process.memoryUsage.rss() / MB;
const sizeOf = (path: string): number => (existsSync(path) ? statSync(path).size / MB : 0);

/**
 * The longest pause for garbage while `work` runs, milliseconds; those after it, when much is let go, are its own
 * fault.
 */
async function longestPause(work: () => Promise<unknown>): Promise<number> {
  const pauses: number[] = [];
  const observer = new PerformanceObserver((list) => pauses.push(...list.getEntries().map(({ duration }) => duration)));
  observer.observe({ entryTypes: ["gc"] });
  await work();
  await new Promise(setImmediate);
  pauses.push(...observer.takeRecords().map(({ duration }) => duration));
  observer.disconnect();
  return Math.max(0, ...pauses);
}

function floorSide(bare: Snapshots, keys: number, floor?: string): Side {
  const next = endless(sample(keys).slice(0, MOST_ASKED).map(digestOf));
  return {
    name: `bare prepared SELECT of a snapshot by digest + JSON.parse: ${count(keys)} rows`,
    ...(floor !== undefined && { floor }),
    run(operations) {
      let right = 0;
      for (let i = 0; i < operations; i++) {
        const row = bare.find.get(next());
        if (row !== undefined && typeof JSON.parse(row.body) === "object") right++;
      }
      return right;
    },
  };
}

/** What is asked for is never remembered: a cache of one record, and keys at random. */
async function compareCold(store: Store): Promise<void> {
  const few = await openCopy({ keys: FEW, limited: false });
  const [bareFew, bare] = [await openSnapshots(FEW), await largeSnapshots(KEYS)];
  const cache = { size: 1 };
  const [verifierFew, verifier] = [createVerifier(few.store, { cache }), createVerifier(store, { cache })];
  const name = (keys: number): string => `cold: any of ${count(keys)} keys, none remembered`;
  const floor = floorSide(bareFew, FEW);
  const found = await measure([
    floor,
    floorSide(bare, KEYS, floor.name),
    verifySide(verifierFew, FEW, { name: name(FEW), floor: floor.name }),
    verifySide(verifier, KEYS, { name: name(KEYS), floor: name(FEW), goal: "≤ 2" }, MOST_ASKED),
  ]);
  rows.push(...found);
  for (const one of [verifierFew, verifier, few.store, bareFew, bare]) await one.close();
}

const before = resident();
const path = await largeStore(KEYS);
const opening = performance.now();
const store = sqliteStore(path);
const firstVerifier = createVerifier(store);
if ((await firstVerifier.verify(requestFor(KEYS >> 1))).code !== "VALID")
  throw new Error("a key of the bench is not VALID");
note("the file opened, and the first call answered", "ms", performance.now() - opening);
await firstVerifier.close();
note("the file", "MB", sizeOf(path) + sizeOf(`${path}-wal`));
note("resident memory before", "MB", before);
note("resident memory, store open", "MB", resident());
await compareCold(store);

/** Verifies so many keys once each, then `sides` of a verifier that remembers them all. */
async function remembering(
  size: number,
  sides: (verifier: ReturnType<typeof createVerifier>) => readonly Side[][],
): Promise<void> {
  const verifier = createVerifier(store, { cache: { size } });
  const began = performance.now();
  const filling = await longestPause(() => remember(verifier, size));
  note(`${count(size)} keys verified for the first time, each`, "ns", ((performance.now() - began) * 1e6) / size);
  note(`resident memory, ${count(size)} keys remembered`, "MB", resident());
  let running = 0;
  for (const some of sides(verifier)) {
    running = Math.max(running, await longestPause(async () => rows.push(...(await measure(some)))));
  }
  note(`longest pause for garbage while ${count(size)} keys come to be remembered`, "ms", filling);
  note("longest pause for garbage while keys are verified", "ms", running);
  await verifier.close();
}

const any = (of: string) => ({ name: `uniform: any of ${of}`, floor: H });
await remembering(REMEMBERED, (verifier) => [
  [
    hashSide(),
    verifySide(verifier, IN_USE, {
      name: `hot: any of ${count(IN_USE)} keys, ${count(REMEMBERED)} remembered`,
      floor: H,
    }),
    verifySide(verifier, REMEMBERED, any(`the ${count(REMEMBERED)} keys remembered`)),
  ],
  [hashSide(), verifySide(verifier, KEYS, any(`${count(KEYS)} keys, ${count(REMEMBERED)} remembered`), MOST_ASKED)],
]);
if (KEYS > REMEMBERED) {
  await remembering(KEYS, (verifier) => [
    [
      hashSide(),
      verifySide(verifier, IN_USE, { name: `hot: any of ${count(IN_USE)} keys, ${count(KEYS)} remembered`, floor: H }),
      verifySide(verifier, KEYS, any(`the ${count(KEYS)} keys remembered`), MOST_ASKED),
    ],
  ]);
}
await store.close();
report({
  question: `What do ${count(KEYS)} keys in one file, unlimited but for a rate limit, cost: time, memory, disk, start and pauses?`,
  rows,
});
