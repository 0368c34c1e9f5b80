/**
 * Proves the accounts of a file, one by one: the totals add up, the seal fits, and the leases hold what is reserved.
 */
import { ABANDONED } from "../../../credits/account.js";
import { type Handle, select } from "../connection/handle.js";
import { createFindings, type Reconciliation } from "../../reconciliation.js";
import { accountOfGrantSql, IS_UNSEALED } from "./account-table.js";

/** Keys per query: some 50 ms. */
const BATCH = 50_000;

const LEASED =
  "coalesce((SELECT sum(l.held + l.reserved) FROM keystile_leases l WHERE l.account = a.number AND l.is_forfeited = 0), 0)";
/** Each as a condition that holds when something is wrong, and the words for it. */
const PROBLEMS: readonly (readonly [condition: string, words: string])[] = [
  [
    "k.id IS NULL AND i.id IS NULL AND g.id IS NULL AND NOT EXISTS (SELECT 1 FROM keystile_keys WHERE account = a.number)",
    "'an account without a key, an identity or a grant'",
  ],
  [
    "a.credited + a.refilled + a.adjusted <> a.spent + a.remaining + a.reserved + a.forfeited",
    "printf('credited %d + refilled %d + adjusted %d is not spent %d + remaining %d + reserved %d + forfeited %d + expired %d', " +
      "a.credited, a.refilled, a.adjusted, a.spent, a.remaining, a.reserved, a.forfeited - a.expired, a.expired)",
  ],
  [
    "min(a.remaining, a.amount, a.credited, a.refilled, a.spent, a.reserved, a.expired, a.forfeited - a.expired) < 0",
    "'an amount is below 0'",
  ],
  [IS_UNSEALED, "'the seal does not fit the refill and the generation'"],
  [`a.reserved <> ${LEASED}`, `printf('reserved %d, and its leases hold %d', a.reserved, ${LEASED})`],
  ["a.unlimited = 1 AND a.remaining <> 0", "'unlimited, and has a balance'"],
  [
    `k.id IS NOT NULL AND (a.unlimited = 0 AND a.period <> ${ABANDONED}) <> (json_extract(k.body, '$.limited') IS NOT NULL)`,
    "'the key and its account differ about whether it is unlimited'",
  ],
  [
    "i.id IS NOT NULL AND (a.unlimited = 0) <> coalesce(json_extract(i.body, '$.hasCredits'), 0)",
    "'the identity and its account differ about whether it is unlimited'",
  ],
];

/**
 * Reads every account. Writes nothing, so it may run beside verifications: each batch is one consistent read.
 * @param onProgress called with the number of accounts read so far
 */
export function reconcile(handle: Handle, onProgress: (accounts: number) => void): Reconciliation {
  const problem = `CASE ${PROBLEMS.map(([condition, words]) => `WHEN ${condition} THEN ${words}`).join(" ")} END`;
  const batch = select<{ n: number | bigint; id: string | null; problem: string | null }>(
    handle,
    `SELECT a.number AS n, coalesce(k.id, i.id, g.id) AS id, ${problem} AS problem FROM keystile_accounts a
     LEFT JOIN keystile_keys k ON k.number = a.number LEFT JOIN keystile_identities i ON i.number = -a.number
     LEFT JOIN keystile_grants g ON g.number = ${accountOfGrantSql("a.number")}
     WHERE a.number > ? ORDER BY a.number LIMIT ${BATCH}`,
  );
  // What has credits without an account verifies as unlimited or not at all.
  const without = select<{ id: string }>(
    handle,
    `SELECT k.id FROM keystile_keys k WHERE json_extract(k.body, '$.limited') IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM keystile_accounts a WHERE a.number = coalesce(k.account, k.number))
     UNION ALL SELECT i.id FROM keystile_identities i WHERE json_extract(i.body, '$.hasCredits')
       AND NOT EXISTS (SELECT 1 FROM keystile_accounts a WHERE a.number = -i.number)
     UNION ALL SELECT g.id FROM keystile_grants g
     WHERE NOT EXISTS (SELECT 1 FROM keystile_accounts a WHERE a.number = ${accountOfGrantSql("g.number")})`,
  );
  const found = createFindings();
  for (let last = Number.NEGATIVE_INFINITY, rows = batch.all(Number.MIN_SAFE_INTEGER); rows.length > 0;) {
    for (const { n, id, problem } of rows) {
      last = Number(n);
      if (problem !== null) found.name(id ?? `number ${last}`, problem);
    }
    found.read(rows.length);
    onProgress(found.result.accounts);
    rows = batch.all(last);
  }
  for (const { id } of without.all()) found.name(id, "it has credits, and no account");
  return found.result;
}
