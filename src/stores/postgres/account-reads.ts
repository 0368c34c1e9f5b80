/** Reads accounts: a read takes no lock. */
import { KeystileError } from "../../contracts/errors.js";
import type * as Port from "../../contracts/store.js";
import { type Account, countedBalance, isConserved, type Lease } from "../../credits/account.js";
import { spendFromWallets } from "../../credits/wallet.js";
import { endedAs } from "../endings.js";
import type { PostgresRow, Session, Statement } from "./client.js";
import { isStorable } from "./texts.js";

/** The columns of an account that are numbers. */
export const COUNTS = [
  "remaining",
  "amount",
  "period",
  "generation",
  "credited",
  "refilled",
  "adjusted",
  "spent",
  "reserved",
  "forfeited",
  "expired",
  "rollovers",
  "returnable",
] as const;

/** Reads of balances, and of what spends of nothing return. */
export function createAccountReads(session: Session, schema: string) {
  const idsIn = (place: number) => `(SELECT pg_catalog.jsonb_array_elements_text($${place}::text::jsonb))`;
  const account = `a.unlimited::text AS unlimited, ${[...COUNTS, "rollover"].map((name) => `a.${name}::text AS ${name}`).join(", ")},
      (SELECT pg_catalog.json_object_agg(l.holder, pg_catalog.json_build_object('generation', l.generation, 'rollovers', l.rollovers,
        'expires', l.expires, 'reserved', l.reserved, 'held', l.held, 'spent', l.spent, 'isForfeited', l.is_forfeited))
        FROM ${schema}.leases l WHERE l.account = a.number)::text AS leases`;
  const accountsByNumber: Statement = {
    isRead: true,
    text: `SELECT a.number::text AS number, ${account} FROM ${schema}.accounts a
      WHERE a.number IN (SELECT pg_catalog.jsonb_array_elements_text($1::text::jsonb)::bigint)`,
  };
  const balances: Statement = {
    isRead: true,
    text: `SELECT o.kind, o.id, ${account}
      FROM (
        SELECT 'key' AS kind, k.id, coalesce(k.account, k.number) AS number FROM ${schema}.keys k WHERE k.id IN ${idsIn(1)}
        UNION ALL SELECT 'identity', e.id, e.account FROM ${schema}.entities e WHERE e.kind = 'identities' AND e.id IN ${idsIn(2)}
        UNION ALL SELECT 'grant', e.id, e.account FROM ${schema}.entities e WHERE e.kind = 'grants' AND e.id IN ${idsIn(3)}
      ) o LEFT JOIN ${schema}.accounts a ON a.number = o.number`,
  };

  return {
    /** What a spend of nothing from these wallets returns. */
    async readWallets(wallets: readonly Port.Wallet[], request: Port.WalletSpend): Promise<Port.Spend> {
      const refs = wallets.flat().flatMap(({ ref }) => (typeof ref === "number" ? [ref] : []));
      const rows = await session.run(accountsByNumber, JSON.stringify(refs));
      const found = new Map<Port.KeyRef, PostgresRow>(rows.map((row) => [Number(row["number"]), row]));
      const accounts = {
        find: (ref: Port.KeyRef) => (found.has(ref) ? accountOf(found.get(ref)!) : undefined),
        leases: (ref: Port.KeyRef) => leasesOf(found.get(ref)!),
        reservations: () => ({ count: 0, hasId: false }),
        endingOf: () => endedAs(undefined),
      };
      return spendFromWallets(accounts, wallets, request).result;
    },
    async readBalances(
      queries: readonly Port.BalanceQuery[],
      now: number,
    ): Promise<(Port.CountedBalance | undefined)[]> {
      const idsOf = (of: "keyId" | "identityId" | "grantId") =>
        [...new Set(queries.flatMap(({ [of]: id = [] }) => id))].filter(isStorable);
      const given = [idsOf("keyId"), idsOf("identityId"), idsOf("grantId")];
      if (given.every(({ length }) => length === 0)) return queries.map(() => undefined);
      const rows = await session.run(balances, ...given.map((ids) => JSON.stringify(ids)));
      const found = new Map(rows.map((row) => [`${row["kind"] as string} ${row["id"] as string}`, row]));
      return queries.map((query) => {
        const { keyId, identityId, grantId, period } = query;
        const expires = grantId === undefined ? undefined : query.expires;
        const other = identityId === undefined ? `grant ${grantId}` : `identity ${identityId}`;
        const row = found.get(keyId === undefined ? other : `key ${keyId}`);
        return row && countedBalance(accountOf(row), leasesOf(row), { period, now, expires });
      });
    },
  };
}

function accountOf(row: PostgresRow): Account | undefined {
  if (row["unlimited"] === null) return undefined;
  const counts = Object.fromEntries(COUNTS.map((name) => [name, Number(row[name])])) as Record<
    (typeof COUNTS)[number],
    number
  >;
  // In the table the one includes the other.
  const forfeited = counts.forfeited - counts.expired;
  const rollover = row["rollover"] === null ? null : Number(row["rollover"]);
  const account: Account = { ...counts, forfeited, rollover, unlimited: row["unlimited"] === "true" };
  if (!COUNTS.every((name) => Number.isSafeInteger(counts[name])) || !isConserved(account))
    throw new KeystileError("STORE_INVALID", "the credits of a key do not add up: something else changed them");
  return account;
}

function leasesOf(row: PostgresRow): ReadonlyMap<string, Lease> {
  return new Map(Object.entries(JSON.parse((row["leases"] ?? "{}") as string) as Record<string, Lease>));
}
