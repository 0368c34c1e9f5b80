/** `keystile import`: imports keys that were hashed elsewhere straight into a store. */
import { type Command, Option } from "commander";
import type { Store } from "../../contracts/store.js";
import { dryStore } from "../../keyring/import/dry-store.js";
import { createKeyring, type Keyring } from "../../keyring/keyring.js";
import { addDatabaseFlags, COMMAND_LINE, type DatabaseFlags, filesOf, withStore } from "../database/database.js";
import { dryRun, noteLost } from "../import/dry-run.js";
import { type Carryover, type Format, FORMATS, inFormat } from "../import/formats.js";
import { type KeySource, openCsv, openKeys } from "../import/key-source.js";
import { addImportFlags, type ImportFlags, type Job, runImport, type Target } from "../import/run.js";
import { ofPages, toPages } from "../import/unkey.js";
import { type CommandResult, usage, EXIT, failure } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import { loadDriver, openFile } from "../../stores/sqlite/connection/driver.js";

const HELP = `
Keys come as for \`keystile api keys migrate-keys\`, and may have five fields more: "createdAt" (Unix milliseconds), "prefix",
"start", the first characters, "keyId", and "identity", the "meta" and "ratelimits" of an owner that is new. A row that is no valid
key stops nothing: it fails with its line and the reason. Ctrl-C lets the batch under way finish. Run again, keys that went in already
fail as ALREADY_EXISTS. Servers that have the file open see the keys with their next request.

Other forms, with --from:

  better-auth  the table apikey of its plugin: its SQLite file as --source, or the table as JSON, one row a line or .csv
  csv  columns named like the fields, dotted where nested (credits.remaining, meta.plan), under a header; lists with commas
  prefixed-api-key  rows with longTokenHash, shortToken and keyPrefix, and fields as above
  unkey  pages of its apis.listKeys with decrypt: true, as they come, or their keys; a key without plaintext needs its "hash"

--dry-run reads and checks everything, and writes nothing: it says which keys would be imported, which would fail and why, and which
fields of the imported keys would be lost. It creates no file, so --failures and --successes have no effect.

Examples:
  $ keystile import --db keys.db --migration-id mig_… --api-id api_… --keys @old-keys.ndjson --failures failed.ndjson
  $ keystile import --db keys.db --api-id api_… --from better-auth --source auth.db --dry-run`;

interface Flags extends DatabaseFlags, ImportFlags {
  readonly apiId: string;
  readonly migrationId?: string;
  readonly keys?: string;
  readonly source?: string;
  readonly from?: string;
  readonly dryRun?: true;
}

/** Keys in this package's own form. */
const NATIVE: Format = { columns: {}, toKey: (row) => row };
/** Of better-auth. */
const TABLE = "apikey";

export function addImportCommand(program: Command, io: Io, result: CommandResult): void {
  const command = addDatabaseFlags(program.command("import"))
    .description("Import keys that were hashed elsewhere into a store, without a server.")
    .option(
      "--migration-id <id>",
      "of `keystile migrations create`; default with --from: its name, made if it is not there",
    )
    .requiredOption("--api-id <id>", "the API that the keys are imported into")
    .option("--keys <json>", "JSON, @file or -")
    .addOption(new Option("--from <form>", "the form of another system").choices(Object.keys(FORMATS)))
    .option("--source <file>", "the SQLite file of better-auth, in place of --keys")
    .option("--dry-run", "say what would carry over, and write nothing");
  addImportFlags(command)
    .addHelpText("after", wrapped(HELP))
    .action(async (flags: Flags) => {
      const format = FORMATS[flags.from ?? ""] ?? NATIVE;
      const carryover: Carryover = { carried: new Map(), lost: new Map() };
      const opened = await openSource(io, flags);
      try {
        const source = flags.from === undefined && !flags.dryRun ? opened : inFormat(opened, format, carryover, io.now);
        result.exitCode = await act(io, flags, format, source, carryover);
      } finally {
        opened.close?.();
      }
    });
}

async function act(io: Io, flags: Flags, format: Format, source: KeySource, carryover: Carryover) {
  const { apiId, output, from, migrationId = format.algorithm === undefined ? undefined : from } = flags;
  if (migrationId === undefined) throw usage("--migration-id: is required; `keystile migrations create` makes one");
  const frame = { migrationId, apiId };
  return withStore(flags, async (given) => {
    const job: Omit<Job, "target"> = {
      io,
      frame,
      source,
      from: flags.keys ?? `@${flags.source}`,
      targetFiles: flags.db === undefined ? [] : filesOf(flags.db),
      flags,
      isJson: output === "json",
    };
    const store = flags.dryRun ? dryStore(given) : given;
    const keyring = createKeyring(store, { actor: COMMAND_LINE });
    await ensureMigration(store, keyring, migrationId, format);
    const target = createTarget(keyring, frame);
    if (flags.dryRun) return dryRun({ ...job, target }, format, carryover);
    const exitCode = await runImport({ ...job, target });
    await noteLost(io, carryover);
    return exitCode;
  });
}

async function openSource(io: Io, { keys, source, from }: Flags): Promise<KeySource & { close?(): void }> {
  if ((keys === undefined) === (source === undefined)) throw usage("--keys or --source: give one of them");
  if (source !== undefined && from !== "better-auth") throw usage("--source: is for --from better-auth; give --keys");
  if (source !== undefined) return openTable(source, TABLE);
  const given = keys as string;
  const isCsv = from === "csv" || (from !== undefined && /^@.*\.csv$/is.test(given));
  if (isCsv) return openCsv(io, given);
  if (from !== "unkey") return openKeys(io, given);
  return ofPages(await openKeys(io, given, toPages));
}

/** @throws failure 2: the migration is of another algorithm, by which its keys would never be found */
async function ensureMigration(store: Store, keyring: Keyring, id: string, { algorithm }: Format): Promise<void> {
  if (algorithm === undefined) return;
  const [row] = await store.readMany("migrations", [id]);
  if (row === undefined) await keyring.createMigration({ id, algorithm });
  else if (row.algorithm !== algorithm)
    throw usage(`--migration-id: is of ${row.algorithm}; these keys are of ${algorithm}`);
}

function createTarget(keyring: Keyring, frame: { readonly migrationId: string; readonly apiId: string }): Target {
  return {
    isService: false,
    async send({ rows }) {
      const { migrated, failed } = await keyring.migrateKeys({ ...frame, keys: rows.map(({ key }) => key) });
      return { migrated, failed, isUncertain: false };
    },
  };
}

/* Reads the rows of a table in another system's SQLite file. */

const FLAG = "--source";
/** Rows of a read: between two reads the system that the file belongs to may write. */
const PAGE = 1_000;
/** Milliseconds that a read waits for such a write. */
const BUSY_TIMEOUT = 5_000;

/**
 * Opens a table; NULL is left out of its rows.
 * @throws failure 2: no such file or table; KeystileError: there is no driver
 */
function openTable(path: string, table: string): KeySource & { close(): void } {
  // Not read-only: beside a write-ahead log SQLite would leave two files that only a writer may remove.
  const options = { readonly: false, fileMustExist: true, timeout: BUSY_TIMEOUT };
  const database = asked(path, () => openFile(loadDriver(), path, options));
  database.exec("PRAGMA query_only = 1");
  const read = asked(path, () =>
    database.prepare(`SELECT rowid AS "rowid", * FROM "${table}" WHERE rowid > ? ORDER BY rowid LIMIT ${PAGE}`),
  );
  return {
    unit: "row",
    async *read() {
      let number = 0;
      let after = Number.MIN_SAFE_INTEGER;
      for (;;) {
        const rows = asked(path, () => read.all(after)) as { readonly rowid: number }[];
        for (const { rowid, ...value } of rows) yield { number: ++number, value: ((after = rowid), value) };
        if (rows.length < PAGE) return;
      }
    },
    count: async () =>
      asked(path, () => database.prepare(`SELECT COUNT(*) AS "rows" FROM "${table}"`).get() as { rows: number }).rows,
    close: () => void database.close(),
  };
}

/** The driver's errors name files, tables and columns, never values. */
function asked<T>(path: string, act: () => T): T {
  try {
    return act();
  } catch (cause) {
    const { code, message } = cause as { readonly code?: unknown; readonly message?: unknown };
    if (typeof code !== "string" || !code.startsWith("SQLITE_")) throw cause;
    if (code === "SQLITE_BUSY") throw failure(EXIT.failed, `${FLAG}: ${path}: others kept it locked for too long`);
    throw usage(`${FLAG}: ${path}: ${String(message)}`);
  }
}
