/** Shared by the commands that work on the database file without a server. */
import { existsSync, realpathSync, statSync } from "node:fs";
import { type Command, Option } from "commander";
import { OPERATIONS } from "../../http/operations/index.js";
import type { Store } from "../../contracts/store.js";
import { createKeyring, type Keyring } from "../../keyring/keyring.js";
import type { Page } from "../../keyring/schemas/responses.js";
import { COMPANIONS } from "../../stores/sqlite/backup/files.js";
import { sqliteStore } from "../../stores/sqlite/index.js";
import { limitsPathOf } from "../../stores/sqlite/limits/limits-file.js";
import { MAX_AUDIT_ROWS } from "../../stores/sqlite/options.js";
import { type FlagAliases, toFailure, usage } from "../io/failures.js";
import { toPath } from "../io/parsers.js";
import { rootKeyFile } from "./root-key-file.js";

/** Adds the flags of these commands. */
export function addDatabaseFlags(command: Command): Command {
  return command
    .requiredOption("--db <file>", "the database file", toPath)
    .addOption(new Option("--output <form>", "json: for programs").choices(["json"]));
}

export interface DatabaseFlags {
  readonly db: string;
  readonly output?: "json" | undefined;
}

/** @throws failure 2 for a folder, for which SQLite's error is unhelpful */
export function assertNoFolder(db: string): void {
  if (existsSync(db) && statSync(db).isDirectory()) throw usage(`--db: ${db}: is a folder; name a file in it`);
}

/** @throws failure 2 if the file does not exist: of the commands only `serve` creates one */
export function assertDatabase(db: string): void {
  assertNoFolder(db);
  if (!existsSync(db))
    throw usage(
      `--db: ${db}: there is no such file; \`npx keystile serve --db ${db}\` makes one, as does sqliteStore() in a program`,
    );
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

/** Opens an existing file, and closes it after `act`. Servers that have it open see the changes. */
export function withKeyring<T>(db: string, act: (keyring: Keyring) => Promise<T>): Promise<T> {
  return withStore(db, (store) => act(createKeyring(store, { actor: COMMAND_LINE })));
}

/** As {@link withKeyring}, with errors that name the flags of a command. */
export function withKeyringFor<T>(db: string, aliases: FlagAliases, act: (keyring: Keyring) => Promise<T>): Promise<T> {
  return withKeyring(db, act).catch((error: unknown) => {
    throw toFailure(error, aliases);
  });
}

/** As {@link withKeyring}, with the store itself. */
export async function withStore<T>(db: string, act: (store: Store) => Promise<T>): Promise<T> {
  assertDatabase(db);
  // The bound of the audit trail is the server's: here nothing is removed from it.
  const store = sqliteStore(db, { mustExist: true, audit: { rows: MAX_AUDIT_ROWS } });
  try {
    return await act(store);
  } finally {
    await store.close();
  }
}

/** All pages of a list. */
export async function readAll<T>(list: (page: { readonly cursor?: string }) => Promise<Page<T>>): Promise<T[]> {
  const rows: T[] = [];
  let cursor: string | undefined;
  do {
    const page = await list(cursor === undefined ? {} : { cursor });
    rows.push(...page.data);
    cursor = page.pagination.hasMore ? page.pagination.cursor : undefined;
  } while (cursor !== undefined);
  return rows;
}

/** The permissions of every operation on every resource, which the first root key gets. */
export function allPermissions(): string[] {
  const named = Object.values(OPERATIONS).flatMap(({ permissions, also }) => [
    ...permissions,
    ...also.map(({ permission }) => permission),
  ]);
  return [...new Set(named.filter((permission) => /^[a-z]+\.\*\.[a-z_]+$/.test(permission)))].sort();
}
