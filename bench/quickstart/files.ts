/**
 * The quickstart's files, all in `.cache/` of the working folder: the database, the two NDJSON files, and what the last
 * run left to compare.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import type { V2KeysMigrateKeyData } from "../../src/contracts/types.js";
import type { SeedFile } from "./seed.js";

export const FOLDER = ".cache";
export const DATABASE = join(FOLDER, "quickstart.db");
const STATE = join(FOLDER, "quickstart.json");

/** What a program would keep in its configuration, and what this one saw last. No key is ever written down. */
export interface State {
  readonly runs: number;
  readonly apiId: string;
  /** Balance of the shown key when the last run ended. */
  readonly balance: number;
}

/** What the last complete run left, if its database is still there; what is left of any other is removed. */
export function openState(fresh: boolean): State | undefined {
  mkdirSync(FOLDER, { recursive: true });
  if (!fresh && existsSync(DATABASE) && existsSync(STATE)) return JSON.parse(readFileSync(STATE, "utf8")) as State;
  for (const file of [STATE, DATABASE, `${DATABASE}-wal`, `${DATABASE}-shm`]) rmSync(file, { force: true });
  return undefined;
}

export function saveState(state: State): void {
  writeFileSync(STATE, `${JSON.stringify(state, null, 2)}\n`);
}

/** Where a seed file lies. */
export const pathOf = (seed: SeedFile): string => join(FOLDER, `quickstart-${seed.algorithm}.ndjson`);

/** One JSON object a line. */
export function writeNdjson(seed: SeedFile): void {
  writeFileSync(pathOf(seed), seed.lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
}

/** The objects of an NDJSON file, line by line: a file of any size in bounded memory. */
export async function* readNdjson(path: string): AsyncGenerator<V2KeysMigrateKeyData> {
  const file = await open(path);
  for await (const line of file.readLines()) if (line !== "") yield JSON.parse(line) as V2KeysMigrateKeyData;
}
