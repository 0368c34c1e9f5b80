/** The PostgreSQL store: any number of nodes on one database. Wires the modules beside it. */
import { KeystileError } from "../../contracts/errors.js";
import type { KeyUse, Store, Table } from "../../contracts/store.js";
import { withoutAudit } from "../../lib/guards/powers.js";
import { trust } from "../../lib/guards/trusted.js";
import { POWERS } from "../powers.js";
import { createAlertStore } from "./alerts.js";
import { Changes } from "./changes.js";
import { createSession, type PostgresClient, type Statement, writing } from "./client.js";
import { createAuditReader } from "./audit.js";
import { createCredits } from "./credits.js";
import { createEntities } from "./entities.js";
import { createKeys } from "./keys.js";
import { type PostgresStoreOptions, readOptions } from "./options.js";
import { createOutcomes } from "./outcomes.js";
import { createReferences } from "./references.js";
import { quoted, setUpScript } from "./schema.js";
import { createSearch } from "./search.js";
import { readStatus, type PostgresStatus } from "./status.js";
import { isStorable } from "./texts.js";
import { createWrites } from "./writes.js";

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
  // Less than a call may take: then it is known that nothing was changed.
  const settings = { ...given, schema: quoted(given.schema), lockMs: given.timeout / 2 };
  const { schema, durability, auditRows, lockMs } = settings;
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
  const writes = createWrites(session, changes, settings);
  const outcomes = createOutcomes(session, schema, lockMs);
  const alerts = createAlertStore(session, schema, lockMs);
  const recordUses = writing(`${schema}.record_uses_v1($1)`, lockMs);
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
    ...askingEach(writes),
    ...askingEach(keys.finding),
    findRootKey: asking(entities.findRootKey),
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
