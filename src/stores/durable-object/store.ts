/** Keys in the SQLite of a Durable Object, through the tables of the SQLite store. */
import type { Store } from "../../contracts/store.js";
import { type Check, checkOptions, group, integer } from "../../lib/check-options.js";
import { trust } from "../../lib/guards/trusted.js";
import { createCounters } from "../sqlite/connection/counters.js";
import { toStoreError } from "../sqlite/connection/errors.js";
import { prepareSchema } from "../sqlite/connection/schema.js";
import { DEFAULT_AUDIT_ROWS, MAX_AUDIT_ROWS, type SqliteAuditOptions } from "../sqlite/options.js";
import { wireTables } from "../sqlite/wire.js";
import { assertHasSql, type ObjectStorage, openStorage } from "./connection.js";

/** Options of {@link durableObjectStore}. */
export interface ObjectStoreOptions {
  /** The audit trail: who changed what, written in one transaction with the change. */
  readonly audit?: SqliteAuditOptions;
}

const OPTIONS = { audit: group({ rows: integer(0, MAX_AUDIT_ROWS) }) } as const satisfies Record<
  keyof ObjectStoreOptions,
  Check
>;

/** Under which a storage has its store: two would keep the same balances in memory, each without the other's spends. */
const STORE = Symbol.for("keystile.durableObjectStore");

/**
 * A store in the SQLite of a Durable Object: credits are exact, and everything else is as in `sqliteStore`, without
 * files, other processes and backups of its own. What was acknowledged is durable, since the platform holds responses
 * back until what was written before them is.
 *
 * Its tables have names that begin with `keystile_`; the object may have others beside them. Nothing but the store may
 * write to them while it is open.
 * @param storage `ctx.storage` of an object whose class is among `new_sqlite_classes`. A second call with it returns
 * the same store
 * @throws TypeError or RangeError naming an option, or for a storage without SQLite; KeystileError STORE_SCHEMA_NEWER,
 * STORE_INVALID, STORE_FULL, STORE_FAILED
 * @example
 * class Keys extends DurableObject {
 *   verifier = createVerifier(durableObjectStore(this.ctx.storage));
 * }
 */
export function durableObjectStore(storage: ObjectStorage, options: ObjectStoreOptions = {}): Store {
  const { audit } = checkOptions(options, OPTIONS);
  return ((storage as KeptStorage)[STORE] ??= openStore(storage, audit?.rows ?? DEFAULT_AUDIT_ROWS));
}

interface KeptStorage extends ObjectStorage {
  [STORE]?: Store | undefined;
}

function openStore(storage: KeptStorage, rows: number): Store {
  const settings = { audit: { rows }, staleness: "turn", busyTimeout: 0, readonly: false } as const;
  const close = (): void => void (storage[STORE] = undefined);
  assertHasSql(storage);
  try {
    const connection = openStorage(storage);
    prepareSchema(connection.handle, connection.transact);
    return trust(wireTables({ ...connection, close }, settings, createCounters()).store);
  } catch (cause) {
    throw toStoreError(cause);
  }
}
