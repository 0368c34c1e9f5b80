/**
 * The functions for credits that stop no call but those on an account that another session has locked. A statement
 * waits for a lock as long as its `lock_timeout` says, and fails then; the same calls with `skips` wait for nothing, and
 * return "locked" for each whose account, id or count of records somebody holds.
 *
 * What takes nothing is decided by what is read without a lock: a lock is written to the log, and makes a commit wait
 * for the disk. It is right at the moment of that read, during the call.
 */
import { MAX_BALANCE } from "../../credits/account.js";
import { EXPIRED_PER_WRITE } from "../spend-once.js";
import { type LeaseVersion, leaseFunctions } from "./credits-sql.js";

const SETTINGS = " SET search_path = pg_catalog, pg_temp";

/** Calls with an idempotency key, from the JSON list `parsed`. */
const ONCE_CALLS = `(
    SELECT (e ->> 0)::bigint AS n, (e ->> 1)::bigint AS cost, (e ->> 2)::bigint AS period, (e ->> 3)::bigint AS at, e ->> 4 AS id,
      e ->> 5 AS ws, e ->> 6 AS body, (e ->> 7)::bigint AS until, (e ->> 8)::bigint AS most, (e ->> 9)::bigint AS share,
      ord::integer AS ord
    FROM jsonb_array_elements(parsed) WITH ORDINALITY AS x (e, ord)
  )`;
const TODO = `${ONCE_CALLS} c WHERE c.ord = ANY (todo)`;
/** Takes the calls out of `todo` that a condition names: they are to be sent again. */
const LOCKED_IF = (condition: string) => `
  FOR call IN SELECT c.ord FROM ${TODO} AND ${condition} LOOP
    results[call.ord] := '"locked"';
    todo := array_remove(todo, call.ord);
  END LOOP;`;
/** The rows that a query locks, as an array. */
const LOCK = (target: string, query: string) => `
  IF skips THEN
    ${target} := ARRAY(${query} FOR NO KEY UPDATE SKIP LOCKED);
  ELSE
    ${target} := ARRAY(${query} FOR NO KEY UPDATE);
  END IF;`;

const SECOND: LeaseVersion = {
  suffix: "v2",
  load: (s) => `
      IF at_number IS DISTINCT FROM call.n THEN
        IF is_changed THEN PERFORM ${s}.save_v1(a); END IF;
        is_changed := false;
        at_number := call.n;
        IF skips THEN
          SELECT * INTO a FROM ${s}.accounts WHERE number = at_number FOR NO KEY UPDATE SKIP LOCKED;
        ELSE
          SELECT * INTO a FROM ${s}.accounts WHERE number = at_number FOR NO KEY UPDATE;
        END IF;
        is_known := FOUND;
        is_locked := NOT is_known AND EXISTS (SELECT 1 FROM ${s}.accounts WHERE number = at_number);
      END IF;
      results[call.ord] := CASE WHEN is_locked THEN '"locked"' ELSE 'null' END;
      CONTINUE WHEN is_locked;`,
  parameters: ", skips boolean",
  settings: SETTINGS,
  variables: " is_locked boolean := false;",
  ends: "text",
};

/** The statements that make the functions, and remove those before them. @param s the schema, quoted */
export const spendFunctions = (s: string): string => `
-- calls: [[account, cost, period], …]; returns a list of outcomes, null for an account that is not there.
CREATE FUNCTION ${s}.spend_v2(mode text, calls text, skips boolean) RETURNS text LANGUAGE plpgsql${SETTINGS} AS $f$
DECLARE
  call record; a ${s}.accounts; settled ${s}.accounts; at_number bigint; is_held boolean := false; is_locked boolean := false;
  is_changed boolean := false; takes boolean; is_granted boolean; forfeits bigint; results text[] := '{}';
BEGIN
  PERFORM ${s}.set_durability_v1(mode);
  FOR call IN
    SELECT t.*, known FROM (
      SELECT (e ->> 0)::bigint AS n, (e ->> 1)::bigint AS cost, (e ->> 2)::bigint AS period, ord::integer AS ord
      FROM jsonb_array_elements(calls::jsonb) WITH ORDINALITY AS x (e, ord)
    ) t LEFT JOIN ${s}.accounts known ON known.number = t.n ORDER BY t.n, t.ord
  LOOP
    IF at_number IS DISTINCT FROM call.n THEN
      IF is_changed THEN PERFORM ${s}.save_v1(a); END IF;
      is_changed := false;
      is_held := false;
      is_locked := false;
      at_number := call.n;
      a := call.known;
    END IF;
    takes := call.cost > 0 AND NOT a.unlimited AND call.cost <= CASE
      WHEN a.period = call.period THEN a.remaining
      WHEN ${s}.calendar_v1(a.period) = ${s}.calendar_v1(call.period) THEN (${s}.settle_v1(a, call.period)).remaining
      ELSE 0 END;
    IF takes AND NOT is_held AND NOT is_locked THEN
      IF skips THEN
        SELECT * INTO a FROM ${s}.accounts WHERE number = at_number FOR NO KEY UPDATE SKIP LOCKED;
        is_locked := NOT FOUND;
        IF is_locked THEN a := call.known; END IF;
      ELSE
        SELECT * INTO a FROM ${s}.accounts WHERE number = at_number FOR NO KEY UPDATE;
      END IF;
      is_held := NOT is_locked;
    END IF;
    IF takes AND is_locked THEN
      results[call.ord] := '"locked"';
    ELSIF a.number IS NULL THEN
      results[call.ord] := 'null';
    ELSIF a.unlimited THEN
      results[call.ord] := '{"ok":true,"remaining":null}';
    ELSIF a.period = call.period AND call.cost <= ${MAX_BALANCE} - a.spent THEN
      -- Nothing is due and no total overflows, as in nearly every call: a function call costs as much as all of this.
      is_granted := call.cost <= a.remaining;
      IF is_granted AND call.cost > 0 THEN
        a.remaining := a.remaining - call.cost;
        a.spent := a.spent + call.cost;
        is_changed := true;
      END IF;
      results[call.ord] := '{"ok":' || is_granted || ',"remaining":' || a.remaining || '}';
    ELSIF ${s}.calendar_v1(a.period) <> ${s}.calendar_v1(call.period) THEN
      results[call.ord] := '{"ok":false,"remaining":0,"stale":true}';
    ELSE
      settled := ${s}.settle_v1(a, call.period);
      IF call.cost = 0 OR call.cost > settled.remaining THEN
        results[call.ord] := format('{"ok":%s,"remaining":%s}', (call.cost = 0)::text, settled.remaining);
      ELSE
        forfeits := ${s}.forfeits_v1(a, call.period);
        a := ${s}.move_v1(settled, by_remaining => -call.cost, by_spent => call.cost);
        is_changed := true;
        results[call.ord] := format('{"ok":true,"remaining":%s%s}', a.remaining,
          CASE WHEN forfeits > 0 THEN format(',"forfeited":%s', forfeits) ELSE '' END);
      END IF;
    END IF;
  END LOOP;
  IF is_changed THEN PERFORM ${s}.save_v1(a); END IF;
  RETURN '[' || array_to_string(results, ',') || ']';
END $f$;

-- calls: [[account or null, cost, period, now, id, workspace, body, until, most, share], …]. What is to be sent again is
-- "locked" too. Locks ids, accounts and counts, each in one order: no two groups wait for each other in a circle.
CREATE FUNCTION ${s}.spend_once_v2(mode text, calls text, skips boolean) RETURNS text LANGUAGE plpgsql${SETTINGS} AS $f$
DECLARE
  parsed jsonb := calls::jsonb; call record; spends jsonb; spend jsonb; todo integer[] := '{}'; chosen integer[] := '{}';
  made integer[] := '{}'; accounts bigint[]; counts text[]; ws text; first bigint; own bigint; total bigint;
  results text[] := '{}';
BEGIN
  PERFORM ${s}.set_durability_v1(mode);
  spends := ${s}.spend_v2(mode, (SELECT jsonb_agg(jsonb_build_array(coalesce(c.n, -1), 0, c.period) ORDER BY c.ord)
    FROM ${ONCE_CALLS} c)::text, skips)::jsonb;
  FOR call IN
    SELECT c.*, known FROM ${ONCE_CALLS} c LEFT JOIN ${s}.idempotency known ON known.id = c.id AND known.expires > c.at ORDER BY c.ord
  LOOP
    spend := CASE WHEN call.n IS NULL THEN '{"ok":true,"remaining":null}' ELSE spends -> (call.ord - 1) END;
    IF (call.known).body <> call.body THEN
      results[call.ord] := '{"outcome":"mismatch"}';
    ELSIF (call.known).id IS NOT NULL THEN
      results[call.ord] := '{"outcome":"repeated"' || CASE WHEN spend = 'null' THEN '' ELSE ',"spend":' || spend::text END || '}';
    ELSIF spend = 'null' THEN
      results[call.ord] := '{"outcome":"done"}';
    ELSIF NOT (spend ->> 'ok')::boolean OR call.cost > (spend ->> 'remaining')::bigint THEN
      results[call.ord] := '{"outcome":"done","spend":' || (spend || '{"ok":false}'::jsonb)::text || '}';
    ELSE
      todo := todo || call.ord;
    END IF;
  END LOOP;
  IF cardinality(todo) = 0 THEN RETURN '[' || array_to_string(results, ',') || ']'; END IF;

  -- Two calls under one id: the second finds the record of the first.${LOCKED_IF(`EXISTS (SELECT 1 FROM ${ONCE_CALLS} d WHERE d.ord = ANY (todo) AND d.id = c.id AND d.ord < c.ord)`)}
  FOR call IN SELECT c.ord, hashtextextended(c.id, 7235926) AS lock FROM ${TODO} ORDER BY 2 LOOP
    IF NOT skips THEN
      PERFORM pg_advisory_xact_lock(call.lock);
    ELSIF NOT pg_try_advisory_xact_lock(call.lock) THEN
      results[call.ord] := '"locked"';
      todo := array_remove(todo, call.ord);
    END IF;
  END LOOP;${LOCK("accounts", `SELECT a.number FROM ${s}.accounts a WHERE a.number IN (SELECT c.n FROM ${TODO}) ORDER BY a.number`)}${LOCKED_IF("c.n IS NOT NULL AND c.n <> ALL (accounts)")}
  -- Counts are locked last, since every other call of the workspace waits for them: so that these never go beyond its
  -- share together.
  INSERT INTO ${s}.idempotency_counts SELECT DISTINCT c.ws, 0 FROM ${TODO}
    AND NOT EXISTS (SELECT 1 FROM ${s}.idempotency_counts x WHERE x.workspace_id = c.ws) ORDER BY 1 ON CONFLICT DO NOTHING;${LOCK("counts", `SELECT x.workspace_id FROM ${s}.idempotency_counts x WHERE x.workspace_id IN (SELECT c.ws FROM ${TODO}) ORDER BY x.workspace_id`)}${LOCKED_IF(`(c.ws <> ALL (counts)
    OR EXISTS (SELECT 1 FROM ${s}.idempotency i WHERE i.id = c.id AND i.expires > c.at))`)}
  IF cardinality(todo) = 0 THEN RETURN '[' || array_to_string(results, ',') || ']'; END IF;

  PERFORM ${s}.forget_once_v1(ARRAY(SELECT i.id FROM ${s}.idempotency i WHERE i.id IN (SELECT c.id FROM ${TODO})));
  PERFORM ${s}.forget_once_v1(ARRAY(
    WITH due AS MATERIALIZED (
      SELECT i.id, i.workspace_id FROM ${s}.idempotency i WHERE i.expires <= (SELECT min(c.at) FROM ${TODO})
      ORDER BY i.expires LIMIT ${EXPIRED_PER_WRITE} * cardinality(todo) FOR UPDATE SKIP LOCKED
    ), held AS MATERIALIZED (
      SELECT x.workspace_id FROM ${s}.idempotency_counts x WHERE x.workspace_id IN (SELECT workspace_id FROM due)
      FOR UPDATE SKIP LOCKED
    )
    SELECT id FROM due JOIN held USING (workspace_id)));
  -- The bound of all is looked at without a lock: calls of other workspaces that are in flight may pass it by one each.
  SELECT sum(x.records) INTO total FROM ${s}.idempotency_counts x;
  FOR call IN SELECT c.*, count(*) OVER (PARTITION BY c.ws) AS wanted FROM ${TODO} ORDER BY c.ws, c.ord LOOP
    IF ws IS DISTINCT FROM call.ws THEN
      ws := call.ws;
      SELECT x.records INTO own FROM ${s}.idempotency_counts x WHERE x.workspace_id = ws;
      IF own + call.wanted > call.share THEN
        PERFORM ${s}.forget_once_v1(ARRAY(SELECT i.id FROM ${s}.idempotency i WHERE i.workspace_id = ws AND i.expires <= call.at
          ORDER BY i.expires LIMIT ${EXPIRED_PER_WRITE} * call.wanted FOR UPDATE SKIP LOCKED));
        total := total - own;
        SELECT x.records INTO own FROM ${s}.idempotency_counts x WHERE x.workspace_id = ws;
        total := total + own;
      END IF;
    END IF;
    IF own < call.share AND total < call.most THEN
      chosen := chosen || call.ord;
      own := own + 1;
      total := total + 1;
    ELSE
      -- Not yet, if what is chosen is refused for want of credits.
      results[call.ord] := CASE WHEN cardinality(chosen) = 0 THEN '{"outcome":"full"}' ELSE '"locked"' END;
    END IF;
  END LOOP;
  IF cardinality(chosen) = 0 THEN RETURN '[' || array_to_string(results, ',') || ']'; END IF;
  todo := chosen;
  spends := ${s}.spend_v2(mode, (SELECT jsonb_agg(jsonb_build_array(coalesce(c.n, -1), c.cost, c.period) ORDER BY c.ord)
    FROM ${TODO})::text, false)::jsonb;
  first := 0;
  FOR call IN SELECT c.* FROM ${TODO} ORDER BY c.ord LOOP
    spend := CASE WHEN call.n IS NULL THEN '{"ok":true,"remaining":null}' ELSE spends -> first::integer END;
    first := first + 1;
    IF (spend ->> 'ok')::boolean THEN made := made || call.ord; END IF;
    results[call.ord] := '{"outcome":"done","spend":' || spend::text || '}';
  END LOOP;
  todo := made;
  INSERT INTO ${s}.idempotency SELECT c.id, c.ws, c.body, c.until FROM ${TODO};
  UPDATE ${s}.idempotency_counts x SET records = x.records + g.n FROM (SELECT c.ws, count(*) AS n FROM ${TODO} GROUP BY c.ws) g
    WHERE x.workspace_id = g.ws;
  RETURN '[' || array_to_string(results, ',') || ']';
END $f$;

${leaseFunctions(s, SECOND)}
DROP FUNCTION ${s}.spend_once_v1, ${s}.spend_v1, ${s}.draw_v1, ${s}.end_leases_v1;
`;
