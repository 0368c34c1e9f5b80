/**
 * The SQLite store: one file, any number of processes on one host. Wires the modules beside it.
 *
 * Why one connection and by default no worker thread: every transaction is synchronous, so no other call of this
 * process sees half of it, and a find needs no message to a thread. For what a worker gains see `writer/writer.ts`.
 */
import type { AuditEntry } from "../../contracts/audit.js";
import { KeystileError } from "../../contracts/errors.js";
import { timeOfWrites, withCredits } from "../../contracts/row-changes.js";
import type { ListQuery, Store, StorePowers, Table, WrittenBalance } from "../../contracts/store.js";
import { withoutAudit } from "../../lib/guards/powers.js";
import { trust } from "../../lib/guards/trusted.js";
import type { SqliteBackup } from "./backup/make-backup.js";
import { type BackupOptions, createBackup } from "./backup/start-backup.js";
import { createChangeLog, type LoggedChange } from "./changes/change-log.js";
import { createChangePolling } from "./changes/change-polling.js";
import { createSharedReads } from "./changes/read-transactions.js";
import { assertFile, assertFits } from "./connection/check-path.js";
import { type CounterSet, createCounters } from "./connection/counters.js";
import type { DriverName } from "./connection/driver.js";
import { toOpenError, toStoreError } from "./connection/errors.js";
import { createGuardedWork } from "./connection/guarded-work.js";
import { isInFile, type SqliteHandle } from "./connection/handle.js";
import { createHealth, type SqliteHealth } from "./connection/health.js";
import { connect, type Connection, DRIVER_BUSY_TIMEOUT } from "./connection/open.js";
import { createBusyRetry } from "./connection/retry-busy.js";
import { watchSchema } from "./connection/schema.js";
import { afterTurn, retryWhileBusy } from "./connection/transaction.js";
import { sizeLog } from "./connection/wal-size.js";
import { createAccountSession } from "./credits/account-session.js";
import { createAccounts } from "./credits/account-table.js";
import { countLosses } from "./credits/count-losses.js";
import { createGroupCommit } from "./credits/group-commit.js";
import { createOnceTable } from "./credits/once-table.js";
import { createSpending } from "./credits/spending.js";
import { type EncodedKey, encodeKeys } from "../codec/encoded-keys.js";
import { createKeyReader } from "./keys/find-keys.js";
import { createKeyUses } from "./keys/key-uses.js";
import { createKeySearch } from "./keys/search-keys.js";
import { createKeyWriter } from "./keys/write-keys.js";
import { readOptions, type SqliteHandleOptions, type SqliteSettings, type SqliteStoreOptions } from "./options.js";
import { assertRecord, knownAs, makeSpaceFor } from "../spend-once.js";
import { createAlertTable } from "./tables/alert-table.js";
import { createAuditTable } from "./tables/audit-table.js";
import { createCreditDays } from "./tables/credit-days.js";
import { createEntityTables } from "./tables/entity-tables.js";
import { createOutcomeTables } from "./tables/outcome-tables.js";
import { createReferenceCache } from "./tables/reference-cache.js";
import { createWriting } from "./tables/run-write.js";
import { applyWrites } from "./tables/write-rows.js";
import { withWriter } from "./writer/writer.js";

/** A {@link Store} with a health check and backups of its file. */
export interface SqliteStore extends Store {
  /** The path of the database, absolute and without symbolic links; empty: it is in memory. */
  readonly path: string;
  /** Examines file and connection. Reads the disk: not for every request. */
  health(): SqliteHealth;
  /**
   * Copies the whole database to a new file while processes verify and change keys. A thread makes the copy, with a
   * connection of its own; the `-wal` grows by what is written meanwhile. `keystile restore` puts it in place.
   *
   * The copy has everything that was acknowledged before the call, and nothing that was acknowledged after the promise
   * resolved. Leases are void in it: what they held counts as forfeited there.
   * @param path of a file that does not exist, in a folder that does; made with mode 0600. It gets this name once it is
   * complete and on disk: until then it ends in `.part`
   * @param options see {@link BackupOptions}
   * @returns what is in the copy
   * @throws (rejects with) TypeError: `path` is none; KeystileError CONFLICT: a file is there; STORE_POWER_MISSING: the
   * store is in memory or on a handle of its owner; STORE_FULL, STORE_FAILED: the copy cannot be written, or the
   * thread's program is not found; STORE_INVALID: the database is damaged; STORE_BUSY; STORE_CLOSED
   */
  backup(path: string, options?: BackupOptions): Promise<SqliteBackup>;
}

/** Keys per transaction of `insertKeys`; the event loop runs between two. */
const BATCH = 1_000;
/** Up to so many keys the log stays as short as after single commits. */
const SMALL_BATCH = 250;
/** A transaction with more new digests than this is notified as "created". */
const MAX_NOTIFIED_DIGESTS = 16;

/**
 * Keeps keys in an SQLite file. Its `KeyRef` is a number. Copy the file with `backup`, and restore it only while no
 * process has it open. A new file is readable and writable by its owner only. If it is deleted, replaced, truncated or
 * upgraded by a later keystile while it is open, `pollChanges` and every write fail with STORE_FILE_CHANGED or
 * STORE_SCHEMA_NEWER, within the bound of `staleness`. `spendCredits` alone does not notice an upgrade: poll first, as
 * verifiers do.
 * @param file a path, or an open handle. A path is opened with better-sqlite3 12 or 13, or with node:sqlite where that
 * does not load, and created unless `mustExist`; `":memory:"` for a database in memory. A handle of better-sqlite3,
 * node:sqlite or bun:sqlite gets WAL, `synchronous`, `foreign_keys` and a `busy_timeout` of at most 50 ms, and
 * `close()` leaves it open
 * @param options see {@link SqliteStoreOptions}; with a handle only {@link SqliteHandleOptions}
 * @throws TypeError or RangeError naming an option, or saying what is wrong with `file`: a path with spaces at its
 * ends, a handle whose rows are arrays; KeystileError DRIVER_MISSING or DRIVER_UNSUPPORTED, both saying what to run;
 * STORE_INVALID (empty, not a database, one of another program, made before keystile 0.1.0, or beside a `-wal` of
 * another), STORE_FILE_LINKED (hard links, or a file mounted by itself), STORE_SCHEMA_NEWER, STORE_READ_ONLY (no tables
 * or old ones in a file that may not be written), STORE_BUSY, STORE_FULL, STORE_FAILED
 * @see src/contracts/store.ts for the contract · a single find in a turn takes 1.15 times as long as a bare SELECT and
 * JSON.parse, several in one turn 0.75 times each; a single spend 1.2 times as long as a bare UPDATE in a transaction
 */
export function sqliteStore(file: string | SqliteHandle, options?: SqliteHandleOptions): SqliteStore;
export function sqliteStore(file: string, options?: SqliteStoreOptions): SqliteStore;
export function sqliteStore(file: string | SqliteHandle, options: SqliteStoreOptions = {}): SqliteStore {
  assertFile(file);
  const settings = readOptions(options, typeof file === "string");
  assertFits(file, settings);
  try {
    const connection = connect(file, settings);
    try {
      const { store, counters } = wire(connection, settings);
      return trust(
        settings.writer === "inline" || typeof file !== "string"
          ? store
          : withWriter(store, file, settings, counters, connection.driver),
      );
    } catch (cause) {
      connection.close();
      throw cause;
    }
  } catch (cause) {
    throw typeof file === "string" ? toOpenError(cause, file) : toStoreError(cause);
  }
}

/** A store that also accepts keys encoded by another thread. */
export interface WriterStore {
  readonly store: SqliteStore;
  readonly counters: CounterSet;
  /**
   * {@link Store.insertKeys}, in one transaction.
   * @param deadline when to stop waiting for a lock, from {@link WriterStore.deadline}
   */
  insertEncoded(keys: readonly EncodedKey[], deadline: number, entry?: AuditEntry): Promise<boolean[]>;
  /** The deadline of a call made now. */
  deadline(): number;
}

/** Opens a store in the writer thread, with the driver that the store's own thread has chosen. */
export function writerStore(path: string, options: SqliteStoreOptions, driver: DriverName | undefined): WriterStore {
  try {
    const settings = readOptions(options, true);
    return wire(connect(path, settings, driver), settings);
  } catch (cause) {
    throw toOpenError(cause, path);
  }
}

function wire(connection: Connection, settings: SqliteSettings): WriterStore {
  const { handle, isShared, file } = connection;
  const counters = createCounters();
  const references = createReferenceCache(handle);
  const assertSchema = watchSchema(handle);
  const log = createChangeLog(handle, isShared, assertSchema);
  log.listen((change) => change === "all" && references.clear());
  const accounts = createAccounts(handle);
  const shared = createSharedReads(handle, isShared);
  const poll = () => {
    file.assertSame();
    log.poll();
  };
  const polling = createChangePolling(shared.before(poll), settings.staleness);
  // A transaction reads `data_version` anyway, while nobody else can write: if nothing is new, later calls of the turn
  // need not poll.
  const session = createAccountSession(handle, accounts, isShared, (version) => {
    if (!log.isCaughtUp(version)) assertSchema();
    else if (!settings.readonly) polling.note();
  });
  const guarded = createGuardedWork(file, counters.own);
  // An autocommit statement inside a transaction that is open for reads would resolve before it is durable.
  const committing = <A extends unknown[], T>(commit: (...given: A) => T) => shared.before(guarded.committing(commit));
  const transact = committing(connection.transact<unknown>) as typeof connection.transact;
  const { short, long } = sizeLog({ ...connection, transact });
  let isClosed = false;
  let closing: Promise<void> | undefined;
  const assertOpen = () => {
    if (isClosed) throw new KeystileError("STORE_CLOSED", "the store was closed; open it again to use it");
  };
  const reads = createBusyRetry(assertOpen, connection.probe, settings.busyTimeout, counters.own);
  const writes = createBusyRetry(assertOpen, connection.probe, settings.busyTimeout, counters.own);
  const losses = countLosses(counters.own);
  const spends = losses.ofSpends({ ...session, compareAndSpend: committing(session.compareAndSpend) });
  const group = createGroupCommit(short, spends, log, writes.queue, settings.busyTimeout);
  const rows = createEntityTables(handle);
  const reader = createKeyReader(handle, references, rows.openGrants);
  const search = createKeySearch(handle, reader);
  const writer = createKeyWriter(handle, references, accounts);
  const recordUses = createKeyUses(handle);
  const audit = createAuditTable(handle, settings.audit.rows);
  const creditDays = createCreditDays(handle);
  const outcomes = createOutcomeTables(handle, creditDays);
  const alerts = createAlertTable(handle);
  const recorded = createOnceTable(handle);
  const spending = createSpending(accounts, recorded, group);
  const leases = losses.ofLeases(spending);
  const examine = createHealth(connection, settings, counters);
  const health = shared.before(() => retryWhileBusy(examine, DRIVER_BUSY_TIMEOUT));
  const finish = shared.before(connection.close);
  const startBackup = createBackup(connection, settings);

  const reading = <A extends unknown[], T>(work: (...given: A) => T) =>
    reads.runOrRetry(guarded.reading(shared.before(work)));
  const write = createWriting(writes, log, references, session);
  const insertEncoded: WriterStore["insertEncoded"] = async (keys, deadline, entry): Promise<boolean[]> => {
    let inserted: boolean[] = [];
    const insert = () => {
      inserted = writer.insert(keys);
      const count = inserted.filter(Boolean).length;
      if (entry !== undefined && count > 0) audit.add([{ ...entry, count }]);
      return changesOf(keys.filter((_, i) => inserted[i]));
    };
    // A checkpoint of the long log takes 20 to 60 ms: small batches are those of whoever must not wait.
    await write(keys.length > SMALL_BATCH ? long : short, insert, deadline);
    return inserted;
  };

  const peekBalance = reading(spending.spendCredits);
  const peekWallets = reading(spending.spendWallets);
  const store: SqliteStore = {
    path: file.path,
    powers: powersOf(connection, settings),
    findKey: reads.runOrRetry(guarded.reading(shared.within(reader.findKey))),
    findKeys: reading(reader.findKeys),
    findForeignKey: reading(reader.findForeignKey),
    findRootKey: reading(rows.findRootKey),
    // Not retried here: the group itself waits for locks.
    adoptDigest(ref, digest) {
      assertOpen();
      return typeof ref === "number" ? group.add((_, changes) => writer.adopt(ref, digest, changes)) : false;
    },
    spendCredits(ref, cost, period, now) {
      if (!(cost > 0)) return peekBalance(ref, cost, period, now);
      assertOpen();
      return spending.spendCredits(ref, cost, period, now);
    },
    spendOnce(ref, cost, period, now, record, bounds) {
      assertOpen();
      return spending.spendOnce(ref, cost, period, now, record, bounds);
    },
    findOnce: reading(spending.findOnce),
    readSecret: reading(spending.readSecret),
    recordUses(uses) {
      assertOpen();
      return group.add(() => recordUses(uses));
    },
    countOutcomes(flush) {
      assertOpen();
      return group.add(() => outcomes.count(flush));
    },
    readOutcomes: reading(outcomes.read),
    readRefusals: reading(outcomes.readRefusals),
    readCreditDays: reading(creditDays.read),
    pruneOutcomes(level, before, most) {
      assertOpen();
      return group.add(() => outcomes.prune(level, before, most));
    },
    readAudit: settings.audit.rows > 0 ? reading(audit.read) : withoutAudit.readAudit,
    drawCredits(ref, request) {
      assertOpen();
      return leases.drawCredits(ref, request);
    },
    returnCredits(ref, lease) {
      assertOpen();
      return leases.returnCredits(ref, lease);
    },
    reserveCredits(...given) {
      assertOpen();
      return spending.reserveCredits(...given);
    },
    settleCredits(...given) {
      assertOpen();
      return spending.settleCredits(...given);
    },
    findWallet: reading(rows.findWallet),
    spendWallets(wallets, request) {
      if (!(request.cost > 0) && request.once === undefined) return peekWallets(wallets, request);
      assertOpen();
      return spending.spendWallets(wallets, request);
    },
    settleWallets(...given) {
      assertOpen();
      return spending.settleWallets(...given);
    },
    readBalances: reading(spending.readBalances),

    readMany: reading((table: Table, ids: readonly string[]) =>
      table === "keys" ? reader.readMany(ids) : rows.readMany(table, ids),
    ) as Store["readMany"],
    readNames: reading(rows.readNames),
    list: reading((table: Table, query: ListQuery) =>
      table === "keys" ? reader.list(query) : rows.list(table, query),
    ) as Store["list"],
    searchKeys: reading(search.searchKeys),
    countKeys: reading(search.countKeys),
    findKeyIds: reading(reader.findKeyIds),
    listAlerts: reading(alerts.listAlerts),
    changeAlerts(changes) {
      assertOpen();
      return group.add(() => alerts.changeAlerts(changes));
    },
    takeAlerts(take) {
      assertOpen();
      return group.add(() => alerts.takeAlerts(take));
    },
    settleAlert(settlement) {
      assertOpen();
      return group.add(() => alerts.settleAlert(settlement));
    },
    async insertKeys(keys, entry) {
      assertOpen();
      const inserted: boolean[] = [];
      const deadline = writes.deadline();
      for (let start = 0; start < keys.length; start += BATCH) {
        if (start > 0) await new Promise<void>(afterTurn);
        inserted.push(...(await insertEncoded(encodeKeys(keys.slice(start, start + BATCH)), deadline, entry)));
      }
      return inserted;
    },
    async write(writes, entries = [], once) {
      if (once !== undefined) assertRecord(once.record);
      let balances: readonly WrittenBalance[] = [];
      const outcome = await write(short, () => {
        const known = once && knownAs(recorded, once);
        if (known !== undefined) return known;
        const effects = creditDays.around(writes, timeOfWrites(writes, entries, once) ?? Date.now(), () =>
          applyWrites(writes, rows, writer),
        );
        if (typeof effects === "string") return effects;
        if (once !== undefined) {
          if (!makeSpaceFor(recorded, once)) return "full";
          recorded.add(once.record);
        }
        ({ balances } = effects);
        audit.add(entries.map((entry, i) => (i === 0 ? withCredits(entry, writes, balances) : entry)));
        return effects.changes;
      });
      return outcome === "written" && balances.length > 0 ? balances : outcome;
    },

    subscribe(listener) {
      assertOpen();
      return log.listen(listener);
    },
    // Not through `runOrRetry`, which allocates: every verification calls this.
    pollChanges(when) {
      assertOpen();
      if (polling.isCurrent(when)) return;
      if (reads.queue.isWaiting()) return reads.run(() => polling.pollChanges());
      try {
        polling.pollChanges(when);
      } catch (cause) {
        return reads.retry(cause, () => polling.pollChanges());
      }
    },
    health() {
      assertOpen();
      return health();
    },
    async backup(path, options) {
      assertOpen();
      return startBackup(path, options);
    },
    /** Refuses later calls, and writes that wait for a lock; ends the connection when spends in flight have settled. */
    close() {
      if (isClosed) return closing;
      isClosed = true;
      const draining = group.drain();
      if (draining === undefined) finish();
      return (closing = draining?.then(finish));
    },
  };
  return { store, counters, insertEncoded, deadline: writes.deadline };
}

/** A database in memory has no file: it ends with its connection, and no other process can use it. */
function powersOf({ handle }: Connection, { durability, audit }: SqliteSettings): StorePowers {
  const isFile = isInFile(handle);
  return Object.freeze({
    leases: true,
    reserves: true,
    idempotency: true,
    usage: true,
    reservations: true,
    audit: audit.rows > 0,
    analytics: true,
    search: true,
    alerts: true,
    wallets: true,
    rollover: true,
    refusals: true,
    changes: isFile ? "polled" : "own",
    durability: isFile ? durability : "none",
  });
}

/** The changes of new keys that a find could see. Keys without a digest can be found by their foreign digest. */
function changesOf(keys: readonly EncodedKey[]): LoggedChange[] {
  const digests: LoggedChange[] = [];
  for (const { digest } of keys) {
    if (digest !== null) digests.push({ digest });
    if (digests.length > MAX_NOTIFIED_DIGESTS) return ["created"];
  }
  return digests.length < keys.length ? [...digests, "created"] : digests;
}
