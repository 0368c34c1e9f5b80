/**
 * The file that the first root key goes to where standard output is no terminal, so that it lands in no log.
 *
 * The key is in a staged file before it is committed, under a name of its own, and moves to its place afterwards. A
 * process that is killed in between leaves either no root key, or one whose text is in a file; the next start clears up
 * what it finds ({@link settleRootKeys}).
 */
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import type { RootKeyRow, Store } from "../../contracts/store.js";
import { digestKey, newId } from "../../lib/hash.js";
import { EXIT, failure } from "../io/failures.js";

/** Longer than any root key with its line break. */
const MAX_BYTES = 256;
/** Milliseconds for which a staged file may be one of a process that is just starting. */
const STARTING_MS = 60_000;

/** Where the first root key of a database goes: beside it, or for one in memory to a new name among temporary files. */
export function rootKeyFile(db: string): string {
  return `${db === ":memory:" ? join(tmpdir(), newId("keystile")) : resolve(db)}.root-key`;
}

/**
 * Writes a root key that is not committed yet to a file beside its place, for its owner alone. Overwrites nothing and
 * follows no link. It is on disk when this returns.
 * @param path of {@link rootKeyFile}
 * @returns the path of the staged file
 * @throws failure 3 if it cannot be written
 */
export function stageRootKey(path: string, rootKeyId: string, key: string): string {
  const staged = `${path}.${rootKeyId}`;
  try {
    const file = fs.openSync(staged, "wx", 0o600);
    try {
      fs.writeSync(file, `${key}\n`);
      fs.fsyncSync(file);
    } finally {
      fs.closeSync(file);
    }
    syncFolder(dirname(path));
  } catch (error) {
    const { code = "unknown" } = error as NodeJS.ErrnoException;
    throw failure(EXIT.failed, `${staged}, for the first root key: cannot be written (${code})`);
  }
  return staged;
}

/** @throws failure 3 if something is at this path already, a link too */
export function assertFree(path: string): void {
  if (fs.lstatSync(path, { throwIfNoEntry: false }) !== undefined)
    throw failure(EXIT.failed, `${path}, for the first root key: is there already; move it away`);
}

/**
 * Moves a staged file whose key is committed to its place.
 * @returns where the key is now: not in its place if that has been taken meanwhile
 */
export function placeRootKey(staged: string, path: string): string {
  try {
    // Unlike a rename, it replaces nothing.
    fs.linkSync(staged, path);
  } catch (error) {
    // Otherwise another process, which started meanwhile, has moved it.
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? path : staged;
  }
  removeRootKey(staged);
  return path;
}

/** Removes the file, if it is there. */
export function removeRootKey(path: string): void {
  fs.rmSync(path, { force: true });
}

/**
 * Clears up after starts that were killed: a staged key that was committed moves to its place; one that was not, or was
 * deleted again, is removed once no start can be about to commit it.
 * @returns where the keys are that moved
 */
export async function settleRootKeys(store: Pick<Store, "findRootKey">, path: string): Promise<readonly string[]> {
  const settled: string[] = [];
  for (const staged of stagedFiles(path)) {
    const row = await findRow(store, staged);
    if (row !== undefined && row.deleted !== true) {
      if (isSameFile(staged, path)) removeRootKey(staged);
      else settled.push(placeRootKey(staged, path));
    } else if (isOld(staged)) removeRootKey(staged);
  }
  return settled;
}

/** Removes the file of a root key that was deleted before anybody got to see it. Any other file stays. */
export async function removeDeletedRootKey(store: Pick<Store, "findRootKey">, path: string): Promise<void> {
  if ((await findRow(store, path))?.deleted === true) removeRootKey(path);
}

function stagedFiles(path: string): readonly string[] {
  const prefix = `${basename(path)}.rk_`;
  const folder = dirname(path);
  return fs
    .readdirSync(folder)
    .filter((name) => name.startsWith(prefix))
    .map((name) => join(folder, name));
}

/** The root key whose text is in a file; `undefined`: none, or it is no file. */
async function findRow(store: Pick<Store, "findRootKey">, path: string): Promise<RootKeyRow | undefined> {
  const key = readText(path);
  return key === undefined || key === "" ? undefined : store.findRootKey(await digestKey(key));
}

/** The text of a regular file, without its line break. Follows no link. */
function readText(path: string): string | undefined {
  let file: number;
  try {
    // Windows has neither of the two.
    file = fs.openSync(path, fs.constants.O_RDONLY | (fs.constants.O_NOFOLLOW ?? 0) | (fs.constants.O_NONBLOCK ?? 0));
  } catch {
    return undefined;
  }
  try {
    if (!fs.fstatSync(file).isFile()) return undefined;
    const bytes = Buffer.alloc(MAX_BYTES);
    return bytes.toString("utf8", 0, fs.readSync(file, bytes)).trim();
  } finally {
    fs.closeSync(file);
  }
}

function isOld(path: string): boolean {
  const { mtimeMs = Infinity } = fs.lstatSync(path, { throwIfNoEntry: false }) ?? {};
  return Date.now() - mtimeMs > STARTING_MS;
}

/** Whether both names are of one file: the process was killed between the two steps of {@link placeRootKey}. */
function isSameFile(one: string, other: string): boolean {
  const [a, b] = [one, other].map((path) => fs.lstatSync(path, { throwIfNoEntry: false, bigint: true }));
  return a !== undefined && b !== undefined && a.ino === b.ino && a.dev === b.dev;
}

/** Makes a new name in a folder survive a power cut. Windows cannot, and needs not. */
function syncFolder(path: string): void {
  if (process.platform === "win32") return;
  const folder = fs.openSync(path, fs.constants.O_RDONLY);
  try {
    fs.fsyncSync(folder);
  } finally {
    fs.closeSync(folder);
  }
}
