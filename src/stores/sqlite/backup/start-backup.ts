/** `store.backup`: makes a backup in a thread, so that verifications go on meanwhile. */
import { statSync } from "node:fs";
import { resolve } from "node:path";
import { Worker } from "node:worker_threads";
import { KeystileError } from "../../../contracts/errors.js";
import { fireAndForget } from "../../../lib/callbacks.js";
import { callable, type Check, checkOptions } from "../../../lib/check-options.js";
import { isInFile, readPragma, select } from "../connection/handle.js";
import type { FileConnection } from "../connection/open.js";
import { afterDelay } from "../connection/waiting.js";
import type { SqliteStoreOptions } from "../options.js";
import { type BackupData, type BackupResponse, unpackError } from "../writer/messages.js";
import { programOf } from "../writer/program.js";
import { temporaryName } from "./files.js";
import type { SqliteBackup } from "./make-backup.js";

/** How far a backup is. */
export interface BackupProgress {
  /** Bytes written so far. */
  readonly bytes: number;
  /** Size of the database: the backup is as large or smaller. */
  readonly total: number;
}

/** Options of `backup`. */
export interface BackupOptions {
  /** Called about five times per second, and not for a short backup. What it throws or rejects with is dropped. */
  readonly onProgress?: (progress: BackupProgress) => unknown;
  /**
   * The script of the thread, a bundle of `keystile/sqlite-writer`, for programs deployed without the package. Default:
   * as the store's option `writer`, else the package's own.
   */
  readonly writer?: URL;
}

/** Milliseconds between two reports of progress. */
const REPORT_INTERVAL = 200;

const OPTIONS = {
  onProgress: callable,
  writer(value, path) {
    if (!(value instanceof URL)) throw new TypeError(`${path} must be a URL`);
  },
} as const satisfies Record<keyof BackupOptions, Check>;

/** @returns the method `backup` of the store on this connection */
export function createBackup(
  { driver, handle, isShared }: FileConnection,
  { readonly, busyTimeout, writer }: Required<SqliteStoreOptions>,
): (target: string, options?: BackupOptions) => Promise<SqliteBackup> {
  return async (given, options = {}) => {
    assertPath(given);
    const { onProgress, writer: program = writer } = checkOptions(options, OPTIONS);
    if (isShared || !isInFile(handle))
      throw new KeystileError(
        "STORE_POWER_MISSING",
        isShared
          ? "the database was opened by its owner; open its path with sqliteStore(path) for a backup, or run `npx keystile backup`"
          : "a database in memory has no file to back up",
      );
    const { file } = select<{ file: string }>(
      handle,
      "SELECT file FROM pragma_database_list WHERE name = 'main'",
    ).get() as { file: string };
    const target = resolve(given);
    const order = { path: file, target, temporary: temporaryName(target), readonly, busyTimeout, driver };
    const total = Number(readPragma(handle, "page_count")) * Number(readPragma(handle, "page_size"));
    const making = runThread(programOf(program), { backup: order });
    const progress = () => ({ bytes: statSync(order.temporary, { throwIfNoEntry: false })?.size ?? 0, total });
    if (onProgress !== undefined) repeat(() => onProgress(progress()), making);
    return making;
  };
}

function assertPath(path: unknown): asserts path is string {
  if (typeof path === "string" && path.isWellFormed() && path === path.trim() && !/^$|\0|^:memory:$/.test(path)) return;
  throw new TypeError("path must be a path of well-formed text, without spaces at its ends");
}

function runThread(program: URL | string, data: BackupData): Promise<SqliteBackup> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(program, { workerData: data, name: "keystile backup" });
    worker.once("message", (response: BackupResponse) => {
      if ("made" in response) resolve(response.made);
      else reject(unpackError(response.fault));
    });
    const fail = (cause?: unknown) =>
      reject(new KeystileError("STORE_FAILED", "the thread of the backup ended early; no backup was made", { cause }));
    worker.once("error", fail);
    worker.once("messageerror", fail);
    // After a response this changes nothing.
    worker.once("exit", () => fail());
  });
}

/** Calls `report` until the backup ends. */
function repeat(report: () => unknown, making: Promise<unknown>): void {
  let isDone = false;
  const end = () => void (isDone = true);
  making.then(end, end);
  const next = () => {
    if (isDone) return;
    fireAndForget(report);
    afterDelay(next, REPORT_INTERVAL);
  };
  afterDelay(next, REPORT_INTERVAL);
}
