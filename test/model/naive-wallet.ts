/** Wallets as a list of credits, one by one: what every store is held against. No arithmetic, and no accounts. */

/** One credit: whose it is, and while it is reserved for what. */
interface Credit {
  readonly account: NaiveAccount;
  reservedFor?: { readonly id: string; readonly until: number };
}

/** What all credits of one grant, or of one main account, have in common. */
export interface NaiveAccount {
  readonly name: string;
  readonly wallet: number;
  readonly isMain: boolean;
  readonly priority: number;
  readonly createdAt: number;
  readonly expires?: number;
  /** Credits added at each midnight. */
  readonly daily: number;
}

const DAY = 86_400_000;

export function naiveWallets(accounts: readonly NaiveAccount[], given: readonly number[]) {
  let credits: Credit[] = [];
  let now = 0;
  const spent = new Map<string, number>();
  const isDead = ({ expires = Infinity }: NaiveAccount) => expires <= now;
  const add = (account: NaiveAccount, count: number) => {
    for (let i = 0; i < count; i++) credits.push({ account });
  };
  accounts.forEach((account, i) => add(account, given[i]!));
  const rank = ({ account: { priority, expires = 1e15, isMain, createdAt } }: Credit) => [
    priority,
    expires,
    isMain ? 0 : 1,
    createdAt,
  ];
  const byRank = (a: Credit, b: Credit) => {
    const [x, y] = [rank(a), rank(b)];
    const at = x.findIndex((value, i) => value !== y[i]);
    return at < 0 ? 0 : x[at]! - y[at]!;
  };
  const wallets = [...new Set(accounts.map(({ wallet }) => wallet))];
  const free = (wallet: number) =>
    credits.filter(({ account, reservedFor }) => account.wallet === wallet && reservedFor === undefined).sort(byRank);
  const use = (credit: Credit) => {
    credits = credits.filter((one) => one !== credit);
    spent.set(credit.account.name, (spent.get(credit.account.name) ?? 0) + 1);
  };
  const take = (cost: number, each: (credit: Credit) => void) => {
    const left = () => wallets.map((wallet) => free(wallet).length);
    const remaining = Math.min(...left());
    const least = wallets.length > 1 ? { least: left().indexOf(remaining) } : {};
    if (cost > remaining) return { ok: false, remaining, ...least };
    for (const wallet of wallets) free(wallet).slice(0, cost).forEach(each);
    return { ok: true, remaining: remaining - cost, ...least };
  };
  return {
    spent,
    free: (name: string) => credits.filter((one) => one.account.name === name && !one.reservedFor).length,
    reserved: (name: string) => credits.filter((one) => one.account.name === name && one.reservedFor).length,
    /** Time passes: midnights add credits, time-outs free them, and what has expired is gone unless it is reserved. */
    pass(until: number) {
      for (const account of accounts)
        for (let day = Math.floor(now / DAY) + 1; day * DAY <= until; day++) add(account, account.daily);
      now = until;
      for (const credit of credits) if ((credit.reservedFor?.until ?? Infinity) <= now) delete credit.reservedFor;
      credits = credits.filter(({ account, reservedFor }) => reservedFor !== undefined || !isDead(account));
    },
    spend: (cost: number) => take(cost, use),
    reserve: (cost: number, id: string, until: number) => take(cost, (credit) => (credit.reservedFor = { id, until })),
    /** @returns of each wallet how many of its credits under the id were kept; undefined: there were none at all */
    settle(id: string, kept: number) {
      const parts = wallets.map((wallet) =>
        credits.filter((one) => one.account.wallet === wallet && one.reservedFor?.id === id).sort(byRank),
      );
      for (const part of parts)
        part.forEach((credit, i) => {
          if (i < kept) return use(credit);
          delete credit.reservedFor;
          if (isDead(credit.account)) credits = credits.filter((one) => one !== credit);
        });
      if (parts.every(({ length }) => length === 0)) return undefined;
      return parts.map(({ length }) => Math.min(length, kept));
    },
    /** Replaces what an account has, and what is reserved of it is gone. */
    set(name: string, count: number) {
      credits = credits.filter(({ account }) => account.name !== name);
      add(
        accounts.find((account) => account.name === name)!,
        count,
      );
    },
  };
}
