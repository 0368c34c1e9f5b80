/** Token buckets in a file: one set of limits for all processes of a host. Port: src/contracts/limiter.ts. */
import { KeystileError } from "../../../contracts/errors.js";
import { type Check, checkOptions, integer } from "../../../lib/check-options.js";
import { toStoreError } from "../connection/errors.js";
import { limitsPathOf, openLimits } from "./limits-file.js";
import { DEFAULT_SIZE, limiterSize, type SqliteLimiter, wireLimiter } from "./wire-limiter.js";

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

const DEFAULT_BUSY_TIMEOUT = 500;
const MIN_OPEN_WAIT = 2_000;

const OPTIONS = {
  size: limiterSize,
  busyTimeout: integer(0, 60_000),
} as const satisfies Record<keyof SqliteLimiterOptions, Check>;

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
    return wireLimiter(file, size, busyTimeout);
  } catch (cause) {
    file.close();
    throw toStoreError(cause);
  }
}
