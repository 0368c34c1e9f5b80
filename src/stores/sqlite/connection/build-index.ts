/**
 * Builds the index of keys for a file that was upgraded to the keyed hash, before anything else uses the file.
 *
 * Why outside the transaction of the schema step: a million keys take some seconds. Entries are inserted in order,
 * which only appends to the tree, in transactions of their own; whoever opens the file after a crash goes on where it
 * ended.
 */
import { createKeyedHash } from "../keys/keyed-hash.js";
import { entriesOf } from "../keys/hash-index.js";
import { changed, type Handle, select } from "./handle.js";
import type { Transact } from "./transaction.js";

/** Entries sorted in memory at once, 16 bytes each. More keys take several passes over the table. */
const MAX_SORTED = 6_000_000;
/** Entries per transaction: some 30 ms. */
const BATCH = 20_000;
const HASHES = 2 ** 47;

interface KeyRaw {
  readonly n: number | bigint;
  readonly digest: string | null;
  readonly foreignDigest: string | null;
  readonly identity: number | bigint | null;
}

/** Completes the index, if it is not complete. @throws the driver's error: nothing of the batch was written */
export function buildKeyIndex(handle: Handle, transact: Transact): void {
  for (let after = progress(handle); after !== undefined; after = progress(handle)) {
    // Another process may have written the same batch, or finished, meanwhile.
    for (const batch of batchesAfter(handle, after)) {
      const isNext = transact(() => (insertBatch(handle, batch) ? true : undefined));
      if (isNext === undefined) break;
    }
  }
}

/** The last entry that is written, `undefined` once all are. */
function progress(handle: Handle): Entry | undefined {
  const isBuilding = select(handle, "SELECT 1 FROM sqlite_schema WHERE name = 'keystile_key_index_build'").get();
  if (isBuilding === undefined) return undefined;
  const row = select<Record<keyof Entry, number | bigint>>(
    handle,
    "SELECT hash, key_number AS n FROM keystile_key_index_build",
  ).get();
  return row && { hash: Number(row.hash), n: Number(row.n) };
}

interface Entry {
  readonly hash: number;
  readonly n: number;
}

interface Batch {
  /** The progress that it goes on from. */
  readonly after: Entry;
  readonly entries: readonly Entry[];
  readonly isLast: boolean;
}

/** @returns false: the progress is another by now */
function insertBatch(handle: Handle, { after, entries, isLast }: Batch): boolean {
  const to = entries.at(-1) ?? after;
  const isNext = changed(
    handle
      .prepare("UPDATE keystile_key_index_build SET hash = ?, key_number = ? WHERE hash = ? AND key_number = ?")
      .run(to.hash, to.n, after.hash, after.n),
  );
  if (isNext !== 1) return false;
  const insert = handle.prepare("INSERT OR IGNORE INTO keystile_key_index (hash, key_number) VALUES (?, ?)");
  for (const { hash, n } of entries) insert.run(hash, n);
  if (isLast) handle.exec("DROP TABLE keystile_key_index_build");
  return true;
}

/** All entries after the progress, in order. */
function* batchesAfter(handle: Handle, from: Entry): Generator<Batch> {
  const keys = Number(select<{ n: number | bigint }>(handle, "SELECT count(*) AS n FROM keystile_keys").get()?.n);
  // Two hashes and an identity a key.
  const passes = Math.max(1, Math.ceil((keys * 3) / MAX_SORTED));
  let after = from;
  for (let pass = 0; pass < passes; pass++) {
    const [low, high] = [pass === 0 ? -Infinity : (HASHES / passes) * pass, (HASHES / passes) * (pass + 1)];
    if (high <= after.hash) continue;
    const sorted = entriesBetween(handle, low, high).filter(
      ({ hash, n }) => hash > after.hash || (hash === after.hash && n > after.n),
    );
    const isLastPass = pass === passes - 1;
    for (let start = 0; start === 0 || start < sorted.length; start += BATCH) {
      const entries = sorted.slice(start, start + BATCH);
      yield { after, entries, isLast: isLastPass && start + BATCH >= sorted.length };
      after = entries.at(-1) ?? after;
    }
  }
}

function entriesBetween(handle: Handle, low: number, high: number): Entry[] {
  const hash = createKeyedHash(handle);
  const read = select<KeyRaw>(
    handle,
    `SELECT number AS n, digest, foreign_digest AS foreignDigest, iif(deleted, NULL, identity) AS identity
     FROM keystile_keys WHERE number > ? ORDER BY number LIMIT ${BATCH}`,
  );
  const entries: Entry[] = [];
  for (let last = 0, rows = read.all(last); rows.length > 0; rows = read.all(last)) {
    for (const { n, digest, foreignDigest, identity } of rows) {
      last = Number(n);
      const found = entriesOf(hash, { digest, foreignDigest, identity: identity === null ? null : Number(identity) });
      for (const entry of found) if (entry >= low && entry < high) entries.push({ hash: entry, n: last });
    }
  }
  return entries.sort((a, b) => a.hash - b.hash || a.n - b.n);
}
