/**
 * Everything in a database file, page by page and as of one moment, for a store of another kind.
 *
 * Why leases end as if all had expired: nobody else may use the file meanwhile, so no node is left that could spend
 * what it reserved. What nodes held is forfeited: whether they spent it is unknown.
 */
import type { AccountTable, Rows } from "../../../contracts/store.js";
import { sweep } from "../../../credits/account.js";
import { ENTITY_TABLES, type EntityTable } from "../../codec/entity-codec.js";
import {
  type ExportedKey,
  type ExportedPage,
  type OwningTable,
  type PlainTable,
  SHARED_TABLES,
  type SharedRow,
  type SharedTable,
} from "../../codec/exported-rows.js";
import { loadDriver, openFile } from "../connection/driver.js";
import { toStoreError } from "../connection/errors.js";
import { assertOwnLog } from "../connection/foreign-log.js";
import { type Handle, select } from "../connection/handle.js";
import { SCHEMA_VERSION } from "../connection/schema.js";
import { createAccounts } from "../credits/account-table.js";
import { createOnceTable } from "../credits/once-table.js";
import { createKeyReader } from "../keys/find-keys.js";
import { createEntityTables, TABLES } from "../tables/entity-tables.js";
import { createReferenceCache } from "../tables/reference-cache.js";
import { KeystileError } from "../../../contracts/errors.js";
import { assertTables } from "./make-backup.js";

/** Tables of which an export has every row. Accounts go with their keys and identities; leases end. */
export const EXPORTED_TABLES: readonly string[] = [
  ...Object.values(TABLES),
  "keystile_keys",
  ...Object.keys(SHARED_TABLES).map((table) => `keystile_${table}`),
];
/** Rows of a page. */
const PAGE = 1_000;

/**
 * Opens a file for reading alone, and keeps to the state that it finds.
 * @throws KeystileError STORE_INVALID: the tables are of an earlier version, or the log beside the file is another's;
 *   STORE_SCHEMA_NEWER; STORE_BUSY, STORE_FAILED
 */
export function openExport(path: string) {
  const handle = openFile(loadDriver(), path, { readonly: true, fileMustExist: true, timeout: 10_000 });
  try {
    assertOwnLog(path);
    const version = assertTables(handle);
    if (version !== SCHEMA_VERSION)
      throw new KeystileError(
        "STORE_INVALID",
        `the file has keystile tables of version ${version}, this keystile needs ${SCHEMA_VERSION}; upgrade them: ` +
          "npx keystile apis list --db FILE",
      );
    handle.exec("BEGIN");
    return { ...read(handle), close: () => handle.close() };
  } catch (cause) {
    handle.close();
    throw toStoreError(cause);
  }
}

function read(handle: Handle) {
  const entities = createEntityTables(handle);
  const keys = createKeyReader(handle, createReferenceCache(handle), entities.openGrants);
  const accounts = createAccounts(handle);
  const countOf = (table: string) =>
    Number(select<{ n: number | bigint }>(handle, `SELECT count(*) AS n FROM ${table}`).get()?.n);

  const accountsOf = (table: AccountTable, ids: readonly string[]) => {
    const found = accounts.readMany(table, ids);
    return (id: string) => {
      const { number, account, leases } = found.get(id)!;
      return { number, account: account && sweep(account, leases, { now: Infinity }).account };
    };
  };
  function* entityPages(table: EntityTable): Iterable<ExportedPage> {
    const page = select<{ id: string }>(
      handle,
      `SELECT id FROM ${TABLES[table]} WHERE id > ? ORDER BY id LIMIT ${PAGE}`,
    );
    for (let ids = [""]; (ids = page.all(ids.at(-1) as string).map(({ id }) => id)).length > 0;) {
      const rows = entities.readMany(table, ids).filter((row) => row !== undefined);
      yield table === "identities" || table === "grants"
        ? ownerPage(table, rows as Rows[OwningTable][])
        : { kind: table, rows: rows as Rows[PlainTable][] };
    }
  }
  function ownerPage(table: OwningTable, rows: readonly Rows[OwningTable][]): ExportedPage {
    const accountOf = accountsOf(
      table,
      rows.map(({ id }) => id),
    );
    return { kind: table, rows: rows.map((row) => ({ row, ...accountOf(row.id) })) };
  }
  function* keyPages(): Iterable<ExportedPage> {
    const numbers = select<{ number: number | bigint; id: string; account: number | bigint | null }>(
      handle,
      `SELECT number, id, account FROM keystile_keys WHERE number > ? ORDER BY number LIMIT ${PAGE}`,
    );
    for (let page = numbers.all(Number.MIN_SAFE_INTEGER); page.length > 0;) {
      const ids = page.map(({ id }) => id);
      const rows = keys.readMany(ids);
      const accountOf = accountsOf("keys", ids);
      yield {
        kind: "keys",
        rows: page.flatMap(({ id, number, account: shared }, i): ExportedKey[] => {
          const row = rows[i];
          if (row === undefined) return [];
          const sharedAccount = shared === null ? undefined : Number(shared);
          return [{ number: Number(number), sharedAccount, row, account: accountOf(id).account }];
        }),
      };
      page = numbers.all(Number((page.at(-1) as { number: number | bigint }).number));
    }
  }
  function* sharedPages(kind: SharedTable): Iterable<ExportedPage> {
    const key = SHARED_TABLES[kind];
    const records = select<Raw>(
      handle,
      `SELECT * FROM keystile_${kind} WHERE (${key.join(", ")}) > (${key.map(() => "?").join(", ")})
       ORDER BY ${key.join(", ")} LIMIT ${PAGE}`,
    );
    let after: (string | number)[] = key.map((name) => (name === "id" ? "" : Number.MIN_SAFE_INTEGER));
    for (let page = records.all(...after); page.length > 0; page = records.all(...after)) {
      const rows = page.map((raw) => toSharedRow(kind, raw));
      after = key.map((name) => rows.at(-1)?.[name] as string | number);
      yield { kind, rows };
    }
  }
  return {
    /** The secret that idempotency keys are digested with. */
    secret: createOnceTable(handle).readSecret("idempotency"),
    /** How many rows there are. */
    rows: EXPORTED_TABLES.reduce((sum, table) => sum + countOf(table), 0),
    /** All pages, in an order in which rows come after what they refer to. */
    *pages(): Iterable<ExportedPage> {
      for (const table of ENTITY_TABLES) yield* entityPages(table);
      yield* keyPages();
      for (const table of Object.keys(SHARED_TABLES) as SharedTable[]) yield* sharedPages(table);
    },
  };
}

type Raw = Readonly<Record<string, string | number | bigint | null>>;

function toSharedRow(kind: SharedTable, raw: Raw): SharedRow {
  // Of a set of tags, its digest is this store's alone.
  const { digest: _, ...rest } = raw;
  const isList = (name: string): boolean => kind === "audit" && ["ids", "fields", "changes"].includes(name);
  return Object.fromEntries(
    Object.entries(rest).map(([name, value]): [string, SharedRow[string]] => [
      name,
      isList(name) && value !== null
        ? (JSON.parse(value as string) as string[])
        : typeof value === "bigint"
          ? Number(value)
          : value,
    ]),
  );
}
