/** What an owner has, account by account: the main one, and its open grants. */
import type { GrantRow, IdentityRow, KeyRow } from "../contracts/store.js";
import { nextBoundary } from "../credits/refill-calendar.js";
import { DEFAULT_PRIORITY, inDrawOrder, type Ranked } from "../credits/wallet.js";
import { ownProperty } from "../lib/check-options.js";
import { drawsOnIdentity, refillOf } from "../lib/credits-source.js";
import type { Context } from "./context.js";
import { grantsOf, isOver, readGrants } from "./granted.js";
import { readMainAccounts } from "./keys/key-response.js";
import { operation } from "./operation.js";
import { readRows, requireKey, requireNamed } from "./rows.js";
import { owned } from "./schemas/grants.js";
import type { AccountData, BalanceData } from "./schemas/responses.js";

/** @throws KeystileError NOT_FOUND */
export const getBalance = operation("getBalance", owned, async (context, { identity, keyId }) => {
  if (identity !== undefined)
    return balanceOf(await accountsOf(context, undefined, await requireNamed(context, "identities", identity)));
  const key = await requireKey(context, keyId);
  return balanceOf(await accountsOf(context, key, await identityOf(context, key)));
});

/** The identity of a key, if that has one. */
export async function identityOf(context: Context, { identityId = "" }: KeyRow): Promise<IdentityRow | undefined> {
  return (await readRows(context, "identities", [identityId])).get(identityId);
}

/**
 * The accounts that pay for the calls of a key, or of an identity, in the order in which they are spent.
 * @returns empty: the credits are unlimited
 */
export async function accountsOf(
  context: Context,
  key: KeyRow | undefined,
  identity: IdentityRow | undefined,
): Promise<AccountData[]> {
  const ofKey = key?.hasCredits === true ? await walletOf(context, "key", key) : [];
  const pays = key === undefined ? identity?.hasCredits === true : drawsOnIdentity(key, identity);
  return pays ? [...ofKey, ...(await walletOf(context, "identity", identity as IdentityRow))] : ofKey;
}

async function walletOf(context: Context, owner: AccountData["owner"], row: KeyRow | IdentityRow) {
  const { now } = context;
  const [main] =
    owner === "key"
      ? await readMainAccounts(context, "keys", [row as KeyRow])
      : await readMainAccounts(context, "identities", [row as IdentityRow]);
  const ownerId = ownProperty(row as Partial<KeyRow>, "accountId") ?? row.id;
  const all = ownProperty(row, "hasGrants") === true ? await grantsOf(context, ownerId) : [];
  const grants = all.filter((grant) => !isOver(grant, now));
  const left = await readGrants(context, grants);
  // Of a balance that is invalid nothing can be spent.
  const balance = main?.balance === "invalid" ? undefined : main?.balance;
  const plan: Ordered = {
    ...{ priority: DEFAULT_PRIORITY, createdAt: 0, refill: refillOf(row) },
    data: { owner, kind: "plan", ...amounts(balance), ...(main?.refill && { of: main.refill.amount }) },
  };
  const ofGrants = grants.map(
    ({ grantId, priority, createdAt, expires, refill, amount, reason }: GrantRow, i): Ordered => ({
      ...{ grantId, priority, createdAt, refill },
      ...(expires !== undefined && { expires }),
      data: {
        ...{ owner, kind: "grant", grantId, priority, of: amount, ...amounts(left[i]) },
        ...(expires !== undefined && { expires }),
        ...(reason !== undefined && { reason }),
      },
    }),
  );
  return inDrawOrder([plan, ...ofGrants], now).map(({ data, refill, expires = Infinity }) => {
    const at = refill === undefined ? Infinity : nextBoundary(refill, now);
    // At its end nothing comes any more.
    return refill === undefined || at >= expires ? data : { ...data, next: { at, amount: refill.amount } };
  });
}

interface Ordered extends Ranked {
  readonly data: AccountData;
}

function amounts(balance: { readonly remaining: number | null; readonly reserved: number } | undefined) {
  const { remaining = 0, reserved = 0 } = balance ?? {};
  return { remaining: Number(remaining), ...(reserved > 0 && { reserved }) };
}

/** @param accounts as {@link accountsOf} returns them */
export function balanceOf(accounts: readonly AccountData[]): BalanceData {
  const sums = new Map<string, number>();
  for (const { owner, remaining } of accounts)
    sums.set(owner, Math.min(Number.MAX_SAFE_INTEGER, (sums.get(owner) ?? 0) + remaining));
  return { remaining: sums.size === 0 ? null : Math.min(...sums.values()), accounts };
}
