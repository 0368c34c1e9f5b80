/**
 * Accounts and leases in the file. `src/credits/account.ts` has the arithmetic; this reads and writes the numbers, and
 * rejects an account that does not add up.
 *
 * Two guards find a row that anything but keystile changed. The totals find a changed amount: they add up only if all
 * of them are as they were written, and the table has that as a CHECK. The seals find a change of the columns that
 * decide about refills and leases.
 *
 * In the file `forfeited` includes what `expired`, so that the CHECK of the first tables holds.
 */
import { KeystileError } from "../../../contracts/errors.js";
import type { AccountTable } from "../../../contracts/store.js";
import {
  type Account,
  type Ending,
  isConserved,
  type Lease,
  type LeaseChanges,
  MAX_BALANCE,
  openAccount,
  RESERVATION,
} from "../../../credits/account.js";
import { FORGOTTEN_PER_WRITE } from "../../endings.js";
import { type Handle, select, type SqliteValue } from "../connection/handle.js";
import type { EncodedKey } from "../../codec/encoded-keys.js";
import { createManyRows } from "../keys/multi-row-insert.js";

/** Part of the file format. */
export const CREATE_RESERVATIONS = `
  CREATE INDEX keystile_leases_expiry ON keystile_leases (account, expires);
  CREATE TABLE keystile_reservations_ended (
    id TEXT NOT NULL PRIMARY KEY,
    how TEXT NOT NULL CHECK (how IN ('settled', 'expired', 'voided')),
    until INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX keystile_reservations_ended_until ON keystile_reservations_ended (until);`;

const GRANTS = -(2 ** 52);

/** The number of a grant's account. */
export function accountOfGrant(grant: number | bigint): number {
  return GRANTS - Number(grant);
}

/** {@link accountOfGrant} in SQL. */
export const accountOfGrantSql = (number: string): string => `${GRANTS} - ${number}`;

/**
 * A statement for each table, with the number of the account of its row `o`: keys have those above 0, an identity's is
 * its own number below 0, and grants have those from −2^52 downwards.
 */
const ofEach = <T>(prepare: (rows: string, account: string) => T): Readonly<Record<AccountTable, T>> => ({
  keys: prepare("keystile_keys o", "coalesce(o.account, o.number)"),
  identities: prepare("keystile_identities o", "-o.number"),
  grants: prepare("keystile_grants o", accountOfGrantSql("o.number")),
});

/** An account, `undefined` if there never was one, and its leases. */
export interface AccountWithLeases {
  readonly number: number;
  readonly account: Account | undefined;
  readonly leases: Map<string, Lease>;
}

const TOTALS = ["credited", "refilled", "adjusted", "spent", "reserved", "forfeited", "expired"] as const;
const ROLLOVER = ["rollover", "rollovers", "returnable"] as const;
const SEALS = ["seal", "rollover_seal"] as const;
const COLUMNS = ["unlimited", "remaining", "amount", "period", "generation", ...TOTALS, ...ROLLOVER, ...SEALS] as const;

/** An account as the file has it: not validated, since another tool may have written it. */
type AccountRaw = Record<(typeof COLUMNS)[number], unknown>;

/** A lease as the file has it, under names that no column of an account has. */
type LeaseRaw = { readonly holder: string } & Record<
  "ofGeneration" | "ofRollovers" | "expires" | "leaseReserved" | "held" | "leaseSpent" | "isForfeited",
  unknown
>;
const LEASE_COLUMNS =
  "l.holder, l.generation AS ofGeneration, l.rollovers AS ofRollovers, l.expires, l.reserved AS leaseReserved, l.held, l.spent AS leaseSpent, " +
  "l.is_forfeited AS isForfeited";

/** A key or an identity, its account and one of its leases, if it has any. */
type JoinedRaw = AccountRaw &
  Omit<LeaseRaw, "holder"> & { readonly id: string; readonly n: number | bigint; readonly holder: string | null };

/** The text that comes next to those which begin with {@link RESERVATION}. */
const AFTER_RESERVATIONS = "res`";

export const NO_LEASES: ReadonlyMap<string, Lease> = new Map();

const statements = (handle: Handle) => {
  const lease = (where: string) =>
    select<LeaseRaw>(handle, `SELECT ${LEASE_COLUMNS} FROM keystile_leases l WHERE ${where}`);
  const expired = "l.account = ? AND l.expires <= ?";
  return {
    account: select<AccountRaw>(handle, `SELECT ${COLUMNS.join(", ")} FROM keystile_accounts WHERE number = ?`),
    number: ofEach((rows, account) =>
      select<{ n: number | bigint }>(handle, `SELECT ${account} AS n FROM ${rows} WHERE o.id = ?`),
    ),
    byIds: ofEach((rows, account) =>
      select<JoinedRaw>(
        handle,
        `SELECT o.id, ${account} AS n, ${COLUMNS.map((name) => `a.${name}`).join(", ")}, ${LEASE_COLUMNS}
         FROM json_each(?) j CROSS JOIN ${rows} ON o.id = j.value
         LEFT JOIN keystile_accounts a ON a.number = ${account} LEFT JOIN keystile_leases l ON l.account = a.number`,
      ),
    ),
    put: handle.prepare(
      // Not REPLACE, which would delete the row first, and with it the leases.
      `INSERT INTO keystile_accounts (number, ${COLUMNS.join(", ")}) VALUES (?${", ?".repeat(COLUMNS.length)})
       ON CONFLICT (number) DO UPDATE SET ${COLUMNS.map((name) => `${name} = excluded.${name}`).join(", ")}`,
    ),
    open: createManyRows(
      handle,
      "INSERT INTO keystile_accounts (number, remaining, credited, amount, period, generation, seal, rollover, rollover_seal) VALUES",
      9,
    ),
    saveSpend: handle.prepare("UPDATE keystile_accounts SET remaining = ?, spent = ? WHERE number = ?"),
    saveAll: handle.prepare(
      `UPDATE keystile_accounts SET ${COLUMNS.map((name) => `${name} = ?`).join(", ")} WHERE number = ?`,
    ),
    swap: handle.prepare(
      `UPDATE keystile_accounts SET remaining = ?, spent = ?
       WHERE number = ? AND remaining = ? AND spent = ? AND period = ? AND generation = ? AND unlimited = 0`,
    ),
    leases: lease("l.account = ?"),
    expired: lease(expired),
    // Not a UNION, for which SQLite read all leases of the account: 111 µs beside a thousand, and this 1.4.
    expiredAndOne: lease(`(${expired}) OR (l.account = ? AND l.holder = ?)`),
    // By a range of the primary key: by a part of the holder it took nine times as long.
    countReservations: select<{ count: number | bigint }>(
      handle,
      `SELECT count(*) AS count FROM keystile_leases
       WHERE account = ? AND holder >= '${RESERVATION}' AND holder < '${AFTER_RESERVATIONS}'`,
    ),
    hasLease: select<object>(handle, "SELECT 1 FROM keystile_leases WHERE account = ? AND holder = ?"),
    putEnding: handle.prepare("INSERT OR REPLACE INTO keystile_reservations_ended (id, how, until) VALUES (?, ?, ?)"),
    ending: select<{ how: Ending }>(handle, "SELECT how FROM keystile_reservations_ended WHERE id = ?"),
    forgetEndings: handle.prepare(
      `DELETE FROM keystile_reservations_ended WHERE id IN (
         SELECT id FROM keystile_reservations_ended WHERE until <= ? ORDER BY until LIMIT ${FORGOTTEN_PER_WRITE})`,
    ),
    putLease: handle.prepare(
      `INSERT OR REPLACE INTO keystile_leases
         (account, holder, generation, rollovers, expires, reserved, held, spent, is_forfeited)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    dropLease: handle.prepare("DELETE FROM keystile_leases WHERE account = ? AND holder = ?"),
    dropLeases: handle.prepare("DELETE FROM keystile_leases WHERE account = ?"),
    remove: handle.prepare(
      `DELETE FROM keystile_accounts WHERE number = ?
         AND NOT EXISTS (SELECT 1 FROM keystile_keys WHERE number = ? UNION ALL SELECT 1 FROM keystile_keys WHERE account = ?)`,
    ),
  };
};

export function createAccounts(handle: Handle) {
  const sql = statements(handle);
  return {
    /** @throws KeystileError STORE_INVALID: the account in the file is damaged, or was changed by something else */
    read(n: number): Account | undefined {
      const raw = readExactly(() => sql.account.get(n));
      return raw && decodeAccount(n, raw);
    },
    /**
     * Accounts and leases by id, of those keys, identities or grants that exist: read at one moment.
     * @throws as {@link Accounts.read}
     */
    readMany(table: AccountTable, ids: readonly string[]): ReadonlyMap<string, AccountWithLeases> {
      const found = new Map<string, AccountWithLeases>();
      for (const raw of ids.length === 0
        ? []
        : readExactly(() => sql.byIds[table].all(JSON.stringify([...new Set(ids)])))) {
        const number = Number(raw.n);
        const account = raw.unlimited === null ? undefined : decodeAccount(number, raw);
        const known = found.get(raw.id) ?? { number, account, leases: new Map() };
        if (raw.holder !== null) known.leases.set(raw.holder, decodeLease(raw));
        found.set(raw.id, known);
      }
      return found;
    },
    /** Leases of an account, by id. @throws KeystileError STORE_INVALID: a lease in the file is invalid */
    leases: (n: number): Map<string, Lease> => toLeases(readExactly(() => sql.leases.all(n))),
    /** Those that have expired by then, and one that has not. @throws as {@link Accounts.leases} */
    expiredLeases: (n: number, now: number, id?: string): Map<string, Lease> =>
      toLeases(readExactly(() => (id === undefined ? sql.expired.all(n, now) : sql.expiredAndOne.all(n, now, n, id)))),
    /** How many reservations an account has, and whether one of them has this id. */
    reservations: (n: number, id: string): { readonly count: number; readonly hasId: boolean } => ({
      count: Number(sql.countReservations.get(n)!.count),
      hasId: sql.hasLease.get(n, id) !== undefined,
    }),
    /** How a reservation ended. */
    endingOf: (id: string): Ending | undefined => sql.ending.get(id)?.how,
    /** Forgets some endings that are over at `now`. */
    forgetEndings: (now: number): void => void sql.forgetEndings.run(now),
    /** The number of the account of a row; `undefined`: the row is not there. The account itself may be missing. */
    numberOf(table: AccountTable, id: string): number | undefined {
      const found = sql.number[table].get(id);
      return found && Number(found.n);
    },
    /** Writes an account that exists. @throws KeystileError STORE_FAILED: it does not */
    save(n: number, before: Account, after: Account): void {
      const saved = isSpendOnly(before, after)
        ? sql.saveSpend.run(after.remaining, after.spent, n)
        : sql.saveAll.run(...encodeAccount(n, after), n);
      if (Number(saved.changes) !== 1)
        throw new KeystileError("STORE_FAILED", "an account vanished while it was changed");
    },
    saveLeases(n: number, changes: LeaseChanges): void {
      for (const [id, lease, ending] of changes) {
        if (ending !== undefined) sql.putEnding.run(id, ending.how, ending.until);
        if (lease === undefined) sql.dropLease.run(n, id);
        else {
          const { generation, rollovers, expires, reserved, held, spent, isForfeited } = lease;
          sql.putLease.run(n, id, generation, rollovers, expires, reserved, held, spent, isForfeited ? 1 : 0);
        }
      }
    },
    /**
     * Writes a spend outside a transaction.
     * @returns false if the file has another account than `before`: nothing was written
     */
    compareAndSpend: (n: number, before: Account, after: Account): boolean =>
      isSpendOnly(before, after) &&
      Number(
        sql.swap.run(after.remaining, after.spent, n, before.remaining, before.spent, before.period, before.generation)
          .changes,
      ) === 1,
    /** Inserts the accounts of those new keys that have one. */
    create(keys: readonly (readonly [n: number, key: EncodedKey])[]): void {
      const values: SqliteValue[] = [];
      for (const [n, { generation, balance }] of keys) {
        if (balance === undefined) continue;
        const { remaining, amount, period } = balance;
        const account = openAccount(remaining, { ...balance, generation });
        values.push(n, remaining, account.credited, amount, period, generation, sealOf(n, account));
        values.push(account.rollover, rolloverSealOf(account));
      }
      sql.open(values);
    },
    /** Writes an account, new or changed by an administrator. */
    replace: (n: number, account: Account): void => void sql.put.run(n, ...encodeAccount(n, account)),
    /** Removes all leases of an account. */
    dropLeases: (n: number): void => void sql.dropLeases.run(n),
    /** Removes an account that no key has, with its leases. */
    removeUnused: (n: number): void => void sql.remove.run(n, n, n),
  };
}

export type Accounts = ReturnType<typeof createAccounts>;

/** Whether a change took credits and did nothing else: two columns differ, and the seal does not. */
function isSpendOnly(before: Account, after: Account): boolean {
  return (
    before.period === after.period &&
    before.refilled === after.refilled &&
    before.adjusted === after.adjusted &&
    before.reserved === after.reserved &&
    before.forfeited === after.forfeited &&
    before.expired === after.expired &&
    before.credited === after.credited &&
    before.generation === after.generation
  );
}

/** A prime: a change of one bit in a column always changes the seal. */
const MODULUS = 2_147_483_647;

/** SQL for {@link sealOf}. Part of the file format. */
export const SEAL_SQL = `(number % ${MODULUS} * 2 + unlimited * 3 + amount % ${MODULUS} * 5 + period % ${MODULUS} * 7 + generation % ${MODULUS} * 11)`;

/** A checksum of the columns that spends do not change. Against accidents, not against whoever knows the formula. */
function sealOf(n: number, { unlimited, amount, period, generation }: Omit<Account, "remaining">): number {
  return (
    (n % MODULUS) * 2 +
    (unlimited ? 3 : 0) +
    (amount % MODULUS) * 5 +
    (period % MODULUS) * 7 +
    (generation % MODULUS) * 11
  );
}

/** SQL for {@link rolloverSealOf}. Part of the file format. */
const ROLLOVER_SEAL_SQL = `(coalesce(rollover % ${MODULUS} + 1, 0) * 2 + rollovers % ${MODULUS} * 3 + returnable % ${MODULUS} * 5)`;

/** The same for the columns of rollovers, which the first tables lack. */
function rolloverSealOf({ rollover, rollovers, returnable }: Pick<Account, (typeof ROLLOVER)[number]>): number {
  const ofRollover = rollover === null ? 0 : (rollover % MODULUS) + 1;
  return ofRollover * 2 + (rollovers % MODULUS) * 3 + (returnable % MODULUS) * 5;
}

const count = (name: string): string =>
  `${name} INTEGER NOT NULL DEFAULT 0 CHECK (${name} BETWEEN 0 AND ${MAX_BALANCE})`;

/** Part of the file format: what credits that expire need. */
export const ADD_ROLLOVER = {
  up: `
  ALTER TABLE keystile_accounts ADD COLUMN rollover INTEGER CHECK (rollover BETWEEN 0 AND ${MAX_BALANCE});
  ALTER TABLE keystile_accounts ADD COLUMN ${count("rollovers")};
  ALTER TABLE keystile_accounts ADD COLUMN ${count("returnable")};
  ALTER TABLE keystile_accounts ADD COLUMN expired INTEGER NOT NULL DEFAULT 0 CHECK (expired BETWEEN 0 AND forfeited);
  ALTER TABLE keystile_accounts ADD COLUMN rollover_seal INTEGER NOT NULL DEFAULT 0 CHECK (rollover_seal = ${ROLLOVER_SEAL_SQL});
  ALTER TABLE keystile_leases ADD COLUMN ${count("rollovers")};`,
  down: `
  ALTER TABLE keystile_leases DROP COLUMN rollovers;
  ALTER TABLE keystile_accounts DROP COLUMN rollover_seal;
  ${[...ROLLOVER, "expired"].map((name) => `ALTER TABLE keystile_accounts DROP COLUMN ${name};`).join("\n  ")}`,
};

/** What is wrong with the seals of an account `a`, as a condition. */
export const IS_UNSEALED = `a.seal <> ${ofAccount(SEAL_SQL)} OR a.rollover_seal <> ${ofAccount(ROLLOVER_SEAL_SQL)}`;

function ofAccount(seal: string): string {
  return seal.replaceAll(/\b(number|unlimited|amount|period|generation|rollover|rollovers|returnable)\b/g, "a.$1");
}

function encodeAccount(n: number, account: Account): SqliteValue[] {
  const { unlimited, remaining, amount, period, generation, forfeited, expired } = account;
  const kept = { ...account, forfeited: forfeited + expired };
  return [
    unlimited ? 1 : 0,
    remaining,
    amount,
    period,
    generation,
    ...TOTALS.map((name) => kept[name]),
    ...ROLLOVER.map((name) => account[name]),
    sealOf(n, account),
    rolloverSealOf(account),
  ];
}

/** node:sqlite throws a RangeError for an integer above 2^53 − 1; other drivers return an inexact number. */
function readExactly<T>(read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw cause instanceof RangeError ? invalid() : cause;
  }
}

/** @throws KeystileError STORE_INVALID: a number is not as keystile wrote it; it is never rounded or corrected */
function decodeAccount(n: number, raw: AccountRaw): Account {
  const account = {
    unlimited: natural(raw.unlimited) === 1,
    remaining: natural(raw.remaining),
    amount: natural(raw.amount),
    period: integer(raw.period),
    generation: natural(raw.generation),
    credited: natural(raw.credited),
    refilled: natural(raw.refilled),
    adjusted: integer(raw.adjusted),
    spent: natural(raw.spent),
    reserved: natural(raw.reserved),
    forfeited: natural(integer(raw.forfeited) - natural(raw.expired)),
    expired: natural(raw.expired),
    rollover: raw.rollover === null ? null : natural(raw.rollover),
    rollovers: natural(raw.rollovers),
    returnable: natural(raw.returnable),
  };
  if (!isConserved(account) || sealOf(n, account) !== integer(raw.seal)) throw invalid();
  if (rolloverSealOf(account) !== integer(raw.rollover_seal)) throw invalid();
  return account;
}

function toLeases(raws: readonly LeaseRaw[]): Map<string, Lease> {
  return new Map(raws.map((raw) => [raw.holder, decodeLease(raw)]));
}

function decodeLease(raw: Omit<LeaseRaw, "holder">): Lease {
  return {
    generation: natural(raw.ofGeneration),
    rollovers: natural(raw.ofRollovers),
    expires: integer(raw.expires),
    reserved: natural(raw.leaseReserved),
    held: natural(raw.held),
    spent: natural(raw.leaseSpent),
    isForfeited: natural(raw.isForfeited) === 1,
  };
}

/** A non-negative integer. @throws KeystileError STORE_INVALID for any other value */
function natural(value: unknown): number {
  const number = integer(value);
  if (number < 0) throw invalid();
  return number;
}

/** Drivers return numbers, or bigints if the caller's handle is set up so. */
function integer(value: unknown): number {
  const number = typeof value === "bigint" ? Number(value) : value;
  if (!Number.isSafeInteger(number)) throw invalid();
  return number as number;
}

function invalid(): KeystileError {
  return new KeystileError(
    "STORE_INVALID",
    "the credits of a key do not add up: the file is damaged, or something else changed it; set the balance of the key, or restore a backup",
  );
}
