/**
 * Leases for calls that draw on several accounts: one of each wallet, of the first account in draw-down order that has
 * anything. A call takes its cost from the lease of each wallet, or from none of them.
 *
 * Why one lease of a wallet: its accounts stay in order as far as a lease reaches. Whenever a lease does not cover a
 * call, the balances are read and each wallet's account is chosen again; so credits that arrive in an earlier account
 * are used from the next draw on. Leases of later accounts then return what they have.
 *
 * Why nothing is drawn ahead: the order would have to be looked up for that, and then the call may as well wait for it.
 */
import type { OwnedWallet, Spend } from "../contracts/store.js";
import { copyOfError } from "../lib/copy-error.js";
import { MAX_BALANCE } from "./account.js";
import type { LeaseManager } from "./lease-manager.js";
import type { NodeLease } from "./lease.js";
import type { Leased, SpendTarget } from "./spender.js";
import { inDrawOrder, nextChange, type Ranked } from "./wallet.js";

/** An account of a wallet as leases draw on it, and as the draw-down order ranks it. */
type LeasedAccount = Ranked & SpendTarget;

/** The lease that calls take from, of one wallet. */
interface Chosen {
  readonly lease: NodeLease;
  readonly generation: number;
  /** Credits of the other accounts of the wallet. */
  readonly besides: number;
}

/** Reads what each account has: {@link Spend.balances}. */
export type ReadBalances = (now: number) => Promise<Spend | undefined>;

export class WalletLeases implements Leased {
  readonly #wallets: readonly (readonly LeasedAccount[])[];
  readonly #leases: Pick<LeaseManager, "find" | "findOrBegin">;
  readonly #read: ReadBalances;
  /** One of each wallet, in their order; empty: none may be taken from. */
  #chosen: readonly Chosen[] = [];
  /** Unix time, milliseconds: from then on other accounts may come first. */
  #until = 0;
  #filling: Promise<void> | undefined = undefined;

  constructor(wallets: readonly OwnedWallet[], leases: Pick<LeaseManager, "find" | "findOrBegin">, read: ReadBalances) {
    this.#wallets = wallets.map(({ accounts }) =>
      accounts.map((one) => ({ ...one, refill: one.refill, creditsExpire: one.expires, lease: undefined })),
    );
    this.#leases = leases;
    this.#read = read;
  }

  get available(): number {
    return this.#chosen[0]?.lease.available ?? 0;
  }

  /** See {@link Leased}. A cost of 0 is left to the store, which tells the balance of each account. */
  take(_generation: number, cost: number, now: number): Spend | undefined {
    const chosen = this.#chosen;
    if (chosen.length === 0 || !(cost > 0) || now >= this.#until) return undefined;
    for (let i = 0; i < chosen.length; i++) {
      const { lease, generation } = chosen[i]!;
      if (!lease.covers(generation, cost, now)) return undefined;
    }
    let remaining = Infinity;
    let least = 0;
    for (let i = 0; i < chosen.length; i++) {
      const { lease, besides } = chosen[i]!;
      const left = Math.min(MAX_BALANCE, lease.takeCovered(cost) + besides);
      if (left >= remaining) continue;
      remaining = left;
      least = i;
    }
    return chosen.length === 1 ? { ok: true, remaining } : { ok: true, remaining, least };
  }

  /**
   * Draws until the leases cover a cost, and takes it. Calls at once wait for one draw.
   * @returns `undefined`: nothing was taken, because no single account of some wallet covers it, or others were first
   */
  async draw(cost: number, now: number): Promise<Spend | undefined> {
    this.#filling ??= this.#fill(cost, now).finally(() => (this.#filling = undefined));
    try {
      await this.#filling;
    } catch (error) {
      throw copyOfError(error);
    }
    return this.take(0, cost, now);
  }

  async #fill(cost: number, now: number): Promise<void> {
    this.#chosen = [];
    const ordered = this.#wallets.map((accounts) => inDrawOrder(accounts, now));
    let read = await this.#read(now);
    const firsts = ordered.map((accounts, i) => this.#firstOf(accounts, read?.balances?.[i], now));
    const returning = ordered.flat().flatMap((one) => (firsts.includes(one) ? [] : this.#end(one)));
    if (returning.length > 0) {
      await Promise.all(returning);
      read = await this.#read(now);
    }
    const left = (account: LeasedAccount, i: number) =>
      (read?.balances?.[i]?.[ordered[i]!.indexOf(account)] ?? 0) + (this.#leases.find(account.ref)?.left ?? 0);
    const leftOfAll = (accounts: readonly LeasedAccount[], i: number) =>
      accounts.reduce((sum, account) => sum + left(account, i), 0);
    const first = firsts.filter((account) => account !== undefined);
    const isCovered = first.length === ordered.length && first.every((account, i) => left(account, i) >= cost);
    const filled = isCovered ? await Promise.all(first.map((account) => this.#fillOne(account, cost, now))) : [];
    const chosen = filled.flatMap((lease, i): Chosen | readonly never[] => {
      if (lease === undefined) return [];
      const besides = ordered[i]!.reduce(
        (sum, one, place) => sum + (one === first[i] ? 0 : (read?.balances?.[i]?.[place] ?? 0)),
        0,
      );
      return { lease, generation: first[i]!.generation, besides };
    });
    if (isCovered && chosen.length === ordered.length) {
      this.#chosen = chosen;
      this.#until = Math.min(...ordered.flat().map((account) => nextChange(account, now)));
    } else if (isCovered || ordered.every((accounts, i) => leftOfAll(accounts, i) >= cost)) {
      // The call takes its cost from several accounts, in their order: with what is leased of the first.
      await Promise.all(first.flatMap((account) => this.#end(account)));
    }
  }

  /** The first account that has anything; none where one is unlimited, or the balances are unknown. */
  #firstOf(
    accounts: readonly LeasedAccount[],
    balances: readonly (number | null)[] | undefined,
    now: number,
  ): LeasedAccount | undefined {
    if (balances === undefined || balances.includes(null)) return undefined;
    const hasAny = ({ ref }: LeasedAccount, place: number) =>
      balances[place] !== 0 || (this.#leases.find(ref)?.left ?? 0) > 0;
    return accounts.find((account, place) => (account.expires ?? Infinity) > now && hasAny(account, place));
  }

  /** Ends the lease of an account. @returns what to wait for */
  #end({ ref }: LeasedAccount): Promise<void>[] {
    const lease = this.#leases.find(ref);
    return lease?.state === "open" ? [Promise.resolve(lease.end())] : [];
  }

  /** Has the lease of an account cover a cost. @returns `undefined`: it does not */
  async #fillOne(account: LeasedAccount, cost: number, now: number): Promise<NodeLease | undefined> {
    const { ref } = account;
    const isThere = this.#leases.find(ref)?.show(account, cost, now) !== undefined;
    const filled = isThere || (await this.#leases.findOrBegin(ref)?.fill(account, cost, now))?.ok === true;
    return filled ? this.#leases.find(ref) : undefined;
  }
}
