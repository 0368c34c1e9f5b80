/** Spends that are a group by themselves, each in one statement without a list of calls. */
import { MAX_BALANCE } from "../../credits/account.js";
import { after, type Statement, writing } from "./client.js";
import { HAS_EXPIRED } from "./credits-sql.js";
import type { PostgresSettings } from "./options.js";

const COMMIT = "'synchronous_commit'";
const setCommit = (when: string, to: string): string =>
  `CASE WHEN pg_catalog.current_setting(${COMMIT}) ${when} THEN pg_catalog.set_config(${COMMIT}, '${to}', true) END`;

/** `set_durability_v1` as an expression. */
export function setDurability(durability: PostgresSettings["durability"]): string {
  if (durability === "power") return setCommit("= 'off'", "local");
  return durability === "replicated" ? setCommit("NOT IN ('on', 'remote_apply')", "on") : setCommit("<> 'off'", "off");
}

/**
 * A spend that is a group by itself. Where no refill is due, no reservation has expired and enough is left, it is one
 * UPDATE, whose conditions the server evaluates again once it has the lock. Any other spend goes through `group_v1`, in
 * the same statement, which makes its list of calls only then.
 *
 * Why: in a group of one the server spends ten times as long on JSON, a dynamic call and a second look-up as on the
 * UPDATE. The durability is an expression: calling its function takes 14 µs, where a bare UPDATE without fsync takes
 * 116.
 */
export function spendAlone(schema: string, durability: PostgresSettings["durability"], lockMs: number): Statement {
  const cost = "$2::text::bigint";
  return writing(
    after(
      setDurability(durability),
      `coalesce(
        (SELECT '[{"ok":true,"remaining":'::text || t.remaining::text || '}]'::text FROM taken t),
        ${schema}.group_v1('spend_v1', '${durability}',
          '[['::text || pg_catalog.concat_ws(',', $1::text, $2::text, $3::text, $4::text) || ']]'::text, false))`,
    ),
    lockMs,
    `WITH taken AS (
        UPDATE ${schema}.accounts a SET remaining = a.remaining - ${cost}, spent = a.spent + ${cost}
        WHERE a.number = $1::text::bigint AND NOT a.unlimited AND a.period = $3::text::bigint AND a.remaining >= ${cost}
          AND a.spent <= ${MAX_BALANCE} - ${cost} AND NOT ${HAS_EXPIRED(schema, "$4::text::bigint")}
        RETURNING a.remaining
      )
      `,
  );
}

/** The types of the lists that {@link spendWalletsAlone} takes. */
const LISTS = ["bigint", "bigint", "bigint", "boolean"] as const;

/**
 * A spend of several accounts that is a group by itself: $1 to $4 are the numbers of the accounts in draw-down order,
 * their periods, the places of their wallets and whether they have expired; $5 is the cost, $6 the time, $7 the list of
 * calls. The accounts are locked in the order of their numbers. Where of each wallet the first account that has
 * anything covers the cost, and nothing else is to be done, the cost is taken of these accounts. Any other call goes
 * through `spend_wallets_v1`, in the same statement.
 */
export function spendWalletsAlone(
  schema: string,
  durability: PostgresSettings["durability"],
  lockMs: number,
): Statement {
  const cost = "$5::text::bigint";
  // The server checks the row's rules on the version that the statement began with, before it does the UPDATE anew on
  // the one that is locked, which has the cost: credits that arrived in between must not fail the call.
  const taken = `least(a.remaining, ${cost})`;
  // A query of its own: of a list that it sees the server makes a plan for each call, which takes longer than the rest.
  const list = (place: number, type: string): string => `(SELECT $${place}::text)::${type}[]`;
  const first = (of: string): string =>
    `(pg_catalog.array_agg(${of} ORDER BY g.place) FILTER (WHERE h.remaining > 0))[1]`;
  return writing(
    after(
      setDurability(durability),
      `coalesce(
        (SELECT '[{"outcome":"done","spend":{"ok":true,"remaining":'::text || (w.remaining - ${cost})::text
            || CASE WHEN w.wallets > 1 THEN ',"least":'::text || w.wallet::text ELSE ''::text END || '}}]'::text
          FROM wallets w WHERE EXISTS (SELECT 1 FROM taken) ORDER BY w.remaining, w.wallet LIMIT 1),
        ${schema}.spend_wallets_v1('${durability}', $7::text, false))`,
    ),
    lockMs,
    `WITH given AS (
        SELECT * FROM ROWS FROM (${LISTS.map((type, i) => `pg_catalog.unnest(${list(i + 1, type)})`).join()})
          WITH ORDINALITY AS g (number, period, wallet, is_over, place)
      ), held AS (
        SELECT a.number, a.remaining, a.period,
          NOT a.unlimited AND a.spent <= ${MAX_BALANCE} - ${cost} AND NOT ${HAS_EXPIRED(schema, "$6::text::bigint")} AS is_plain
        FROM ${schema}.accounts a WHERE a.number = ANY (${list(1, "bigint")}) ORDER BY a.number FOR NO KEY UPDATE
      ), wallets AS (
        SELECT g.wallet, pg_catalog.count(*) OVER () AS wallets,
          least(pg_catalog.sum(h.remaining), ${MAX_BALANCE}::numeric)::bigint AS remaining,
          ${first("h.number")} AS first, coalesce(${first("h.remaining")} >= ${cost}, false) AND pg_catalog.bool_and(
            coalesce(h.is_plain AND h.period = g.period AND NOT (g.is_over AND h.remaining > 0), false)) AS is_plain
        FROM given g LEFT JOIN held h ON h.number = g.number GROUP BY g.wallet
      ), taken AS (
        UPDATE ${schema}.accounts a SET remaining = a.remaining - ${taken}, spent = a.spent + ${taken}
        FROM wallets w WHERE a.number = w.first AND (SELECT pg_catalog.bool_and(x.is_plain) FROM wallets x)
        RETURNING a.number
      )
      `,
  );
}
