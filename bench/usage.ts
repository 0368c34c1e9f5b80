/** What do counts cost others: a spend while 100,000 counts are written, and a query over a million counts of days? */
import { randomUUID } from "node:crypto";
import Database from "better-sqlite3";
import { createAnalytics } from "../src/analytics/analytics.js";
import type { AnalyticsQuery } from "../src/analytics/query.js";
import { OUTCOMES } from "../src/contracts/outcomes.js";
import { periodOf } from "../src/credits/refill-calendar.js";
import { sqliteStore } from "../src/stores/sqlite/index.js";
import { report, type Row, scaled } from "./harness.js";
import { API, keyIdOf, WORKSPACE } from "./keys.js";
import { addLatency, createLatencies, latencyAt } from "./latencies.js";
import { openCopy, scratch } from "./stores.js";

const CELLS = scaled(100_000, 500);
const PIECE = 50;
const DAYS = 90;
const SUBJECTS = Math.floor(scaled(Number(process.env["USAGE_ROWS"] ?? 1_000_000), 9_000) / DAYS);
const LAST = Math.floor(Date.UTC(2026, 10, 1) / 86_400_000);
const ROUNDS = scaled(5, 1);
const counts = OUTCOMES.map((_, i) => (i === 0 ? 3 : 0));

/** Milliseconds of a spend, one in flight: alone, and while pieces of counts follow each other as in a flush. */
async function spends(): Promise<Row[]> {
  const { store } = await openCopy({ keys: 1_000, limited: true }, {}, "usage.db");
  const [key] = await store.readMany("keys", [keyIdOf(0)]);
  const [found] = await store.findKeys([key!.digest!]);
  const period = periodOf(found!.refill, Date.now());
  const source = randomUUID();
  let seq = 0;
  const rounds = async (isFlushing: boolean): Promise<number> => {
    const latencies = createLatencies();
    let isDone = !isFlushing;
    const flushing = (async () => {
      for (let first = 0; isFlushing && first < CELLS; first += PIECE) {
        const cells = Array.from({ length: PIECE }, (_, i) => ({
          ...{
            minute: LAST * 86_400_000,
            workspaceId: WORKSPACE,
            apiId: API,
            externalId: "",
            tags: [],
            counts,
            spent: 0,
          },
          keyId: keyIdOf(first + i),
        }));
        await store.countOutcomes({ source, seq: ++seq, at: LAST * 86_400_000, maxTagSets: 10, cells });
      }
      isDone = true;
    })();
    for (let calls = 0; !isDone || calls < CELLS / 50; calls++) {
      const began = performance.now();
      await store.spendCredits(found!.ref, 1, period, Date.now());
      addLatency(latencies, performance.now() - began);
    }
    await flushing;
    return latencyAt(latencies, 0.99);
  };
  const values: Record<string, number[]> = { alone: [], again: [], flushing: [] };
  await rounds(true);
  for (let i = 0; i < ROUNDS; i++) {
    values["alone"]!.push(await rounds(false));
    values["flushing"]!.push(await rounds(true));
    values["again"]!.push(await rounds(false));
  }
  await store.close();
  const floor = "p99 of a spend, nothing else to do";
  return [
    { name: floor, unit: "ms", values: values["alone"]! },
    { name: "the same again", unit: "ms", values: values["again"]!, floor },
    {
      name: `p99 of a spend while ${CELLS} counts are written`,
      unit: "ms",
      values: values["flushing"]!,
      floor,
      goal: "≤ 1.2",
    },
  ];
}

const valueOf = (bucket: number, subject: number): number => ((bucket + subject) % 7) + 1;
const total = (subjects: Iterable<number>, days: number): number => {
  let sum = 0;
  for (const subject of subjects) for (let day = LAST - days; day < LAST; day++) sum += valueOf(day, subject);
  return sum;
};

/** A file with a count for each of some thousand keys on each of 90 days, and those of their API. */
function filled(): Database.Database {
  const db = new Database(scratch("usage-days.db"));
  void sqliteStore(db).close();
  const zeros = OUTCOMES.slice(1)
    .map(() => "0")
    .join(", ");
  const subject = db.prepare(`INSERT INTO keystile_subjects VALUES (?, 'ws_default', ?, ?, ?, 'api_1', 0, ${LAST})`);
  const row = db.prepare(`INSERT INTO keystile_outcomes_day VALUES (?, ?, ?, ?, ${zeros}, 0)`);
  const fill = db.transaction(() => {
    for (let i = 1; i <= 10; i++)
      db.prepare(`INSERT INTO keystile_tag_sets VALUES (?, 'ws_default', randomblob(16), ${LAST}, ?)`).run(
        i,
        `["t=${i}"]`,
      );
    for (let s = 1; s <= SUBJECTS; s++) subject.run(s, 0, `key_${s}`, `customer_${s % 1_000}`);
    subject.run(SUBJECTS + 1, 1, "", "");
    for (let day = LAST - DAYS; day < LAST; day++) {
      const ofTags = Array.from({ length: 11 }, () => 0);
      for (let s = 1; s <= SUBJECTS; s++) {
        row.run(day, s, (s % 10) + 1, valueOf(day, s));
        ofTags[(s % 10) + 1]! += valueOf(day, s);
      }
      for (let i = 1; i <= 10; i++) row.run(day, SUBJECTS + 1, i, ofTags[i]!);
    }
  });
  fill();
  return db;
}

async function queries(): Promise<Row[]> {
  const db = filled();
  const store = sqliteStore(db);
  const analytics = createAnalytics(store, { maxRows: 100_000_000 });
  const period = { from: (LAST - DAYS) * 86_400_000, to: LAST * 86_400_000 };
  const month = { ...period, from: (LAST - 30) * 86_400_000 };
  const every = Array.from({ length: Math.floor(SUBJECTS) }, (_, i) => i + 1);
  const ofCustomer = every.filter((s) => s % 1_000 === 7);
  const within = `o.bucket >= ${LAST - DAYS} AND o.bucket < ${LAST}`;
  const days = `(WITH RECURSIVE c (b) AS (SELECT ${LAST - DAYS} UNION ALL SELECT b + 1 FROM c WHERE b < ${LAST - 1}) SELECT b FROM c)`;
  const few = (where: string) =>
    `(SELECT number FROM keystile_subjects WHERE workspace_id = 'ws_default' AND ${where}) s CROSS JOIN ${days} c
     CROSS JOIN keystile_outcomes_day o ON o.bucket = c.b AND o.subject = s.number`;
  const sums = OUTCOMES.map((code) => `sum(o.${code.toLowerCase()})`).join(", ") + ", sum(o.spent)";
  const asked: [string, AnalyticsQuery, string, number][] = [
    [
      "one key, by day",
      { ...period, by: ["day"], where: { keyId: ["key_7"] } },
      `SELECT o.bucket, ${sums} FROM ${few("is_total = 0 AND key_id = 'key_7'")} GROUP BY 1`,
      total([7], DAYS),
    ],
    [
      "one customer, by day",
      { ...period, by: ["day"], where: { externalId: ["customer_7"] } },
      `SELECT o.bucket, ${sums} FROM ${few("is_total = 0 AND external_id = 'customer_7'")} GROUP BY 1`,
      total(ofCustomer, DAYS),
    ],
    [
      "100 customers with most in a month",
      { ...month, by: ["externalId"], order: "count", limit: 10_000 },
      `SELECT s.external_id, ${sums} FROM keystile_outcomes_day o CROSS JOIN keystile_subjects s WHERE s.number = o.subject AND s.is_total = 0 AND o.bucket >= ${LAST - 30} AND o.bucket < ${LAST} GROUP BY 1`,
      total(every, 30),
    ],
    ["by outcome", { ...period, by: ["outcome"] }, `SELECT ${sums} FROM ${few("is_total = 1")}`, total(every, DAYS)],
    [
      "by tag",
      { ...period, by: ["tag"] },
      `SELECT t.tags, ${sums} FROM ${few("is_total = 1")} JOIN keystile_tag_sets t ON t.number = o.tag_set GROUP BY 1`,
      total(every, DAYS),
    ],
    [
      "by day and API",
      { ...period, by: ["day", "apiId"] },
      `SELECT o.bucket, ${sums} FROM ${few("is_total = 1")} WHERE ${within} GROUP BY 1`,
      total(every, DAYS),
    ],
  ];
  const rows: Row[] = [];
  for (const [name, query, text, expected] of asked) {
    const bare = db.prepare(text);
    const values: [number[], number[], number[]] = [[], [], []];
    for (let i = 0; i <= ROUNDS; i++)
      for (const [side, into] of values.entries()) {
        const began = performance.now();
        const found =
          side === 1 ? (await analytics.query(query)).rows.reduce((sum, one) => sum + one.count, 0) : bare.all();
        const ms = performance.now() - began;
        if (i > 0) into.push(ms);
        if (typeof found === "number" && found !== expected)
          throw new Error(`${name}: ${found} in place of ${expected}`);
      }
    const floor = `${name}: the bare statement`;
    rows.push(
      { name: floor, unit: "ms", values: values[0] },
      { name: `${name}: the same again`, unit: "ms", values: values[2], floor },
      { name, unit: "ms", values: values[1], floor, goal: "≤ 1.2" },
    );
  }
  await store.close();
  db.close();
  return rows;
}

report({
  question:
    "What do counts cost others: a spend while 100,000 counts are written, and a query over a million counts of days?",
  rows: [...(await spends()), ...(await queries())],
});
