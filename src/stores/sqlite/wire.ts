/**
 * Wires the modules beside it into a store on a connection, whatever engine is below. Needs no Node module.
 */
import type { AuditEntry } from "../../contracts/audit.js";
import { KeystileError } from "../../contracts/errors.js";
import { timeOfWrites, withCredits } from "../../contracts/row-changes.js";
import type { ListQuery, Store, Table, WrittenBalance } from "../../contracts/store.js";
import type { MaybePromise } from "../../contracts/types.js";
import { withoutAudit } from "../../lib/guards/powers.js";
import { createChangeLog, type LoggedChange, createChangePolling } from "./changes/change-log.js";
import { createSharedReads, afterTurn, type Transact } from "./connection/transaction.js";
import type { Connection } from "./connection/connection.js";
import type { CounterSet } from "./connection/counters.js";
import { guardCommits } from "./connection/guarded-commits.js";
import { createBusyRetry } from "./connection/lock-queue.js";
import { createAccountSession } from "./credits/account-session.js";
import { createAccounts } from "./credits/account-table.js";
import { countLosses, createSpending } from "./credits/spending.js";
import { createGroupCommit } from "./credits/group-commit.js";
import { createOnceTable } from "./credits/once-table.js";
import { type EncodedKey, encodeKeys } from "../codec/encoded-keys.js";
import { createKeyReader } from "./keys/find-keys.js";
import { createKeyUses } from "./keys/key-uses.js";
import { createKeySearch } from "./keys/search-keys.js";
import { createKeyWriter } from "./keys/write-keys.js";
import type { SqliteSettings } from "./options.js";
import { POWERS } from "../powers.js";
import { assertRecord, knownAs, makeSpaceFor } from "../spend-once.js";
import { createAlertTable } from "./tables/alert-table.js";
import { createAuditTable } from "./tables/audit-table.js";
import { createCreditDays } from "./tables/credit-days.js";
import { createEntityTables } from "./tables/entity-tables.js";
import { createOutcomeTables } from "./tables/outcome-tables.js";
import { createReferenceCache } from "./tables/reference-cache.js";
import { createWriting } from "./tables/run-write.js";
import { RowWriter } from "./tables/write-rows.js";

/** What a store in tables is told. */
export type TableSettings = Pick<SqliteSettings, "audit" | "staleness" | "busyTimeout" | "readonly">;

/** Keys per transaction of `insertKeys`; the event loop runs between two. */
const BATCH = 1_000;
/** Up to so many keys the log stays as short as after single commits. */
const SMALL_BATCH = 250;
/** A transaction with more new digests than this is notified as "created". */
const MAX_NOTIFIED_DIGESTS = 16;

/** @param counters where what fails is counted */
export function wireTables(connection: Connection, settings: TableSettings, counters: CounterSet) {
  const { handle, file } = connection;
  const references = createReferenceCache(handle);
  const log = createChangeLog(connection);
  log.listen((change) => change === "all" && references.clear());
  const accounts = createAccounts(handle);
  const shared = createSharedReads(handle, !connection.sharesReads);
  let isClosed = false;
  let closing: Promise<void> | undefined;
  const assertOpen = () => {
    if (isClosed) throw new KeystileError("STORE_CLOSED", "the store was closed; open it again to use it");
  };
  const reads = createBusyRetry(assertOpen, connection.probe, settings.busyTimeout, counters.own);
  const writes = createBusyRetry(assertOpen, connection.probe, settings.busyTimeout, counters.own);
  const poll = () => {
    shared.end();
    file.assertSame();
    log.poll();
  };
  const polling = createChangePolling({ staleness: settings.staleness, poll, run: reads.run });
  // A transaction reads `data_version` anyway, while nobody else can write: if nothing is new, later calls of the turn
  // need not poll.
  const session = createAccountSession(connection, accounts, (version) => {
    if (!log.isCaughtUp(version)) connection.assertSchema();
    else if (!settings.readonly) polling.note();
  });
  const committing = <A extends unknown[], T>(commit: (...given: A) => T) => {
    const guarded = guardCommits(file, counters.own, commit);
    return (...given: A): T => {
      // An autocommit statement inside a transaction that is open for reads would resolve before it is durable.
      shared.end();
      return guarded(...given);
    };
  };
  const short = committing(connection.transact<unknown>) as Transact;
  const long = committing(connection.transactLong<unknown>) as Transact;
  const losses = countLosses(counters.own);
  const spends = losses.ofSpends({ ...session, compareAndSpend: committing(session.compareAndSpend) });
  const group = createGroupCommit(short, spends, log, writes.queue, { assertOpen, busyTimeout: settings.busyTimeout });
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
  const finish = () => {
    shared.end();
    connection.close();
  };

  /** @param enter begins a read: joins the transaction of the turn's finds, or ends it */
  const readingAfter =
    <A extends unknown[], T>(enter: () => void, work: (...given: A) => T) =>
    (...given: A): MaybePromise<Awaited<T>> =>
      reads.run(() => {
        try {
          enter();
          return work(...given);
        } catch (cause) {
          shared.end();
          // What a read meets in a file that was deleted or truncated may look like damage.
          file.assertSame();
          throw cause;
        }
      });
  const reading = <A extends unknown[], T>(work: (...given: A) => T) => readingAfter(shared.end, work);
  const write = createWriting(writes, log, references, session);
  const insertEncoded = async (
    keys: readonly EncodedKey[],
    deadline: number,
    entry?: AuditEntry,
  ): Promise<boolean[]> => {
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

  const spending = createSpending(accounts, recorded, { group, reading, assertOpen });
  const store: Store = {
    ...spending,
    ...losses.ofLeases(spending),
    powers: Object.freeze({ ...POWERS, audit: settings.audit.rows > 0, ...connection.powers }),
    findKey: readingAfter(shared.join, reader.findKey),
    findKeys: reading(reader.findKeys),
    findForeignKey: reading(reader.findForeignKey),
    findRootKey: reading(rows.findRootKey),
    // Not retried here: the group itself waits for locks.
    adoptDigest(ref, digest) {
      assertOpen();
      return typeof ref === "number" ? group.add((_, changes) => writer.adopt(ref, digest, changes)) : false;
    },
    recordUses: (uses) => group.add(() => recordUses(uses)),
    countOutcomes: (flush) => group.add(() => outcomes.count(flush)),
    readOutcomes: reading(outcomes.read),
    readRefusals: reading(outcomes.readRefusals),
    readCreditDays: reading(creditDays.read),
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
    changeAlerts: (changes) => group.add(() => alerts.changeAlerts(changes)),
    takeAlerts: (take) => group.add(() => alerts.takeAlerts(take)),
    settleAlert: (settlement) => group.add(() => alerts.settleAlert(settlement)),
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
          new RowWriter(rows, writer).apply(writes),
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
    pollChanges: polling.pollChanges,
    /** Refuses later calls, and writes that wait for a lock; ends the connection when spends in flight have settled. */
    close() {
      if (isClosed) return closing;
      isClosed = true;
      polling.close();
      const draining = group.drain();
      if (draining === undefined) finish();
      return (closing = draining?.then(finish));
    },
  };
  const examining =
    <A extends unknown[], T>(act: (...given: A) => T) =>
    (...given: A): T => {
      assertOpen();
      shared.end();
      return act(...given);
    };
  return {
    store /** Wraps what uses the connection by itself: the store must be open, and no transaction of reads is. */,
    examining /**
     * {@link Store.insertKeys}, in one transaction.
     * @param deadline when to stop waiting for a lock, from {@link WiredTables.deadline}
     */,
    insertEncoded /** The deadline of a call made now. */,
    deadline: writes.deadline,
  };
}

/** A store, and what its owner adds to it. */
export type WiredTables = ReturnType<typeof wireTables>;

/** The changes of new keys that a find could see. Keys without a digest can be found by their foreign digest. */
function changesOf(keys: readonly EncodedKey[]): LoggedChange[] {
  const digests: LoggedChange[] = [];
  for (const { digest } of keys) {
    if (digest !== null) digests.push({ digest });
    if (digests.length > MAX_NOTIFIED_DIGESTS) return ["created"];
  }
  return digests.length < keys.length ? [...digests, "created"] : digests;
}
