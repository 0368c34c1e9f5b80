/** The checks of `keystile doctor`. None of them writes. */
import { existsSync, type Stats, statSync, realpathSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { isKeystileError } from "../../contracts/errors.js";
import { type ClosableHandle, type Driver, loadDriver, openFile } from "../../stores/sqlite/connection/driver.js";
import { hasForeignLog } from "../../stores/sqlite/connection/foreign-log.js";
import { type Handle, readPragma, select } from "../../stores/sqlite/connection/handle.js";
import { reconcile } from "../../stores/sqlite/credits/reconcile.js";
import { FIRST_VERSION, SCHEMA_VERSION, schemaVersion } from "../../stores/sqlite/connection/schema.js";
import { count } from "../io/text.js";
import { CLOCK_TOLERANCE, codeOf, type ExamineOptions, fail, type Finding, ok, toFindings, warn } from "./finding.js";
import { limitsPathOf } from "../../stores/sqlite/limits/limits-file.js";
import { hasTables, LIMITS_VERSION } from "../../stores/sqlite/limits/limits-tables.js";

const MIN_NODE_MAJOR = 20;
/** 2024-01-01: an earlier clock was never set. */
const MIN_CLOCK_MS = 1_704_067_200_000;
const HEADER_BYTES = 100;
/** Bytes: a WAL this large was not checkpointed for a long time. */
const LARGE_LOG = 1_073_741_824;

/** @param now Unix milliseconds */
export async function examine(db: string, now: number, options: ExamineOptions = {}): Promise<Finding[]> {
  const node = examineNode();
  const stat = statOf(db);
  if (stat?.isFile() !== true) return [node, examineFile(db, stat), ...examineClock(now, [])];
  const disk = await examineDisk(db);
  // Before the file is opened, which makes a -wal if there is none.
  const file = examineFile(db, stat);
  const driver = examineDriver();
  const opened = driver.open?.(db);
  const findings = [node, opened !== undefined && "level" in opened ? opened : file, disk, driver.finding];
  if (opened === undefined || "level" in opened) return [...findings, ...examineClock(now, [stat.mtimeMs])];
  try {
    return [...findings, ...examineDatabase(opened, now, stat, options), ...examineLimits(db, now)];
  } finally {
    opened.close();
  }
}

/** `undefined` if there is no file, or the path is invalid for another reason. */
function statOf(db: string): Stats | undefined {
  try {
    return statSync(db);
  } catch {
    return undefined;
  }
}

function examineNode(): Finding {
  const { node } = process.versions;
  return Number.parseInt(node, 10) >= MIN_NODE_MAJOR
    ? ok("node", node)
    : fail("node", `${node}; it takes ${MIN_NODE_MAJOR} or later`);
}

function examineFile(db: string, stat: Stats | undefined): Finding {
  if (stat === undefined) return fail("file", `${db}: there is no such file`);
  if (!stat.isFile()) return fail("file", `${db}: is no file`);
  if (stat.size < HEADER_BYTES)
    return fail(
      "file",
      `${db}: ${count(stat.size)} bytes, shorter than a database's header: truncated, or never written`,
    );
  if (stat.nlink > 1)
    return fail("file", `${db}: has ${stat.nlink} names (hard links), each with a log of its own; keep one`);
  const log = statSync(`${db}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  if (log === 0 && existsSync(`${db}-shm`) && !existsSync(`${db}-wal`))
    return warn(
      "file",
      `${db}: its -shm is there and its -wal is not: what the -wal held is lost, if it was not empty`,
    );
  if ((stat.mode & 0o077) !== 0 && process.platform !== "win32") {
    return warn("file", `${db}: others than its owner can use it; run: chmod 600 ${db}`);
  }
  if (log > LARGE_LOG)
    return warn("file", `${db}: its log has ${count(log)} bytes; a reader has kept it from being carried over`);
  return ok("file", `${db}, ${count(stat.size)} bytes`);
}

/**
 * File systems by their Linux magic number. WAL needs memory shared between processes, and an fsync that reaches a
 * disk.
 */
const IN_MEMORY = [0x01021994, 0x858458f6];
const NETWORK = [0x6969, 0xff534d42, 0xfe534d42, 0x517b];

async function examineDisk(db: string): Promise<Finding> {
  const { type, bavail, bsize } = await statfs(dirname(db));
  if (NETWORK.includes(type)) return fail("disk", "a network file system: SQLite's log needs a disk of this machine");
  if (IN_MEMORY.includes(type))
    return warn("disk", "a file system in memory: nothing survives a restart of the machine");
  const free = bavail * bsize;
  return free < LARGE_LOG
    ? warn("disk", `only ${count(free)} bytes are free`)
    : ok("disk", `local, ${count(free)} bytes free`);
}

interface DriverCheck {
  readonly finding: Finding;
  /** Opens a file, or returns what is wrong with it. Absent: the driver does not work. */
  readonly open?: (db: string) => ClosableHandle | Finding;
}

/** Tries a database in memory, to distinguish errors of the driver from errors of the file. */
function examineDriver(): DriverCheck {
  try {
    const driver = loadDriver();
    const memory = openFile(driver, ":memory:", { readonly: false, fileMustExist: false, timeout: 0 });
    const version = String(select<{ v: string }>(memory, "SELECT sqlite_version() AS v").get()?.v);
    memory.close();
    const why = driver.reason === undefined ? "" : `; ${driver.reason}`;
    return { finding: ok("driver", `${driver.name} with SQLite ${version}${why}`), open: (db) => open(driver, db) };
  } catch (error) {
    return { finding: fail("driver", isKeystileError(error) ? error.detail : `it does not work (${codeOf(error)})`) };
  }
}

function open(driver: Driver, db: string): ClosableHandle | Finding {
  let handle: ClosableHandle | undefined;
  try {
    handle = openFile(driver, db, { readonly: true, fileMustExist: true, timeout: 2_000 });
    if (hasForeignLog(db)) {
      handle.close();
      return fail(
        "file",
        `${db}: the -wal beside it is another file's; move it and the -shm away, or use keystile restore`,
      );
    }
    // SQLite reads the file only at the first query.
    readPragma(handle, "schema_version");
    return handle;
  } catch (error) {
    handle?.close();
    const code = codeOf(error);
    return fail("file", `${db}: ${code === "SQLITE_NOTADB" ? "is no SQLite database" : `does not open (${code})`}`);
  }
}

function examineDatabase(handle: Handle, now: number, stat: Stats, options: ExamineOptions): Finding[] {
  try {
    const version = schemaVersion(handle);
    const times = version < FIRST_VERSION ? [] : newest(handle);
    const isCurrent = version === SCHEMA_VERSION;
    const rootKeyFindings = isCurrent ? examineRootKeys(handle) : [];
    const creditFindings =
      isCurrent && options.reconcile === true
        ? toFindings("credits", reconcile(handle, options.onProgress ?? (() => undefined)), "accounts add up")
        : [];
    return [
      examineSchema(version),
      examineIntegrity(handle),
      examineDurability(handle),
      ...rootKeyFindings,
      ...creditFindings,
      ...examineClock(now, [stat.mtimeMs, ...times]),
    ];
  } catch (error) {
    return [
      fail("schema", `the file cannot be read as a database (${codeOf(error)})`),
      ...examineClock(now, [stat.mtimeMs]),
    ];
  }
}

function examineSchema(version: number): Finding {
  if (version === 0) return fail("schema", "the file has no keystile tables");
  if (version < FIRST_VERSION)
    return fail("schema", `version ${version}, made before keystile 0.1.0; versions from ${FIRST_VERSION} on open`);
  if (version > SCHEMA_VERSION)
    return fail("schema", `version ${version}, this keystile knows ${SCHEMA_VERSION}; upgrade keystile`);
  if (version === SCHEMA_VERSION) return ok("schema", `version ${version}`);
  return warn("schema", `version ${version}; the next program that opens the file completes it to ${SCHEMA_VERSION}`);
}

function examineIntegrity(handle: Handle): Finding {
  const rows = select<Record<string, string>>(handle, "PRAGMA integrity_check(3)").all();
  const faults = rows.flatMap((row) => Object.values(row)).filter((text) => text !== "ok");
  if (faults.length > 0) return fail("integrity", `damaged: ${faults.join("; ")}`);
  const danglingRows = select<unknown>(handle, "PRAGMA foreign_key_check").all().length;
  return danglingRows > 0
    ? fail("integrity", `${count(danglingRows)} rows refer to rows that are not there`)
    : ok("integrity", "whole");
}

function examineDurability(handle: Handle): Finding {
  const mode = String(readPragma(handle, "journal_mode"));
  if (mode !== "wal")
    return warn("durability", `journal ${mode}, as of a backup; the next program that opens the file sets wal`);
  return ok("durability", "journal wal, synchronous=FULL, or NORMAL where a program asks for process durability");
}

function examineRootKeys(handle: Handle): Finding[] {
  const found = Number(
    select<{ n: unknown }>(
      handle,
      "SELECT count(*) AS n FROM keystile_root_keys WHERE json_extract(body, '$.deleted') IS NULL",
    ).get()?.n,
  );
  return [
    found > 0
      ? ok("root keys", count(found))
      : warn("root keys", "none: the service lets nobody in; see `npx keystile root-keys create`"),
  ];
}

/** Creation times of the newest rows, Unix milliseconds. */
function newest(handle: Handle): number[] {
  return ["apis", "keys"].flatMap((table) => {
    const sql = `SELECT json_extract(body, '$.createdAt') AS time FROM keystile_${table} ORDER BY number DESC LIMIT 1`;
    const time = Number(select<{ time: unknown }>(handle, sql).get()?.time);
    return Number.isFinite(time) ? [time] : [];
  });
}

function examineClock(now: number, times: readonly number[]): Finding[] {
  const shown = new Date(now).toISOString();
  if (now < MIN_CLOCK_MS) return [fail("clock", `${shown}: was never set`)];
  const ahead = Math.max(0, ...times) - now;
  if (ahead <= CLOCK_TOLERANCE) return [ok("clock", shown)];
  return [
    warn(
      "clock",
      `${shown}: ${count(Math.round(ahead / 1_000))} s behind what the file holds; refills wait until it catches up`,
    ),
  ];
}

/* The check of `keystile doctor` of the rate limits beside a database, if it has any. Writes nothing. */

/**
 * @param db the database, which exists
 * @param now Unix milliseconds
 */
function examineLimits(db: string, now: number): Finding[] {
  const path = limitsPathOf(realpathSync(db));
  if (!existsSync(path)) return [];
  let handle: ClosableHandle | undefined;
  try {
    handle = openFile(loadDriver(), path, { readonly: true, fileMustExist: true, timeout: 2_000 });
    return [examineTables(handle, path, now)];
  } catch (error) {
    return [fail("limits", `${path}: does not open (${codeOf(error)}); ${REMOVE}`)];
  } finally {
    handle?.close();
  }
}

const REMOVE = "remove it while no process has it open, and all buckets start full";

function examineTables(handle: Handle, path: string, now: number): Finding {
  if (!hasTables(handle)) return fail("limits", `${path}: has no tables of rate limits; ${REMOVE}`);
  const { version, clock, buckets } = select<{ version: number; clock: number; buckets: number }>(
    handle,
    "SELECT version, clock, buckets FROM keystile_limits",
  ).get() as { version: number; clock: number; buckets: number };
  if (version > LIMITS_VERSION)
    return fail("limits", `${path}: version ${version}, this keystile knows ${LIMITS_VERSION}; upgrade keystile`);
  if (version < LIMITS_VERSION) return fail("limits", `${path}: version ${version}, of an earlier keystile; ${REMOVE}`);
  const rows = select<Record<string, string>>(handle, "PRAGMA quick_check(3)").all();
  const faults = rows.flatMap((row) => Object.values(row)).filter((text) => text !== "ok");
  if (faults.length > 0) return fail("limits", `${path}: damaged: ${faults.join("; ")}; ${REMOVE}`);
  const there = select<{ n: number }>(handle, "SELECT count(*) AS n FROM keystile_buckets").get()?.n;
  if (there !== buckets)
    return fail("limits", `${path}: counts ${buckets} buckets and has ${String(there)}; ${REMOVE}`);
  const ahead = clock - now;
  if (ahead > CLOCK_TOLERANCE)
    return warn(
      "limits",
      `${path}: a clock was ${count(Math.round(ahead / 1_000))} s ahead, and nothing refills until then; ${REMOVE}`,
    );
  return ok("limits", `${path}, ${count(buckets)} buckets`);
}
