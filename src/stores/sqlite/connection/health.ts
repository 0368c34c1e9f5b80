/** Health check: the file, the connection's settings, and what failed since the store was opened. Reads the disk. */
import { readSync, statSync } from "node:fs";
import { isKeystileError } from "../../../contracts/errors.js";
import type { StoreHealth } from "../../../contracts/health.js";
import type { SqliteStoreOptions } from "../options.js";
import { type CounterSet, sumOf } from "./counters.js";
import { withDescriptor } from "./descriptor.js";
import { isBusy, toStoreError } from "./errors.js";
import { readPragma } from "./handle.js";
import type { Connection } from "./connection.js";
import { SCHEMA_VERSION, schemaVersion } from "./schema.js";

/** Result of a health check. */
export interface SqliteHealth extends StoreHealth {
  /** `"wal"`; `"memory"` for a database in memory; `"unknown"`: the file could not be read. */
  readonly journalMode: string;
  readonly synchronous: "off" | "normal" | "full" | "extra";
  readonly schemaVersion: number;
}

/** SQLite's numbers for `synchronous`. */
const LEVELS = ["off", "normal", "full", "extra"] as const;
/** Bytes of a log that an import does not reach: a reader has kept it from being carried over. */
const LONG_LOG = 67_108_864;

type Settings = Pick<SqliteHealth, "journalMode" | "synchronous" | "schemaVersion">;

/** @returns a function that examines the database at the time of each call: about 50 µs */
export function createHealth(
  { handle, file }: Pick<Connection, "handle" | "file">,
  { durability }: Required<SqliteStoreOptions>,
  counters: CounterSet,
): () => SqliteHealth {
  const minLevel = durability === "power" ? 2 : 1;
  const countRounds = createRoundCounter(readLog(file.path).round);

  return () => {
    const problems: string[] = [];
    const warnings: string[] = [];
    try {
      file.assertSame();
      if (file.path !== "" && statSync(file.path).nlink > 1)
        problems.push("the database file has several names (hard links); opening it again will be refused");
    } catch (cause) {
      problems.push(isKeystileError(cause) ? cause.detail : "the database file cannot be examined");
    }
    const settings = tryToExamine(problems);
    const { failedInARow, ...counted } = sumOf(counters);
    if (failedInARow > 0)
      problems.push(`the last ${failedInARow} transactions failed on the disk; none has been committed since`);
    if (counters.threadFailure !== undefined)
      problems.push(`the writer thread does not write: ${counters.threadFailure}`);
    const { bytes, round } = readLog(file.path);
    if (bytes > LONG_LOG)
      warnings.push(
        `the log has ${bytes} bytes and grows: a reader that stays at an old state, in any process, keeps it from being ` +
          "begun anew; end that reader's transaction or its process",
      );
    return {
      ok: problems.length === 0,
      problems,
      warnings,
      ...settings,
      counters: { walBytes: bytes, checkpoints: countRounds(round), ...counted },
    };
  };

  function tryToExamine(problems: string[]): Settings {
    try {
      return examineSettings(problems);
    } catch (cause) {
      const error = toStoreError(cause);
      if (isBusy(cause) || !isKeystileError(error) || error.code === "STORE_CLOSED") throw cause;
      problems.push(error.detail);
      return { journalMode: "unknown", synchronous: "off", schemaVersion: 0 };
    }
  }

  function examineSettings(problems: string[]): Settings {
    const journalMode = String(readPragma(handle, "journal_mode"));
    if (journalMode !== "wal" && file.path !== "") problems.push(`the journal mode is ${journalMode}, not wal`);
    const level = Number(readPragma(handle, "synchronous"));
    const synchronous = LEVELS[level] ?? "off";
    if (level < minLevel) problems.push(`synchronous is ${synchronous}, too low for durability "${durability}"`);
    if (Number(readPragma(handle, "foreign_keys")) !== 1) problems.push("foreign_keys is off");
    const version = schemaVersion(handle);
    if (version !== SCHEMA_VERSION)
      problems.push(`the tables have version ${version}, this keystile knows ${SCHEMA_VERSION}`);
    return { journalMode, synchronous, schemaVersion: version };
  }
}

/** Where the header of the log has the number that grows by one whenever the log is begun anew, by any process. */
const ROUND_AT = 16;
/** A larger step is no number of rounds: the log was removed and made anew, with a number chosen at random. */
const MAX_STEP = 1_048_576;

/**
 * Counts rounds from the numbers in the header. Not from the sequence number beside them: each connection counts that
 * for itself, so that with several processes it goes back and forth.
 * @param first what the header says now; `undefined`: there is no log
 */
function createRoundCounter(first: number | undefined): (round: number | undefined) => number {
  let last = first;
  let counted = 0;
  return (round) => {
    if (round === undefined) return counted;
    // The number has 32 bits and starts at random, so that it may wrap around.
    const step = last === undefined ? 0 : (round - last) >>> 0;
    counted += step <= MAX_STEP ? step : 1;
    last = round;
    return counted;
  };
}

/** Size and round of the log beside a database. The log has no locks that opening it could drop. */
function readLog(path: string): { readonly bytes: number; readonly round: number | undefined } {
  const log = `${path}-wal`;
  const bytes = (path === "" ? undefined : statSync(log, { throwIfNoEntry: false }))?.size ?? 0;
  if (bytes < ROUND_AT + 4) return { bytes, round: undefined };
  const word = Buffer.alloc(4);
  try {
    const length = withDescriptor(log, "r", (file) => readSync(file, word, 0, 4, ROUND_AT));
    return { bytes, round: length === 4 ? word.readUInt32BE() : undefined };
  } catch {
    // It was removed meanwhile, or may not be read here.
    return { bytes, round: undefined };
  }
}
