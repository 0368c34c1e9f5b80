/**
 * SQLite files of many keys: built once, kept under `.cache/bench`, and copied for each program, which may spoil its
 * copy.
 */
import { createHash } from "node:crypto";
import {
  constants,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from "node:fs";
import { join } from "node:path";
import type { Store } from "../src/contracts/store.js";
import { sqliteStore, type SqliteStore, type SqliteStoreOptions } from "../src/stores/sqlite/index.js";
import { QUICK } from "./harness.js";
import { API, BALANCE, keyIdOf, keyRow, PERMISSIONS, permissionIdOf, WORKSPACE } from "./keys.js";

/** Which file. */
export interface Base {
  readonly keys: number;
  /** Whether the keys have credits, or are unlimited. */
  readonly limited: boolean;
}

/** A store on a copy of a base, and where it lies. */
export interface Copy {
  readonly store: SqliteStore;
  readonly path: string;
}

const ROOT = join(".cache", "bench");
const OWN = join(ROOT, `run-${process.pid}`);
const ROWS_A_BATCH = 5_000;
const FORGOTTEN_AFTER_MS = 30 * 60_000;
/** What decides how the files look. */
const SOURCES = ["src/stores/sqlite", "bench/stores.ts", "bench/keys.ts", "bench/bare.ts"];

/** A folder for this program alone; gone when it ends. */
export function scratch(name: string): string {
  if (!existsSync(OWN)) {
    forgetDead();
    mkdirSync(OWN, { recursive: true });
    process.once("exit", () => rmSync(OWN, { recursive: true, force: true }));
  }
  return join(OWN, name);
}

/** A file that outlives this program, and is made anew when the sources that made it change. */
export async function kept(name: string, build: (path: string) => void | Promise<void>): Promise<string> {
  if (QUICK) {
    // Small, and not worth keeping.
    const path = scratch(name);
    if (!existsSync(path)) await build(path);
    return path;
  }
  const folder = join(ROOT, sourceHash());
  const path = join(folder, name);
  const now = new Date();
  if (existsSync(path)) {
    utimesSync(folder, now, now);
    return path;
  }
  const unfinished = scratch(`unfinished-${name}`);
  forgetOld();
  await build(unfinished);
  mkdirSync(folder, { recursive: true });
  renameSync(unfinished, path);
  return path;
}

/** A store on a fresh copy of `base`. */
export async function openCopy(base: Base, options: SqliteStoreOptions = {}, name = "store.db"): Promise<Copy> {
  const kind = base.limited ? "limited" : "unlimited";
  const path = scratch(name);
  copyFileSync(
    await kept(`${kind}-${base.keys}.db`, (file) => buildStore(file, base)),
    path,
    constants.COPYFILE_FICLONE,
  );
  return { path, store: sqliteStore(path, options) };
}

/** @throws Error unless the keys below `keys` have together spent so many credits of their first balances */
export async function assertSpent(store: Store, keys: number, expected: number): Promise<void> {
  let spent = 0;
  for (let n = 0; n < keys; n++)
    spent += BALANCE - ((await store.readBalances([{ keyId: keyIdOf(n), period: 0 }], 0))[0]?.remaining ?? NaN);
  if (spent !== expected) throw new Error(`${spent} credits were spent by ${expected} verifications`);
}

/** A new file with the keys of a base, as an import makes it. */
export async function buildStore(path: string, { keys, limited }: Base): Promise<void> {
  const store = sqliteStore(path, { durability: "process" });
  await prepare(store);
  for (let first = 0; first < keys; first += ROWS_A_BATCH) {
    const rows = Array.from({ length: Math.min(ROWS_A_BATCH, keys - first) }, (_, i) => keyRow(first + i, limited));
    const inserted = await store.insertKeys(rows);
    if (!inserted.every(Boolean)) throw new Error("a key of the bench is there already");
  }
  await store.close();
}

/** The API and the permissions that every key refers to. */
export async function prepare(store: Store): Promise<void> {
  const owned = { version: 0, workspaceId: WORKSPACE };
  const written = await store.write([
    {
      table: "apis",
      row: { ...owned, id: API, name: "bench", enabled: true, ipAllowlist: [], deleted: false, createdAt: 0 },
    },
    ...PERMISSIONS.map((slug) => ({
      table: "permissions" as const,
      row: { ...owned, id: permissionIdOf(slug), name: slug, slug },
    })),
  ]);
  if (written !== "written") throw new Error("the API of the bench is there already");
}

function sourceHash(): string {
  const hash = createHash("sha256");
  for (const source of SOURCES) {
    const files = source.endsWith(".ts")
      ? [source]
      : (readdirSync(source, { recursive: true }) as string[])
          .sort()
          .map((name) => join(source, name))
          .filter((name) => name.endsWith(".ts"));
    for (const file of files) hash.update(readFileSync(file));
  }
  return hash.digest("hex").slice(0, 12);
}

/** Files of former sources, some hundred megabytes each; not those that another run may be using. */
function forgetOld(): void {
  for (const name of readdirSync(ROOT)) {
    const folder = join(ROOT, name);
    const usedAt = statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? Infinity;
    if (!name.startsWith("run-") && usedAt < Date.now() - FORGOTTEN_AFTER_MS)
      rmSync(folder, { recursive: true, force: true });
  }
}

/** Folders of programs that were killed. */
function forgetDead(): void {
  for (const name of existsSync(ROOT) ? readdirSync(ROOT) : []) {
    const pid = /^run-(\d+)$/.exec(name)?.[1];
    if (pid !== undefined && !isAlive(Number(pid))) rmSync(join(ROOT, name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // EPERM: alive, and another user's.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
