/**
 * Proves the accounts of a database, key by key, and the counts of idempotency records. It writes and locks nothing:
 * each statement is one moment, in which every transaction is there as a whole or not at all.
 *
 * Slices are bounded by rows, and everything beside a row is looked up by an index: as subqueries of one value, which
 * the planner cannot turn into a scan of the whole table. The records of one workspace are counted by one statement,
 * since their number and the count change together; its share bounds them.
 */
import { ABANDONED, MAX_BALANCE } from "../../credits/account.js";
import type { OwningTable } from "../codec/exported-rows.js";
import { createFindings, type Findings, type Reconciliation } from "../reconciliation.js";
import { createSession, type PostgresClient, type PostgresRow } from "./client.js";
import { quoted } from "./schema.js";
import { fieldOf } from "./texts.js";

/** Rows per statement: some 30 ms, and too little for PostgreSQL to compile it, which took 500. */
const BATCH = 2_000;
/** Milliseconds for a statement, which a server without its pages in memory may need. */
const TIMEOUT = 60_000;
/** Below every number, and before every text. */
const FIRST_NUMBER = "-9223372036854775808";
const FIRST_TEXT = "";

const LIMITED = `${fieldOf("k", "limited")} IS NOT NULL`;
const HAS_CREDITS = `coalesce(${fieldOf("i", "hasCredits")}, 'false') = 'true'`;
const exact = (...names: string[]) => names.map((name) => `a.${name}::numeric`).join(" + ");
const GAINED = ["credited", "refilled", "adjusted"];
const WENT = ["spent", "remaining", "reserved", "forfeited"];
const AMOUNTS = [...WENT, "amount", "credited", "refilled", "expired"].map((name) => `a.${name}`).join(", ");

/** Each as a condition that holds when something is wrong, and the words for it. @param s the schema, quoted */
const problems = (s: string): readonly (readonly [condition: string, words: string])[] => [
  [
    `k.id IS NULL AND i.id IS NULL AND (SELECT true FROM ${s}.keys o WHERE o.account = a.number LIMIT 1) IS NULL`,
    "'an account without a key, an identity or a grant'",
  ],
  [
    `${exact(...GAINED)} <> ${exact(...WENT)}`,
    `pg_catalog.format('credited %s + refilled %s + adjusted %s is not spent %s + remaining %s + reserved %s + forfeited %s + expired %s',
      ${[...GAINED, ...WENT].map((name) => `a.${name}`).join(", ")} - a.expired, a.expired)`,
  ],
  [`least(${AMOUNTS}) < 0::bigint OR a.expired > a.forfeited`, "'an amount is below 0'"],
  [`greatest(${AMOUNTS}, a.adjusted, -a.adjusted) > ${MAX_BALANCE}::bigint`, "'an amount is above 2^53 - 1'"],
  ["a.reserved::numeric <> a.leased", "pg_catalog.format('reserved %s, and its leases hold %s', a.reserved, a.leased)"],
  ["a.unlimited AND a.remaining <> 0::bigint", "'unlimited, and has a balance'"],
  [
    `k.id IS NOT NULL AND (a.unlimited OR a.period = ${ABANDONED}::bigint) = (${LIMITED})`,
    "'the key and its account differ about whether it is unlimited'",
  ],
  [
    `i.id IS NOT NULL AND a.unlimited = (${HAS_CREDITS})`,
    "'the identity and its account differ about whether it is unlimited'",
  ],
];

/** Rows: `at1` and `at2`, where the next slice begins; `id`, of what is named, or null; `problem`, or null. */
const accounts = (s: string): string => `
  SELECT a.number::text AS at1, coalesce(k.id, i.id) AS id,
    CASE ${problems(s)
      .map(([condition, words]) => `WHEN ${condition} THEN ${words}`)
      .join(" ")} END AS problem
  FROM (
    SELECT x.*, coalesce((SELECT pg_catalog.sum(l.held::numeric + l.reserved) FROM ${s}.leases l WHERE l.account = x.number AND NOT l.is_forfeited), 0::numeric) AS leased
    FROM ${s}.accounts x WHERE x.number > $1::text::bigint ORDER BY x.number LIMIT ${BATCH}
  ) a LEFT JOIN LATERAL (SELECT o.id, o.body FROM ${s}.keys o WHERE o.number = a.number LIMIT 1) k ON true
    LEFT JOIN LATERAL (SELECT e.id, e.body FROM ${s}.entities e WHERE e.account = a.number LIMIT 1) i ON true
  ORDER BY a.number`;
// What has credits without an account verifies as unlimited or not at all.
const keys = (s: string): string => `
  SELECT k.number::text AS at1, k.id,
    CASE WHEN (SELECT true FROM ${s}.accounts a WHERE a.number = coalesce(k.account, k.number)) IS NULL AND ${LIMITED}
      THEN 'it has credits, and no account' END AS problem
  FROM ${s}.keys k WHERE k.number > $1::text::bigint ORDER BY k.number LIMIT ${BATCH}`;
const owners = (s: string, kind: OwningTable): string => `
  SELECT i.id AS at1, i.id,
    CASE WHEN (SELECT true FROM ${s}.accounts a WHERE a.number = i.account) IS NULL AND ${HAS_CREDITS}
      THEN 'it has credits, and no account' END AS problem
  FROM ${s}.entities i WHERE i.kind = '${kind}' AND i.id > $1::text ORDER BY i.id LIMIT ${BATCH}`;
const leases = (s: string): string => `
  SELECT l.account::text AS at1, l.holder AS at2, NULL AS id,
    CASE WHEN (SELECT true FROM ${s}.accounts a WHERE a.number = l.account) IS NULL
      THEN pg_catalog.format('a lease of %s without an account', l.held + l.reserved) END AS problem
  FROM ${s}.leases l WHERE (l.account, l.holder) > ($1::text::bigint, $2::text) ORDER BY l.account, l.holder LIMIT ${BATCH}`;
const workspaces = (s: string): string => `
  SELECT w.at1, w.at1 AS id,
    CASE WHEN w.counted <> w.records THEN pg_catalog.format('%s idempotency records, counted as %s', w.records, w.counted) END AS problem
  FROM (
    SELECT v.at1, coalesce((SELECT c.records FROM ${s}.idempotency_counts c WHERE c.workspace_id = v.at1), 0::bigint) AS counted,
      (SELECT pg_catalog.count(*) FROM ${s}.idempotency i WHERE i.workspace_id = v.at1) AS records
    FROM (SELECT least(
      (SELECT c.workspace_id FROM ${s}.idempotency_counts c WHERE c.workspace_id > $1::text ORDER BY 1 LIMIT 1),
      (SELECT i.workspace_id FROM ${s}.idempotency i WHERE i.workspace_id > $1::text ORDER BY 1 LIMIT 1)
    ) AS at1) v WHERE v.at1 IS NOT NULL
  ) w`;

/**
 * Reads every account, key, lease and count. May run beside nodes at work.
 * @param schema of the tables, not quoted
 * @param onProgress called with the number of accounts read so far
 * @returns what the credits are found to be, and of idempotency the workspaces, as its `accounts`
 * @throws (rejects with) KeystileError STORE_UNAVAILABLE, STORE_FAILED and the like
 */
export async function reconcile(
  client: PostgresClient,
  schema: string,
  onProgress: (accounts: number) => void,
): Promise<{ readonly credits: Reconciliation; readonly idempotency: Reconciliation }> {
  // Not named: planned each time for the place where the slice begins.
  const session = createSession(client, { timeout: TIMEOUT, prepared: false, maxWrites: 1 });
  const s = quoted(schema);
  const walk = async (text: string, first: readonly string[], found: Findings, onSlice?: (rows: number) => void) => {
    let rows: readonly PostgresRow[];
    for (let at = first; (rows = await session.run({ isRead: true, text }, ...at)).length > 0;) {
      at = [rows.at(-1)?.["at1"], rows.at(-1)?.["at2"]].slice(0, first.length) as string[];
      for (const { id, at1, problem } of rows)
        if (problem !== null) found.name((id ?? `number ${String(at1)}`) as string, problem as string);
      onSlice?.(rows.length);
    }
  };
  const [credits, idempotency] = [createFindings(), createFindings()];
  await walk(accounts(s), [FIRST_NUMBER], credits, (read) => {
    credits.read(read);
    onProgress(credits.result.accounts);
  });
  await walk(keys(s), [FIRST_NUMBER], credits);
  for (const kind of ["identities", "grants"] as const) await walk(owners(s, kind), [FIRST_TEXT], credits);
  await walk(leases(s), [FIRST_NUMBER, FIRST_TEXT], credits);
  await walk(workspaces(s), [FIRST_TEXT], idempotency, idempotency.read);
  return { credits: credits.result, idempotency: idempotency.result };
}
