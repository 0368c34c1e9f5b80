/**
 * Finds better-sqlite3 and opens a file with it. The one door of that package; loaded only when a path is opened.
 *
 * Why look before loading: a native module for another Node does not throw, it ends the process.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { VerifierError } from "../../errors.js";
import type { Handle } from "./handle.js";

/** A handle that this store opened, and closes. */
export interface OwnHandle extends Handle {
  close(): unknown;
}

interface OpenOptions {
  readonly readonly: boolean;
  readonly fileMustExist: boolean;
  /** Milliseconds for which the driver itself waits for locks. */
  readonly timeout: number;
}
type Driver = new (path: string, options: OpenOptions) => OwnHandle;

/** The least major version of Node that each supported major version of the driver runs on: 13 crashes Node 20. */
const LEAST_NODE: Readonly<Record<number, number>> = { 12: 20, 13: 22 };
const NAME = "better-sqlite3";
const INSTALL = `npm install ${NAME}@12`;

/**
 * Loads the driver.
 * @param require resolves from where the driver should be found
 * @param nodeVersion as in `process.versions.node`
 * @throws VerifierError DRIVER_MISSING, DRIVER_UNSUPPORTED; both say what to run
 */
export function loadDriver(require: NodeJS.Require = createRequire(import.meta.url), nodeVersion: string = process.versions.node): Driver {
  const version = findVersion(require);
  const leastNode = LEAST_NODE[Number.parseInt(version, 10)];
  if (leastNode === undefined) {
    throw new VerifierError("DRIVER_UNSUPPORTED", `${NAME} ${version} is not supported, versions 12 and 13 are; run: ${INSTALL}`);
  }
  if (Number.parseInt(nodeVersion, 10) < leastNode) {
    throw new VerifierError(
      "DRIVER_UNSUPPORTED",
      `${NAME} ${version} needs Node ${leastNode} or later, this is ${nodeVersion}; run: ${INSTALL}`,
    );
  }
  try {
    return require(NAME) as Driver;
  } catch (cause) {
    throw unusable(cause);
  }
}

/**
 * Opens a database file.
 * @throws VerifierError DRIVER_UNSUPPORTED when the driver's native part does not load; whatever SQLite says otherwise
 */
export function openFile(Driver: Driver, path: string, options: OpenOptions): OwnHandle {
  try {
    return new Driver(path, options);
  } catch (cause) {
    // The native part is loaded by the first open, not by `require`.
    const { code, message } = cause as { code?: unknown; message?: unknown };
    if (code === "ERR_DLOPEN_FAILED" || /bindings file/i.test(String(message))) throw unusable(cause);
    if (/directory does not exist/i.test(String(message))) {
      throw new VerifierError("STORE_FAILED", "the folder of the database file does not exist", { cause });
    }
    throw cause;
  }
}

function unusable(cause: unknown): VerifierError {
  const remedy = `npm rebuild ${NAME}, or ${INSTALL}`;
  return new VerifierError("DRIVER_UNSUPPORTED", `${NAME} is installed but does not load in this Node; run: ${remedy}`, { cause });
}

/** The installed version, read from its package.json without running any of it. */
function findVersion(require: NodeJS.Require): string {
  let folder: string;
  try {
    folder = dirname(require.resolve(NAME));
  } catch (cause) {
    throw new VerifierError("DRIVER_MISSING", `the SQLite store needs ${NAME}; run: ${INSTALL}`, { cause });
  }
  // Not `${NAME}/package.json`: from version 13 on the package does not export it.
  for (;;) {
    const found = readPackage(join(folder, "package.json"));
    if (found?.name === NAME) return String(found.version);
    const above = dirname(folder);
    if (above === folder) throw new VerifierError("DRIVER_UNSUPPORTED", `the version of ${NAME} cannot be told; run: ${INSTALL}`);
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
