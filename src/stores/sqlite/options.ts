/** Options of the SQLite store, judged once. Ruling D5, README "Promises". Knows nothing of SQLite. */

import { type Check, checkOptions, flag, integer, oneOf } from "../../lib/check-options.js";

/** How to use a database. */
export interface SqliteHandleOptions {
  /**
   * What an acknowledged change survives. `"power"` (default): kill, crash of the system and power cut, if the disk honours fsync.
   * `"process"`: kill and crash of the program; a power cut may forget what came after the last checkpoint, and never corrupts.
   */
  readonly durability?: "power" | "process";
  /**
   * When other processes' changes are asked for. `"turn"` (default): at the first call of a turn of the event loop, and again once
   * a millisecond has passed inside one. `"call"`: at every call. A number: at most every so many milliseconds, 1…3_600_000.
   */
  readonly staleness?: "turn" | "call" | number;
  /**
   * How long a call waits for locks of other processes, milliseconds, 0…60_000. Default 2_000. Then it fails with STORE_BUSY. Calls that
   * wait together wait no longer than one, and the event loop runs meanwhile. Opening waits as long, and blocks the thread.
   */
  readonly busyTimeout?: number;
}

/** How to open a database that is named by its path, and how to use it. */
export interface SqliteStoreOptions extends SqliteHandleOptions {
  /** Fail instead of making a new database where there is none. Default false. */
  readonly mustExist?: boolean;
  /**
   * Open for reading only: checks answer, whatever takes credits or changes keys fails with STORE_READ_ONLY. Default false.
   *
   * Where the folder may be written, SQLite still makes `-wal` and `-shm` beside the file if nobody has, and leaves them there. They
   * belong to this process's user: run it as the owner of the file, or the owner may be unable to write (STORE_READ_ONLY) until they are
   * removed while nobody has the file open. In a folder that may not be written the two must be there, as they are while another process
   * has the file open; otherwise opening fails with STORE_READ_ONLY, as it does for an empty file and for the tables of an older keystile.
   * A TypeError with `":memory:"`.
   */
  readonly readonly?: boolean;
  /**
   * Who writes. `"inline"` (default): the thread that uses the store, which waits for the disk at every commit. `"thread"`: a thread of
   * the store's own, for servers that must not wait; a spend alone then takes longer. A URL: the same with the program at this place,
   * a bundle of `keystile/sqlite-writer`, for programs that run without the package beside them.
   */
  readonly writer?: "inline" | "thread" | URL;
}

const MAX_STALENESS = 3_600_000;
const MAX_BUSY_TIMEOUT = 60_000;

const STORE_OPTIONS = {
  durability: oneOf("power", "process"),
  staleness(value, path) {
    if (typeof value === "number") integer(1, MAX_STALENESS)(value, path);
    else if (value !== "turn" && value !== "call")
      throw new TypeError(`${path} must be one of: turn, call, or milliseconds`);
  },
  busyTimeout: integer(0, MAX_BUSY_TIMEOUT),
  mustExist: flag,
  readonly: flag,
  writer(value, path) {
    if (value !== "inline" && value !== "thread" && !(value instanceof URL))
      throw new TypeError(`${path} must be one of: inline, thread, or a URL`);
  },
} as const satisfies Record<keyof SqliteStoreOptions, Check>;

const forPaths: Check = (_, path) => {
  throw new TypeError(`${path} is for paths; the handle was opened by its owner`);
};
const HANDLE_OPTIONS = { ...STORE_OPTIONS, mustExist: forPaths, readonly: forPaths, writer: forPaths };

/**
 * Fills in the defaults.
 * @param isPath whether the store opens the file itself: some options make sense then only
 * @throws TypeError or RangeError that names the option
 */
export function readOptions(options: SqliteStoreOptions, isPath: boolean): Required<SqliteStoreOptions> {
  checkOptions(options, isPath ? STORE_OPTIONS : HANDLE_OPTIONS);
  const {
    durability = "power",
    staleness = "turn",
    mustExist = false,
    readonly = false,
    busyTimeout = 2_000,
    writer = "inline",
  } = options;
  return { durability, staleness, mustExist, readonly, busyTimeout, writer };
}
