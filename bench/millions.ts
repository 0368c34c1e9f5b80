/** What changes with 10,000,000 keys: cold, hot and uniform cost, memory, the file, the start, and the longest pause for garbage? */
import { existsSync, statSync } from "node:fs";
import { PerformanceObserver } from "node:perf_hooks";
import { sqliteStore } from "../src/sqlite.js";
import { createVerifier } from "../src/verifier.js";
import { openSnapshots } from "./bare.js";
import { measure, report, type Row, scaled, type Side } from "./harness.js";
import { digestOf, endless, requestFor, sample } from "./keys.js";
import { openCopy } from "./stores.js";
import { H, hashSide, remember, verifySide } from "./work.js";

const ASKED = process.argv.find((argument) => argument.startsWith("--keys="))?.slice("--keys=".length);
const KEYS = scaled(Number(ASKED ?? 10_000_000), 2_000);
if (!Number.isSafeInteger(KEYS) || KEYS < 1_000) throw new RangeError("--keys must be an integer, 1,000 or more");
/** Of the keys in the file, those that fit the memory of a common server. */
const REMEMBERED = Math.min(KEYS, 1_000_000);
const IN_USE = Math.min(KEYS, 4_096);
const COLD_FLOOR = "bare prepared SELECT of a snapshot by digest + JSON.parse";

const count = (n: number): string => n.toLocaleString("en-US");
const MB = 2 ** 20;
const rows: Row[] = [];
const note = (name: string, unit: Row["unit"], value: number): void => void rows.push({ name, unit, values: [value] });

/** The longest pause for garbage while `work` runs, milliseconds; those after it, when much is let go, are its own fault. */
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

const resident = (): number => process.memoryUsage.rss() / MB;
const sizeOf = (path: string): number => (existsSync(path) ? statSync(path).size / MB : 0);

const before = resident();
const { store: built, path } = await openCopy({ keys: KEYS, limited: false });
await built.close();
const opening = performance.now();
const store = sqliteStore(path);
const firstVerifier = createVerifier(store);
if ((await firstVerifier.verify(requestFor(KEYS >> 1))).code !== "VALID") throw new Error("a key of the bench is not VALID");
note("the file opened, and the first call answered", "ms", performance.now() - opening);
await firstVerifier.close();
note("the file", "MB", sizeOf(path) + sizeOf(`${path}-wal`));
note("resident memory before", "MB", before);
note("resident memory, store open", "MB", resident());

// Cold: what is asked for is never remembered.
{
  const verifier = createVerifier(store, { cache: { size: 1, missSize: 0 } });
  const bare = await openSnapshots(KEYS);
  const next = endless(sample(KEYS).slice(0, REMEMBERED).map(digestOf));
  const floor: Side = {
    name: COLD_FLOOR,
    run(operations) {
      let right = 0;
      for (let i = 0; i < operations; i++) {
        const row = bare.find.get(next());
        if (row !== undefined && typeof JSON.parse(row.body) === "object") right++;
      }
      return right;
    },
  };
  const cold = verifySide(verifier, KEYS, { name: `cold: any of ${count(KEYS)} keys, none remembered`, floor: COLD_FLOOR });
  rows.push(...(await measure([floor, cold])));
  await verifier.close();
  bare.close();
}

const verifier = createVerifier(store, { cache: { size: REMEMBERED } });
const filling = await longestPause(() => remember(verifier, REMEMBERED));
note(`resident memory, ${count(REMEMBERED)} keys remembered`, "MB", resident());
let running = 0;
const timed = async (sides: readonly Side[]): Promise<void> => {
  running = Math.max(running, await longestPause(async () => rows.push(...(await measure(sides)))));
};
await timed([
  hashSide(),
  verifySide(verifier, IN_USE, { name: `hot: any of ${count(IN_USE)} keys`, floor: H }),
  verifySide(verifier, REMEMBERED, { name: `uniform: any of the ${count(REMEMBERED)} keys remembered`, floor: H }),
]);
await timed([
  hashSide(),
  verifySide(verifier, KEYS, { name: `uniform: any of ${count(KEYS)} keys, ${count(REMEMBERED)} remembered`, floor: H }),
]);
note("longest pause for garbage while the cache fills", "ms", filling);
note("longest pause for garbage while keys are verified", "ms", running);
await verifier.close();
await store.close();
report({
  question: `What do ${count(KEYS)} keys in one file, unlimited but for a rate limit, cost: time, memory, disk, start and pauses?`,
  rows,
});
