/**
 * Files of millions of keys: built once under `.cache/millions` and opened where they lie, for a copy would take longer
 * than the bench. They are as old as the form of the file: sources that change need no new one. Nobody may write to
 * them.
 *
 * Each is read through before it is used, so that the system's memory holds it where there is space for it: a disk
 * would be all that is measured (a cold verification at 10,000,000 keys took 107 µs with a file that had to come from
 * the disk, and 23.5 without).
 */
import { closeSync, existsSync, mkdirSync, openSync, readSync, renameSync } from "node:fs";
import { join } from "node:path";
import { SCHEMA_VERSION } from "../src/stores/sqlite/connection/schema.js";
import { buildSnapshots, openSnapshotFile, type Snapshots } from "./bare.js";
import { QUICK } from "./harness.js";
import { buildStore, scratch } from "./stores.js";

const FOLDER = join(".cache", "millions");
const PIECE = 2 ** 20;

/** The file of a store with so many unlimited keys. */
export function largeStore(keys: number): Promise<string> {
  return once(`unlimited-${keys}-v${SCHEMA_VERSION}.db`, (path) => buildStore(path, { keys, limited: false }));
}

/** The floor of the same size. */
export async function largeSnapshots(keys: number): Promise<Snapshots> {
  return openSnapshotFile(await once(`snapshots-${keys}.db`, (path) => buildSnapshots(path, keys)));
}

async function once(name: string, build: (path: string) => void | Promise<void>): Promise<string> {
  const path = QUICK ? scratch(name) : join(FOLDER, name);
  if (!existsSync(path)) {
    // Built elsewhere: what is found under its name is whole.
    const unfinished = scratch(`unfinished-${name}`);
    await build(unfinished);
    if (!QUICK) mkdirSync(FOLDER, { recursive: true });
    renameSync(unfinished, path);
  }
  readThrough(path);
  return path;
}

function readThrough(path: string): void {
  const piece = Buffer.alloc(PIECE);
  const file = openSync(path, "r");
  while (readSync(file, piece) > 0);
  closeSync(file);
}
