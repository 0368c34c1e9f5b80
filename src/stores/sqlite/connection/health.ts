/** Health check: whether the file is still the one that was opened, with the same settings. Reads the disk. */
import { statSync } from "node:fs";
import type { SqliteStoreOptions } from "../options.js";
import { toStoreError } from "./errors.js";
import { readPragma, select, type Handle } from "./handle.js";
import { SCHEMA_VERSION, schemaVersion } from "./schema.js";

/** Result of a health check. */
export interface SqliteHealth {
  /** No problem was found. */
  readonly ok: boolean;
  /** What is wrong, a sentence each. */
  readonly problems: readonly string[];
  /** `"wal"`, or `"memory"` for a database in memory. */
  readonly journalMode: string;
  readonly synchronous: "off" | "normal" | "full" | "extra";
  readonly schemaVersion: number;
}

/** Options of `health`. */
export interface HealthOptions {
  /** Also let SQLite check the whole file: seconds for a million keys, and it blocks the event loop. Default false. */
  readonly quickCheck?: boolean;
}

/** SQLite's numbers for `synchronous`. */
const LEVELS = ["off", "normal", "full", "extra"] as const;

/** @returns a function that examines the database at the time of each call */
export function createHealth(
  handle: Handle,
  { durability }: Required<SqliteStoreOptions>,
): (options?: HealthOptions) => SqliteHealth {
  const main = select<{ file: string | null }>(
    handle,
    "SELECT file FROM pragma_database_list WHERE name = 'main'",
  ).get();
  const path = main?.file ?? "";
  const opened = identify(path);
  const minLevel = durability === "power" ? 2 : 1;

  return ({ quickCheck = false } = {}) => {
    const problems: string[] = [];
    const now = identify(path);
    if (now === undefined) problems.push("the database file was deleted while it is in use");
    else if (now !== opened) problems.push("the database file was replaced while it is in use");

    const journalMode = String(readPragma(handle, "journal_mode"));
    if (journalMode !== "wal" && path !== "") problems.push(`the journal mode is ${journalMode}, not wal`);
    const level = Number(readPragma(handle, "synchronous"));
    const synchronous = LEVELS[level] ?? "off";
    if (level < minLevel) problems.push(`synchronous is ${synchronous}, too low for durability "${durability}"`);
    if (Number(readPragma(handle, "foreign_keys")) !== 1) problems.push("foreign_keys is off");
    const version = schemaVersion(handle);
    if (version !== SCHEMA_VERSION)
      problems.push(`the tables have version ${version}, this keystile knows ${SCHEMA_VERSION}`);
    if (quickCheck) problems.push(...findDamage(handle));
    return { ok: problems.length === 0, problems, journalMode, synchronous, schemaVersion: version };
  };
}

/** Identity (device and inode) of the file at a path; `undefined`: there is none. Constant for a database in memory. */
function identify(path: string): string | undefined {
  if (path === "") return "";
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stat && `${stat.dev} ${stat.ino}`;
}

function findDamage(handle: Handle): string[] {
  try {
    const found = select<Record<string, string>>(handle, "PRAGMA quick_check(10)").all();
    const texts = found.flatMap((row) => Object.values(row));
    return texts.length === 1 && texts[0] === "ok" ? [] : texts.map((text) => `damaged: ${text}`);
  } catch (cause) {
    return [`damaged: ${toStoreError(cause).message}`];
  }
}
