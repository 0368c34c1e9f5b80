/**
 * The functions that write rows, in PL/pgSQL: each call of the port is one statement, because a transaction of several
 * would have to hold one connection, which a pooler does not promise.
 */
import { isFoundWithKeys } from "../../contracts/row-changes.js";
import { ENTITY_TABLES } from "../codec/entity-codec.js";
import { DAY } from "../outcome-entries.js";
import { EXPIRED_PER_WRITE } from "../spend-once.js";

/** Columns of a key that are given as text, from the JSON object `r`. */
const KEY_VALUES = `
  r ->> 'id', r ->> 'ws', r ->> 'api', r ->> 'identity', (r ->> 'version')::bigint + 1, r ->> 'digest', r ->> 'foreign',
  (r ->> 'draws')::boolean,
  (r ->> 'deleted')::boolean, r ->> 'grants', r ->> 'body', r ->> 'name', r ->> 'start', (r ->> 'enabled')::boolean,
  to_timestamp((r ->> 'expires')::double precision / 1000), to_timestamp((r ->> 'created')::double precision / 1000)`;
const KEY_COLUMNS = `
  id, workspace_id, api_id, identity_id, version, digest, foreign_digest, draws, deleted, grants, body, name, start, enabled,
  expires, created_at`;

/** Tables whose rows are part of what a find returns. */
const FOUND_WITH_KEYS = ENTITY_TABLES.filter(isFoundWithKeys).map((table) => `'${table}'`);

/** The step that makes `write_v2`, which also says what balances it left. @param s the schema, quoted */
export const writtenBalances = (s: string): string => `
CREATE FUNCTION ${s}.write_v2(mode text, writes text, entries text, most bigint) RETURNS text LANGUAGE plpgsql AS $f$
DECLARE written jsonb := ${s}.write_v1(mode, writes, entries, most)::jsonb; balances jsonb;
BEGIN
  IF written ->> 'outcome' <> 'written' OR strpos(writes, '"credits":{') = 0 THEN RETURN written::text; END IF;
  SELECT jsonb_agg(jsonb_build_object('remaining', CASE WHEN NOT a.unlimited THEN a.remaining END,
    'reserved', CASE WHEN a.unlimited THEN 0 ELSE a.reserved END) ORDER BY x.i)
  INTO balances FROM jsonb_array_elements(writes::jsonb) WITH ORDINALITY x(w, i)
    LEFT JOIN ${s}.keys k ON w ->> 'table' = 'keys' AND k.id = w #>> '{row,id}'
    LEFT JOIN ${s}.entities e ON e.kind = 'identities' AND e.kind = w ->> 'table' AND e.id = w #>> '{row,id}'
    JOIN ${s}.accounts a ON a.number = coalesce(e.account, k.account, k.number)
  WHERE w -> 'credits' IS NOT NULL;
  RETURN (written || jsonb_build_object('balances', balances))::text;
END $f$;
`;

/**
 * The step that makes `write_v3`: `write_v2` under an idempotency key. Locks id, accounts and counts in this order, as
 * `once_group_v1` does.
 */
export const WRITE_ONCE = {
  // once: {id, ws, body, until, now, most, share}, as of spend_once_v1, which records it.
  up: (s: string): string => `
CREATE FUNCTION ${s}.write_v3(mode text, writes text, entries text, most bigint, once text) RETURNS text LANGUAGE plpgsql AS $f$
DECLARE o jsonb := once::jsonb; known text; written text;
BEGIN
  -- Two calls under one id: the second waits, and finds the record of the first.
  PERFORM pg_advisory_xact_lock(hashtextextended(o ->> 'id', 7235926));
  SELECT i.body INTO known FROM ${s}.idempotency i WHERE i.id = o ->> 'id' AND i.expires > (o ->> 'now')::bigint;
  IF FOUND THEN
    RETURN jsonb_build_object('outcome', CASE WHEN known = o ->> 'body' THEN 'repeated' ELSE 'mismatch' END)::text;
  END IF;
  written := ${s}.write_v2(mode, writes, entries, most);
  IF written::jsonb ->> 'outcome' = 'written' AND ${s}.spend_once_v1(mode, once)::jsonb ->> 'outcome' <> 'done' THEN
    RAISE EXCEPTION 'no space for another record' USING ERRCODE = 'KS012';
  END IF;
  RETURN written;
EXCEPTION WHEN SQLSTATE 'KS012' THEN RETURN '{"outcome":"full"}';
END $f$;
`,
  down: (s: string): string => `DROP FUNCTION ${s}.write_v3(text, text, text, bigint, text);`,
  refuses: {},
};

/** The statements that make the functions. @param s the schema, quoted */
export const rowFunctions = (s: string): string => `
CREATE FUNCTION ${s}.audit_v1(entries jsonb, most bigint) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE e jsonb; last bigint;
BEGIN
  IF most = 0 THEN RETURN; END IF;
  FOR e IN SELECT * FROM jsonb_array_elements(entries) LOOP
    INSERT INTO ${s}.audit (time, workspace_id, actor_kind, actor, operation, ids, fields, count)
    VALUES (to_timestamp((e ->> 'time')::double precision / 1000), e ->> 'workspaceId', e ->> 'actorKind', e ->> 'actor',
      e ->> 'operation', ARRAY(SELECT jsonb_array_elements_text(e -> 'ids')),
      ARRAY(SELECT jsonb_array_elements_text(e -> 'fields')), (e ->> 'count')::bigint)
    RETURNING number INTO last;
    -- Numbers have gaps, so that fewer than the bound may stay, or more, until a number of hundreds is given.
    IF last % 100 = 0 OR most < 100 THEN DELETE FROM ${s}.audit WHERE number <= last - most; END IF;
  END LOOP;
END $f$;

-- Keeps an API from being removed while a key is written.
CREATE FUNCTION ${s}.hold_api_v1(api text) RETURNS void LANGUAGE plpgsql AS $f$
BEGIN
  PERFORM 1 FROM ${s}.entities WHERE kind = 'apis' AND id = api FOR KEY SHARE;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'KS002'; END IF;
END $f$;

CREATE FUNCTION ${s}.write_key_v1(w jsonb) RETURNS text[] LANGUAGE plpgsql AS $f$
DECLARE r jsonb := w -> 'row'; n bigint; shared bigint; was text;
BEGIN
  IF w ->> 'remove' IS NOT NULL THEN
    DELETE FROM ${s}.keys k WHERE k.id = w ->> 'remove' AND k.version = (w ->> 'version')::bigint
      RETURNING k.digest, coalesce(k.account, k.number) INTO was, shared;
    IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'KS001'; END IF;
    DELETE FROM ${s}.accounts a WHERE a.number = shared
      AND NOT EXISTS (SELECT 1 FROM ${s}.keys k WHERE k.number = shared)
      AND NOT EXISTS (SELECT 1 FROM ${s}.keys k WHERE k.account = shared);
    RETURN ARRAY['=' || was];
  END IF;
  PERFORM ${s}.hold_api_v1(r ->> 'api');
  IF (r ->> 'version')::bigint = 0 THEN
    IF r ->> 'account' IS NOT NULL THEN
      SELECT coalesce(k.account, k.number) INTO shared FROM ${s}.keys k WHERE k.id = coalesce(r ->> 'from', r ->> 'account')
        FOR KEY SHARE;
    END IF;
    INSERT INTO ${s}.keys (account, ${KEY_COLUMNS}) VALUES (shared, ${KEY_VALUES}) RETURNING number INTO n;
    shared := coalesce(shared, n);
  ELSE
    SELECT k.number, k.digest, coalesce(k.account, k.number) INTO n, was, shared FROM ${s}.keys k
      WHERE k.id = r ->> 'id' AND k.version = (r ->> 'version')::bigint
      -- A stronger lock would wait for whoever holds the key to replace it, and two of these for each other.
      FOR NO KEY UPDATE;
    IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'KS001'; END IF;
    UPDATE ${s}.keys SET (${KEY_COLUMNS}) = ROW(${KEY_VALUES}) WHERE number = n;
  END IF;
  IF w -> 'credits' IS NOT NULL THEN PERFORM ${s}.change_credits_v1(shared, w -> 'credits'); END IF;
  RETURN ARRAY['=' || was, '=' || (r ->> 'digest')];
END $f$;

CREATE FUNCTION ${s}.write_entity_v1(w jsonb) RETURNS text[] LANGUAGE plpgsql AS $f$
DECLARE
  r jsonb := w -> 'row'; k text := w ->> 'table'; row_id text := coalesce(w ->> 'remove', r ->> 'id');
  was bigint := coalesce(w ->> 'version', r ->> 'version')::bigint; told text[] := '{}'; old_name text; own bigint;
BEGIN
  -- A new row changes no key, except a workspace: keys do not need a row of theirs.
  IF was > 0 AND k IN (${FOUND_WITH_KEYS.join(", ")}) OR k = 'workspaces' THEN
    told := ARRAY['#' || k || ' ' || row_id];
  END IF;
  IF was > 0 AND k = 'rootKeys' THEN
    SELECT e.name INTO old_name FROM ${s}.entities e WHERE e.kind = k AND e.id = row_id;
    told := ARRAY['=' || old_name];
  END IF;
  IF k = 'rootKeys' AND r IS NOT NULL THEN told := told || ('=' || (r ->> 'name')); END IF;
  IF w ->> 'remove' IS NOT NULL THEN
    DELETE FROM ${s}.entities e WHERE e.kind = k AND e.id = row_id AND e.version = was RETURNING e.account INTO own;
    IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'KS001'; END IF;
    -- No key is to become unlimited by it. A key that is written meanwhile has no identity from the start.
    IF EXISTS (SELECT 1 FROM ${s}.accounts a WHERE a.number = own AND NOT a.unlimited) AND EXISTS (
      SELECT 1 FROM ${s}.keys x JOIN ${s}.entities p ON p.kind = 'apis' AND p.id = x.api_id AND NOT p.deleted
      WHERE x.identity_id = row_id AND x.draws AND x.enabled AND NOT x.deleted
    ) THEN
      RAISE EXCEPTION USING ERRCODE = 'KS001';
    END IF;
    DELETE FROM ${s}.accounts a WHERE a.number = own;
    IF k = 'apis' AND EXISTS (SELECT 1 FROM ${s}.keys x WHERE x.api_id = row_id) THEN
      RAISE EXCEPTION USING ERRCODE = 'KS003';
    END IF;
  ELSIF was = 0 THEN
    INSERT INTO ${s}.entities (kind, id, workspace_id, name, parent, version, deleted, body)
      VALUES (k, row_id, r ->> 'ws', r ->> 'name', r ->> 'parent', 1, (r ->> 'deleted')::boolean, r ->> 'body');
  ELSE
    UPDATE ${s}.entities e SET workspace_id = r ->> 'ws', name = r ->> 'name', parent = r ->> 'parent', version = was + 1,
      deleted = (r ->> 'deleted')::boolean, body = r ->> 'body'
    WHERE e.kind = k AND e.id = row_id AND e.version = was;
    IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'KS001'; END IF;
  END IF;
  IF w -> 'credits' IS NOT NULL THEN
    UPDATE ${s}.entities e SET account = coalesce(e.account, nextval('${s}.key_numbers'))
      WHERE e.kind = k AND e.id = row_id RETURNING e.account INTO own;
    PERFORM ${s}.change_credits_v1(own, w -> 'credits');
  END IF;
  RETURN told;
END $f$;

-- Records what subscribers are to be notified of, and returns it with the transaction that did.
CREATE FUNCTION ${s}.tell_v1(told text[]) RETURNS text LANGUAGE plpgsql AS $f$
DECLARE each text[] := ARRAY(SELECT DISTINCT t FROM unnest(told) t WHERE t IS NOT NULL);
BEGIN
  INSERT INTO ${s}.changes (what) SELECT unnest(each);
  RETURN json_build_object('outcome', 'written', 'xid', pg_current_xact_id()::text, 'changes', each)::text;
END $f$;

CREATE FUNCTION ${s}.write_v1(mode text, writes text, entries text, most bigint) RETURNS text LANGUAGE plpgsql AS $f$
DECLARE
  w jsonb; told text[] := '{}'; concerned bigint[]; counts boolean := EXISTS (SELECT 1 FROM ${s}.flushes) OR EXISTS (SELECT 1 FROM ${s}.credit_days);
  today bigint := floor(coalesce((entries::jsonb #>> '{0,time}')::numeric, extract(epoch FROM now()) * 1000) / ${DAY});
BEGIN
  PERFORM ${s}.set_durability_v1(mode);
  IF counts THEN
    concerned := ${s}.concerned_v1(writes::jsonb);
    PERFORM ${s}.keep_totals_v1(concerned, today);
  END IF;
  FOR w IN SELECT * FROM jsonb_array_elements(writes::jsonb) LOOP
    told := told || CASE WHEN w ->> 'table' = 'keys' THEN ${s}.write_key_v1(w) ELSE ${s}.write_entity_v1(w) END;
  END LOOP;
  IF counts THEN PERFORM ${s}.keep_totals_v1(concerned || ${s}.concerned_v1(writes::jsonb), today); END IF;
  PERFORM ${s}.audit_v1(entries::jsonb, most);
  RETURN ${s}.tell_v1(told);
EXCEPTION
  WHEN unique_violation THEN RETURN '{"outcome":"taken"}';
  WHEN SQLSTATE 'KS001' THEN RETURN '{"outcome":"conflict"}';
END $f$;

-- given: [{i, id, ..., and with a balance: remaining, amount, period, generation}, ...]; returns the i that were inserted.
CREATE FUNCTION ${s}.insert_keys_v1(mode text, given text, entry text, most bigint, told text[]) RETURNS text LANGUAGE plpgsql AS $f$
DECLARE rows jsonb := given::jsonb; done bigint[];
BEGIN
  PERFORM ${s}.set_durability_v1(mode);
  PERFORM ${s}.hold_api_v1(api) FROM (SELECT DISTINCT r ->> 'api' AS api FROM jsonb_array_elements(rows) r ORDER BY 1) x;
  WITH input AS MATERIALIZED (
    SELECT nextval('${s}.key_numbers') AS number, (r ->> 'i')::bigint AS i, r FROM jsonb_array_elements(rows) r
  ), inserted AS (
    INSERT INTO ${s}.keys (number, ${KEY_COLUMNS}) SELECT number, ${KEY_VALUES} FROM input ORDER BY i
    ON CONFLICT DO NOTHING RETURNING number
  ), opened AS (
    INSERT INTO ${s}.accounts (number, remaining, credited, amount, period, generation)
    SELECT number, (r ->> 'remaining')::bigint, (r ->> 'remaining')::bigint, (r ->> 'amount')::bigint, (r ->> 'period')::bigint,
      (r ->> 'generation')::bigint
    FROM input JOIN inserted USING (number) WHERE r ->> 'remaining' IS NOT NULL
  )
  SELECT array_agg(i ORDER BY i) INTO done FROM input JOIN inserted USING (number);
  IF done IS NULL THEN RETURN '{"inserted":[]}'; END IF;
  IF entry IS NOT NULL THEN
    PERFORM ${s}.audit_v1(jsonb_build_array(entry::jsonb || jsonb_build_object('count', cardinality(done))), most);
  END IF;
  -- Without a list: the digests of what was inserted.
  RETURN (${s}.tell_v1(coalesce(told, ARRAY(
    SELECT coalesce('=' || (r ->> 'digest'), 'created') FROM jsonb_array_elements(rows) r WHERE (r ->> 'i')::bigint = ANY (done)
  )))::jsonb || jsonb_build_object('inserted', done))::text;
END $f$;

CREATE FUNCTION ${s}.adopt_v1(mode text, n bigint, native text) RETURNS text LANGUAGE plpgsql AS $f$
BEGIN
  PERFORM ${s}.set_durability_v1(mode);
  UPDATE ${s}.keys SET digest = native, version = version + 1 WHERE number = n AND digest IS NULL;
  IF NOT FOUND THEN RETURN '{"outcome":"taken"}'; END IF;
  RETURN ${s}.tell_v1(ARRAY['=' || native]);
EXCEPTION WHEN unique_violation THEN RETURN '{"outcome":"taken"}';
END $f$;

CREATE FUNCTION ${s}.record_uses_v1(uses text) RETURNS void LANGUAGE plpgsql AS $f$
BEGIN
  -- As the functions of credits it locks in the order of numbers; write_v1 does not: after a deadlock it is sent again.
  PERFORM 1 FROM ${s}.keys k WHERE k.id IN (SELECT e ->> 0 FROM jsonb_array_elements(uses::jsonb) e) ORDER BY k.number
    FOR NO KEY UPDATE;
  UPDATE ${s}.keys k SET last_used_at = u.used_at
  FROM (SELECT e ->> 0 AS id, max((e ->> 1)::bigint) AS used_at FROM jsonb_array_elements(uses::jsonb) e GROUP BY 1) u
  WHERE k.id = u.id AND u.used_at > coalesce(k.last_used_at, -9007199254740991);
END $f$;

CREATE FUNCTION ${s}.forget_once_v1(expired text[]) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE gone record;
BEGIN
  FOR gone IN WITH d AS (DELETE FROM ${s}.idempotency WHERE id = ANY (expired) RETURNING workspace_id)
    SELECT workspace_id, count(*) AS n FROM d GROUP BY 1 ORDER BY 1
  LOOP
    UPDATE ${s}.idempotency_counts c SET records = records - gone.n WHERE c.workspace_id = gone.workspace_id;
  END LOOP;
END $f$;

-- given: {n?, cost, period, now, id, ws, body, until, most, share, and of a reservation reserve, reserveUntil}
CREATE FUNCTION ${s}.spend_once_v1(mode text, given text) RETURNS text LANGUAGE plpgsql AS $f$
DECLARE
  c jsonb := given::jsonb; known ${s}.idempotency; at bigint := (given::jsonb ->> 'now')::bigint; spend jsonb;
  own bigint; share bigint := (given::jsonb ->> 'share')::bigint; outcome text := 'done';
  call text := CASE WHEN c ->> 'n' IS NULL THEN NULL ELSE '[[%s,%s,%s,%s,%s,%s]]' END;
BEGIN
  PERFORM ${s}.set_durability_v1(mode);
  -- Two calls under one id: the second waits, and finds the record of the first.
  PERFORM pg_advisory_xact_lock(hashtextextended(c ->> 'id', 7235926));
  SELECT * INTO known FROM ${s}.idempotency i WHERE i.id = c ->> 'id';
  IF FOUND AND known.expires > at THEN
    IF known.body <> c ->> 'body' THEN RETURN '{"outcome":"mismatch"}'; END IF;
    outcome := 'repeated';
    spend := ${s}.spend_v1(mode, format(call, c ->> 'n', 0, c ->> 'period', at, 'null', 'null'))::jsonb -> 0;
  ELSE
    -- The row is locked, so that calls of one workspace never go beyond its share together. Before those of other workspaces,
    -- for which no call waits: so no two wait for each other. The bound of all is looked at without a lock: calls of
    -- other workspaces that are in flight may pass it by one each.
    INSERT INTO ${s}.idempotency_counts VALUES (c ->> 'ws', 0)
      ON CONFLICT (workspace_id) DO UPDATE SET records = idempotency_counts.records;
    IF known.id IS NOT NULL THEN PERFORM ${s}.forget_once_v1(ARRAY[known.id]); END IF;
    PERFORM ${s}.forget_once_v1(ARRAY(
      WITH due AS MATERIALIZED (
        SELECT i.id, i.workspace_id FROM ${s}.idempotency i WHERE i.expires <= at ORDER BY i.expires LIMIT ${EXPIRED_PER_WRITE}
        FOR UPDATE SKIP LOCKED
      ), held AS MATERIALIZED (
        SELECT x.workspace_id FROM ${s}.idempotency_counts x WHERE x.workspace_id IN (SELECT workspace_id FROM due)
        FOR UPDATE SKIP LOCKED
      )
      SELECT id FROM due JOIN held USING (workspace_id)));
    SELECT x.records INTO own FROM ${s}.idempotency_counts x WHERE x.workspace_id = c ->> 'ws';
    IF own >= share THEN
      PERFORM ${s}.forget_once_v1(ARRAY(SELECT i.id FROM ${s}.idempotency i WHERE i.workspace_id = c ->> 'ws' AND i.expires <= at
        ORDER BY i.expires LIMIT ${EXPIRED_PER_WRITE} FOR UPDATE SKIP LOCKED));
      SELECT x.records INTO own FROM ${s}.idempotency_counts x WHERE x.workspace_id = c ->> 'ws';
    END IF;
    IF own >= share OR (SELECT sum(x.records) FROM ${s}.idempotency_counts x) >= (c ->> 'most')::bigint THEN
      RETURN '{"outcome":"full"}';
    END IF;
    spend := ${s}.spend_v1(mode, format(call, c ->> 'n', c ->> 'cost', c ->> 'period', at,
      coalesce(c -> 'reserve', 'null'), coalesce(c ->> 'reserveUntil', 'null')))::jsonb -> 0;
    IF call IS NULL OR (spend ->> 'ok')::boolean THEN
      INSERT INTO ${s}.idempotency VALUES (c ->> 'id', c ->> 'ws', c ->> 'body', (c ->> 'until')::bigint);
      UPDATE ${s}.idempotency_counts x SET records = records + 1 WHERE x.workspace_id = c ->> 'ws';
    END IF;
  END IF;
  IF call IS NULL THEN spend := '{"ok":true,"remaining":null}'; END IF;
  RETURN jsonb_strip_nulls(jsonb_build_object('outcome', outcome)) || CASE WHEN spend = 'null' THEN '{}'::jsonb
    ELSE jsonb_build_object('spend', spend) END;
END $f$;

-- Removes changes that are older than any node's memory; nodes that were away for longer are told that they were. And
-- counts of nothing.
CREATE FUNCTION ${s}.prune_v1(keep interval) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE last xid8;
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('${s}', 7235927)) THEN RETURN; END IF;
  -- Not what a snapshot of a node may not know although it is newer: while a transaction runs for longer, all nodes' snapshots
  -- begin with it. Those beyond this snapshot are another server's, from which the tables were restored.
  WITH gone AS (
    DELETE FROM ${s}.changes WHERE at < clock_timestamp() - keep
      AND (xid < pg_snapshot_xmin(pg_current_snapshot()) OR xid >= pg_snapshot_xmax(pg_current_snapshot())) RETURNING xid
  )
  SELECT xid INTO last FROM gone WHERE xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY xid DESC LIMIT 1;
  IF last IS NOT NULL THEN
    UPDATE ${s}.meta SET pruned = last
    WHERE pruned IS NULL OR pruned < last OR pruned >= pg_snapshot_xmax(pg_current_snapshot());
  END IF;
  -- Workspaces without records. Not what a call holds: it is about to have one.
  DELETE FROM ${s}.idempotency_counts WHERE workspace_id IN (
    SELECT workspace_id FROM ${s}.idempotency_counts WHERE records = 0 FOR UPDATE SKIP LOCKED
  );
END $f$;
`;
