/** Shared by the commands that open a store themselves, without a server: a database file or a PostgreSQL. */
import { existsSync, realpathSync, statSync } from "node:fs";
import { type Command, Option } from "commander";
import { OPERATIONS } from "../../http/operations/index.js";
import type { Store } from "../../contracts/store.js";
import { createKeyring, type Keyring } from "../../keyring/keyring.js";
import { COMPANIONS } from "../../stores/sqlite/backup/files.js";
import { postgresStore } from "../../stores/postgres/index.js";
import { sqliteStore } from "../../stores/sqlite/index.js";
import { limitsPathOf } from "../../stores/sqlite/limits/limits-file.js";
import { MAX_AUDIT_ROWS } from "../../stores/sqlite/options.js";
import { type FlagAliases, toFailure, usage } from "../io/failures.js";
import { toAddress, toPath } from "../io/parsers.js";
import { openPool, schemaOption } from "./postgres.js";
import { rootKeyFile } from "./root-key-file.js";

/** Which store a command opens: either flag, and not both. */
export interface StoreFlags {
  readonly db?: string;
  /** The address of a PostgreSQL, which may hold a password. */
  readonly store?: string;
  /** The schema of its tables; `keystile` if the flag is not given. */
  readonly schema: string;
}

/** The flags of a command that opens a store, and prints what programs may read. */
export interface DatabaseFlags extends StoreFlags {
  readonly output?: "json" | undefined;
}

/** @throws failure 2 unless one store is named */
export function assertOneStore({ db, store }: StoreFlags): void {
  if ((db === undefined) === (store === undefined)) throw usage("takes one of: --db FILE, --store ADDRESS");
}

/** Adds {@link StoreFlags}. */
export function addStoreFlags(command: Command): Command {
  return command
    .option("--db <file>", "the database file", toPath)
    .option(
      "--store <address>",
      "in place of --db: postgres://USER@HOST/DATABASE; the password from PGPASSWORD",
      toAddress,
    )
    .addOption(schemaOption("with --store"));
}

/** Adds {@link DatabaseFlags}. */
export function addDatabaseFlags(command: Command): Command {
  return addStoreFlags(command).addOption(outputOption());
}

/** `--output`, of commands that print what programs may read. */
export function outputOption(): Option {
  return new Option("--output <form>", "json: for programs").choices(["json"]);
}

/** @throws failure 2 for a folder, for which SQLite's error is unhelpful */
export function assertNoFolder(db: string): void {
  if (existsSync(db) && statSync(db).isDirectory()) throw usage(`--db: ${db}: is a folder; name a file in it`);
}

/** @throws failure 2 if the file does not exist: of the commands only `serve` and `apis create` create one */
export function assertDatabase(db: string): void {
  assertNoFolder(db);
  if (!existsSync(db))
    throw usage(
      `--db: ${db}: there is no such file; \`npx keystile serve --db ${db}\` makes one, or \`apis create\` without a server`,
    );
}

/** Creates the file, without an API or a root key, if it does not exist. */
export async function createDatabase(db: string): Promise<void> {
  assertNoFolder(db);
  if (!existsSync(db)) await sqliteStore(db).close();
}

/** Every file that belongs to an existing database, also those that are not there now. */
export function filesOf(db: string): string[] {
  const path = realpathSync(db);
  const databases = [path, limitsPathOf(path)];
  return [
    ...databases.flatMap((file) => ["", ...COMPANIONS].map((end) => `${file}${end}`)),
    rootKeyFile(db),
    rootKeyFile(path),
  ];
}

/** Who changes what the command line changes, in the audit trail. */
export const COMMAND_LINE = "keystile command";

/** Flags and arguments of commands on a store that are not named as what they say in a request. */
const ALIASES: FlagAliases = new Map([
  ["keyId", "<keyId>"],
  ["rootKeyId", "<rootKeyId>"],
  ["permissions", "--permission"],
  ["roles", "--role"],
]);

/**
 * Opens a store that is there, and closes it after `act`, with errors that name the flags of the command. Servers that
 * have it open see the changes.
 */
export function withKeyring<T>(place: StoreFlags, act: (keyring: Keyring) => Promise<T>, aliases = ALIASES) {
  const acting = withStore(place, (store) => act(createKeyring(store, { actor: COMMAND_LINE })));
  return acting.catch((error: unknown): never => {
    throw toFailure(error, aliases);
  });
}

/** As {@link withKeyring}, with the store itself. */
export async function withStore<T>(place: StoreFlags, act: (store: Store) => Promise<T>): Promise<T> {
  assertOneStore(place);
  const { db, store: address, schema } = place;
  // The bound of the audit trail is the server's: here nothing is removed from it.
  const audit = { rows: MAX_AUDIT_ROWS };
  if (db !== undefined) {
    assertDatabase(db);
    return closing(sqliteStore(db, { mustExist: true, audit }), act);
  }
  const pool = await openPool(address as string);
  try {
    return await closing(postgresStore(pool, { schema, audit }), act);
  } finally {
    await pool.end();
  }
}

async function closing<T>(store: Store, act: (store: Store) => Promise<T>): Promise<T> {
  try {
    return await act(store);
  } finally {
    await store.close();
  }
}

/** The permissions of every operation on every resource, which the first root key gets. */
export function allPermissions(): string[] {
  const named = Object.values(OPERATIONS).flatMap(({ permissions, also }) => [
    ...permissions,
    ...also.map(({ permission }) => permission),
  ]);
  return [...new Set(named.filter((permission) => /^[a-z]+\.\*\.[a-z_]+$/.test(permission)))].sort();
}
