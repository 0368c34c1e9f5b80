/** Token buckets in tables, on any connection. Needs no Node module. */
import { KeystileError } from "../../../contracts/errors.js";
import type { StoreCounters } from "../../../contracts/health.js";
import type { LimitCheck, Limiter, LimiterCounters, LimitVerdict } from "../../../contracts/limiter.js";
import type { MaybePromise } from "../../../contracts/types.js";
import { integer } from "../../../lib/check-options.js";
import { keyedHashHex } from "../../../lib/sha256.js";
import { assertCheck } from "../../../ratelimit/memory/bucket.js";
import type { Connection, Transact } from "../connection/connection.js";
import { createCounters } from "../connection/counters.js";
import { createGroupCommit } from "../connection/group-commit.js";
import { type Handle, select } from "../connection/handle.js";
import { createLockQueue } from "../connection/lock-queue.js";
import { guardCommits } from "../connection/transaction.js";
import { type BucketCheck, createLimitsSession } from "./limits-session.js";

/** The check of how many buckets there may be. */
export const limiterSize = integer(1, 10_000_000);
/** How many, unless an option says otherwise. */
export const DEFAULT_SIZE = 1_000_000;
/** Calls per transaction: with new buckets for all, 12 ms. */
const MAX_GROUP_SIZE = 256;
/** UTF-16 units of the name of a bucket. */
const MAX_NAME_LENGTH = 2_048;
/** Hexadecimal digits of 52 bits. */
const ID_DIGITS = 13;

/** Counts since the limiter was opened, of this process alone. */
export interface SqliteLimiterCounters
  extends LimiterCounters, Pick<StoreCounters, "lockWaits" | "lockWaitMs" | "busyErrors" | "failedWrites"> {}

/** A {@link Limiter} whose buckets are in a file. */
export interface SqliteLimiter extends Limiter {
  /**
   * Takes tokens according to limiter clauses 1–9. Calls of one turn of the event loop share a transaction; each
   * resolves once it is committed.
   * @throws RangeError if a number of a check is not an integer from 0 to 2^53 − 1, a name is not a well-formed text of
   *   at most 2,048 UTF-16 units, or `now` is not a number of milliseconds; KeystileError LIMITER_UNAVAILABLE after
   *   `close`
   * @throws (rejects with) KeystileError STORE_BUSY, STORE_FULL, STORE_FAILED, STORE_INVALID, STORE_READ_ONLY,
   *   STORE_FILE_CHANGED, STORE_SCHEMA_NEWER: nothing was taken, unless a commit failed on the disk, which may have
   *   written it
   */
  take(checks: readonly LimitCheck[], now: number): Promise<readonly LimitVerdict[]>;
  /** Buckets in the file, as of this process's last call. */
  size(): number;
  counters(): SqliteLimiterCounters;
  /** Settles what is pending and closes the file; `take` fails from then on. A second call returns the same. */
  close(): MaybePromise<void>;
}

/** What a limiter in tables runs on. `close` is called once, when no call is pending. */
export type LimitsConnection = Pick<Connection, "handle" | "file" | "transact" | "probe" | "dataVersion" | "close">;

/**
 * @param connection with the tables in place
 * @param size most buckets
 * @param busyTimeout milliseconds for which a call waits for locks
 */
export function wireLimiter(connection: LimitsConnection, size: number, busyTimeout: number): SqliteLimiter {
  const { handle, file } = connection;
  const idOf = createIds(handle);
  const session = createLimitsSession(connection, size);
  const { own: counters } = createCounters();
  let isClosed = false;
  let closing: Promise<void> | undefined;
  const group = createGroupCommit({
    transact: guardCommits(file, counters)(connection.transact<unknown>) as Transact,
    session,
    locked: createLockQueue(connection.probe, counters),
    assertOpen() {
      if (isClosed) throw new KeystileError("LIMITER_UNAVAILABLE", "The limiter is closed.");
    },
    busyTimeout,
    maxSize: MAX_GROUP_SIZE,
  });

  return {
    take(given, now) {
      if (!(Math.abs(now) <= Number.MAX_SAFE_INTEGER))
        throw new RangeError("now must be a finite number of milliseconds");
      given.forEach(assertCheck);
      const checks = given.map((check): BucketCheck => ({ ...check, id: idOf(check.bucket) }));
      return group.add(() => session.take(checks, now));
    },
    size: session.size,
    counters() {
      const { lockWaits, lockWaitMs, busyErrors, failedWrites } = counters;
      return { ...session.counters(), lockWaits, lockWaitMs, busyErrors, failedWrites };
    },
    close() {
      if (isClosed) return closing;
      isClosed = true;
      const drained = group.drain();
      if (drained === undefined) connection.close();
      closing = drained?.then(connection.close);
      return closing;
    },
  };
}

/**
 * Ids of buckets: a hash of the name, keyed by a secret of the file. Two names share one, and so a bucket, with
 * probability 2^-52, and nobody who lacks the file can choose two that do.
 */
function createIds(handle: Handle): (name: string) => number {
  const found = select<{ secret: string }>(handle, "SELECT lower(hex(secret)) AS secret FROM keystile_limits").get();
  if (found === undefined) throw new KeystileError("STORE_INVALID", "the file of the rate limits lost its tables");
  const hashHex = keyedHashHex(found.secret);
  return (name) => {
    if (typeof name !== "string" || name.length > MAX_NAME_LENGTH || !name.isWellFormed())
      throw new RangeError(`bucket must be a well-formed text of at most ${MAX_NAME_LENGTH} UTF-16 units`);
    return Number.parseInt(hashHex(name).slice(0, ID_DIGITS), 16);
  };
}
