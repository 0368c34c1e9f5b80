/** Copies a database file to PostgreSQL, and proves the copy by reading all of it back. */
import type { AccountTable, Store } from "../../contracts/store.js";
import { countedBalance } from "../../credits/account.js";
import { digestText } from "../../lib/hash.js";
import type { ExportedPage } from "../../stores/codec/exported-rows.js";
import { postgresStore, type PostgresClient } from "../../stores/postgres/index.js";
import { asShared, beginLoad, isShared, type PostgresLoad } from "../../stores/postgres/load.js";
import { openExport } from "../../stores/sqlite/backup/export-rows.js";
import { isObject } from "../../lib/copy-json.js";

/** What was copied of one kind, and proved. */
export interface CopiedKind {
  readonly rows: number;
  /** SHA-256 over all rows, in the order of their ids or numbers. */
  readonly digest: string;
  /** Whether the target has as many, and the same digest. */
  readonly isSame: boolean;
}

/** Milliseconds for a statement: a page may have 64 MB of metadata, and millions of keys are counted. */
const TIMEOUT = 600_000;

export interface CopyOptions {
  readonly schema: string;
  /** Called with what is being done and the number of rows so far, of so many. */
  readonly onProgress: (what: "copying" | "proving", done: number, all: number) => void;
}

/**
 * Copies the file at `from` in one transaction. After an interruption nothing is there, and it may be begun again.
 * @param connection one connection and no pool, which the caller ends
 * @returns what was copied, by kind; if anything differs all of it was taken back
 * @throws KeystileError CONFLICT: the target holds rows, or something else writes to it; STORE_INVALID,
 *   STORE_UNAVAILABLE and the like
 */
export async function copyDatabase(
  from: string,
  connection: PostgresClient,
  { schema, onProgress }: CopyOptions,
): Promise<ReadonlyMap<string, CopiedKind>> {
  const options = { schema, timeout: TIMEOUT };
  // Without what listens, if the client has that: in a transaction nothing is heard.
  const client: PostgresClient = { query: (text, values) => connection.query(text, values) };
  const target = postgresStore(client, options);
  const source = openExport(from);
  let load: PostgresLoad | undefined;
  try {
    await target.setUp();
    load = await beginLoad(client, source.secret, options);
    let done = 0;
    for (const page of source.pages()) {
      await load.write(page);
      onProgress("copying", (done += page.rows.length), source.rows);
    }
    const expected = new Map<string, { rows: number; digest: string; found: string }>();
    done = 0;
    for (const page of source.pages()) {
      const so = expected.get(page.kind) ?? { rows: 0, digest: "", found: "" };
      const [digest, found] = [
        await chain(so.digest, rowsOf(page)),
        await chain(so.found, await readBack(target, load, page)),
      ];
      expected.set(page.kind, { rows: so.rows + page.rows.length, digest, found });
      onProgress("proving", (done += page.rows.length), source.rows);
    }
    const counts = await load.counts();
    const copied = new Map(
      [...expected].map(([kind, { rows, digest, found }]) => [
        kind,
        { rows, digest, isSame: digest === found && counts[kind] === rows },
      ]),
    );
    const rows = Object.values(counts).reduce((all, count) => all + count, 0);
    const isWhole = [...copied.values()].every(({ isSame }) => isSame) && rows === source.rows;
    if (isWhole) await load.finish();
    return isWhole ? copied : new Map([...copied, ...extra(copied, counts)]);
  } finally {
    await load?.cancel();
    source.close();
    await target.close();
  }
}

/** Kinds of which the target has rows and the source none. */
function extra(
  copied: ReadonlyMap<string, CopiedKind>,
  counts: Readonly<Record<string, number>>,
): [string, CopiedKind][] {
  return Object.entries(counts).flatMap(([kind, rows]): [string, CopiedKind][] =>
    rows === 0 || copied.has(kind) ? [] : [[kind, { rows: 0, digest: "", isSame: false }]],
  );
}

/** What a page says, as the target should return it. */
function rowsOf(page: ExportedPage): readonly unknown[] {
  if (isShared(page)) return asShared(page);
  if (!hasAccounts(page)) return page.rows;
  return page.rows.map(({ row, account }) => ({
    row,
    balance: countedBalance(account, new Map(), { period: account?.period ?? 0, now: 0 }),
  }));
}

async function readBack(target: Store, load: PostgresLoad, page: ExportedPage): Promise<readonly unknown[]> {
  if (isShared(page)) return load.readShared(page);
  if (!hasAccounts(page))
    return target.readMany(
      page.kind,
      page.rows.map(({ id }) => id),
    );
  const ids = page.rows.map(({ row }) => row.id);
  const rows: readonly unknown[] = await target.readMany(page.kind, ids);
  const queries = page.rows.map(({ row: { id }, account }) => ({
    ...(page.kind === "keys" ? { keyId: id } : page.kind === "grants" ? { grantId: id } : { identityId: id }),
    period: account?.period ?? 0,
  }));
  const balances = await target.readBalances(queries, 0);
  return rows.map((row, i) => ({ row, balance: balances[i] }));
}

type AccountPage = Extract<ExportedPage, { readonly kind: AccountTable }>;
const hasAccounts = (page: ExportedPage): page is AccountPage =>
  page.kind === "keys" || page.kind === "identities" || page.kind === "grants";

/** The digest of everything before and these rows, whatever the order of their properties. */
async function chain(before: string, rows: readonly unknown[]): Promise<string> {
  return digestText("sha256", before + JSON.stringify(rows, sorted), "hex");
}

function sorted(_name: string, value: unknown): unknown {
  if (!isObject(value)) return value;
  // A list of entries: an object could not have an own `__proto__` by assignment.
  return Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
}
