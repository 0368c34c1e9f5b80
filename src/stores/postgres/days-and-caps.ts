/**
 * The step from which on totals of grants are kept too, and each by the day of the flush that tells of it. It never
 * changes once released.
 */
import { DAY, IS_SETTLED, TOTALS_KEPT } from "../outcome-entries.js";
import { outcomeTables, ownerOf } from "./outcomes-sql.js";
import { changedFunction, type Change, changed } from "./refills-sql.js";
import { fieldOf } from "./texts.js";
import { rowFunctions } from "./rows-sql.js";

const SUMS = [...TOTALS_KEPT, "balance"] as const;

/** Added to totals of a grant that expired on an earlier day: its remaining credits count as expired. */
const EXPIRED: Readonly<Record<string, string>> = {
  forfeited: " + CASE WHEN g.is_over THEN a.remaining ELSE 0 END",
  expired: " + CASE WHEN g.is_over THEN a.remaining ELSE 0 END",
};
const currentOf = (name: string): string =>
  name === "balance"
    ? "coalesce(a.reserved + CASE WHEN g.is_over THEN 0 ELSE a.remaining END, l.balance)"
    : `coalesce(a.${name}${EXPIRED[name] ?? ""}, l.${name})`;

/**
 * Accounts whose totals are kept together: the account, the account of its keys' identity, the open grants of both, and
 * the grants that are named, open or not.
 */
const besides = (s: string): string => `
CREATE FUNCTION ${s}.beside_v1(named bigint[], today bigint)
RETURNS TABLE (n bigint, main bigint, day bigint, is_over boolean) LANGUAGE sql STABLE AS $fn$
  WITH given AS (SELECT DISTINCT x.n FROM unnest(named) x(n)),
  mains AS (
    SELECT x.n FROM given x
    UNION SELECT i.account FROM given x CROSS JOIN LATERAL (
      SELECT k.identity_id FROM ${s}.keys k WHERE NOT k.deleted AND (k.number = x.n OR k.account = x.n) ORDER BY k.number DESC LIMIT 1
    ) k JOIN ${s}.entities i ON i.kind = 'identities' AND i.id = k.identity_id WHERE i.account IS NOT NULL
  ),
  granted AS (
    SELECT DISTINCT e.account AS n, m.n AS main, ${fieldOf("e", "expires")}::bigint / ${DAY} AS last
    FROM mains m CROSS JOIN LATERAL (
      SELECT i.id FROM ${s}.entities i WHERE i.kind = 'identities' AND i.account = m.n
      UNION ALL SELECT k.id FROM ${s}.keys k WHERE k.number = m.n
      UNION ALL (SELECT ${fieldOf("k", "accountId")} FROM ${s}.keys k WHERE k.account = m.n LIMIT 1)
    ) o JOIN ${s}.entities e ON e.kind = 'grants' AND e.account IS NOT NULL AND e.parent = ANY (ARRAY[o.id, 'ended ' || o.id])
      AND (e.parent = o.id OR e.account = ANY (named))
  )
  SELECT g.n, g.main, least(today, g.last), coalesce(g.last < today, false) FROM granted g
  UNION ALL SELECT m.n, m.n, today, false FROM mains m WHERE NOT EXISTS (SELECT 1 FROM granted g WHERE g.n = m.n)
$fn$;
`;

/** Adds to the row of a day and all later ones, or inserts a row: one statement, so both see the rows as they were. */
const keepTotals = (s: string): string => `
CREATE OR REPLACE FUNCTION ${s}.keep_totals_v1(numbers bigint[], today bigint) RETURNS void LANGUAGE plpgsql AS $fn$
DECLARE all_of bigint[] := ARRAY(SELECT b.n FROM ${s}.beside_v1(numbers, today) b ORDER BY 1);
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('${s} ' || x.n, 7235928)) FROM unnest(all_of) x(n);
  WITH known AS MATERIALIZED (
    SELECT g.n, g.day, l.seq, l.day AS last_day, o.ws, o.name, l.seq IS NOT NULL AND l.external_id IS NOT DISTINCT FROM o.name AS is_same,
      ${SUMS.map((name) => `${currentOf(name)} AS ${name}, ${currentOf(name)} - l.${name} AS by_${name}`).join(",\n      ")}
    FROM ${s}.beside_v1(numbers, today) g
    LEFT JOIN LATERAL (SELECT * FROM ${s}.credit_days d WHERE d.account = g.n ORDER BY d.seq DESC LIMIT 1) l ON true
    LEFT JOIN LATERAL (
${ownerOf(s, "g.main", "i.kind = 'identities' AND i.account = g.main")}
    ) o ON true
    LEFT JOIN ${s}.accounts a ON a.number = g.n
    WHERE a.number IS NOT NULL OR l.external_id IS NOT NULL
  ), placed AS MATERIALIZED (
    SELECT k.*, CASE WHEN k.is_same AND k.last_day = k.day THEN k.seq WHEN k.is_same THEN (
      SELECT max(d.seq) FROM ${s}.credit_days d WHERE d.account = k.n AND d.day = k.day AND NOT EXISTS (
        SELECT 1 FROM ${s}.credit_days e WHERE e.account = d.account AND e.seq >= d.seq AND e.external_id IS DISTINCT FROM k.name)
    ) END AS place FROM known k
  ), changed AS (
    UPDATE ${s}.credit_days d SET ${SUMS.map((name) => `${name} = d.${name} + p.by_${name}`).join(", ")}
    FROM placed p WHERE d.account = p.n AND d.seq >= p.place
  )
  INSERT INTO ${s}.credit_days (account, seq, day, workspace_id, external_id, ${SUMS.join(", ")})
    SELECT p.n, coalesce(p.seq, 0) + 1, CASE WHEN p.is_same THEN p.day ELSE greatest(p.day, p.last_day) END, p.ws, p.name,
      ${SUMS.map((name) => `p.${name}`).join(", ")}
    FROM placed p WHERE p.place IS NULL;
END $fn$;
`;

/** The functions that the first tables came with, of which the second ends in another way. */
const concerned = (s: string): string => {
  const text = outcomeTables(s);
  const start = text.indexOf(`CREATE FUNCTION ${s}.concerned_v1(`);
  return text.slice(start, text.indexOf("$fn$;\n", start) + 6).replace("CREATE", "CREATE OR REPLACE");
};

/** The step. */
export const GRANT_DAYS = {
  up: (s: string): string =>
    besides(s) +
    keepTotals(s) +
    concerned(s).replace("w.kind = 'identities' AND i.account", "w.kind IN ('identities', 'grants') AND i.account"),
  down: (s: string): string =>
    `${changedFunction(s, "keep_totals_v1")}${concerned(s)}DROP FUNCTION ${s}.beside_v1(bigint[], bigint);`,
  refuses: {},
};

/* The step from which on totals say whether an account was a cap. It never changes once released. */

/** Whether the identity has credits, and the key's own are not all that it draws on. */
const isCap = (s: string): string => `(i.account IS NOT NULL AND ${fieldOf("k", "creditsFrom")} IS NULL
        AND EXISTS (SELECT 1 FROM ${s}.accounts o WHERE o.number = i.account AND NOT o.unlimited))::integer`;

const CAP_IN_KEEP_TOTALS = (s: string): readonly Change[] => {
  const owner = ownerOf(s, "g.main", "i.kind = 'identities' AND i.account = g.main");
  return [
    ["o.ws, o.name, l.seq", "o.ws, o.name, coalesce(o.cap, 0) AS cap, l.seq"],
    [
      "l.external_id IS NOT DISTINCT FROM o.name AS is_same",
      "l.external_id IS NOT DISTINCT FROM o.name AND l.is_cap = coalesce(o.cap, 0) AS is_same",
    ],
    [
      owner,
      owner
        .replace("AS name FROM", () => `AS name, ${isCap(s)} AS cap FROM`)
        .replace("coalesce(i.name, '') FROM", () => `coalesce(i.name, ''), ${isCap(s)} FROM`)
        .replace("i.name FROM", "i.name, 0 FROM"),
    ],
    ["e.external_id IS DISTINCT FROM k.name)", "(e.external_id IS DISTINCT FROM k.name OR e.is_cap <> k.cap))"],
    ["workspace_id, external_id, ", "workspace_id, external_id, is_cap, "],
    ["p.ws, p.name,", "p.ws, p.name, p.cap,"],
  ];
};

/** The function as the step before made it, in a form that {@link changed} finds. */
const before = (s: string): string => GRANT_DAYS.up(s).replaceAll("CREATE OR REPLACE", "CREATE");

/** The step. */
export const CAPPED_DAYS = {
  up: (s: string): string => `
ALTER TABLE ${s}.credit_days ADD COLUMN is_cap bigint NOT NULL DEFAULT 0;
${changed(before(s), s, "keep_totals_v1", CAP_IN_KEEP_TOTALS(s))}`,
  down: (s: string): string => `
${changed(before(s), s, "keep_totals_v1", [])}
ALTER TABLE ${s}.credit_days DROP COLUMN is_cap;`,
  refuses: {},
};

/* The step from which on an account that its key has given up stays what it was, a cap or not. */

const STAYS = "CASE WHEN o.name IS NULL THEN 0 ELSE coalesce(o.cap, l.is_cap, 0) END";
const OF_FORMER = (s: string): readonly Change[] => {
  const given = isCap(s);
  // The key's own, and that of the keys that share its account.
  const ownerOnly = `CASE WHEN ${fieldOf("k", "limited")} IS NOT NULL THEN ${given} END`;
  return [
    ["coalesce(o.cap, 0) AS cap", `${STAYS} AS cap`],
    ["l.is_cap = coalesce(o.cap, 0) AS is_same", `l.is_cap = ${STAYS} AS is_same`],
    [`${given} AS cap`, `${ownerOnly} AS cap`],
    [`coalesce(i.name, ''), ${given} FROM`, `coalesce(i.name, ''), ${ownerOnly} FROM`],
  ];
};
const capped = (s: string, changes: readonly Change[]): string =>
  changed(CAPPED_DAYS.up(s).replaceAll("CREATE OR REPLACE", "CREATE"), s, "keep_totals_v1", changes);

/** The step. */
export const FORMER_CAPS = {
  up: (s: string): string => capped(s, OF_FORMER(s)),
  down: (s: string): string => capped(s, []),
  refuses: {},
};

/*
 * The step from which on a key's own credits cap what it takes of its identity's: both are a reason not to remove the
 * identity, and a spend of two wallets says which has the least.
 */

/** Whether a key `x` has credits of its own, and does not draw on them alone. */
const IS_CAPPED = `${fieldOf("x", "limited")} IS NOT NULL AND ${fieldOf("x", "creditsFrom")} IS NULL`;

const OF_ENTITIES: readonly Change[] = [["AND x.draws AND", `AND (x.draws OR ${IS_CAPPED}) AND`]];
/** `lowest`: the place of the wallet that has the least, where there are two. */
export const SAYS_LOWEST = "CASE WHEN lowest IS NULL THEN '{}' ELSE jsonb_build_object('least', lowest) END";
const OF_WALLETS: readonly Change[] = [
  ["rest bigint; said", "rest bigint; lowest integer; said"],
  [
    "    IF NOT free[i] THEN rest",
    `    IF NOT free[i] AND cardinality(sums) > 1 AND (rest IS NULL OR sums[i] < rest) THEN lowest := i - 1; END IF;
    IF NOT free[i] THEN rest`,
  ],
  ["'remaining', rest);", `'remaining', rest) || ${SAYS_LOWEST};`],
  ["'remaining', rest - cost)", `'remaining', rest - cost) || ${SAYS_LOWEST}`],
];

const functions = (s: string, isChanged: boolean): string =>
  changed(rowFunctions(s), s, "write_entity_v1", isChanged ? OF_ENTITIES : []) +
  changed(
    changedFunction(s, "spend_wallets_of_v1").replace("OR REPLACE ", ""),
    s,
    "spend_wallets_of_v1",
    isChanged ? OF_WALLETS : [],
  );

/** The step. */
export const CAPS = {
  up: (s: string): string => functions(s, true),
  down: (s: string): string => functions(s, false),
  refuses: {
    "keys whose own credits cap those of their identity": (s: string): string =>
      `SELECT count(*) FROM ${s}.keys x JOIN ${s}.entities i ON i.kind = 'identities' AND i.id = x.identity_id
       JOIN ${s}.accounts o ON o.number = i.account AND NOT o.unlimited WHERE ${IS_CAPPED}`,
  },
};

/* The step from which on grants that have ended are kept until nothing of theirs can change any more. */

const IS_LEFT = (
  s: string,
): string => `(SELECT ${IS_SETTLED} FROM ${s}.credit_days d JOIN ${s}.accounts a ON a.number = d.account
        WHERE d.account = e.account ORDER BY d.seq DESC LIMIT 1) IS NOT TRUE`;
const besidesAgain = (s: string): string => besides(s).replace("CREATE", "CREATE OR REPLACE");

/** The step. Without JIT: it would compile for 100 ms what runs for one, beside hundreds of grants of one owner. */
export const ENDED_GRANTS = {
  up: (s: string): string =>
    besidesAgain(s)
      .replace("STABLE AS", "STABLE SET jit = off SET search_path = pg_catalog, pg_temp AS")
      .replace("ANY (named))", () => `ANY (named) OR ${IS_LEFT(s)})`),
  down: besidesAgain,
  refuses: {},
};
