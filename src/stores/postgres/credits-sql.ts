/**
 * The arithmetic of `src/credits/account.ts` in PL/pgSQL, so that a spend is one statement: a row lock that spans two
 * of them needs a transaction of the client, which a pooler does not keep. Without reserves of leases, as the power
 * says; reservations have one. A test runs both against each other.
 *
 * Each function takes a list of calls, locks accounts in the order of their numbers, so that two groups never wait for
 * each other in a circle, and writes each account once.
 */
import { ENDING_KEPT, KEPT_AFTER_EXPIRY, MAX_BALANCE, MAX_RESERVATIONS } from "../../credits/account.js";
import { FORGOTTEN_PER_WRITE } from "../endings.js";

/** Loads the account of `call` into `a`, and saves the one before it. */
const LOAD = (s: string) => `
      IF at_number IS DISTINCT FROM call.n THEN
        IF is_changed THEN PERFORM ${s}.save_v1(a); END IF;
        is_changed := false;
        at_number := call.n;
        SELECT * INTO a FROM ${s}.accounts WHERE number = at_number FOR NO KEY UPDATE;
        is_known := FOUND;
      END IF;`;

/** Whether the account `a` has reservations that have expired at `at`. */
export const HAS_EXPIRED = (s: string, at: string) => `(a.reserved > 0 AND EXISTS (
        SELECT 1 FROM ${s}.leases l WHERE l.account = a.number AND l.reserved > 0 AND l.expires <= ${at}))`;

/** Returns them. */
export const SWEEP = (s: string) => `
      IF is_known AND ${HAS_EXPIRED(s, "call.at")} THEN
        a := ${s}.sweep_v1(a, '', call.at);
        is_changed := true;
      END IF;`;

/** Counts what a lease has spent since it began, and takes back that it was forfeited. */
const REPORT = (s: string) => `
      IF lease.is_forfeited THEN
        lease.held := least(lease.held, a.forfeited, ${MAX_BALANCE} - a.reserved);
        a := ${s}.move_v1(a, by_reserved => lease.held, by_forfeited => -lease.held);
      END IF;
      used := least(lease.held, greatest(0, call.spent - lease.spent));
      a := ${s}.move_v1(a, by_spent => used, by_reserved => -used);
      lease.held := lease.held - used;
      lease.spent := lease.spent + used;
      lease.is_forfeited := false;`;

/**
 * Arithmetic of periods, as expressions that are parsed when they are made: they need no search_path of their own, with
 * which the planner would not inline them. Measured: a row of `key_overview` would take 2.7 times as long.
 * @param s the schema, quoted
 */
const refillFunctions = (s: string): string => `
CREATE FUNCTION ${s}.calendar_v1(period bigint) RETURNS bigint LANGUAGE sql IMMUTABLE
  RETURN (period - CASE WHEN period < 0 THEN 999999999 ELSE 0 END) / 1000000000;

CREATE FUNCTION ${s}.period_v1(calendar bigint, at timestamptz) RETURNS bigint LANGUAGE sql STABLE
  RETURN CASE
    WHEN calendar = 32 THEN 32000000000 + floor(extract(epoch FROM at) / 86400)::bigint
    WHEN calendar BETWEEN 1 AND 31 THEN calendar * 1000000000
      + (extract(year FROM at AT TIME ZONE 'UTC')::bigint - 1970) * 12 + extract(month FROM at AT TIME ZONE 'UTC')::bigint - 1
      + CASE WHEN extract(day FROM at AT TIME ZONE 'UTC') >= calendar
          OR extract(month FROM at AT TIME ZONE 'UTC') <> extract(month FROM (at AT TIME ZONE 'UTC') + interval '1 day') THEN 1 ELSE 0 END
    ELSE 0 END;

-- Boundaries that are refilled at once between two periods of one calendar; those beyond are forfeited.
CREATE FUNCTION ${s}.due_v1(calendar bigint, passed bigint) RETURNS bigint LANGUAGE sql IMMUTABLE
  RETURN least(passed, CASE WHEN calendar = 32 THEN 400 WHEN calendar > 0 THEN 24 ELSE passed END);

CREATE FUNCTION ${s}.forfeits_v1(a ${s}.accounts, upto bigint) RETURNS bigint LANGUAGE sql IMMUTABLE
  RETURN CASE WHEN a.amount = 0 OR upto <= a.period OR ${s}.calendar_v1(a.period) <> ${s}.calendar_v1(upto) THEN 0
    ELSE upto - a.period - ${s}.due_v1(${s}.calendar_v1(upto), upto - a.period) END;
`;

/** The statements that make the functions. @param s the schema, quoted */
export const creditFunctions = (s: string): string => `
CREATE FUNCTION ${s}.set_durability_v1(mode text) RETURNS void LANGUAGE plpgsql AS $f$
BEGIN
  IF mode = 'process' THEN
    PERFORM set_config('synchronous_commit', 'off', true);
  ELSIF mode = 'replicated' THEN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
      PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
  ELSIF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'local', true);
  END IF;
END $f$;

${refillFunctions(s)}
CREATE FUNCTION ${s}.move_v1(
  a ${s}.accounts, by_remaining bigint DEFAULT 0, by_refilled bigint DEFAULT 0, by_adjusted bigint DEFAULT 0,
  by_spent bigint DEFAULT 0, by_reserved bigint DEFAULT 0, by_forfeited bigint DEFAULT 0
) RETURNS ${s}.accounts LANGUAGE plpgsql IMMUTABLE AS $f$
DECLARE fits bigint;
BEGIN
  IF a.refilled + by_refilled > ${MAX_BALANCE} OR abs(a.adjusted + by_adjusted) > ${MAX_BALANCE}
    OR a.spent + by_spent > ${MAX_BALANCE} OR a.reserved + by_reserved > ${MAX_BALANCE}
    OR a.forfeited + by_forfeited > ${MAX_BALANCE} THEN
    fits := least(a.reserved, ${MAX_BALANCE} - a.remaining);
    a.credited := a.remaining + fits;
    a.refilled := a.reserved - fits;
    a.adjusted := 0;
    a.spent := 0;
    a.forfeited := 0;
  END IF;
  a.remaining := a.remaining + by_remaining;
  a.refilled := a.refilled + by_refilled;
  a.adjusted := a.adjusted + by_adjusted;
  a.spent := a.spent + by_spent;
  a.reserved := a.reserved + by_reserved;
  a.forfeited := a.forfeited + by_forfeited;
  RETURN a;
END $f$;

CREATE FUNCTION ${s}.settle_v1(a ${s}.accounts, upto bigint) RETURNS ${s}.accounts LANGUAGE plpgsql IMMUTABLE AS $f$
DECLARE due bigint; space bigint; added bigint;
BEGIN
  IF upto <= a.period OR NOT (a.unlimited OR ${s}.calendar_v1(a.period) = ${s}.calendar_v1(upto)) THEN RETURN a; END IF;
  due := ${s}.due_v1(${s}.calendar_v1(upto), upto - a.period);
  space := CASE WHEN a.unlimited THEN 0 ELSE ${MAX_BALANCE} - a.remaining END;
  added := CASE WHEN a.amount > space / due THEN space ELSE a.amount * due END;
  a := ${s}.move_v1(a, by_remaining => added, by_refilled => added);
  a.period := upto;
  RETURN a;
END $f$;

CREATE FUNCTION ${s}.save_v1(a ${s}.accounts) RETURNS void LANGUAGE plpgsql AS $f$
BEGIN
  UPDATE ${s}.accounts SET unlimited = a.unlimited, remaining = a.remaining, amount = a.amount, period = a.period,
    generation = a.generation, credited = a.credited, refilled = a.refilled, adjusted = a.adjusted, spent = a.spent,
    reserved = a.reserved, forfeited = a.forfeited
  WHERE number = a.number;
END $f$;

-- What nodes that vanished hold is forfeited; the lease stays for a day, in case its node lives and reports. Reserves
-- return.
CREATE FUNCTION ${s}.sweep_v1(a ${s}.accounts, self text, at bigint) RETURNS ${s}.accounts LANGUAGE plpgsql AS $f$
DECLARE other ${s}.leases; is_old boolean; returned bigint;
BEGIN
  FOR other IN
    SELECT * FROM ${s}.leases l WHERE l.account = a.number AND l.holder <> self AND l.expires <= at
      AND (NOT l.is_forfeited OR l.expires + ${KEPT_AFTER_EXPIRY} <= at)
  LOOP
    is_old := other.expires + ${KEPT_AFTER_EXPIRY} <= at;
    IF NOT other.is_forfeited THEN
      returned := CASE WHEN a.unlimited OR other.generation <> a.generation THEN 0
        ELSE least(other.reserved, ${MAX_BALANCE} - a.remaining) END;
      a := ${s}.move_v1(a, by_remaining => returned, by_reserved => -other.held - other.reserved,
        by_forfeited => other.held + other.reserved - returned);
    END IF;
    IF is_old OR (NOT other.is_forfeited AND other.held = 0) THEN
      DELETE FROM ${s}.leases l WHERE l.account = a.number AND l.holder = other.holder;
    ELSE
      UPDATE ${s}.leases l SET is_forfeited = true WHERE l.account = a.number AND l.holder = other.holder;
    END IF;
    IF other.reserved > 0 THEN PERFORM ${s}.end_reservation_v1(other, 'expired'); END IF;
  END LOOP;
  RETURN a;
END $f$;

-- calls: [[account, cost, period, now, and of a reservation its id and until], ...]; returns a list of outcomes, null for
-- an account that is not there.
CREATE FUNCTION ${s}.spend_v1(mode text, calls text) RETURNS text LANGUAGE plpgsql AS $f$
DECLARE
  call record; a ${s}.accounts; settled ${s}.accounts; at_number bigint; is_known boolean := false;
  is_changed boolean := false; is_granted boolean; forfeits bigint; refused text; results text[] := '{}';
BEGIN
  PERFORM ${s}.set_durability_v1(mode);
  FOR call IN
    SELECT (e ->> 0)::bigint AS n, (e ->> 1)::bigint AS cost, (e ->> 2)::bigint AS period, (e ->> 3)::bigint AS at,
      e ->> 4 AS holder, (e ->> 5)::bigint AS until, ord::int AS ord
    FROM jsonb_array_elements(calls::jsonb) WITH ORDINALITY AS t (e, ord) ORDER BY 1, 7
  LOOP${LOAD(s)}${SWEEP(s)}
    IF NOT is_known THEN
      results[call.ord] := 'null';
    ELSIF a.unlimited THEN
      results[call.ord] := '{"ok":true,"remaining":null}';
    ELSIF a.period = call.period AND call.cost <= ${MAX_BALANCE} - a.spent AND call.holder IS NULL THEN
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
        CONTINUE;
      END IF;
      refused := CASE WHEN call.holder IS NULL THEN NULL
        WHEN EXISTS (SELECT 1 FROM ${s}.leases l WHERE l.account = at_number AND l.holder = call.holder) THEN 'open'
        WHEN call.cost > ${MAX_BALANCE} - a.reserved THEN 'full'
        WHEN (SELECT count(*) FROM ${s}.leases l WHERE l.account = at_number AND l.reserved > 0) >= ${MAX_RESERVATIONS} THEN 'full' END;
      IF refused IS NOT NULL THEN
        results[call.ord] := format('{"ok":false,"remaining":%s,"refused":"%s"}', settled.remaining, refused);
      ELSE
        forfeits := ${s}.forfeits_v1(a, call.period);
        IF call.holder IS NULL THEN
          a := ${s}.move_v1(settled, by_remaining => -call.cost, by_spent => call.cost);
        ELSE
          a := ${s}.move_v1(settled, by_remaining => -call.cost, by_reserved => call.cost);
          INSERT INTO ${s}.leases VALUES (at_number, call.holder, a.generation, call.until, 0, 0, false, call.cost);
          DELETE FROM ${s}.reservations_ended WHERE id IN (SELECT x.id FROM ${s}.reservations_ended x
            WHERE x.until <= call.at ORDER BY x.until LIMIT ${FORGOTTEN_PER_WRITE} FOR UPDATE SKIP LOCKED);
        END IF;
        is_changed := true;
        results[call.ord] := format('{"ok":true,"remaining":%s%s}', a.remaining,
          CASE WHEN forfeits > 0 THEN format(',"forfeited":%s', forfeits) ELSE '' END);
      END IF;
    END IF;
  END LOOP;
  IF is_changed THEN PERFORM ${s}.save_v1(a); END IF;
  RETURN '[' || array_to_string(results, ',') || ']';
END $f$;

-- calls: [[account, holder, spent, cost, step, period, now, until], ...]
CREATE FUNCTION ${s}.draw_v1(mode text, calls text) RETURNS text LANGUAGE plpgsql AS $f$
DECLARE
  call record; a ${s}.accounts; lease ${s}.leases; at_number bigint; is_known boolean := false;
  is_changed boolean := false; has_lease boolean; used bigint; free bigint; taken bigint; forfeits bigint;
  results text[] := '{}';
BEGIN
  PERFORM ${s}.set_durability_v1(mode);
  FOR call IN
    SELECT (e ->> 0)::bigint AS n, e ->> 1 AS holder, (e ->> 2)::bigint AS spent, (e ->> 3)::bigint AS cost,
      (e ->> 4)::bigint AS step, (e ->> 5)::bigint AS period, (e ->> 6)::bigint AS at, (e ->> 7)::bigint AS until, ord::int AS ord
    FROM jsonb_array_elements(calls::jsonb) WITH ORDINALITY AS t (e, ord) ORDER BY 1, 9
  LOOP${LOAD(s)}
    IF NOT is_known THEN
      results[call.ord] := 'null';
      CONTINUE;
    ELSIF a.unlimited THEN
      results[call.ord] := format('{"drawn":%s,"generation":%s,"remaining":null}', call.cost, a.generation);
      CONTINUE;
    ELSIF ${s}.calendar_v1(a.period) <> ${s}.calendar_v1(call.period) THEN
      results[call.ord] := format('{"drawn":0,"generation":%s,"remaining":0,"stale":true}', a.generation);
      CONTINUE;
    END IF;
    SELECT * INTO lease FROM ${s}.leases l WHERE l.account = at_number AND l.holder = call.holder;
    has_lease := FOUND;
    IF has_lease AND lease.generation <> a.generation THEN
      results[call.ord] := format('{"drawn":0,"generation":%s,"remaining":%s}', a.generation, a.remaining);
      CONTINUE;
    END IF;
    forfeits := ${s}.forfeits_v1(a, call.period);
    a := ${s}.sweep_v1(${s}.settle_v1(a, call.period), call.holder, call.at);
    IF has_lease THEN${REPORT(s)}
    ELSE
      lease := ROW(at_number, call.holder, a.generation, call.until, 0, call.spent, false, 0);
    END IF;
    free := least(a.remaining, ${MAX_BALANCE} - a.reserved);
    taken := CASE WHEN call.cost > free THEN 0 ELSE greatest(call.cost, least(call.step, free / 4)) END;
    a := ${s}.move_v1(a, by_remaining => -taken, by_reserved => taken);
    lease.held := lease.held + taken;
    lease.expires := call.until;
    is_changed := true;
    IF has_lease OR lease.held > 0 THEN
      INSERT INTO ${s}.leases VALUES (lease.*)
        ON CONFLICT (account, holder) DO UPDATE SET expires = excluded.expires, held = excluded.held,
          spent = excluded.spent, is_forfeited = excluded.is_forfeited;
    END IF;
    results[call.ord] := format('{"drawn":%s,"generation":%s,"remaining":%s%s}', taken, a.generation, a.remaining,
      CASE WHEN forfeits > 0 THEN format(',"forfeited":%s', forfeits) ELSE '' END);
  END LOOP;
  IF is_changed THEN PERFORM ${s}.save_v1(a); END IF;
  RETURN '[' || array_to_string(results, ',') || ']';
END $f$;

-- calls: [[account, holder, spent], ...]
CREATE FUNCTION ${s}.end_leases_v1(mode text, calls text) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE
  call record; a ${s}.accounts; lease ${s}.leases; at_number bigint; is_known boolean := false;
  is_changed boolean := false; used bigint; returned bigint;
BEGIN
  PERFORM ${s}.set_durability_v1(mode);
  FOR call IN
    SELECT (e ->> 0)::bigint AS n, e ->> 1 AS holder, (e ->> 2)::bigint AS spent, ord::int AS ord
    FROM jsonb_array_elements(calls::jsonb) WITH ORDINALITY AS t (e, ord) ORDER BY 1, 4
  LOOP${LOAD(s)}
    CONTINUE WHEN NOT is_known;
    DELETE FROM ${s}.leases l WHERE l.account = at_number AND l.holder = call.holder RETURNING * INTO lease;
    CONTINUE WHEN NOT FOUND;${REPORT(s)}
    returned := CASE WHEN a.unlimited OR lease.generation <> a.generation THEN 0
      ELSE least(lease.held, ${MAX_BALANCE} - a.remaining) END;
    a := ${s}.move_v1(a, by_remaining => returned, by_reserved => -lease.held, by_forfeited => lease.held - returned);
    is_changed := true;
  END LOOP;
  IF is_changed THEN PERFORM ${s}.save_v1(a); END IF;
END $f$;

-- Remembers how a reservation ended, until an hour after its time-out.
CREATE FUNCTION ${s}.end_reservation_v1(ended ${s}.leases, how text) RETURNS void LANGUAGE plpgsql AS $f$
BEGIN
  INSERT INTO ${s}.reservations_ended VALUES (ended.holder, how, ended.expires + ${ENDING_KEPT})
    ON CONFLICT (id) DO UPDATE SET how = excluded.how, until = excluded.until;
END $f$;

-- calls: [[account, id, spent, now], ...]; returns a list of outcomes.
CREATE FUNCTION ${s}.settle_reservations_v1(mode text, calls text) RETURNS text LANGUAGE plpgsql AS $f$
DECLARE
  call record; a ${s}.accounts; lease ${s}.leases; at_number bigint; is_known boolean := false; reason text;
  is_changed boolean := false; returned bigint; results text[] := '{}';
BEGIN
  PERFORM ${s}.set_durability_v1(mode);
  FOR call IN
    SELECT (e ->> 0)::bigint AS n, e ->> 1 AS holder, (e ->> 2)::bigint AS spent, (e ->> 3)::bigint AS at, ord::int AS ord
    FROM jsonb_array_elements(calls::jsonb) WITH ORDINALITY AS t (e, ord) ORDER BY 1, 5
  LOOP${LOAD(s)}${SWEEP(s)}
    SELECT * INTO lease FROM ${s}.leases l WHERE l.account = at_number AND l.holder = call.holder AND is_known;
    IF NOT FOUND THEN
      SELECT r.how INTO reason FROM ${s}.reservations_ended r WHERE r.id = call.holder;
      reason := coalesce(reason, 'unknown');
    ELSE
      reason := CASE WHEN call.spent > lease.reserved THEN 'exceeds' END;
    END IF;
    results[call.ord] := CASE WHEN reason IS NULL THEN '{"settled":true}'
      ELSE format('{"settled":false,"reason":"%s"}', reason) END;
    CONTINUE WHEN reason IS NOT NULL;
    DELETE FROM ${s}.leases l WHERE l.account = at_number AND l.holder = call.holder;
    PERFORM ${s}.end_reservation_v1(lease, 'settled');
    returned := least(lease.reserved - call.spent, ${MAX_BALANCE} - a.remaining);
    a := ${s}.move_v1(a, by_remaining => returned, by_spent => call.spent, by_reserved => -lease.reserved,
      by_forfeited => lease.reserved - call.spent - returned);
    is_changed := true;
  END LOOP;
  IF is_changed THEN PERFORM ${s}.save_v1(a); END IF;
  RETURN '[' || array_to_string(results, ',') || ']';
END $f$;

-- An administrator's change, in the order that the contract states. Raises KS001 if it does not fit the account anymore.
CREATE FUNCTION ${s}.change_credits_v1(n bigint, change jsonb) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE
  a ${s}.accounts; upto bigint := (change ->> 'period')::bigint; sets boolean := change -> 'remaining' IS NOT NULL;
  is_ours boolean := true; wanted bigint; signed bigint; lease ${s}.leases;
BEGIN
  SELECT * INTO a FROM ${s}.accounts WHERE number = n FOR NO KEY UPDATE;
  IF FOUND THEN
    is_ours := a.unlimited OR ${s}.calendar_v1(a.period) = ${s}.calendar_v1(upto);
    IF NOT is_ours AND NOT sets OR is_ours AND a.period > coalesce((change ->> 'refillsCounted')::bigint, a.period) THEN
      RAISE EXCEPTION USING ERRCODE = 'KS001';
    END IF;
  ELSE
    a := ROW(n, true, 0, 0, upto, 0, 0, 0, 0, 0, 0, 0);
    INSERT INTO ${s}.accounts VALUES (a.*);
  END IF;
  IF is_ours THEN a := ${s}.settle_v1(a, upto); ELSE a.period := upto; END IF;
  IF sets THEN
    -- What nodes hold stays in their leases until they have reported what they spent of it.
    FOR lease IN DELETE FROM ${s}.leases l WHERE l.account = n AND l.held = 0 RETURNING * LOOP
      CONTINUE WHEN lease.reserved = 0;
      PERFORM ${s}.end_reservation_v1(lease, 'voided');
      a := ${s}.move_v1(a, by_reserved => -lease.reserved, by_forfeited => lease.reserved);
    END LOOP;
    wanted := coalesce((change ->> 'remaining')::bigint, 0);
    IF a.unlimited AND a.credited = 0 AND a.adjusted = 0 AND a.spent = 0 THEN
      a.remaining := wanted;
      a.credited := wanted;
    ELSE
      a := ${s}.move_v1(a, by_remaining => wanted - a.remaining, by_adjusted => wanted - a.remaining);
    END IF;
    a.unlimited := change ->> 'remaining' IS NULL;
    a.generation := a.generation + 1;
  ELSIF ${HAS_EXPIRED(s, "(change ->> 'now')::bigint")} THEN
    a := ${s}.sweep_v1(a, '', (change ->> 'now')::bigint);
  END IF;
  IF NOT a.unlimited THEN
    signed := least(${MAX_BALANCE}, greatest(0, a.remaining + coalesce((change ->> 'add')::bigint, 0))) - a.remaining;
    a := ${s}.move_v1(a, by_remaining => signed, by_adjusted => signed);
  END IF;
  a.amount := coalesce((change #>> '{refill,amount}')::bigint, a.amount);
  a.period := coalesce((change #>> '{refill,period}')::bigint, a.period);
  PERFORM ${s}.save_v1(a);
END $f$;
`;
