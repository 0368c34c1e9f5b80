/** Options of the SQLite store: defaults and validation. */

import { type Check, checkOptions, flag, group, integer, oneOf, ownOnly } from "../../lib/check-options.js";

/** How the store keeps the audit trail. */
export interface SqliteAuditOptions {
  /**
   * Most entries in the table `keystile_audit`, some 300 bytes each, 0…10_000_000, default 100_000. Beyond it the
   * workspaces that have more than an equal part lose their oldest, up to a hundred at a time, and up to 1,000 after
   * this was lowered. 0: changes are not recorded. Of processes
   * with different numbers, the smallest counts.
   */
  readonly rows?: number | undefined;
}

/** Options that apply to a path and to an open handle. */
export interface SqliteHandleOptions {
  /**
   * What an acknowledged change survives. `"power"` (default): a killed process, a system crash and a power cut, if the
   * disk honours fsync. `"process"`: a killed or crashed process; a power cut may lose changes since the last
   * checkpoint, but never corrupts the file.
   */
  readonly durability?: "power" | "process";
  /**
   * When to poll the file for changes of other processes. `"turn"` (default): at the first call in each turn of the
   * event loop, and again inside a turn after one millisecond. `"call"`: at every call. A number: milliseconds between
   * polls, 1…3_600_000.
   */
  readonly staleness?: "turn" | "call" | number;
  /**
   * How long a call waits for locks of other processes, in milliseconds, 0…60_000, before it fails with STORE_BUSY.
   * Default 2_000. Concurrent calls wait in parallel, and the event loop keeps running. Opening waits as long, but
   * blocks the thread.
   */
  readonly busyTimeout?: number;
  /** The audit trail: who changed what, written in one transaction with the change. */
  readonly audit?: SqliteAuditOptions;
}

/** Options for a path, which the store opens itself. */
export interface SqliteStoreOptions extends SqliteHandleOptions {
  /** Fail with STORE_FAILED instead of creating a database if there is none. Default false. */
  readonly mustExist?: boolean;
  /**
   * Open for reading only: keys are verified, but whatever takes credits or changes keys fails with STORE_READ_ONLY.
   * Default false. A TypeError with `":memory:"`.
   *
   * In a writable folder, SQLite still creates `-wal` and `-shm` beside the file if they do not exist, and leaves them
   * there. They belong to this process's user: run it as the owner of the file, or the owner may be unable to write
   * (STORE_READ_ONLY) until they are removed while no process has the file open. In a read-only folder the two must
   * exist, as they do while another process has the file open; otherwise opening fails with STORE_READ_ONLY. It also
   * fails so for an empty file and for tables of an older keystile.
   */
  readonly readonly?: boolean;
  /**
   * Which thread writes. `"inline"` (default): the thread that uses the store, which blocks on the disk at every
   * commit. `"thread"`: a worker thread, for servers that must not block; a single spend then takes longer. A URL: a
   * worker thread running the script at this URL, a bundle of `keystile/sqlite-writer`, for programs deployed without
   * the package.
   */
  readonly writer?: "inline" | "thread" | URL;
}

const MAX_STALENESS = 3_600_000;
const MAX_BUSY_TIMEOUT = 60_000;
/** Entries that a table may keep at most. */
export const MAX_AUDIT_ROWS = 10_000_000;
/** Entries that it keeps unless an option says otherwise. */
export const DEFAULT_AUDIT_ROWS = 100_000;

const STORE_OPTIONS = {
  durability: oneOf("power", "process"),
  staleness(value, path) {
    if (typeof value === "number") integer(1, MAX_STALENESS)(value, path);
    else if (value !== "turn" && value !== "call")
      throw new TypeError(`${path} must be one of: turn, call, or milliseconds`);
  },
  busyTimeout: integer(0, MAX_BUSY_TIMEOUT),
  audit: group({ rows: integer(0, MAX_AUDIT_ROWS) } satisfies Record<keyof SqliteAuditOptions, Check>),
  mustExist: flag,
  readonly: flag,
  writer(value, path) {
    if (value !== "inline" && value !== "thread" && !(value instanceof URL))
      throw new TypeError(`${path} must be one of: inline, thread, or a URL`);
  },
} as const satisfies Record<keyof SqliteStoreOptions, Check>;

const forPaths: Check = (_, path) => {
  throw new TypeError(`${path} is for paths only; this handle was opened by its owner`);
};
const HANDLE_OPTIONS = { ...STORE_OPTIONS, mustExist: forPaths, readonly: forPaths, writer: forPaths };

/** All options, with defaults. */
export type SqliteSettings = Required<SqliteStoreOptions> & { readonly audit: { readonly rows: number } };

/**
 * Fills in the defaults.
 * @param isPath whether the store opens the file itself: some options are allowed only then
 * @throws TypeError or RangeError that names the option
 */
export function readOptions(options: SqliteStoreOptions, isPath: boolean): SqliteSettings {
  checkOptions(options, isPath ? STORE_OPTIONS : HANDLE_OPTIONS);
  const {
    durability = "power",
    staleness = "turn",
    mustExist = false,
    readonly = false,
    busyTimeout = 2_000,
    writer = "inline",
    audit = {},
  } = options;
  const { rows = DEFAULT_AUDIT_ROWS } = ownOnly(audit);
  return { audit: { rows }, durability, staleness, mustExist, readonly, busyTimeout, writer };
}
