/** Counts of verifications in PostgreSQL: one statement a flush. Store clause 28. */
import { KeystileError } from "../../contracts/errors.js";
import { type FlushResult, LEVELS, type OutcomeFlush, type OutcomeLevel } from "../../contracts/outcomes.js";
import type { Store } from "../../contracts/store.js";
import {
  accountsOf,
  DAY,
  type Dialect,
  entriesOf,
  FORGOTTEN_KEYS,
  lastDayOf,
  type OutcomeEntry,
  REFUSED_KEYS,
  refusedIn,
  selectOutcomes,
  tagTexts,
  toCreditDay,
  toOutcomeRows,
  TOTALS_KEPT,
} from "../outcome-entries.js";
import { type Session, type Statement, writing } from "./client.js";
import { KEPT_LEVELS, OLDEST_REFUSAL } from "./outcomes-sql.js";
import { fieldOf, isStorable, jsonForPeople } from "./texts.js";
import { ENDED } from "./entities.js";

type OutcomeMethods = Required<
  Pick<Store, "countOutcomes" | "readOutcomes" | "readCreditDays" | "readRefusals" | "pruneOutcomes">
>;
type Promised = { readonly [M in keyof OutcomeMethods]: (...given: Parameters<OutcomeMethods[M]>) => Promise<never> };

const dialect = (s: string): Dialect => ({
  table: (name) => `${s}.${name}`,
  number: (place) => `$${place}::text::bigint`,
  text: (place) => `$${place}::text`,
  list: (place) => `(SELECT pg_catalog.jsonb_array_elements_text($${place}::text::jsonb))`,
  calendar: (table, from, to) => `(SELECT g.b FROM pg_catalog.generate_series(
    greatest(${from}, (SELECT pg_catalog.min(bucket) FROM ${table})),
    least(${to} - 1::bigint, (SELECT pg_catalog.max(bucket) FROM ${table}))) AS g(b))`,
  sum: (column) => `pg_catalog.sum(${column})::text`,
  plain: (column) => `(${column})::text`,
  count: "pg_catalog.count(*)",
  none: "0::bigint",
});

/** @param s the schema, quoted @param lockMs milliseconds to wait for a lock */
export function createOutcomes(session: Session, s: string, lockMs: number): Promised {
  const count = writing(`${s}.count_outcomes_v3($1, ${REFUSED_KEYS}, ${FORGOTTEN_KEYS})`, lockMs);
  // Of the first of the keys, which may be gone.
  const keyOf = (account: string): string =>
    `coalesce((SELECT k.id FROM ${s}.keys k WHERE k.number = ${account}),
      (SELECT ${fieldOf("k", "accountId")} FROM ${s}.keys k WHERE k.account = ${account} LIMIT 1))`;
  const identityOf = (account: string): string =>
    `(SELECT i.id FROM ${s}.entities i WHERE i.kind = 'identities' AND i.account = ${account})`;
  const creditDays: Statement = {
    isRead: true,
    text: `WITH m AS (
        SELECT u.account FROM ${s}.subjects u
          WHERE u.workspace_id = $1::text AND u.is_total = 0::bigint AND u.key_id = $2::text AND u.account <> 0::bigint
        UNION SELECT e.account FROM ${s}.credit_days e WHERE e.workspace_id = $1::text AND e.external_id = $3::text AND e.external_id <> ''
      ), asked AS (
        SELECT m.account FROM m
        UNION SELECT e.account FROM m CROSS JOIN LATERAL (SELECT coalesce(${identityOf("m.account")}, ${keyOf("m.account")}) AS id) o
          JOIN ${s}.entities e ON e.kind = 'grants' AND e.parent = ANY (ARRAY[o.id, '${ENDED}' || o.id]) AND e.account IS NOT NULL
      )
      SELECT d.account::text, d.external_id AS "externalId", d.is_cap::text AS "isCap", (d.day * ${DAY}::bigint)::text AS day, ${[...TOTALS_KEPT, "balance"].map((name) => `d.${name}::text`).join(", ")},
        ${keyOf("d.account")} AS "keyId", ${identityOf("d.account")} AS "identityId", g.id AS "grantId", ${fieldOf("g", "expires")} AS expires
      FROM asked a JOIN ${s}.credit_days d ON d.account = a.account
        LEFT JOIN ${s}.entities g ON g.kind = 'grants' AND g.account = d.account
      WHERE d.seq >= coalesce(
          (SELECT pg_catalog.min(e.seq) - 1::bigint FROM ${s}.credit_days e WHERE e.account = d.account AND e.day >= $4::text::bigint),
          (SELECT pg_catalog.max(e.seq) FROM ${s}.credit_days e WHERE e.account = d.account))
        AND d.seq <= (SELECT pg_catalog.max(e.seq) FROM ${s}.credit_days e WHERE e.account = d.account AND e.day < $5::text::bigint)
      ORDER BY d.account, d.seq`,
  };
  const removing = (table: string, condition: string): string => `${s}.${table} d WHERE d.ctid = ANY (ARRAY(
    SELECT d.ctid FROM ${s}.${table} d WHERE ${condition} LIMIT $2::text::bigint FOR UPDATE SKIP LOCKED))`;
  const refusals: Statement = {
    isRead: true,
    text: `SELECT refusals::text FROM ${s}.refusals WHERE key_id = $1::text AND workspace_id = $2::text`,
  };
  const removeRefusals: Statement = {
    isRead: false,
    text: `WITH old AS (
        SELECT ctid, time FROM ${s}.refusals WHERE ${OLDEST_REFUSAL} < $1::text::bigint LIMIT $2::text::bigint FOR UPDATE SKIP LOCKED
      ), gone AS (DELETE FROM ${s}.refusals d USING old o WHERE d.ctid = o.ctid AND o.time < $1::text::bigint),
      cut AS (
        UPDATE ${s}.refusals d SET refusals = (
          SELECT pg_catalog.jsonb_agg(e.value ORDER BY e.ordinality) FROM pg_catalog.jsonb_array_elements(d.refusals) WITH ORDINALITY e
          WHERE pg_catalog.jsonb_extract_path_text(e.value, 'time')::bigint >= $1::text::bigint)
        FROM old o WHERE d.ctid = o.ctid AND o.time >= $1::text::bigint
      ) SELECT pg_catalog.count(*)::text AS removed FROM old`,
  };
  const remove = (level: OutcomeLevel): Statement => ({
    isRead: false,
    text: `WITH gone AS (DELETE FROM ${removing(`outcomes_${level}`, "d.bucket < $1::text::bigint")} RETURNING 1)
      SELECT pg_catalog.count(*)::text AS removed FROM gone`,
  });
  const since = `least($1::text::bigint, (SELECT pg_catalog.min(bucket) / 24::bigint FROM ${s}.outcomes_hour),
    (SELECT pg_catalog.min(bucket) FROM ${s}.outcomes_day))`;
  const isNobodys = `d.external_id IS NULL
    AND NOT EXISTS (SELECT 1 FROM ${s}.credit_days e WHERE e.account = d.account AND e.seq > d.seq)`;
  const unnamed = {
    flushes: removing("flushes", `d.at < $1::text::bigint * ${DAY}::bigint`),
    sets: removing("tag_sets", `d.day < ${since}`),
    subjects: removing("subjects", `d.account = 0::bigint AND d.day < ${since}`),
    // Before the totals of the account, by which they are found.
    past: `${s}.subjects x WHERE x.number IN (SELECT u.number FROM ${s}.credit_days d JOIN ${s}.subjects u ON u.account = d.account
      WHERE u.account <> 0::bigint AND d.until < ${since} AND ${isNobodys} LIMIT $2::text::bigint)`,
    totals: removing(
      "credit_days",
      `d.until < ${since} AND NOT (${isNobodys} AND EXISTS (SELECT 1 FROM ${s}.subjects u WHERE u.account = d.account AND u.account <> 0::bigint))`,
    ),
  };
  const removeUnnamed: Statement = {
    isRead: false,
    text: `WITH ${Object.entries(unnamed)
      .map(([name, from]) => `${name} AS (DELETE FROM ${from} RETURNING 1)`)
      .join(", ")} SELECT greatest(${Object.keys(unnamed)
      .map((name) => `(SELECT pg_catalog.count(*) FROM ${name})`)
      .join(", ")})::text AS removed`,
  };
  return {
    async countOutcomes(flush: OutcomeFlush) {
      const { source, seq, at, maxTagSets, cells } = flush;
      const texts = tagTexts(cells);
      const entries = KEPT_LEVELS.map((level) => [level, entriesOf(cells, texts, level).map(toFields)] as const);
      const accounts = accountsOf(cells).map(String);
      const refused = refusedIn(cells);
      const given = {
        source,
        seq,
        at,
        maxTagSets,
        refused,
        today: lastDayOf(flush),
        accounts,
        ...Object.fromEntries(entries),
      };
      const [row] = await session.run(count, jsonForPeople(given));
      return JSON.parse(row?.["result"] as string) as FlushResult as never;
    },
    async readOutcomes(query) {
      assertKept(query.level);
      const { text, values } = selectOutcomes(query, dialect(s));
      return toOutcomeRows(await session.run({ isRead: true, text }, ...values.map(String)), query) as never;
    },
    async readCreditDays({ workspaceId, keyId = null, externalId = null, from, to }) {
      const days = [from, to].map((time) => String(time / DAY));
      const rows = await session.run(creditDays, workspaceId, keyId, externalId, ...days);
      return rows.map(toCreditDay) as never;
    },
    async readRefusals({ keyId, workspaceId }) {
      if (!isStorable(keyId + workspaceId)) return [] as never;
      const [row] = await session.run(refusals, keyId, workspaceId);
      return JSON.parse((row?.["refusals"] as string | undefined) ?? "[]") as never;
    },
    async pruneOutcomes(level, before, most) {
      if (level === "minute") return 0 as never;
      const run = async (statement: Statement, length: number): Promise<number> =>
        Number((await session.run(statement, String(Math.floor(before / length)), String(most)))[0]?.["removed"]);
      const removed = await run(remove(level), LEVELS[level]);
      const more = level === "day" ? await run(removeUnnamed, DAY) : await run(removeRefusals, 1);
      return Math.max(removed, more) as never;
    },
  };
}

function toFields({ bucket, of, tags, sums, place }: OutcomeEntry): object {
  const { workspaceId, isTotal, keyId, externalId, apiId, account = 0 } = of;
  return {
    ...{ bucket, tags, ws: workspaceId, total: Number(isTotal === true), key: keyId, ext: externalId, api: apiId },
    ...{ account: Number(account), n: sums, ...(place !== undefined && { place }) },
  };
}

function assertKept(level: OutcomeLevel): void {
  if (level === "minute")
    throw new KeystileError("STORE_POWER_MISSING", "PostgreSQL keeps counts of hours and days, and none of minutes");
}
