/**
 * Balances and reserves inside one transaction: each read once, changed in memory, written once. Rulings D1–D3, trap 3.
 * The numbers are `../balance.ts`'s; this brings them from the file and back, and trusts none that is not a whole number.
 */
import { VerifierError } from "../../errors.js";
import { type Balance, type Reserve, spend } from "../balance.js";
import type { Spend } from "../../store.js";
import type { EncodedKey } from "./encoded-keys.js";
import { changed, select, type Handle } from "./handle.js";
import { createManyRows } from "./many-rows.js";
import { createSave } from "./save-balances.js";

/** A key's balance as it stands in the transaction. */
export interface Account {
  readonly n: number;
  balance: Balance;
  /** Whether the file has an older balance. */
  isDirty: boolean;
  /** The reserves of all holders, once they were asked for. */
  reserves?: Map<string, Reserve>;
}

export interface Ledger {
  /** Call first in a transaction: forgets what other connections may have changed. */
  begin(): void;
  /** @throws VerifierError STORE_INVALID: the file has a balance that is no balance */
  account(n: number): Account | undefined;
  /** Takes credits. `undefined`: there is no such balance. */
  spend(n: number, cost: number, period: number): Spend | undefined;
  /**
   * The same outside of a transaction, in one statement that is its own: it takes from a balance that is remembered, if the file still
   * has it as remembered. `undefined`: nothing was changed, spend in a transaction.
   *
   * Why: BEGIN, the question for changes and COMMIT took 6 µs of 171 (power-durable; process-durable 1.6 of 18).
   */
  spendAlone(n: number, cost: number, period: number): Spend | undefined;
  /** Reads a balance outside of a transaction, straight from the file. */
  peek(n: number): Balance | undefined;
  setBalance(account: Account, balance: Balance): void;
  reserves(account: Account): ReadonlyMap<string, Reserve>;
  /** Stores a holder's reserve; nothing reserved: removes it. */
  setReserve(account: Account, holder: string, reserve: Reserve | undefined): void;
  /** Writes a balance whole, new or changed by an administrator; `voidsLeases` removes all reserves. */
  replace(n: number, balance: Balance, voidsLeases: boolean): void;
  /** Writes the first balances of new keys, of those that have one. */
  create(keys: readonly (readonly [n: number, key: EncodedKey])[]): void;
  /** Writes the balances that changed. Call last in a transaction. */
  save(): void;
  /** Forgets everything: after a rollback, and after keys or balances were changed around the ledger. */
  forget(): void;
}

/** A balance as the file has it: numbers, unless another tool wrote them. */
export type BalanceRaw = Record<"unlimited" | "remaining" | "amount" | "period" | "generation", unknown>;
interface LeaseRaw {
  readonly holder: string;
  readonly reserved: unknown;
  readonly generation: unknown;
  readonly expires: unknown;
}

/** Balances kept from one transaction to the next. */
const MOST_KEPT = 4_096;

/** @param isShared others may write through the same handle: then nothing is kept, since `data_version` would not show it */
export function createLedger(handle: Handle, isShared: boolean): Ledger {
  const read = select<BalanceRaw>(handle, "SELECT unlimited, remaining, amount, period, generation FROM keystile_credits WHERE n = ?");
  const save = createSave(handle);
  const swap = handle.prepare(
    `UPDATE keystile_credits SET remaining = ?
     WHERE n = ? AND remaining = ? AND period = ? AND generation = ? AND unlimited = 0`,
  );
  const put = handle.prepare(
    `INSERT INTO keystile_credits (n, unlimited, remaining, amount, period, generation) VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (n) DO UPDATE SET unlimited = excluded.unlimited, remaining = excluded.remaining, amount = excluded.amount,
       period = excluded.period, generation = excluded.generation`,
  );
  const create = createManyRows(handle, "INSERT INTO keystile_credits (n, unlimited, remaining, amount, period, generation) VALUES", 6);
  const readLeases = select<LeaseRaw>(handle, "SELECT holder, reserved, generation, expires FROM keystile_leases WHERE n = ?");
  const putLease = handle.prepare(
    "INSERT OR REPLACE INTO keystile_leases (n, holder, reserved, generation, expires) VALUES (?, ?, ?, ?, ?)",
  );
  const dropLease = handle.prepare("DELETE FROM keystile_leases WHERE n = ? AND holder = ?");
  const dropLeases = handle.prepare("DELETE FROM keystile_leases WHERE n = ?");
  const dataVersion = select<{ data_version: number }>(handle, "PRAGMA data_version");
  let version: number | undefined;
  let accounts = new Map<number, Account>();
  let dirty: Account[] = [];

  const forget = () => {
    accounts = new Map();
    dirty = [];
  };
  const peek = (n: number): Balance | undefined => {
    const raw = readExactly(() => read.get(n));
    return raw && decodeBalance(raw);
  };
  const account = (n: number): Account | undefined => {
    const kept = accounts.get(n);
    if (kept !== undefined) return kept;
    const balance = peek(n);
    if (balance === undefined) return undefined;
    const read: Account = { n, balance, isDirty: false };
    accounts.set(n, read);
    return read;
  };
  const setBalance = (of: Account, balance: Balance) => {
    if (balance === of.balance) return;
    of.balance = balance;
    if (of.isDirty) return;
    of.isDirty = true;
    dirty.push(of);
  };
  return {
    begin() {
      // Inside the transaction no other connection can write: an unmoved number means that what was kept is what the file has.
      const now = dataVersion.get()?.data_version;
      if (isShared || now !== version || accounts.size > MOST_KEPT) forget();
      version = now;
    },
    account,
    spend(n, cost, period) {
      const from = account(n);
      if (from === undefined) return undefined;
      const { balance, result } = spend(from.balance, cost, period);
      setBalance(from, balance);
      return result;
    },
    spendAlone(n, cost, period) {
      const from = isShared ? undefined : accounts.get(n);
      // A refill that is due takes the amount, which the statement does not compare.
      if (from === undefined || period > from.balance.period) return undefined;
      const before = from.balance;
      const { balance, result } = spend(before, cost, period);
      if (balance === before) return undefined;
      if (changed(swap.run(balance.remaining, n, before.remaining, before.period, before.generation)) !== 1) return undefined;
      from.balance = balance;
      return result;
    },
    peek,
    setBalance,
    reserves(account) {
      account.reserves ??= new Map(readExactly(() => readLeases.all(account.n)).map((raw) => [raw.holder, decodeReserve(raw)]));
      return account.reserves;
    },
    setReserve(account, holder, reserve) {
      if (reserve === undefined || reserve.reserved === 0) {
        if (account.reserves?.delete(holder) === true) dropLease.run(account.n, holder);
        return;
      }
      account.reserves?.set(holder, reserve);
      putLease.run(account.n, holder, reserve.reserved, reserve.generation, reserve.expires);
    },
    replace(n, { unlimited, remaining, amount, period, generation }, voidsLeases) {
      put.run(n, unlimited ? 1 : 0, unlimited ? 0 : remaining, amount, period, generation);
      if (voidsLeases) dropLeases.run(n);
    },
    create(keys) {
      const values: number[] = [];
      for (const [n, { generation, balance }] of keys) {
        if (balance !== undefined) values.push(n, 0, balance.remaining, balance.amount, balance.period, generation);
      }
      create(values);
    },
    save() {
      save(dirty);
      for (const account of dirty) account.isDirty = false;
      dirty = [];
    },
    forget,
  };
}

/** Reads rows with balances: node:sqlite answers a number past 2^53 − 1 with a RangeError, others with one that is not exact. */
export function readExactly<T>(read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw cause instanceof RangeError ? invalid() : cause;
  }
}

/**
 * @throws VerifierError STORE_INVALID: a number that is not whole, negative or past 2^53 − 1 is never rounded (hostile input A035)
 */
export function decodeBalance(raw: BalanceRaw): Balance {
  return {
    unlimited: natural(raw.unlimited) === 1,
    remaining: natural(raw.remaining),
    amount: natural(raw.amount),
    period: integer(raw.period),
    generation: natural(raw.generation),
  };
}

function decodeReserve(raw: LeaseRaw): Reserve {
  return { reserved: natural(raw.reserved), generation: natural(raw.generation), expires: integer(raw.expires) };
}

function natural(value: unknown): number {
  const number = integer(value);
  if (number < 0) throw invalid();
  return number;
}

function integer(value: unknown): number {
  // A handle may be set to answer bigints.
  const number = typeof value === "bigint" ? Number(value) : value;
  if (!Number.isSafeInteger(number)) throw invalid();
  return number as number;
}

function invalid(): VerifierError {
  return new VerifierError("STORE_INVALID", "the file has a balance that is not a whole number from 0 to 2^53 - 1; set it anew");
}
