/**
 * Groups of calls of which a locked account stops no other. A group waits for a lock as long as its `lock_timeout`
 * says, and fails then; sent again with `skips` it waits for counts of records alone, and returns "locked" for each
 * call whose account, id or count another session holds. What is left runs through the functions of one version before.
 *
 * What takes nothing is decided by a read: a lock is written to the log, and its commit waits for the disk. The
 * decision is right at the moment of that read, which is during the call.
 */
import { HAS_EXPIRED } from "./credits-sql.js";

const SETTINGS = "LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp";
const UNLIMITED = `'{"ok":true,"remaining":null}'`;

/** What a spend returns that takes nothing from `a`; NULL: it takes. Without a function call for most that take. */
const QUOTE = (s: string, cost: string, period: string, at: string) => `CASE
      WHEN a.number IS NULL THEN 'null'
      WHEN a.unlimited THEN ${UNLIMITED}
      WHEN ${HAS_EXPIRED(s, at)} THEN NULL
      WHEN ${cost} > 0 AND ${cost} <= a.remaining AND a.period = ${period} THEN NULL
      WHEN ${s}.calendar_v1(a.period) <> ${s}.calendar_v1(${period}) THEN '{"ok":false,"remaining":0,"stale":true}'
      WHEN ${cost} = 0 OR ${cost} > (${s}.settle_v1(ROW(a.*)::${s}.accounts, ${period})).remaining
        THEN format('{"ok":%s,"remaining":%s}', (${cost} = 0)::text, (${s}.settle_v1(ROW(a.*)::${s}.accounts, ${period})).remaining)
    END`;
/** Calls on one account are in order: none is decided by a read if another one takes. */
const IF_ALONE = "CASE WHEN bool_and(c.result IS NOT NULL) OVER (PARTITION BY c.n) THEN c.result END";
const ELEMENTS = `jsonb_array_elements(parsed) WITH ORDINALITY AS x (e, ord)`;
/** One row, by its index: the server would scan a table of thousands rather than look up each call's. */
const ROW = (query: string) => `LATERAL (SELECT a.* FROM ${query} LIMIT 1)`;
/** Calls with an idempotency key, of the list `parsed`. */
const ONCE = `(SELECT e, ord::integer AS ord, (e ->> 'n')::bigint AS n, (e ->> 'cost')::bigint AS cost,
      (e ->> 'period')::bigint AS period, (e ->> 'now')::bigint AS at, e ->> 'id' AS id, e ->> 'ws' AS ws, e ->> 'body' AS body
    FROM ${ELEMENTS}) c`;

/**
 * Apart, since a block that catches is a subtransaction: a row that is locked in one and updated outside takes a
 * multixact, each time.
 */
export const LOCK_COUNTS = (s: string) =>
  `PERFORM 1 FROM ${s}.idempotency_counts x WHERE x.workspace_id = ANY (counts) ORDER BY x.workspace_id FOR NO KEY UPDATE;`;

/** The statements that make the functions. @param s the schema, quoted */
export const groupFunctions = (s: string): string => `
-- Locks accounts in the order of their numbers. Returns those that are there and were not locked.
CREATE FUNCTION ${s}.hold_accounts_v1(numbers bigint[], skips boolean) RETURNS bigint[] ${SETTINGS} AS $f$
DECLARE held bigint[];
BEGIN
  IF NOT skips THEN
    PERFORM 1 FROM ${s}.accounts a WHERE a.number = ANY (numbers) ORDER BY a.number FOR NO KEY UPDATE;
    RETURN '{}';
  END IF;
  held := ARRAY(SELECT a.number FROM ${s}.accounts a WHERE a.number = ANY (numbers) ORDER BY a.number
    FOR NO KEY UPDATE SKIP LOCKED);
  RETURN ARRAY(SELECT a.number FROM ${s}.accounts a WHERE a.number = ANY (numbers) AND a.number <> ALL (held));
END $f$;

-- what: spend_v1, draw_v1, end_leases_v1 or settle_reservations_v1, and its calls; returns one result for each.
CREATE FUNCTION ${s}.group_v1(what text, mode text, calls text, skips boolean) RETURNS text ${SETTINGS} AS $f$
DECLARE parsed jsonb := calls::jsonb; results text[] := '{}'; locked bigint[]; place integer; places integer[];
  rest text; said jsonb;
BEGIN
  IF what = 'spend_v1' THEN
    results := ARRAY(SELECT ${IF_ALONE} FROM (
      SELECT ord, e ->> 0 AS n, ${QUOTE(s, "(e ->> 1)::bigint", "(e ->> 2)::bigint", "(e ->> 3)::bigint")} AS result
      FROM ${ELEMENTS} LEFT JOIN ${ROW(`${s}.accounts a WHERE a.number = (e ->> 0)::bigint`)} a ON true) c ORDER BY ord);
  END IF;
  IF skips THEN
    locked := ${s}.hold_accounts_v1(ARRAY(SELECT (e ->> 0)::bigint FROM ${ELEMENTS} WHERE results[ord] IS NULL), true);
    FOR place IN SELECT ord FROM ${ELEMENTS} WHERE results[ord] IS NULL AND (e ->> 0)::bigint = ANY (locked) LOOP
      results[place] := '"locked"';
    END LOOP;
  END IF;
  SELECT array_agg(ord ORDER BY ord), jsonb_agg(e ORDER BY ord)::text INTO places, rest FROM ${ELEMENTS} WHERE results[ord] IS NULL;
  IF rest IS NOT NULL THEN
    EXECUTE format('SELECT nullif(${s}.%I($1, $2)::text, '''')::jsonb', what) INTO said USING mode, rest;
    FOR i IN 1..cardinality(places) LOOP
      results[places[i]] := coalesce((said -> (i - 1))::text, 'null');
    END LOOP;
  END IF;
  RETURN '[' || array_to_string(results, ',') || ']';
END $f$;

-- calls: as of spend_once_v1. Locks ids, accounts and counts, each in one order, so that no two groups wait for each
-- other in a circle; counts last, since every call of the workspace waits for them.
CREATE FUNCTION ${s}.once_group_v1(mode text, calls text, skips boolean) RETURNS text ${SETTINGS} AS $f$
DECLARE parsed jsonb := calls::jsonb; call record; results text[]; locked bigint[]; counts text[];
BEGIN
  -- One statement: the record and the balance are of one moment.
  results := ARRAY(SELECT ${IF_ALONE} FROM (SELECT c.ord, c.n, CASE
      WHEN i.body <> c.body THEN '{"outcome":"mismatch"}'
      WHEN i.id IS NOT NULL THEN '{"outcome":"repeated"' || coalesce(',"spend":' || nullif(q.free, 'null'), '') || '}'
      WHEN q.spend NOT LIKE '{"ok":true%' THEN '{"outcome":"done"' || coalesce(',"spend":' || nullif(q.spend, 'null'), '') || '}'
    END AS result
    FROM ${ONCE} LEFT JOIN ${ROW(`${s}.idempotency a WHERE a.id = c.id AND a.expires > c.at`)} i ON true
      LEFT JOIN ${ROW(`${s}.accounts a WHERE a.number = c.n`)} a ON true,
    LATERAL (SELECT CASE WHEN c.n IS NULL THEN ${UNLIMITED} ELSE ${QUOTE(s, "c.cost", "c.period", "c.at")} END AS spend,
      CASE WHEN i.id IS NULL THEN NULL WHEN c.n IS NULL THEN ${UNLIMITED} ELSE ${QUOTE(s, "0", "c.period", "c.at")} END AS free) q
    ) c ORDER BY ord);
  FOR call IN SELECT c.ord, hashtextextended(c.id, 7235926) AS lock FROM ${ONCE} WHERE results[c.ord] IS NULL ORDER BY 2 LOOP
    IF NOT skips THEN
      PERFORM pg_advisory_xact_lock(call.lock);
    ELSIF NOT pg_try_advisory_xact_lock(call.lock) THEN
      results[call.ord] := '"locked"';
    END IF;
  END LOOP;
  locked := ${s}.hold_accounts_v1(ARRAY(SELECT c.n FROM ${ONCE} WHERE results[c.ord] IS NULL), skips);
  counts := ARRAY(SELECT DISTINCT c.ws FROM ${ONCE} WHERE results[c.ord] IS NULL AND (c.n = ANY (locked)) IS NOT TRUE);
  -- Twice as long: every node that commits in the workspace stands before this one.
  PERFORM set_config('lock_timeout', (2000 * extract(epoch FROM current_setting('lock_timeout')::interval))::integer::text, true);
  INSERT INTO ${s}.idempotency_counts SELECT w, 0 FROM unnest(counts) w
    WHERE NOT EXISTS (SELECT 1 FROM ${s}.idempotency_counts x WHERE x.workspace_id = w) ORDER BY 1 ON CONFLICT DO NOTHING;
  IF skips THEN
    BEGIN
      ${LOCK_COUNTS(s)}
    EXCEPTION WHEN lock_not_available THEN
      counts := ARRAY(SELECT x.workspace_id FROM ${s}.idempotency_counts x WHERE x.workspace_id = ANY (counts)
        ORDER BY 1 FOR NO KEY UPDATE SKIP LOCKED);
    END;
  ELSE
    ${LOCK_COUNTS(s)}
  END IF;
  FOR call IN SELECT * FROM ${ONCE} WHERE results[c.ord] IS NULL ORDER BY c.ord LOOP
    results[call.ord] := CASE WHEN (call.n = ANY (locked)) IS TRUE OR call.ws <> ALL (counts) THEN '"locked"'
      ELSE ${s}.spend_once_v1(mode, call.e::text) END;
  END LOOP;
  RETURN '[' || array_to_string(results, ',') || ']';
END $f$;
`;
