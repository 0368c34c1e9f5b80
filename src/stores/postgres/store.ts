/** The PostgreSQL store: any number of nodes on one database. Wires the modules beside it. */
import type { AuditEntry } from "../../contracts/audit.js";
import { isKeystileError, KeystileError } from "../../contracts/errors.js";
import { grantChangedBy, timeOfWrites } from "../../contracts/row-changes.js";
import type {
  KeyUse,
  NewKey,
  OnceRefusal,
  Store,
  Table,
  Write,
  WriteOnce,
  WrittenBalance,
} from "../../contracts/store.js";
import { withoutAudit } from "../../lib/guards/powers.js";
import { trust } from "../../lib/guards/trusted.js";
import { POWERS } from "../powers.js";
import { assertRecord } from "../spend-once.js";
import { createAlertStore } from "./alerts.js";
import { Changes } from "./changes.js";
import { createSession, type PostgresClient, type Statement, writing } from "./client.js";
import { createAuditReader } from "./audit.js";
import { createCredits, onceFields } from "./credits.js";
import { createEntities, encodeEntityWrite } from "./entities.js";
import { createKeys, encodeKeyRow } from "./keys.js";
import { type PostgresStoreOptions, readOptions } from "./options.js";
import { createOutcomes } from "./outcomes.js";
import { createReferences } from "./references.js";
import { quoted, setUpScript } from "./schema.js";
import { createSearch } from "./search.js";
import { readStatus, type PostgresStatus } from "./status.js";
import { isStorable, jsonForPeople } from "./texts.js";

/** A {@link Store} with its set-up, and what its server says of itself. */
export interface PostgresStore extends Store {
  /**
   * Makes the tables, or brings them to the version of this keystile. May run at every start, on any number of nodes at
   * once; needs the right to create in the database or the schema, and a database whose encoding is UTF8. `keystile
   * schema postgres` prints the same as SQL.
   * @throws (rejects with) KeystileError STORE_SCHEMA_NEWER, STORE_UNAVAILABLE, STORE_READ_ONLY, STORE_FAILED
   */
  setUp(): Promise<void>;
  /**
   * Asks the server what it is and whether it keeps what this store promises, for operators.
   * @throws (rejects with) KeystileError STORE_UNAVAILABLE and the like
   */
  status(): Promise<PostgresStatus>;
}

/** Keys per statement of `insertKeys`, and statements in flight. */
const BATCH = 1_000;
const IN_FLIGHT = 2;
/** A statement with more new digests than this is notified as "created". */
const MAX_NOTIFIED_DIGESTS = 16;

/** What a function returns that changes rows. */
interface Written {
  readonly outcome: "written" | "conflict" | "taken" | OnceRefusal;
  readonly balances?: readonly WrittenBalance[] | null;
  readonly xid?: string;
  readonly changes?: readonly string[];
  readonly inserted?: readonly number[];
  /** The API of a key to be inserted is deleted, and nothing was. */
  readonly apiDeleted?: true;
}

/**
 * Keeps keys in PostgreSQL 14 or later, for any number of nodes. Its `KeyRef` is a number. Every call is one statement;
 * the finds of one turn of the event loop are one together, and so are the spends, draws and returns, of which one of
 * each is in flight, and one more while an account is locked. Run {@link PostgresStore.setUp} once. The client stays
 * the program's: `close()` does not end it.
 *
 * Changes of other nodes arrive within `bound`, and within milliseconds where the client listens. While the server
 * cannot be reached, keys that are remembered verify until the bound, and every other call fails with
 * STORE_UNAVAILABLE.
 * @param client a `Pool` of `pg`, a PGlite, or any object with `query`; see {@link PostgresClient}. A `Pool` of two or
 * more connections keeps one to listen
 * @param options see {@link PostgresStoreOptions}
 * @throws TypeError or RangeError naming what is wrong with an argument. Calls reject with KeystileError
 * STORE_UNAVAILABLE, STORE_READ_ONLY (a read replica), STORE_INVALID (no tables), STORE_SCHEMA_NEWER, STORE_BUSY,
 * STORE_FULL, STORE_FAILED
 * @see src/contracts/store.ts for the contract
 */
export function postgresStore(client: PostgresClient, options: PostgresStoreOptions = {}): PostgresStore {
  if (typeof (client as Partial<PostgresClient> | null)?.query !== "function")
    throw new TypeError("client must have query(text, values): a Pool of pg, a PGlite, or two lines around another");
  const given = readOptions(options);
  const settings = { ...given, schema: quoted(given.schema) };
  const { schema, durability, auditRows } = settings;
  const session = createSession(client, settings);
  const changes = new Changes(session, given, schema);
  const references = createReferences(session, schema);
  changes.subscribe((change) => {
    if (change === "all" || (typeof change === "object" && "table" in change)) references.clear();
  });
  const entities = createEntities(session, schema);
  const keys = createKeys(session, references, schema);
  const search = createSearch(session, schema, keys.rowsOf);
  const credits = createCredits(session, settings);

  // Less than a call may take: then it is known that nothing was changed.
  const lockMs = settings.timeout / 2;
  const outcomes = createOutcomes(session, schema, lockMs);
  const alerts = createAlertStore(session, schema, lockMs);
  const change = (call: string): Statement => writing(`${schema}.${call}`, lockMs);
  const write = change("write_v2($1, $2, $3, $4::text::bigint)");
  const writeOnce = change("write_v3($1, $2, $3, $4::text::bigint, $5)");
  // The APIs are locked against being deleted before the function looks at anything.
  const insert = writing(
    `(CASE WHEN EXISTS (SELECT 1 FROM held WHERE deleted) THEN '{"apiDeleted":true}' ELSE ${schema}.insert_keys_v1(
        $1, $2, $3::text, $4::text::bigint, CASE WHEN $5::text = 'many' THEN ARRAY['created'] END
      )::text END)`,
    lockMs,
    `WITH held AS MATERIALIZED (
        SELECT deleted FROM ${schema}.entities
        WHERE kind = 'apis' AND id IN (SELECT pg_catalog.jsonb_array_elements_text($6::text::jsonb)) ORDER BY id FOR SHARE
      )
      `,
  );
  const adopt = change("adopt_v1($1, $2::text::bigint, $3)");
  const recordUses = change("record_uses_v1($1)");
  const readSecret: Statement = { isRead: true, text: `SELECT idempotency_secret AS secret FROM ${schema}.meta` };

  let isOpen = false;
  let closing: Promise<void> | undefined;
  const pending = new Set<Promise<unknown>>();
  const assertOpen = (): void => {
    if (closing !== undefined) throw new KeystileError("STORE_CLOSED", "the store was closed; open it again to use it");
  };
  /** Opens the store at the first call, and remembers what `close` waits for. */
  const asking =
    <A extends unknown[], T>(work: (...given: A) => Promise<T>) =>
    (...given: A): Promise<T> => {
      assertOpen();
      const result = isOpen ? work(...given) : open().then(() => work(...given));
      pending.add(result);
      const forget = () => void pending.delete(result);
      result.then(forget, forget);
      return result;
    };
  const askingEach = <M extends object>(methods: M): M =>
    Object.fromEntries(
      Object.entries(methods).map(([name, work]: [string, (...given: unknown[]) => Promise<unknown>]) => [
        name,
        asking(work),
      ]),
    ) as M;
  const open = async (): Promise<void> => {
    await changes.open();
    isOpen = true;
  };
  /** Runs a statement that changes rows, and notifies of what it changed. */
  const changing = async (statement: Statement, rings: boolean, ...values: (string | null)[]): Promise<Written> => {
    try {
      const [row] = await session.run(statement, ...values);
      const written = JSON.parse(row?.["result"] as string) as Written;
      if (written.xid !== undefined) changes.made(written.changes ?? [], written.xid, rings);
      return written;
    } catch (error) {
      if (isOfUnknownOutcome(error)) changes.lost();
      throw error;
    }
  };
  const insertBatch = async (batch: readonly NewKey[], entry: AuditEntry | undefined): Promise<boolean[]> => {
    const rows = batch.map((key, i) => ({ i, ...encodeKeyRow(key) }));
    const isMany = batch.length > MAX_NOTIFIED_DIGESTS;
    const given = [JSON.stringify(rows), entry === undefined ? null : jsonForPeople(entry)] as const;
    const { inserted = [], apiDeleted } = await changing(
      insert,
      !isMany,
      durability,
      ...given,
      String(auditRows),
      isMany ? "many" : "few",
      JSON.stringify([...new Set(batch.map(({ row }) => row.apiId))]),
    );
    if (apiDeleted) throw new KeystileError("NOT_FOUND", "the API of a key to be stored does not exist");
    const done = new Set(inserted);
    return batch.map((_, i) => done.has(i));
  };

  const store: PostgresStore = {
    powers: Object.freeze({
      ...POWERS,
      // What a node that vanished had drawn is forfeited: whether it was spent is unknown.
      reserves: false,
      audit: auditRows > 0,
      changes: "polled",
      durability: durability === "process" ? "process" : "power",
    }),
    ...askingEach(credits),
    ...askingEach(outcomes),
    ...askingEach(alerts),
    findKey: asking(keys.findKey),
    findKeys: asking(keys.findKeys),
    findForeignKey: asking(keys.findForeignKey),
    findRootKey: asking(entities.findRootKey),
    findWallet: asking(keys.findWallet),
    adoptDigest: asking(async (ref, digest: string) => {
      if (typeof ref !== "number" || !isStorable(digest)) return false;
      return (await changing(adopt, false, durability, String(ref), digest)).outcome === "written";
    }),
    readSecret: asking(async () => {
      const [row] = await session.run(readSecret);
      return row?.["secret"] as string;
    }),
    recordUses: asking(async (uses: readonly KeyUse[]) => {
      const known = uses.filter(({ keyId }) => isStorable(keyId)).map(({ keyId, usedAt }) => [keyId, usedAt]);
      if (known.length > 0) await session.run(recordUses, JSON.stringify(known));
    }),
    readAudit: auditRows > 0 ? asking(createAuditReader(session, schema)) : withoutAudit.readAudit,

    readMany: asking((table: Table, ids: readonly string[]) =>
      table === "keys" ? keys.readMany(ids) : entities.readMany(table, ids),
    ) as Store["readMany"],
    readNames: asking(entities.readNames),
    list: asking((table: Table, query: Parameters<Store["list"]>[1]) =>
      table === "keys" ? keys.list(query) : entities.list(table, query),
    ) as Store["list"],
    searchKeys: asking(search.searchKeys),
    countKeys: asking(search.countKeys),
    findKeyIds: asking(keys.findKeyIds),
    insertKeys: asking(async (given: readonly NewKey[], entry?: AuditEntry) => {
      const batches: NewKey[][] = [];
      for (let start = 0; start < given.length; start += BATCH) batches.push(given.slice(start, start + BATCH));
      const results: boolean[][] = [];
      // In order, so that of two keys with one digest the first goes in, unless they are a batch apart and both in
      // flight.
      let next = 0;
      const work = async (): Promise<void> => {
        try {
          while (next < batches.length) {
            const i = next++;
            results[i] = await insertBatch(batches[i] as NewKey[], entry);
          }
        } finally {
          // After one that failed no other is sent.
          next = batches.length;
        }
      };
      const settled = await Promise.allSettled(Array.from({ length: entry === undefined ? IN_FLIGHT : 1 }, work));
      // Not before the others have settled: `close` waits for this call, and then nothing is in flight.
      const reasons = settled.flatMap((one) => (one.status === "rejected" ? [one.reason as unknown] : []));
      if (reasons.length > 0) throw reasons.find(isOfUnknownOutcome) ?? reasons[0];
      return results.flat();
    }),
    write: asking(async (writes: readonly Write[], entries: readonly AuditEntry[] = [], once?: WriteOnce) => {
      if (once !== undefined) assertRecord(once.record);
      const encoded = writes.map((one) =>
        one.table === "keys"
          ? "remove" in one
            ? { table: "keys", remove: one.remove, version: one.version }
            : { table: "keys", row: encodeKeyRow({ row: one.row }), credits: one.credits }
          : encodeEntityWrite(one),
      );
      const time = timeOfWrites(writes, entries, once);
      // The function reads the time in the entries; what is no entry is not kept.
      const isTimeAlone = entries.length === 0 && time !== undefined;
      const grantId = grantChangedBy(writes);
      const kept = entries.map((entry, i) => (i === 0 ? { ...entry, grantId } : entry));
      const given = [JSON.stringify(encoded), jsonForPeople(isTimeAlone ? [{ time }] : kept)] as const;
      const most = isTimeAlone ? "0" : String(auditRows);
      const { outcome, balances } = await (once === undefined
        ? changing(write, true, durability, ...given, most)
        : changing(writeOnce, true, durability, ...given, most, JSON.stringify(onceFields(once))));
      return balances ?? outcome;
    }),

    subscribe(listener) {
      assertOpen();
      return changes.subscribe(listener);
    },
    pollChanges(when) {
      assertOpen();
      return isOpen ? changes.poll(when) : asking(open)();
    },
    async setUp() {
      assertOpen();
      await session.run({ isRead: false, text: setUpScript(given.schema) });
    },
    async status() {
      assertOpen();
      return readStatus(session, schema, changes.state);
    },
    close() {
      closing ??= Promise.allSettled(pending).then(() => {
        session.close();
        return changes.close();
      });
      return closing;
    },
  };
  return trust(store);
}

const isOfUnknownOutcome = (error: unknown): boolean => isKeystileError(error) && error.outcomeUnknown === true;
