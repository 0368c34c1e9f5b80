/**
 * Wires the modules beside it into a store on a connection, whatever engine is below. Needs no Node module.
 */
import { isKeystileError, type KeystileError } from "../../contracts/errors.js";
import type { ListQuery, Store, Table } from "../../contracts/store.js";
import { withoutAudit } from "../../lib/guards/powers.js";
import { POWERS } from "../powers.js";
import { createChangeLog, type LoggedChange, createChangePolling } from "./changes/change-log.js";
import type { Connection, Transact } from "./connection/connection.js";
import type { CounterSet } from "./connection/counters.js";
import { createGroupCommit } from "./connection/group-commit.js";
import { createLocks } from "./connection/lock-queue.js";
import { createReads, createSharedReads, guardCommits } from "./connection/transaction.js";
import { createAccountSession } from "./credits/account-session.js";
import { createSpending } from "./credits/spending.js";
import type { SqliteSettings } from "./options.js";
import { openTables } from "./tables/open-tables.js";
import { createRunWrite } from "./tables/run-write.js";
import { createWriting } from "./writing.js";

/** What a store in tables is told. */
export type TableSettings = Pick<SqliteSettings, "audit" | "staleness" | "busyTimeout" | "readonly">;

/** Maximum calls per transaction. */
const MAX_GROUP_SIZE = 1_024;

/** @param counters where what fails is counted */
export function wireTables(connection: Connection, settings: TableSettings, counters: CounterSet) {
  const { handle, file } = connection;
  const { busyTimeout, staleness } = settings;
  const tables = openTables(handle, settings.audit.rows);
  const { references, accounts, reader, search, rows, alerts, audit, outcomes } = tables;
  const shared = createSharedReads(handle, !connection.sharesReads);
  const log = createChangeLog(connection, shared.end);
  log.listen((change) => change === "all" && references.clear());
  const locks = createLocks(connection, busyTimeout, counters.own);
  const { finding, reading } = createReads(shared, file, locks.reads.run);
  const polling = createChangePolling({ staleness, poll: log.poll, run: locks.reads.run });
  const session = createAccountSession(connection, accounts, {
    counters: counters.own,
    // A transaction reads `data_version` anyway, while nobody else can write: if nothing is new, later calls of the
    // turn need not poll.
    onVersion(version) {
      if (!log.isCaughtUp(version)) connection.assertSchema();
      else if (!settings.readonly) polling.note();
    },
  });
  const committing = guardCommits(file, counters.own, shared.end);
  const short = committing(connection.transact<unknown>) as Transact;
  const long = committing(connection.transactLong<unknown>) as Transact;
  let changes: LoggedChange[] = [];
  const group = createGroupCommit({
    transact: short,
    session: {
      begin() {
        changes = [];
        return session.begin();
      },
      save() {
        session.save();
        return log.record(changes);
      },
      committed: log.notify,
      forget: session.forget,
      isOfOneCall: isDamage,
    },
    locked: locks.writes.queue,
    assertOpen: locks.assertOpen,
    busyTimeout,
    maxSize: MAX_GROUP_SIZE,
  });
  const spending = createSpending(tables, {
    group,
    session: { ...session, compareAndSpend: committing(session.compareAndSpend) },
    counters: counters.own,
    reading,
    assertOpen: locks.assertOpen,
  });
  const runWrite = createRunWrite({ run: locks.writes.run, log, references, session });
  const { insertEncoded, methods } = createWriting(tables, { locks, runWrite, short, long });
  const finish = () => {
    shared.end();
    connection.close();
  };
  let closing: Promise<void> | undefined;
  const store: Store = {
    ...spending,
    ...methods,
    powers: Object.freeze({ ...POWERS, audit: settings.audit.rows > 0, ...connection.powers }),
    findKey: finding(reader.findKey),
    findKeys: reading(reader.findKeys),
    findForeignKey: reading(reader.findForeignKey),
    findRootKey: reading(rows.findRootKey),
    // Not retried here: the group itself waits for locks.
    adoptDigest(ref, digest) {
      locks.assertOpen();
      return typeof ref === "number" ? group.add(() => tables.keyWriter.adopt(ref, digest, changes)) : false;
    },
    recordUses: (uses) => group.add(() => tables.recordUses(uses)),
    countOutcomes: (flush) => group.add(() => outcomes.count(flush)),
    readOutcomes: reading(outcomes.read),
    readRefusals: reading(outcomes.readRefusals),
    readCreditDays: reading(tables.creditDays.read),
    pruneOutcomes: (level, before, most) => group.add(() => outcomes.prune(level, before, most)),
    readAudit: settings.audit.rows > 0 ? reading(audit.read) : withoutAudit.readAudit,
    findWallet: reading(rows.findWallet),

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
    changeAlerts: (changed) => group.add(() => alerts.changeAlerts(changed)),
    takeAlerts: (take) => group.add(() => alerts.takeAlerts(take)),
    settleAlert: (settlement) => group.add(() => alerts.settleAlert(settlement)),

    subscribe(listener) {
      locks.assertOpen();
      return log.listen(listener);
    },
    pollChanges: polling.pollChanges,
    /** Ends the connection when spends in flight have settled. */
    close() {
      if (!locks.close()) return closing;
      polling.close();
      const draining = group.drain();
      if (draining === undefined) finish();
      return (closing = draining?.then(finish));
    },
  };
  const examining =
    <A extends unknown[], T>(act: (...given: A) => T) =>
    (...given: A): T => {
      locks.assertOpen();
      shared.end();
      return act(...given);
    };
  return {
    store,
    /** Wraps what uses the connection by itself: the store must be open, and no transaction of reads is. */
    examining,
    insertEncoded,
    /** The deadline of a call made now. */
    deadline: locks.writes.deadline,
  };
}

/** A store, and what its owner adds to it. */
export type WiredTables = ReturnType<typeof wireTables>;

/**
 * An invalid account in the file fails only the call that needed it, which has then removed expired records at most.
 */
function isDamage(error: unknown): error is KeystileError {
  return isKeystileError(error) && error.code === "STORE_INVALID";
}
