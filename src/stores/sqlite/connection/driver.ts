/**
 * Chooses the driver, only when a path is opened, and opens files with it: better-sqlite3 where it loads, else
 * node:sqlite.
 *
 * Why check before loading: a native module built for another Node does not throw, it ends the process.
 *
 * Why a thread is told which driver to take: two copies of SQLite in one process would drop each other's locks on a
 * file, and a thread that is short of file descriptors finds no package.
 */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { isKeystileError, KeystileError } from "../../../contracts/errors.js";
import type { Handle } from "./handle.js";
import { modulePath } from "./module-path.js";

/** A handle that this store opened and must close. */
export interface ClosableHandle extends Handle {
  close(): unknown;
}

export interface OpenOptions {
  readonly readonly: boolean;
  readonly fileMustExist: boolean;
  /** Milliseconds for which the driver itself waits for locks, blocking the thread. */
  readonly timeout: number;
}

/** What opens a path. */
export type DriverName = "better-sqlite3" | "node:sqlite";

/** The driver that was chosen. */
export interface Driver {
  readonly name: DriverName;
  /** Why it is not better-sqlite3. */
  readonly reason?: string;
  /** Opens a database file; throws as the driver does. */
  open(path: string, options: OpenOptions): ClosableHandle;
}
type BetterSqlite = new (path: string, options: OpenOptions) => ClosableHandle;
/** What is used of node:sqlite; Node 22.13 is the first that has it without a flag. */
interface NodeSqlite {
  readonly DatabaseSync: new (path: string, options: { readonly readOnly: boolean }) => ClosableHandle;
}

/** Minimum version of Node for each supported major version of the driver: 13 crashes those before 22.14. */
const MIN_NODE_BY_DRIVER: Readonly<Record<number, string>> = { 12: "20.0", 13: "22.14" };
const NAME = "better-sqlite3" satisfies DriverName;
/**
 * Version 12 compiled with headers of Node 24.19 or later calls this when a statement is collected: the process ends.
 */
const FATAL_SYMBOL = "RemoveEnvironmentCleanupHook";

/** Where drivers are looked for. */
interface Places {
  /** The one to take, where another thread of this process has chosen. Default: the first that loads. */
  readonly only?: DriverName | undefined;
  /** Resolves packages from where better-sqlite3 should be found. */
  readonly require?: NodeJS.Require;
  /** As `process.versions`. */
  readonly runtime?: Runtime;
  /** Loads node:sqlite; `undefined`: this runtime has none. On Node 22 its loading prints a warning. */
  readonly builtIn?: () => NodeSqlite | undefined;
}

/**
 * Chooses the driver. The same in every call, unless packages come and go.
 * @throws KeystileError DRIVER_MISSING, DRIVER_UNSUPPORTED, where there is no node:sqlite either; both say what to run
 */
export function loadDriver({
  only,
  require = createRequire(modulePath()),
  runtime = process.versions,
  builtIn = findBuiltIn,
}: Places = {}): Driver {
  const sqlite = only === "node:sqlite" ? builtIn() : undefined;
  if (sqlite !== undefined) return openWith(sqlite);
  try {
    return loadInstalled(require, runtime.node);
  } catch (cause) {
    const instead = only === undefined && isKeystileError(cause) ? builtIn() : undefined;
    if (instead === undefined) throw inOther(runtime, cause) ?? cause;
    return openWith(instead, (cause as KeystileError).detail);
  }
}

/** Not by `require`: bundlers would look for a package of that name. Node before 20.16 lacks the function. */
function findBuiltIn(): NodeSqlite | undefined {
  const { getBuiltinModule } = process as { getBuiltinModule?: (name: string) => object | undefined };
  return getBuiltinModule?.("node:sqlite") as NodeSqlite | undefined;
}

function openWith({ DatabaseSync }: NodeSqlite, reason?: string): Driver {
  return {
    name: "node:sqlite",
    ...(reason !== undefined && { reason }),
    open(path, { readonly, fileMustExist, timeout }) {
      const isFile = path !== ":memory:";
      if (isFile && fileMustExist && !existsSync(path)) throw new Error("there is no database file at this path");
      // Absolute, since it takes a path that begins with `file:` as a URI.
      const handle = new DatabaseSync(isFile ? resolve(path) : path, { readOnly: readonly });
      handle.exec(`PRAGMA busy_timeout = ${timeout}`);
      return handle;
    },
  };
}

function loadInstalled(require: NodeJS.Require, nodeVersion: string): Driver {
  const node = Number.parseInt(nodeVersion, 10);
  const { version, folder } = findPackage(require, nodeVersion);
  const refuse = (why: string) =>
    new KeystileError("DRIVER_UNSUPPORTED", `${NAME} ${version} ${why}; run: ${installFor(nodeVersion)}`);
  const minNode = MIN_NODE_BY_DRIVER[Number.parseInt(version, 10)];
  if (minNode === undefined) throw refuse("is not supported, versions 12 and 13 are");
  if (isBefore(nodeVersion, minNode)) throw refuse(`needs Node ${minNode} or later, this is ${nodeVersion}`);
  if (node >= 24 && isFatal(folder))
    throw refuse(`was compiled for this Node, ${nodeVersion}, in a way that would end the process`);
  try {
    const Database = require(NAME) as BetterSqlite;
    // The native part is loaded by the first open, not by `require`.
    new Database(":memory:", { readonly: false, fileMustExist: false, timeout: 0 }).close();
    return { name: NAME, open: (path, options) => new Database(path, options) };
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
function installFor(nodeVersion: string): string {
  return isBefore(nodeVersion, "22.14")
    ? `npm install ${NAME}@12, or use Node 22.14 or later`
    : `npm install ${NAME}@13`;
}

const isBefore = (version: string, other: string): boolean => version.localeCompare(other, "en", { numeric: true }) < 0;

function isFatal(folder: string): boolean {
  const native = join(folder, "build", "Release", "better_sqlite3.node");
  // The prebuilt binaries for Node 24 were compiled with earlier headers and are safe.
  return existsSync(native) && readFileSync(native).includes(FATAL_SYMBOL);
}

/**
 * Opens a database file.
 * @throws KeystileError STORE_FAILED when the folder is missing; otherwise the driver's error
 */
export function openFile(driver: Driver, path: string, options: OpenOptions): ClosableHandle {
  try {
    return driver.open(path, options);
  } catch (cause) {
    if (/directory does not exist/i.test((cause as Error).message))
      throw new KeystileError("STORE_FAILED", "the folder of the database file does not exist", { cause });
    throw cause;
  }
}

/** Opens a file that exists, and closes it after its use. @throws as {@link openFile} */
export function withFile<T>(
  driver: Driver,
  { path, ...options }: Omit<OpenOptions, "fileMustExist"> & { readonly path: string },
  use: (handle: Handle) => T,
): T {
  const handle = openFile(driver, path, { ...options, fileMustExist: true });
  try {
    return use(handle);
  } finally {
    handle.close();
  }
}

/** Under Node's permission model, and with `--no-addons`. */
const FORBIDDEN = "ERR_DLOPEN_DISABLED";

function unusable(cause: unknown): KeystileError {
  const install = installFor(process.versions.node);
  const why =
    (cause as { code?: unknown }).code === FORBIDDEN
      ? "this Node may load no native code; run it with --allow-addons, and without --no-addons"
      : `it does not load in this Node; run: npm rebuild ${NAME}, or ${install}. Its install script may have been skipped: ` +
        "pnpm, yarn and npm 11 may want it approved";
  return new KeystileError("DRIVER_UNSUPPORTED", `${NAME} is installed, but ${why}`, { cause });
}

/** The installed package, read from its package.json without running any of its code. */
function findPackage(
  require: NodeJS.Require,
  nodeVersion: string,
): { readonly version: string; readonly folder: string } {
  let folder: string;
  try {
    folder = dirname(require.resolve(NAME));
  } catch (cause) {
    throw new KeystileError("DRIVER_MISSING", `${NAME} is not installed; run: ${installFor(nodeVersion)}`, { cause });
  }
  // Not `${NAME}/package.json`: since version 13 the package does not export it.
  for (;;) {
    const found = readPackage(join(folder, "package.json"));
    if (found?.name === NAME) return { version: String(found.version), folder };
    const parent = dirname(folder);
    if (parent === folder)
      throw new KeystileError(
        "DRIVER_UNSUPPORTED",
        `the version of ${NAME} is unknown; run: ${installFor(nodeVersion)}`,
      );
    folder = parent;
  }
}

function readPackage(path: string): { name?: unknown; version?: unknown } | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as { name?: unknown; version?: unknown };
  } catch (cause) {
    // Whatever else keeps it from being read may pass, and is no reason to choose another driver.
    if (cause instanceof SyntaxError || ["ENOENT", "ENOTDIR"].includes(String((cause as { code?: unknown }).code)))
      return undefined;
    throw cause;
  }
}
