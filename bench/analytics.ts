/** What does it cost to count verifications: a call, the first of its key in an interval, a count that is written? */
import { randomUUID } from "node:crypto";
import Database from "better-sqlite3";
import { createAnalytics } from "../src/analytics/analytics.js";
import { type OutcomeCell, OUTCOMES } from "../src/contracts/outcomes.js";
import { createVerifier } from "../src/verify/verifier.js";
import { type Counted, OutcomeMeter } from "../src/verify/outcome-meter.js";
import { measure, report, scaled, type Side } from "./harness.js";
import { API, keyIdOf, WORKSPACE } from "./keys.js";
import { openCopy, scratch } from "./stores.js";
import { H, hashSide, remember, settle, verifySide } from "./work.js";

const KEYS = scaled(10_000, 500);
const WITHOUT = "verify: 10,000 unlimited keys, nothing counted";
const PIECE = 50;
const ONE_TAG = '["plan=pro"]';
const THREE_TAGS = '["plan=pro","region=eu","path=/documents"]';

const BARE_NEW = { floor: "SQLite: three bare upserts of new rows, in transactions of 150", goal: "≤ 1.5" };
const BARE_KNOWN = { floor: "SQLite: three bare upserts of known rows", goal: "≤ 1.5" };

const closing: (() => Promise<void>)[] = [];

/** Verifications on a store of their own, whose counts are compared with the calls. */
async function verifying(name: string, tags: string | undefined, isCounted: boolean, goal?: string): Promise<Side> {
  const { store } = await openCopy({ keys: KEYS, limited: false }, {}, `${closing.length}.db`);
  const verifier = createVerifier(store, isCounted ? { analytics: { interval: 60_000 } } : {});
  await remember(verifier, KEYS);
  closing.push(async () => store.close());
  const verify: typeof verifier.verify =
    tags === undefined
      ? verifier.verify
      : // Fresh texts, as those of a body are.
        (request) => verifier.verify({ ...request, tags: JSON.parse(tags) as string[] });
  const side = verifySide({ verify }, KEYS, {
    ...{ name, ...(tags === undefined && { floor: name === WITHOUT ? H : WITHOUT }) },
    ...(goal !== undefined && { goal }),
    async check(operations) {
      await verifier.close();
      if (!isCounted) return;
      const analytics = createAnalytics(store, { maxRows: 100_000_000 });
      const { rows } = await analytics.query({ by: [], from: 0, to: Date.now() + 1 });
      if (rows[0]?.count !== operations + KEYS)
        throw new Error(`${rows[0]?.count} of ${operations + KEYS} are counted`);
    },
  });
  return side;
}

/** Keys that have no row yet. */
function firstUses(): Side {
  const keys = Array.from({ length: scaled(100_000, 1_000) }, (_, n): Counted => ({
    ...{ cell: -1, workspaceId: WORKSPACE, apiId: API, keyId: keyIdOf(n) },
  }));
  return {
    name: "the first count of a key in an interval",
    operations: keys.length,
    run(operations) {
      const meter = new OutcomeMeter({ bytes: 2 ** 30, tagSets: 1 });
      for (const key of keys) meter.count(key, { code: "VALID", spent: 0 }, { now: 0, tags: [] });
      return meter.size === keys.length ? operations : 0;
    },
  };
}

/** A piece of counts on SQLite, of keys that have rows in all levels, or none. */
async function writing(name: string, isAgain: boolean): Promise<Side> {
  const { store } = await openCopy({ keys: KEYS, limited: false }, { durability: "process" }, `${name.length}.db`);
  closing.push(async () => store.close());
  const source = randomUUID();
  const counts = OUTCOMES.map((_, i) => (i === 0 ? 3 : 0));
  let seq = 0;
  const piece = (): OutcomeCell[] =>
    Array.from({ length: PIECE }, (_, i) => ({
      ...{ minute: 1_793_491_200_000, workspaceId: WORKSPACE, apiId: API, externalId: "", tags: [], counts, spent: 0 },
      keyId: keyIdOf(isAgain ? i : seq * PIECE + i),
    }));
  return {
    name,
    operations: PIECE * scaled(80, 1),
    async run(operations) {
      let right = 0;
      for (let done = 0; done < operations; done += PIECE) {
        const flush = { source, seq: seq + 1, at: 1_793_491_200_000, maxTagSets: 10, cells: piece() };
        if ((await store.countOutcomes(flush)).outcome === "counted") right += PIECE;
        seq++;
      }
      return right;
    },
  };
}

/** The least that a piece takes: a row in three tables for each count, and the transaction. */
function bareWriting(name: string, isAgain: boolean): Side {
  const db = new Database(scratch(`bare-counts-${isAgain}.db`));
  for (const pragma of ["journal_mode = WAL", "synchronous = NORMAL", "cache_size = -65536"]) db.pragma(pragma);
  const columns = ["spent", ...OUTCOMES.map((code) => code.toLowerCase())];
  const upserts = ["minute", "hour", "day"].map((table) => {
    const all = columns.map((column) => `${column} INTEGER`).join(", ");
    db.exec(`CREATE TABLE ${table} (bucket INTEGER, subject INTEGER, tag_set INTEGER, ${all},
      PRIMARY KEY (bucket, subject, tag_set)) WITHOUT ROWID`);
    return db.prepare(`INSERT INTO ${table} VALUES (1, ?, 1${", ?".repeat(columns.length)})
      ON CONFLICT DO UPDATE SET ${columns.map((column) => `${column} = ${column} + excluded.${column}`).join(", ")}`);
  });
  let pieces = 0;
  const piece = db.transaction(() => {
    const first = isAgain ? 0 : pieces++ * PIECE;
    for (const upsert of upserts)
      for (let i = 0; i < PIECE; i++) upsert.run(first + i, ...columns.map((_, column) => (column === 1 ? 3 : 0)));
  });
  closing.push(async () => void db.close());
  return {
    name,
    operations: PIECE * scaled(80, 1),
    run(operations) {
      for (let done = 0; done < operations; done += PIECE) piece();
      return operations;
    },
  };
}

// Apart, so that no write of counts falls into what is measured: they come a minute after the first call.
const calls = await measure([
  hashSide(),
  await verifying(WITHOUT, undefined, false),
  await verifying("the same again, to see what the machine makes of it", undefined, false),
  await verifying("verify, counted", undefined, true, "≤ + 0.2 H"),
]);
const tagged = await measure([
  await verifying("verify with a tag, parsed anew, nothing counted", ONE_TAG, false),
  await verifying("the same, counted", ONE_TAG, true),
  await verifying("verify with three tags, nothing counted", THREE_TAGS, false),
  await verifying("the same, counted", THREE_TAGS, true),
  firstUses(),
]);
await settle();
const writes = await measure([
  bareWriting("SQLite: three bare upserts of new rows, in transactions of 150", false),
  { ...(await writing("a count of a new key, in minute, hour and day", false)), ...BARE_NEW },
  bareWriting("SQLite: three bare upserts of known rows", true),
  { ...(await writing("a count of a known key", true)), ...BARE_KNOWN },
]);
for (const close of closing) await close();
report({
  question:
    "What does it cost to count verifications: a call, the first of its key in an interval, a count that is written?",
  rows: [...calls, ...tagged, ...writes],
});
