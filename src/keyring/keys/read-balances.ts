/** Reads the balances of keys such that one account that does not add up does not hide the others. */
import { isKeystileError } from "../../contracts/errors.js";
import type { BalanceQuery, CountedBalance, Store } from "../../contracts/store.js";

/**
 * `"invalid"`: the account does not add up, and refuses to spend until its balance is set. `undefined`: no such key.
 */
export type ReadBalance = CountedBalance | "invalid" | undefined;

/**
 * One result per query, in order. One call of the store; if an account is invalid, further calls for ever smaller parts
 * tell which: fewer than two for each query.
 * @throws whatever the store throws, except STORE_INVALID
 */
export async function readBalances(
  store: Pick<Store, "readBalances">,
  queries: readonly BalanceQuery[],
  now: number,
): Promise<ReadBalance[]> {
  try {
    return await store.readBalances(queries, now);
  } catch (error) {
    if (!isKeystileError(error) || error.code !== "STORE_INVALID") throw error;
    if (queries.length <= 1) return queries.map(() => "invalid");
  }
  const middle = queries.length >> 1;
  const first = await readBalances(store, queries.slice(0, middle), now);
  return [...first, ...(await readBalances(store, queries.slice(middle), now))];
}
