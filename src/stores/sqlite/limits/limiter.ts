/** Token buckets in a file: one set of limits for all processes of a host. Port: src/contracts/limiter.ts. */
import { KeystileError } from "../../../contracts/errors.js";
import type { LimitCheck, Limiter, LimiterCounters, LimitVerdict } from "../../../contracts/limiter.js";
import type { MaybePromise } from "../../../contracts/types.js";
import { type Check, checkOptions, integer } from "../../../lib/check-options.js";
import { keyedHashHex } from "../../../lib/hash.js";
import { assertCheck } from "../../../ratelimit/assert-check.js";
import { countFailures, createCounters } from "../connection/counters.js";
import { toCommitError, toStoreError } from "../connection/errors.js";
import { createGrouping, type Member } from "../connection/grouping.js";
import { type Handle, select } from "../connection/handle.js";
import { createLockQueue } from "../connection/lock-queue.js";
import { limitsPathOf, openLimits } from "./limits-file.js";
import { type BucketCheck, createLimitsSession } from "./limits-session.js";

/** Options of {@link sqliteLimiter}. */
export interface SqliteLimiterOptions {
  /**
   * Most buckets in the file, 1…10_000_000, default 1_000_000. A bucket takes some 55 bytes of the file, and up to 160
   * with overrides. Buckets of ad hoc limits may use half of them. Give all processes the same number.
   */
  readonly size?: number;
  /**
   * How long a call waits for locks of other processes, in milliseconds, 0…60_000, before it fails with STORE_BUSY.
   * Default 500: less than the `limiterTimeout` of verifiers. Opening waits as long, and at least 2_000, and blocks the
   * thread.
   */
  readonly busyTimeout?: number;
}

const DEFAULT_SIZE = 1_000_000;
const DEFAULT_BUSY_TIMEOUT = 500;
/** Calls per transaction: with new buckets for all, 12 ms. */
const MAX_GROUP_SIZE = 256;
const MIN_OPEN_WAIT = 2_000;
/** UTF-16 units of the name of a bucket. */
const MAX_NAME_LENGTH = 2_048;
/** Hexadecimal digits of 52 bits. */
const ID_DIGITS = 13;

const OPTIONS = {
  size: integer(1, 10_000_000),
  busyTimeout: integer(0, 60_000),
} as const satisfies Record<keyof SqliteLimiterOptions, Check>;

/** Counts since the limiter was opened, of this process alone. */
export interface SqliteLimiterCounters extends LimiterCounters {
  /** Times that a call found the file locked and had to wait; a group of calls counts once. */
  readonly lockWaits: number;
  /** Milliseconds for which the file was found locked. */
  readonly lockWaitMs: number;
  /** Calls that failed with STORE_BUSY. */
  readonly busyErrors: number;
  /** Transactions that failed on the disk. */
  readonly failedWrites: number;
}

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

/** A call that waits for its transaction. */
interface Task extends Member {
  readonly checks: readonly BucketCheck[];
  readonly now: number;
  verdicts: readonly LimitVerdict[];
}

/**
 * Token buckets in a file beside the store's, exact over all processes of the host that use it, whatever is killed and
 * started again: the same arithmetic as `memoryLimiter`, one transaction for the calls of a turn. The file is named
 * after the store's, with `-limits` at its end, is made if there is none, and is readable and writable by its owner
 * only. `backup` of the store does not copy it: whoever goes on without it starts with full buckets.
 *
 * Durability: a take survives the end of its process at once. A power cut or a crash of the system may forget those of
 * the last moments, at most those since the log was last carried over (every 1,000 changed pages); it never damages the
 * file, and the store's credits have no part in it.
 *
 * Time is the latest `now` that any process passed, kept in the file: a clock that steps back counts as one that stands
 * still. After one that was ahead, no bucket refills until the clock has caught up or the file was removed;
 * `keystile doctor` tells.
 *
 * Its space is bounded by `size`. Full buckets are dropped as calls come in. At the bound buckets give way as in the
 * memory limiter: workspaces have equal shares, and one that refuses goes only for a workspace below its share.
 *
 * If the file is locked for longer than `busyTimeout`, or fails, calls reject, and verifiers do as `onLimiterFailure`
 * says.
 * @param store of `sqliteStore`, in a file. It need not stay open, and may be closed before or after the limiter
 * @throws TypeError or RangeError naming an option; KeystileError STORE_POWER_MISSING: the store is in memory;
 * DRIVER_MISSING, DRIVER_UNSUPPORTED: the limiter opens its file as a store opens a path, even where the store has a
 * handle; STORE_INVALID, STORE_FILE_LINKED, STORE_READ_ONLY, STORE_BUSY, STORE_FULL, STORE_FAILED,
 * STORE_SCHEMA_NEWER: its file cannot be used
 * @see docs/rate-limits.md for what it costs: many times a token of the memory limiter
 * @example
 * const limiter = sqliteLimiter(store);
 * const verifier = createVerifier(store, { limiter });
 */
export function sqliteLimiter(store: { readonly path: string }, options: SqliteLimiterOptions = {}): SqliteLimiter {
  const { size = DEFAULT_SIZE, busyTimeout = DEFAULT_BUSY_TIMEOUT } = checkOptions(options, OPTIONS);
  if (typeof (store as { path?: unknown } | undefined)?.path !== "string")
    throw new TypeError("store must be one of sqliteStore()");
  if (store.path === "")
    throw new KeystileError(
      "STORE_POWER_MISSING",
      "a store in memory has no file beside which limits could be kept; use memoryLimiter()",
    );
  const file = openLimits(limitsPathOf(store.path), Math.max(busyTimeout, MIN_OPEN_WAIT));
  try {
    return wire(file, size, busyTimeout);
  } catch (cause) {
    file.close();
    throw toStoreError(cause);
  }
}

function wire(file: ReturnType<typeof openLimits>, size: number, busyTimeout: number): SqliteLimiter {
  const { handle, watch } = file;
  const idOf = createIds(handle);
  const session = createLimitsSession(handle, size);
  const { own: counters } = createCounters();
  const locked = createLockQueue(file.probe, counters);
  const transact = countFailures(counters, file.transact<true>);
  let isClosed = false;
  let closing: Promise<void> | undefined;

  /** @throws the driver's error, or KeystileError STORE_FILE_CHANGED */
  const run = (tasks: readonly Task[]): void => {
    watch.assertRecent();
    try {
      transact(() => {
        session.begin();
        for (const task of tasks) task.verdicts = session.take(task.checks, task.now);
        session.save();
        return true;
      }, session.forget);
    } catch (cause) {
      throw toCommitError(cause, watch.isFull);
    }
    session.committed();
  };
  const commit = (group: readonly Task[]): void => {
    run(group);
    for (const { verdicts, resolve } of group) resolve(verdicts as never);
  };
  const grouping = createGrouping({ commit, onFailed: session.forget, locked, busyTimeout, maxSize: MAX_GROUP_SIZE });

  return {
    take(given, now) {
      if (isClosed) throw new KeystileError("LIMITER_UNAVAILABLE", "The limiter is closed.");
      if (!(Math.abs(now) <= Number.MAX_SAFE_INTEGER))
        throw new RangeError("now must be a finite number of milliseconds");
      given.forEach(assertCheck);
      const checks = given.map((check): BucketCheck => ({ ...check, id: idOf(check.bucket) }));
      return new Promise<readonly LimitVerdict[]>((resolve, reject) =>
        grouping.add({ checks, now, verdicts: [], resolve, reject, deadline: 0 }),
      );
    },
    size: session.size,
    counters() {
      const { lockWaits, lockWaitMs, busyErrors, failedWrites } = counters;
      return { ...session.counters(), lockWaits, lockWaitMs, busyErrors, failedWrites };
    },
    close() {
      if (isClosed) return closing;
      isClosed = true;
      const drained = grouping.drain();
      if (drained === undefined) file.close();
      closing = drained?.then(file.close);
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
