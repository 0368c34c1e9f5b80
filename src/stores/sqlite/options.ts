/** Options of the SQLite store, judged once. Ruling D5, goals.md "Promises". Knows nothing of SQLite. */

/** How to open and use a database. */
export interface SqliteStoreOptions {
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
  /** Fail instead of making a new database where there is none. Default false. Paths only. */
  readonly mustExist?: boolean;
  /** Open for reading only: checks answer, whatever takes credits or changes keys fails with STORE_READ_ONLY. Default false. Paths only. */
  readonly readonly?: boolean;
  /** Total wait for other processes' locks, milliseconds, 0…60_000. Default 2_000. The event loop runs meanwhile. */
  readonly busyTimeout?: number;
  /**
   * Who writes. `"inline"` (default): the thread that uses the store, which waits for the disk at every commit. `"thread"`: a thread of
   * the store's own, for servers that must not wait; a spend alone then takes longer. A URL: the same with the program at this place,
   * a bundle of `keystile/sqlite-writer`, for programs that run without the package beside them. Paths only.
   */
  readonly writer?: "inline" | "thread" | URL;
}

const MAX_STALENESS = 3_600_000;
const MAX_BUSY_TIMEOUT = 60_000;

type Judge = (value: unknown) => string | undefined;

const isIn = (min: number, max: number, value: unknown) =>
  Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max;
const isBoolean: Judge = (value) => (typeof value === "boolean" ? undefined : "true or false");

/** What is wrong with a value: what it must be, or nothing. */
const JUDGES: Readonly<Record<keyof SqliteStoreOptions, Judge>> = {
  durability: (value) => (value === "power" || value === "process" ? undefined : '"power" or "process"'),
  staleness: (value) =>
    value === "turn" || value === "call" || isIn(1, MAX_STALENESS, value)
      ? undefined
      : `"turn", "call" or an integer from 1 to ${MAX_STALENESS} (milliseconds)`,
  mustExist: isBoolean,
  readonly: isBoolean,
  writer: (value) => (value === "inline" || value === "thread" || value instanceof URL ? undefined : '"inline", "thread" or a URL'),
  busyTimeout: (value) => (isIn(0, MAX_BUSY_TIMEOUT, value) ? undefined : `an integer from 0 to ${MAX_BUSY_TIMEOUT} (milliseconds)`),
};
const PATHS_ONLY = ["mustExist", "readonly", "writer"];

/**
 * Fills in the defaults.
 * @param isPath whether the store opens the file itself: some options make sense then only
 * @throws TypeError that names the option: unknown, of a wrong type or out of range
 */
export function readOptions(options: SqliteStoreOptions, isPath: boolean): Required<SqliteStoreOptions> {
  if (typeof options !== "object" || options === null) throw new TypeError("options must be an object");
  for (const [name, value] of Object.entries(options)) {
    const judge = Object.hasOwn(JUDGES, name) ? JUDGES[name as keyof SqliteStoreOptions] : undefined;
    if (judge === undefined) throw new TypeError(`options.${name} is not an option; there are: ${Object.keys(JUDGES).join(", ")}`);
    if (value === undefined) continue;
    const wanted = judge(value);
    if (wanted !== undefined) throw new TypeError(`options.${name} must be ${wanted}`);
    if (!isPath && PATHS_ONLY.includes(name)) throw new TypeError(`options.${name} is for paths; the handle was opened by its owner`);
  }
  const { durability = "power", staleness = "turn", mustExist = false, readonly = false, busyTimeout = 2_000, writer = "inline" } = options;
  return { durability, staleness, mustExist, readonly, busyTimeout, writer };
}
