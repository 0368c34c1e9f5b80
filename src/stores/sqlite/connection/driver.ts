/**
 * Finds and loads better-sqlite3, only when a path is opened, and opens a file with it.
 *
 * Why check before loading: a native module built for another Node does not throw, it ends the process.
 */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { KeystileError } from "../../../contracts/errors.js";
import type { Handle } from "./handle.js";
import { modulePath } from "./module-path.js";

/** A handle that this store opened and must close. */
export interface ClosableHandle extends Handle {
  close(): unknown;
}

interface OpenOptions {
  readonly readonly: boolean;
  readonly fileMustExist: boolean;
  /** Milliseconds for which the driver itself waits for locks, blocking the thread. */
  readonly timeout: number;
}
type Driver = new (path: string, options: OpenOptions) => ClosableHandle;

/** Minimum major version of Node for each supported major version of the driver: 13 crashes Node 20. */
const MIN_NODE_BY_DRIVER: Readonly<Record<number, number>> = { 12: 20, 13: 22 };
const NAME = "better-sqlite3";
/**
 * Version 12 compiled with headers of Node 24.19 or later calls this when a statement is collected: the process ends.
 */
const FATAL_SYMBOL = "RemoveEnvironmentCleanupHook";

/**
 * Loads the driver.
 * @param require resolves packages from where the driver should be found
 * @param runtime as `process.versions`
 * @throws KeystileError DRIVER_MISSING, DRIVER_UNSUPPORTED; both say what to run
 */
export function loadDriver(
  require: NodeJS.Require = createRequire(modulePath()),
  runtime: Runtime = process.versions,
): Driver {
  try {
    return loadInstalled(require, runtime.node);
  } catch (cause) {
    throw inOther(runtime, cause) ?? cause;
  }
}

function loadInstalled(require: NodeJS.Require, nodeVersion: string): Driver {
  const node = Number.parseInt(nodeVersion, 10);
  const { version, folder } = findPackage(require, node);
  const refuse = (why: string) =>
    new KeystileError("DRIVER_UNSUPPORTED", `${NAME} ${version} ${why}; run: ${installFor(node)}`);
  const minNode = MIN_NODE_BY_DRIVER[Number.parseInt(version, 10)];
  if (minNode === undefined) throw refuse("is not supported, versions 12 and 13 are");
  if (node < minNode) throw refuse(`needs Node ${minNode} or later, this is ${nodeVersion}`);
  if (node >= 24 && isFatal(folder))
    throw refuse(`was compiled for this Node, ${nodeVersion}, in a way that would end the process`);
  try {
    return require(NAME) as Driver;
  } catch (cause) {
    throw unusable(cause);
  }
}

/** Versions of Node, and of the runtimes that stand in for it. */
interface Runtime {
  readonly node: string;
  readonly bun?: string | undefined;
  readonly deno?: string | undefined;
}

/**
 * In Bun and Deno the driver may be missing or not load, and installing it may not help: both have a driver of their
 * own.
 */
function inOther({ bun, deno }: Runtime, cause: unknown): KeystileError | undefined {
  if (bun === undefined && deno === undefined) return undefined;
  const [name, builtIn] = bun === undefined ? ["Deno", "node:sqlite"] : ["Bun", "bun:sqlite"];
  const why = `in ${name} ${NAME} cannot be loaded here; pass the store a handle that you opened with ${builtIn}`;
  return new KeystileError("DRIVER_UNSUPPORTED", why, { cause });
}

/** The command that installs the newest version for this Node. */
function installFor(node: number): string {
  return `npm install ${NAME}@${node < 22 ? 12 : 13}`;
}

function isFatal(folder: string): boolean {
  const native = join(folder, "build", "Release", "better_sqlite3.node");
  // The prebuilt binaries for Node 24 were compiled with earlier headers and are safe.
  return existsSync(native) && readFileSync(native).includes(FATAL_SYMBOL);
}

/**
 * Opens a database file.
 * @throws KeystileError DRIVER_UNSUPPORTED when the native module does not load, STORE_FAILED when the folder is
 * missing; otherwise the driver's error
 */
export function openFile(Driver: Driver, path: string, options: OpenOptions): ClosableHandle {
  try {
    return new Driver(path, options);
  } catch (cause) {
    // The native module is loaded by the first open, not by `require`.
    const { code, message } = cause as { code?: unknown; message?: unknown };
    if (code === "ERR_DLOPEN_FAILED" || code === FORBIDDEN || /bindings file/i.test(String(message)))
      throw unusable(cause);
    if (/directory does not exist/i.test(String(message))) {
      throw new KeystileError("STORE_FAILED", "the folder of the database file does not exist", { cause });
    }
    throw cause;
  }
}

/** Under Node's permission model, and with `--no-addons`. */
const FORBIDDEN = "ERR_DLOPEN_DISABLED";

function unusable(cause: unknown): KeystileError {
  const other = inOther(process.versions, cause);
  if (other !== undefined) return other;
  const install = installFor(Number.parseInt(process.versions.node, 10));
  const why =
    (cause as { code?: unknown }).code === FORBIDDEN
      ? "this Node may load no native code; run it with --allow-addons, and without --no-addons"
      : `it does not load in this Node; run: npm rebuild ${NAME}, or ${install}. Its install script may have been skipped: ` +
        "pnpm, yarn and npm 11 may want it approved";
  return new KeystileError("DRIVER_UNSUPPORTED", `${NAME} is installed, but ${why}`, { cause });
}

/** The installed package, read from its package.json without running any of its code. */
function findPackage(require: NodeJS.Require, node: number): { readonly version: string; readonly folder: string } {
  let folder: string;
  try {
    folder = dirname(require.resolve(NAME));
  } catch (cause) {
    throw new KeystileError("DRIVER_MISSING", `the SQLite store needs ${NAME}; run: ${installFor(node)}`, { cause });
  }
  // Not `${NAME}/package.json`: since version 13 the package does not export it.
  for (;;) {
    const found = readPackage(join(folder, "package.json"));
    if (found?.name === NAME) return { version: String(found.version), folder };
    const parent = dirname(folder);
    if (parent === folder)
      throw new KeystileError("DRIVER_UNSUPPORTED", `the version of ${NAME} is unknown; run: ${installFor(node)}`);
    folder = parent;
  }
}

function readPackage(path: string): { name?: unknown; version?: unknown } | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as { name?: unknown; version?: unknown };
  } catch {
    return undefined;
  }
}
