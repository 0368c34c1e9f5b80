/**
 * Balances in the file: rows, and the log of spends since. `src/credits/balance.ts` has the arithmetic; this reads and
 * writes the numbers, and rejects any that is not an integer.
 */
import { KeystileError } from "../../../contracts/errors.js";
import type { Balance, Reserve } from "../../../credits/balance.js";
import { changed, type Handle, type Select, select } from "../connection/handle.js";
import type { EncodedKey } from "../keys/encoded-keys.js";
import { createManyRows } from "../keys/multi-row-insert.js";
import { createSpendLog, IS_NEWER, type LoggedBalance, slotOf } from "./spend-log.js";
import { type BalanceOf, createSave } from "./update-balances.js";

export interface Balances {
  /**
   * Call first in a transaction: reads what other connections added to the log.
   * @param mayBeStale whether they may have written since the last transaction
   */
  begin(mayBeStale: boolean): void;
  /**
   * Reads a balance after {@link Balances.begin}. @throws KeystileError STORE_INVALID: the balance in the file is
   * invalid
   */
  read(n: number): Balance | undefined;
  /** Reads a balance inside or outside a transaction. */
  peek(n: number): Balance | undefined;
  /** The same by key id. `undefined`: there is no such key. */
  peekOf(keyId: string): { readonly n: number; readonly balance: Balance | undefined } | undefined;
  /** Balances and reserves by key id, of those that exist: read at one moment, inside or outside a transaction. */
  peekMany(keyIds: readonly string[]): ReadonlyMap<string, BalanceWithReserves>;
  /** Reserves of a balance by holder. @throws KeystileError STORE_INVALID: a reserve in the file is invalid */
  reserves(n: number): Map<string, Reserve>;
  /** Writes balances after spends. In a transaction, after {@link Balances.begin}. */
  save(balances: readonly BalanceOf[]): void;
  /**
   * Updates the row of one balance outside a transaction.
   * @param before the cached balance
   * @returns false if the file has another balance, or has it in the log: nothing was written
   */
  compareAndSet(before: { readonly n: number; readonly balance: Balance }, remaining: number): boolean;
  /** Inserts the balances of those new keys that have one. */
  create(keys: readonly (readonly [n: number, key: EncodedKey])[]): void;
  /** Writes a complete balance, new or changed by an administrator; `voidsLeases` removes all reserves. */
  replace(n: number, balance: Balance, voidsLeases: boolean): void;
  /** Moves the log into the rows. In a transaction, after {@link Balances.begin}. */
  checkpoint(): void;
  /** Whether this connection may have entries in the log. */
  hasLogged(): boolean;
  /** Call after a rollback: cached log entries may never have been committed. */
  forget(): void;
}

/** A balance, `undefined` if the key never had one, and what is reserved of it. */
interface BalanceWithReserves {
  readonly balance: Balance | undefined;
  readonly reserves: Reserve[];
}

/** A balance as the file has it: not validated, since another tool may have written it. */
type BalanceRaw = Record<"unlimited" | "remaining" | "amount" | "period" | "generation", unknown>;

/** The same, and whether the log has an entry newer than the one given. */
type BalanceNow = BalanceRaw & { readonly isNewer: number | bigint };

/** A reserve as the file has it. */
type LeaseRaw = { readonly holder: string } & Record<"reserved" | "generation" | "expires", unknown>;

/** A key, its balance and one of its reserves, if it has any, and whether the log has a newer entry. */
type JoinedRaw = BalanceNow &
  Record<"reserved" | "leaseGeneration" | "expires", unknown> & {
    readonly id: string;
    readonly n: number | bigint;
    readonly holder: string | null;
  };

/** Fewer balances than this are written to their rows instead of the log. */
const MIN_LOGGED_BALANCES = 4;
const COLUMNS = "unlimited, remaining, amount, period, generation";

export function createBalances(handle: Handle): Balances {
  const byNumber = select<BalanceRaw>(handle, `SELECT ${COLUMNS} FROM keystile_balances WHERE n = ?`);
  const now = select<BalanceNow>(
    handle,
    `SELECT ${COLUMNS}, ${IS_NEWER} AS isNewer FROM keystile_balances WHERE n = ?`,
  );
  const nowByKey = select<BalanceNow & { readonly n: number | bigint }>(
    handle,
    `SELECT k.n, ${COLUMNS}, ${IS_NEWER} AS isNewer FROM keystile_keys k LEFT JOIN keystile_balances c ON c.n = k.n WHERE k.id = ?`,
  );
  const nowByKeys = select<JoinedRaw>(
    handle,
    `SELECT k.id, k.n, unlimited, remaining, amount, period, c.generation, ${IS_NEWER} AS isNewer,
       holder, reserved, l.generation AS leaseGeneration, expires
     FROM json_each(?) j CROSS JOIN keystile_keys k ON k.id = j.value
     LEFT JOIN keystile_balances c ON c.n = k.n LEFT JOIN keystile_leases l ON l.n = k.n`,
  );
  const present = select<{ n: number | bigint }>(
    handle,
    "SELECT c.n FROM json_each(?) j CROSS JOIN keystile_balances c ON c.n = j.value AND c.unlimited = 0",
  );
  const put = handle.prepare(
    `INSERT INTO keystile_balances (n, unlimited, remaining, amount, period, generation) VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (n) DO UPDATE SET unlimited = excluded.unlimited, remaining = excluded.remaining, amount = excluded.amount,
       period = excluded.period, generation = excluded.generation`,
  );
  const putMany = createManyRows(
    handle,
    "INSERT INTO keystile_balances (n, unlimited, remaining, amount, period, generation) VALUES",
    6,
  );
  const swap = handle.prepare(
    `UPDATE keystile_balances SET remaining = ?
     WHERE n = ? AND remaining = ? AND period = ? AND generation = ? AND unlimited = 0 AND NOT ${IS_NEWER}`,
  );
  const readLeases = select<LeaseRaw>(
    handle,
    "SELECT holder, reserved, generation, expires FROM keystile_leases WHERE n = ?",
  );
  const dropLeases = handle.prepare("DELETE FROM keystile_leases WHERE n = ?");
  const saveRows = createSave(handle);
  const log = createSpendLog(handle);
  let hasLogged = false;

  const withLogged = (n: number, row: Balance): Balance => {
    const logged = row.unlimited ? undefined : log.get(n);
    return logged === undefined ? row : { ...row, remaining: logged.remaining, period: logged.period };
  };
  /** Reads row and log, again if another connection wrote between the two. */
  const readNow = <R extends BalanceNow>(query: Select<R>, of: number | string): R | undefined => {
    if (Number.isNaN(log.newest())) log.poll();
    for (;;) {
      const newest = log.newest();
      const raw = readExactly(() => query.get(slotOf(newest + 1), newest, of));
      if (raw === undefined || Number(raw.isNewer) === 0) return raw;
      log.poll();
    }
  };
  /** {@link readNow} of several keys. */
  const readAllNow = (keyIds: readonly string[]): JoinedRaw[] => {
    if (Number.isNaN(log.newest())) log.poll();
    for (;;) {
      const newest = log.newest();
      const raws = readExactly(() => nowByKeys.all(slotOf(newest + 1), newest, JSON.stringify(keyIds)));
      if (raws.every(({ isNewer }) => Number(isNewer) === 0)) return raws;
      log.poll();
    }
  };
  const balanceOf = (raw: BalanceRaw & { readonly n: number | bigint }): Balance | undefined =>
    raw.unlimited === null ? undefined : withLogged(Number(raw.n), decodeBalance(raw));
  /** Skips keys that were removed or made unlimited since. */
  const checkpoint = () => {
    const logged = log.end();
    const rows = present.all(JSON.stringify([...logged.keys()].sort((a, b) => a - b)));
    saveRows(rows.map(({ n }) => ({ n: Number(n), balance: logged.get(Number(n)) as LoggedBalance })));
    hasLogged = false;
  };
  return {
    begin: log.begin,
    read(n) {
      const raw = readExactly(() => byNumber.get(n));
      return raw && withLogged(n, decodeBalance(raw));
    },
    peek(n) {
      const raw = readNow(now, n);
      return raw && withLogged(n, decodeBalance(raw));
    },
    peekOf(keyId) {
      const raw = readNow(nowByKey, keyId);
      return raw && { n: Number(raw.n), balance: balanceOf(raw) };
    },
    peekMany(keyIds) {
      const found = new Map<string, BalanceWithReserves>();
      for (const raw of readAllNow([...new Set(keyIds)])) {
        const known = found.get(raw.id) ?? { balance: balanceOf(raw), reserves: [] };
        if (raw.holder !== null)
          known.reserves.push(decodeReserve({ ...raw, holder: raw.holder, generation: raw.leaseGeneration }));
        found.set(raw.id, known);
      }
      return found;
    },
    reserves: (n) => new Map(readExactly(() => readLeases.all(n)).map((raw) => [raw.holder, decodeReserve(raw)])),
    save(balances) {
      const isFew = balances.length < MIN_LOGGED_BALANCES && balances.every(({ n }) => log.get(n) === undefined);
      // A single balance goes to its row, since a spend alone is often followed by another of the same key.
      if (isFew || balances.length === 1 || !log.hasRoom(balances.length)) {
        if (!isFew) checkpoint();
        saveRows(balances);
        return;
      }
      hasLogged = true;
      log.append(balances);
    },
    compareAndSet({ n, balance: { remaining, period, generation } }, left) {
      const newest = log.newest();
      // An unknown sequence (NaN) binds as NULL, so the guard would always pass.
      if (Number.isNaN(newest) || log.get(n) !== undefined) return false;
      return changed(swap.run(left, n, remaining, period, generation, slotOf(newest + 1), newest)) === 1;
    },
    create(keys) {
      const values: number[] = [];
      for (const [n, { generation, balance }] of keys) {
        if (balance !== undefined) values.push(n, 0, balance.remaining, balance.amount, balance.period, generation);
      }
      putMany(values);
    },
    replace(n, balance, voidsLeases) {
      const { unlimited, remaining, amount, period, generation } = balance;
      if (log.get(n) !== undefined) checkpoint();
      put.run(n, unlimited ? 1 : 0, unlimited ? 0 : remaining, amount, period, generation);
      if (voidsLeases) dropLeases.run(n);
    },
    checkpoint,
    hasLogged: () => hasLogged,
    forget() {
      // A checkpoint may have been rolled back.
      hasLogged = true;
      log.forget();
    },
  };
}

/** node:sqlite throws a RangeError for an integer above 2^53 − 1; other drivers return an inexact number. */
function readExactly<T>(read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw cause instanceof RangeError ? invalid() : cause;
  }
}

/**
 * @throws KeystileError STORE_INVALID for a number that is not an integer, negative or above 2^53 − 1: it is never
 * rounded
 */
function decodeBalance(raw: BalanceRaw): Balance {
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

/** A non-negative integer. @throws KeystileError STORE_INVALID for any other value */
function natural(value: unknown): number {
  const number = integer(value);
  if (number < 0) throw invalid();
  return number;
}

/** An integer. @throws KeystileError STORE_INVALID for any other value */
function integer(value: unknown): number {
  // The caller's handle may be configured to return bigints.
  const number = typeof value === "bigint" ? Number(value) : value;
  if (!Number.isSafeInteger(number)) throw invalid();
  return number as number;
}

function invalid(): KeystileError {
  return new KeystileError(
    "STORE_INVALID",
    "the file has a balance that is not a whole number from 0 to 2^53 - 1; set it anew",
  );
}
