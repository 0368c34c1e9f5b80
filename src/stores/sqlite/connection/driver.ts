/**
 * Finds better-sqlite3 and opens a file with it. The one door of that package; loaded only when a path is opened.
 *
 * Why look before loading: a native module for another Node does not throw, it ends the process.
 */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { KeystileError } from "../../../contracts/errors.js";
import type { Handle } from "./handle.js";
import { modulePath } from "./module-path.js";

/** A handle that this store opened, and closes. */
export interface ClosableHandle extends Handle {
  close(): unknown;
}

interface OpenOptions {
  readonly readonly: boolean;
  readonly fileMustExist: boolean;
  /** Milliseconds for which the driver itself waits for locks, and blocks the thread. */
  readonly timeout: number;
}
type Driver = new (path: string, options: OpenOptions) => ClosableHandle;

/** The least major version of Node that each supported major version of the driver runs on: 13 crashes Node 20. */
const MIN_NODE_BY_DRIVER: Readonly<Record<number, number>> = { 12: 20, 13: 22 };
const NAME = "better-sqlite3";
/** Version 12, if compiled with headers of Node 24.19 or later, calls this when a statement is collected, which ends the process. */
const FATAL = "RemoveEnvironmentCleanupHook";

/**
 * Loads the driver.
 * @param require resolves from where the driver should be found
 * @param nodeVersion as in `process.versions.node`
 * @throws KeystileError DRIVER_MISSING, DRIVER_UNSUPPORTED; both say what to run
 */
export function loadDriver(
  require: NodeJS.Require = createRequire(modulePath()),
  nodeVersion: string = process.versions.node,
): Driver {
  const node = Number.parseInt(nodeVersion, 10);
  const { version, folder } = findPackage(require, node);
  const refuse = (why: string) =>
    new KeystileError("DRIVER_UNSUPPORTED", `${NAME} ${version} ${why}; run: ${installFor(node)}`);
  const leastNode = MIN_NODE_BY_DRIVER[Number.parseInt(version, 10)];
  if (leastNode === undefined) throw refuse("is not supported, versions 12 and 13 are");
  if (node < leastNode) throw refuse(`needs Node ${leastNode} or later, this is ${nodeVersion}`);
  if (node >= 24 && isFatal(folder))
    throw refuse(`was compiled for this Node, ${nodeVersion}, in a way that would end the process`);
  try {
    return require(NAME) as Driver;
  } catch (cause) {
    throw unusable(cause);
  }
}

/** The newest version that this Node can have. */
function installFor(node: number): string {
  return `npm install ${NAME}@${node < 22 ? 12 : 13}`;
}

function isFatal(folder: string): boolean {
  const native = join(folder, "build", "Release", "better_sqlite3.node");
  // Those that come ready-made for Node 24 were compiled before, and do no harm.
  return existsSync(native) && readFileSync(native).includes(FATAL);
}

/**
 * Opens a database file.
 * @throws KeystileError DRIVER_UNSUPPORTED when the driver's native part does not load; whatever SQLite says otherwise
 */
export function openFile(Driver: Driver, path: string, options: OpenOptions): ClosableHandle {
  try {
    return new Driver(path, options);
  } catch (cause) {
    // The native part is loaded by the first open, not by `require`.
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
  const install = installFor(Number.parseInt(process.versions.node, 10));
  const why =
    (cause as { code?: unknown }).code === FORBIDDEN
      ? "this Node may load no native code; run it with --allow-addons, and without --no-addons"
      : `it does not load in this Node; run: npm rebuild ${NAME}, or ${install}. Its install script may have been skipped: ` +
        "pnpm, yarn and npm 11 may want it approved";
  return new KeystileError("DRIVER_UNSUPPORTED", `${NAME} is installed, but ${why}`, { cause });
}

/** The installed package, told by its package.json without running any of it. */
function findPackage(require: NodeJS.Require, node: number): { readonly version: string; readonly folder: string } {
  let folder: string;
  try {
    folder = dirname(require.resolve(NAME));
  } catch (cause) {
    throw new KeystileError("DRIVER_MISSING", `the SQLite store needs ${NAME}; run: ${installFor(node)}`, { cause });
  }
  // Not `${NAME}/package.json`: from version 13 on the package does not export it.
  for (;;) {
    const found = readPackage(join(folder, "package.json"));
    if (found?.name === NAME) return { version: String(found.version), folder };
    const above = dirname(folder);
    if (above === folder)
      throw new KeystileError("DRIVER_UNSUPPORTED", `the version of ${NAME} cannot be told; run: ${installFor(node)}`);
    folder = above;
  }
}

function readPackage(path: string): { name?: unknown; version?: unknown } | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as { name?: unknown; version?: unknown };
  } catch {
    return undefined;
  }
}
