/**
 * The step for refills of every calendar, and for credits that expire. It never changes once released.
 *
 * In the tables `forfeited` includes what `expired`, so that the constraints of the first ones hold.
 */
import { MAX_BALANCE } from "../../credits/account.js";
import { TOTALS_KEPT } from "../outcome-entries.js";
import { creditFunctions, HAS_EXPIRED, SWEEP } from "./credits-sql.js";
import { outcomeTables } from "./outcomes-sql.js";
import { rowFunctions } from "./rows-sql.js";
import { functionOf } from "./shares-sql.js";
import { fieldOf } from "./texts.js";
import { walletFunctions } from "./wallets-sql.js";

/** What stands in place of what. */
export type Change = readonly [before: string, after: string];

/** The part of {@link creditFunctions} that says how many refills are due at once. */
const due = (s: string, numbered: string): string => `
CREATE OR REPLACE FUNCTION ${s}.due_v1(calendar bigint, passed bigint) RETURNS bigint LANGUAGE sql IMMUTABLE
  RETURN least(passed, CASE ${numbered}WHEN calendar = 32 THEN 400 WHEN calendar > 0 THEN 24 ELSE passed END);
`;
const NUMBERED = `WHEN calendar >= 64 THEN CASE (calendar - 64) % 4 WHEN 0 THEN 9600 WHEN 1 THEN 400 WHEN 2 THEN 60 ELSE 24 END
    `;

/** What comes back of a lease, and what of it was lost: `giveBack` of `src/credits/account.ts`. */
const giveBack = (s: string): string => `
CREATE FUNCTION ${s}.give_back_v1(a ${s}.accounts, lease ${s}.leases, returned bigint, lost bigint) RETURNS ${s}.accounts
LANGUAGE plpgsql IMMUTABLE AS $f$
DECLARE
  is_void boolean := a.unlimited OR lease.generation <> a.generation; stays bigint; back bigint;
  passed bigint := CASE WHEN is_void THEN 0 ELSE a.rollovers - lease.rollovers END;
BEGIN
  stays := CASE passed WHEN 0 THEN returned WHEN 1 THEN least(returned, a.returnable) ELSE 0 END;
  back := CASE WHEN is_void THEN 0 ELSE least(stays, ${MAX_BALANCE} - a.remaining) END;
  a := ${s}.move_v1(a, by_remaining => back, by_reserved => -returned - lost, by_forfeited => lost + returned - back);
  a.expired := a.expired + returned - stays;
  IF passed = 1 THEN a.returnable := a.returnable - back; END IF;
  RETURN a;
END $f$;
`;

/** As the first schema has it in `change_credits_v1`: where a change finds expired reserves, and what it does then. */
const expiredReserves = (s: string): string => `${HAS_EXPIRED(s, "(change ->> 'now')::bigint")} THEN
    a := ${s}.sweep_v1(a, '', (change ->> 'now')::bigint);
  END IF;`;

/** A cost of 0 changes nothing: what returns is in its answer alone. Nor does a spend of another calendar. */
const sweepOfSpend = (s: string): string => `
      IF is_known AND NOT a.unlimited AND ${s}.calendar_v1(a.period) = ${s}.calendar_v1(call.period)
        AND ${HAS_EXPIRED(s, "call.at")} THEN
        IF call.cost = 0 THEN
          BEGIN
            settled := ${s}.settle_v1(${s}.sweep_v1(a, '', call.at), call.period);
            RAISE EXCEPTION USING ERRCODE = 'KS012';
          EXCEPTION WHEN SQLSTATE 'KS012' THEN
            results[call.ord] := format('{"ok":true,"remaining":%s}', settled.remaining);
          END;
          CONTINUE;
        END IF;
        a := ${s}.sweep_v1(a, '', call.at);
        is_changed := true;
      END IF;`;

const ofCredits = (s: string): Readonly<Record<string, readonly Change[]>> => ({
  move_v1: [["a.forfeited := 0;", "a.forfeited := 0;\n    a.expired := 0;"]],
  settle_v1: [
    ["DECLARE due bigint;", "DECLARE stayed bigint; lost bigint := 0; due bigint;"],
    [
      `  a := ${s}.move_v1(a, by_remaining => added, by_refilled => added);
`,
      `  IF a.rollover IS NOT NULL AND NOT a.unlimited THEN
    stayed := CASE WHEN a.remaining >= a.rollover OR due > 1 AND a.amount > (a.rollover - a.remaining) / nullif(due - 1, 0)
      THEN a.rollover ELSE a.remaining + a.amount * (due - 1) END;
    lost := a.remaining + added - least(${MAX_BALANCE}, stayed + a.amount);
    a.rollovers := a.rollovers + 1;
    a.returnable := a.rollover - stayed;
  END IF;
  a := ${s}.move_v1(a, by_remaining => added - lost, by_refilled => added, by_forfeited => lost);
  a.expired := a.expired + lost;
`,
    ],
  ],
  save_v1: [
    [
      "forfeited = a.forfeited\n",
      `forfeited = a.forfeited, expired = a.expired,
    rollover = a.rollover, rollovers = a.rollovers, returnable = a.returnable\n`,
    ],
  ],
  sweep_v1: [
    [
      `      returned := CASE WHEN a.unlimited OR other.generation <> a.generation THEN 0
        ELSE least(other.reserved, ${MAX_BALANCE} - a.remaining) END;
      a := ${s}.move_v1(a, by_remaining => returned, by_reserved => -other.held - other.reserved,
        by_forfeited => other.held + other.reserved - returned);
`,
      `      a := ${s}.give_back_v1(a, other, other.reserved, other.held);
`,
    ],
    [" returned bigint;", ""],
  ],
  spend_v1: [
    ["0, 0, false, call.cost);", "0, 0, false, call.cost, a.rollovers);"],
    [SWEEP(s), sweepOfSpend(s)],
  ],
  draw_v1: [
    [
      `    forfeits := ${s}.forfeits_v1`,
      `    IF has_lease AND (lease.rollovers <> a.rollovers
      OR a.rollover IS NOT NULL AND lease.rollovers <> (${s}.settle_v1(a, call.period)).rollovers) THEN
      results[call.ord] := format('{"drawn":0,"generation":%s,"remaining":%s,"ended":true}', a.generation,
        (${s}.settle_v1(a, call.period)).remaining);
      CONTINUE;
    END IF;
    forfeits := ${s}.forfeits_v1`,
    ],
    ["0, call.spent, false, 0);", "0, call.spent, false, 0, a.rollovers);"],
    [
      `${s}.sweep_v1(${s}.settle_v1(a, call.period), call.holder, call.at)`,
      `${s}.settle_v1(${s}.sweep_v1(a, call.holder, call.at), call.period)`,
    ],
  ],
  end_leases_v1: [
    [
      `    returned := CASE WHEN a.unlimited OR lease.generation <> a.generation THEN 0
      ELSE least(lease.held, ${MAX_BALANCE} - a.remaining) END;
    a := ${s}.move_v1(a, by_remaining => returned, by_reserved => -lease.held, by_forfeited => lease.held - returned);
`,
      `    a := ${s}.give_back_v1(a, lease, lease.held, 0);
`,
    ],
    [" returned bigint;", ""],
  ],
  settle_reservations_v1: [
    [
      `    returned := least(lease.reserved - call.spent, ${MAX_BALANCE} - a.remaining);
    a := ${s}.move_v1(a, by_remaining => returned, by_spent => call.spent, by_reserved => -lease.reserved,
      by_forfeited => lease.reserved - call.spent - returned);
`,
      `    a := ${s}.move_v1(a, by_spent => call.spent, by_reserved => -call.spent);
    a := ${s}.give_back_v1(a, lease, lease.reserved - call.spent, 0);
`,
    ],
    [" returned bigint;", ""],
  ],
  change_credits_v1: [
    ["upto, 0, 0, 0, 0, 0, 0, 0);", "upto, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0);"],
    // They come back first: at a boundary they count as there.
    ["  IF is_ours THEN a := ", `  IF NOT sets AND ${expiredReserves(s)}\n  IF is_ours THEN a := `],
    [`  ELSIF ${expiredReserves(s)}`, "  END IF;"],
    [
      "  a.amount := coalesce(",
      `  IF change -> 'refill' IS NOT NULL THEN a.rollover := (change #>> '{refill,rollover}')::bigint; END IF;
  a.amount := coalesce(`,
    ],
  ],
});
const OF_ROWS: Readonly<Record<string, readonly Change[]>> = {
  insert_keys_v1: [
    ["amount, period, generation)\n", "amount, period, generation, rollover)\n"],
    ["(r ->> 'generation')::bigint\n", "(r ->> 'generation')::bigint, (r ->> 'rollover')::bigint\n"],
  ],
};
/** What a grant has left at its end expires, where it was forfeited before. */
const ofWallets = (s: string): Readonly<Record<string, readonly Change[]>> => ({
  spend_wallets_of_v1: [
    [
      `      PERFORM ${s}.save_v1(${s}.move_v1(a, by_remaining => -a.remaining, by_forfeited => a.remaining));
`,
      `      available := a.remaining;
      a := ${s}.move_v1(a, by_remaining => -available, by_forfeited => available);
      a.expired := a.expired + available;
      PERFORM ${s}.save_v1(a);
`,
    ],
  ],
});
const OF_OUTCOMES: Readonly<Record<string, readonly Change[]>> = {
  keep_totals_v1: [
    [
      "credit_days AS x\n",
      `credit_days AS x (account, seq, day, workspace_id, external_id, ${TOTALS_KEPT.join(", ")}, balance)\n`,
    ],
    ["coalesce(a.forfeited, l.forfeited)", "coalesce(a.forfeited, l.forfeited), coalesce(a.expired, l.expired)"],
    ["balance = excluded.balance", "balance = excluded.balance, expired = excluded.expired"],
  ],
};

/** A function out of a text that makes several, with what stands in place of what. */
export function changed(text: string, s: string, name: string, pairs: readonly Change[]): string {
  return pairs.reduce((made, [from, to]) => made.replace(from, () => to), functionOf(text, s, name));
}

/** One of the functions as this step makes it. */
export function changedFunction(s: string, only: string): string {
  return functions(s, true, only);
}

/** @param only the name of one; absent: all */
function functions(s: string, isChanged: boolean, only?: string): string {
  const texts = [
    [creditFunctions(s), ofCredits(s)],
    [rowFunctions(s), OF_ROWS],
    [outcomeTables(s), OF_OUTCOMES],
    [walletFunctions(s), ofWallets(s)],
  ] as const;
  return texts
    .flatMap(([text, changes]) =>
      Object.entries(changes)
        .filter(([name]) => name === (only ?? name))
        .map(([name, pairs]) => changed(text, s, name, isChanged ? pairs : [])),
    )
    .join("\n");
}

/** Whether a refill is one that earlier versions would count by other days, or let nothing of expire. */
const hasNewRefill = (row: string): string => {
  const refill = `${fieldOf(row, "refill")}::jsonb`;
  return `(${fieldOf(row, "refillCalendar")} IS NOT NULL OR ${refill} ?| ARRAY['timeZone', 'rollover']
    OR ${refill} ->> 'interval' IN ('hourly', 'weekly'))`;
};

/** @param overview makes the view, as it is to be: before this step, or now */
export const refills = (overview: (s: string, isNow: boolean) => string) => ({
  up: (s: string): string => `
ALTER TABLE ${s}.accounts ADD COLUMN rollover bigint CHECK (rollover BETWEEN 0 AND ${MAX_BALANCE}),
  ADD COLUMN rollovers bigint NOT NULL DEFAULT 0 CHECK (rollovers >= 0),
  ADD COLUMN returnable bigint NOT NULL DEFAULT 0 CHECK (returnable BETWEEN 0 AND ${MAX_BALANCE}),
  ADD COLUMN expired bigint NOT NULL DEFAULT 0 CHECK (expired >= 0);
ALTER TABLE ${s}.leases ADD COLUMN rollovers bigint NOT NULL DEFAULT 0;
ALTER TABLE ${s}.credit_days ADD COLUMN expired bigint NOT NULL DEFAULT 0;
${due(s, NUMBERED)}${giveBack(s)}${functions(s, true)}
${overview(s, true).replace("CREATE VIEW", "CREATE OR REPLACE VIEW")}`,
  down: (s: string): string => `
DROP VIEW ${s}.key_overview;
${due(s, "")}${functions(s, false)}
DROP FUNCTION ${s}.give_back_v1(${s}.accounts, ${s}.leases, bigint, bigint);
ALTER TABLE ${s}.accounts DROP COLUMN rollover, DROP COLUMN rollovers, DROP COLUMN returnable, DROP COLUMN expired;
ALTER TABLE ${s}.leases DROP COLUMN rollovers;
ALTER TABLE ${s}.credit_days DROP COLUMN expired;
${overview(s, false)}`,
  refuses: {
    "keys with a refill that is hourly, weekly, of a time zone or with a rollover, or was": (s: string): string =>
      `SELECT count(*) FROM ${s}.keys k WHERE ${hasNewRefill("k")}`,
    "identities or grants with such a refill": (s: string): string =>
      `SELECT count(*) FROM ${s}.entities i WHERE i.kind IN ('identities', 'grants') AND ${hasNewRefill("i")}`,
  },
});
