/**
 * Credits of several accounts in one step, in PL/pgSQL: the walk of `src/credits/wallet.ts`. Each account is changed by
 * the functions that change one account, so that the arithmetic stands once. A test runs both walks against each other.
 */
import { MAX_BALANCE, MAX_RESERVATIONS } from "../../credits/account.js";
import { HAS_EXPIRED } from "./credits-sql.js";
import { LOCK_COUNTS } from "./groups-sql.js";

const STALE = `'{"ok":false,"remaining":0,"stale":true}'`;
const CALLS = "jsonb_array_elements(parsed) WITH ORDINALITY AS x (e, ord)";
/** The numbers of all accounts of a call, in its lists. */
const NUMBERS = (call: string, number: string) =>
  `SELECT (${number})::bigint FROM jsonb_array_elements(${call} -> 'wallets') w, jsonb_array_elements(w) AS a (a)`;

/** Locks the accounts of all calls in the order of their numbers; with `skips`, says which calls meet a lock. */
const HOLD = (s: string, number: string) => `
  locked := ${s}.hold_accounts_v1(ARRAY(SELECT DISTINCT n FROM ${CALLS}, LATERAL (${NUMBERS("e", number)}) AS t (n)), skips);
  FOR call IN SELECT ord::integer AS ord FROM ${CALLS} WHERE results[ord] IS NULL AND locked && ARRAY(${NUMBERS("e", number)}) LOOP
    results[call.ord] := '"locked"';
  END LOOP;`;

export const walletFunctions = (s: string): string => `
-- c: {wallets: [[[account, period, expires or null], ...], ...], cost, now, of a reservation its id and until, and of a
-- call with an idempotency key "once", as of spend_once_v1}. Its accounts are locked.
CREATE FUNCTION ${s}.spend_wallets_of_v1(mode text, c jsonb) RETURNS text LANGUAGE plpgsql AS $f$
DECLARE
  at bigint := (c ->> 'now')::bigint; cost bigint := (c ->> 'cost')::bigint; holder text := c ->> 'id'; outcome text := 'done';
  one record; a ${s}.accounts; known ${s}.idempotency; available bigint; part bigint; missing bigint[] := '{}'; sums bigint[] := '{}';
  free boolean[] := '{}'; rest bigint; said jsonb; parts jsonb := '[]'; dead bigint[] := '{}'; refused text; forfeits bigint := 0;
BEGIN
  IF c ? 'once' THEN
    SELECT * INTO known FROM ${s}.idempotency i WHERE i.id = c #>> '{once,id}' AND i.expires > at;
    IF FOUND THEN
      IF known.body <> c #>> '{once,body}' THEN RETURN '{"outcome":"mismatch"}'; END IF;
      outcome := 'repeated';
      cost := 0;
    END IF;
  END IF;
  -- What each wallet has.
  FOR one IN
    SELECT w.place::integer AS wallet, (x ->> 0)::bigint AS n, (x ->> 1)::bigint AS period, (x ->> 2)::bigint AS expires
    FROM jsonb_array_elements(c -> 'wallets') WITH ORDINALITY AS w (list, place), jsonb_array_elements(w.list) AS y (x)
  LOOP
    SELECT * INTO a FROM ${s}.accounts WHERE number = one.n;
    IF NOT FOUND OR NOT a.unlimited AND ${s}.calendar_v1(a.period) <> ${s}.calendar_v1(one.period) THEN
      RETURN format('{"outcome":"%s","spend":%s}', outcome, ${STALE});
    END IF;
    free[one.wallet] := coalesce(free[one.wallet], false) OR a.unlimited;
    sums[one.wallet] := coalesce(sums[one.wallet], 0);
    IF a.unlimited THEN
      CONTINUE;
    ELSIF ${HAS_EXPIRED(s, "at")} THEN
      a := ${s}.sweep_v1(a, '', at);
      PERFORM ${s}.save_v1(a);
    END IF;
    IF (one.expires > at) IS NOT FALSE THEN
      sums[one.wallet] := sums[one.wallet] + (${s}.settle_v1(a, one.period)).remaining;
    END IF;
  END LOOP;
  FOR i IN 1..cardinality(sums) LOOP
    IF NOT free[i] THEN rest := least(rest, sums[i], ${MAX_BALANCE}); END IF;
  END LOOP;
  said := jsonb_build_object('ok', rest IS NULL OR cost <= rest OR cost = 0, 'remaining', rest);
  -- What takes nothing is recorded all the same, where it is made.
  IF cost > rest OR outcome = 'repeated' OR NOT c ? 'once' AND (rest IS NULL OR cost = 0) THEN
    RETURN jsonb_build_object('outcome', outcome, 'spend', said);
  END IF;
  -- How much of each account, and what stands in the way of a reservation.
  IF cost > 0 AND rest IS NOT NULL THEN
    FOR one IN
      SELECT w.place::integer AS wallet, (x ->> 0)::bigint AS n, (x ->> 1)::bigint AS period, (x ->> 2)::bigint AS expires
      FROM jsonb_array_elements(c -> 'wallets') WITH ORDINALITY AS w (list, place), jsonb_array_elements(w.list) AS y (x)
      WHERE NOT free[w.place::integer]
    LOOP
      SELECT * INTO a FROM ${s}.accounts WHERE number = one.n;
      IF one.expires <= at THEN
        IF a.remaining > 0 THEN dead := dead || one.n; END IF;
        part := 0;
      ELSE
        missing[one.wallet] := coalesce(missing[one.wallet], cost);
        part := least(missing[one.wallet], (${s}.settle_v1(a, one.period)).remaining);
        missing[one.wallet] := missing[one.wallet] - part;
      END IF;
      IF refused IS NULL AND holder IS NOT NULL AND a.reserved > 0 THEN
        refused := CASE
          WHEN EXISTS (SELECT 1 FROM ${s}.leases l WHERE l.account = one.n AND l.holder = c ->> 'id') THEN 'open'
          WHEN part > ${MAX_BALANCE} - a.reserved THEN 'full'
          WHEN part > 0 AND (SELECT count(*) FROM ${s}.leases l WHERE l.account = one.n AND l.reserved > 0) >= ${MAX_RESERVATIONS} THEN 'full' END;
      END IF;
      IF part > 0 THEN parts := parts || jsonb_build_array(jsonb_build_array(one.n, part, one.period, at, holder, c -> 'until')); END IF;
    END LOOP;
  END IF;
  IF refused IS NOT NULL THEN
    RETURN format('{"outcome":"%s","spend":{"ok":false,"remaining":%s,"refused":"%s"}}', outcome, rest, refused);
  END IF;
  IF c ? 'once' AND outcome = 'done' THEN
    said := ${s}.spend_once_v1(mode, (c -> 'once')::text)::jsonb;
    IF said ->> 'outcome' <> 'done' THEN RETURN jsonb_build_object('outcome', said ->> 'outcome'); END IF;
  END IF;
  IF parts <> '[]' THEN
    said := ${s}.spend_v1(mode, parts::text)::jsonb;
    IF EXISTS (SELECT 1 FROM jsonb_array_elements(said) x WHERE NOT (x ->> 'ok')::boolean) THEN
      RAISE EXCEPTION 'an account has less than it had before, within one step';
    END IF;
    forfeits := (SELECT coalesce(sum((x ->> 'forfeited')::bigint), 0) FROM jsonb_array_elements(said) x);
    FOREACH part IN ARRAY dead LOOP
      SELECT * INTO a FROM ${s}.accounts WHERE number = part;
      PERFORM ${s}.save_v1(${s}.move_v1(a, by_remaining => -a.remaining, by_forfeited => a.remaining));
    END LOOP;
  END IF;
  RETURN jsonb_build_object('outcome', outcome, 'spend', jsonb_build_object('ok', true, 'remaining', rest - cost)
    || CASE WHEN forfeits > 0 THEN jsonb_build_object('forfeited', forfeits) ELSE '{}' END);
END $f$;

-- calls: a list of what spend_wallets_of_v1 takes. Locks ids, accounts and counts, as once_group_v1 does.
CREATE FUNCTION ${s}.spend_wallets_v1(mode text, calls text, skips boolean) RETURNS text LANGUAGE plpgsql AS $f$
DECLARE parsed jsonb := calls::jsonb; call record; results text[] := '{}'; locked bigint[]; counts text[];
BEGIN
  PERFORM ${s}.set_durability_v1(mode);
  FOR call IN SELECT ord::integer AS ord, hashtextextended(e #>> '{once,id}', 7235926) AS lock FROM ${CALLS} WHERE e ? 'once' ORDER BY 2 LOOP
    IF NOT skips THEN
      PERFORM pg_advisory_xact_lock(call.lock);
    ELSIF NOT pg_try_advisory_xact_lock(call.lock) THEN
      results[call.ord] := '"locked"';
    END IF;
  END LOOP;${HOLD(s, "a ->> 0")}
  counts := ARRAY(SELECT DISTINCT e #>> '{once,ws}' FROM ${CALLS} WHERE results[ord] IS NULL AND e ? 'once');
  IF counts <> '{}' THEN
    INSERT INTO ${s}.idempotency_counts SELECT w, 0 FROM unnest(counts) w
      WHERE NOT EXISTS (SELECT 1 FROM ${s}.idempotency_counts x WHERE x.workspace_id = w) ORDER BY 1 ON CONFLICT DO NOTHING;
    ${LOCK_COUNTS(s)}
  END IF;
  FOR call IN SELECT e, ord::integer AS ord FROM ${CALLS} WHERE results[ord] IS NULL ORDER BY 2 LOOP
    results[call.ord] := ${s}.spend_wallets_of_v1(mode, call.e);
  END LOOP;
  RETURN '[' || array_to_string(results, ',') || ']';
END $f$;

-- calls: [{wallets: [[account, ...], ...], id, spent, now}, ...]; returns a list of outcomes.
CREATE FUNCTION ${s}.settle_wallets_v1(mode text, calls text, skips boolean) RETURNS text LANGUAGE plpgsql AS $f$
DECLARE
  parsed jsonb := calls::jsonb; call record; one record; results text[] := '{}'; locked bigint[]; kept bigint; part bigint;
  parts jsonb; said jsonb; is_open boolean; exceeds boolean; wallet integer;
BEGIN
  PERFORM ${s}.set_durability_v1(mode);${HOLD(s, "a #>> '{}'")}
  FOR call IN SELECT e, ord::integer AS ord FROM ${CALLS} WHERE results[ord] IS NULL ORDER BY 2 LOOP
    parts := '[]';
    exceeds := false;
    is_open := false;
    wallet := NULL;
    FOR one IN
      SELECT w.place::integer AS wallet, (n #>> '{}')::bigint AS n, (SELECT l.reserved FROM ${s}.leases l WHERE l.account = (n #>> '{}')::bigint
        AND l.holder = call.e ->> 'id' AND l.expires > (call.e ->> 'now')::bigint) AS reserved
      FROM jsonb_array_elements(call.e -> 'wallets') WITH ORDINALITY AS w (list, place), jsonb_array_elements(w.list) AS y (n)
    LOOP
      IF wallet IS DISTINCT FROM one.wallet THEN
        exceeds := exceeds OR is_open AND kept > 0;
        is_open := true;
        kept := (call.e ->> 'spent')::bigint;
        wallet := one.wallet;
      END IF;
      -- Of a part that has ended it is not known how much it was.
      is_open := is_open AND one.reserved IS NOT NULL;
      part := least(kept, coalesce(one.reserved, 0));
      kept := kept - part;
      parts := parts || jsonb_build_array(jsonb_build_array(one.n, call.e -> 'id', part, call.e -> 'now'));
    END LOOP;
    IF exceeds OR is_open AND kept > 0 THEN
      results[call.ord] := '{"settled":false,"reason":"exceeds"}';
    ELSE
      said := ${s}.settle_reservations_v1(mode, parts::text)::jsonb;
      results[call.ord] := coalesce((SELECT x FROM jsonb_array_elements(said) x WHERE (x ->> 'settled')::boolean LIMIT 1), said -> 0)::text;
    END IF;
  END LOOP;
  RETURN '[' || array_to_string(results, ',') || ']';
END $f$;
`;

/** The step. */
export const WALLETS = {
  up: walletFunctions,
  down: (s: string): string =>
    `DROP FUNCTION ${s}.spend_wallets_v1(text, text, boolean); DROP FUNCTION ${s}.settle_wallets_v1(text, text, boolean);
     DROP FUNCTION ${s}.spend_wallets_of_v1(text, jsonb);`,
  refuses: {},
};
