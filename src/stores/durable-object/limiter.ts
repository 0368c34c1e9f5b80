/** Token buckets in the SQLite of a Durable Object, through the tables of the SQLite limiter. */
import { type Check, checkOptions } from "../../lib/check-options.js";
import { toStoreError } from "../sqlite/connection/errors.js";
import { makeTables } from "../sqlite/limits/limits-tables.js";
import { DEFAULT_SIZE, limiterSize, type SqliteLimiter, wireLimiter } from "../sqlite/limits/wire-limiter.js";
import { assertHasSql, type ObjectStorage, openStorage } from "./connection.js";

/** Options of {@link durableObjectLimiter}. */
export interface ObjectLimiterOptions {
  /** Most buckets, 1…10_000_000, default 1_000_000; some 55 bytes each. */
  readonly size?: number;
}

const OPTIONS = { size: limiterSize } as const satisfies Record<keyof ObjectLimiterOptions, Check>;

/**
 * Token buckets in the storage of a Durable Object: they outlive the object's eviction, which empties the memory of
 * `memoryLimiter` after some seconds without calls. A call that takes tokens writes two rows or three.
 * @param storage as for `durableObjectStore`; one limiter for each
 * @throws TypeError or RangeError naming an option; KeystileError STORE_SCHEMA_NEWER, STORE_INVALID, STORE_FULL,
 * STORE_FAILED
 * @example
 * const verifier = createVerifier(durableObjectStore(storage), { limiter: durableObjectLimiter(storage) });
 */
export function durableObjectLimiter(storage: ObjectStorage, options: ObjectLimiterOptions = {}): SqliteLimiter {
  const { size = DEFAULT_SIZE } = checkOptions(options, OPTIONS);
  assertHasSql(storage);
  try {
    const connection = openStorage(storage);
    connection.transact(() => (makeTables(connection.handle), true));
    return wireLimiter({ ...connection, close: () => undefined }, size, 0);
  } catch (cause) {
    throw toStoreError(cause);
  }
}
