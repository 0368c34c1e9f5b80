/**
 * The hash index that finds keys: keyed hash of a digest or foreign digest, or an identity as a negative number →
 * numbers of keys that may have it. A find reads the row and compares.
 *
 * Why a keyed hash: outsiders choose the texts of imported hashes. With a hash that they could compute, 60,000 texts of
 * one hash were found in six seconds, and three imports of them blocked the event loop for a minute and a half. The
 * secret is in the file.
 *
 * Why not an index on the text: digests are random, so each insert writes to another page. At half a million keys,
 * batches of 1,000 wrote 8.4 KB per key and ran at less than half the initial speed. Here entries are 47-bit hashes,
 * and a large batch goes into the small table of recent entries, from which as many are then merged into the main
 * table, in order: 2.5 KB per key, at nearly constant speed.
 */
import { type Handle, select } from "../connection/handle.js";
import type { KeyedHash } from "./keyed-hash.js";
import { createManyRows } from "./multi-row-insert.js";

/** The fields by which a key is found. */
export interface Findable {
  readonly digest?: string | null | undefined;
  readonly foreignDigest?: string | null | undefined;
  /** Row number of its identity; null also for a deleted key, which is not listed under its identity. */
  readonly identity: number | null;
}

/**
 * Entries kept in the table of recent ones: a batch then writes about as many pages of it as the merge writes of the
 * main table.
 */
const RECENT_SIZE = 48_000;
/** Entries per merge, to bound its time; more than the three per key that a batch of 1,000 adds. */
const MAX_MERGED = 4_096;
/** Below and above every hash. */
const START = -Number.MAX_SAFE_INTEGER;
const END = Number.MAX_SAFE_INTEGER;

/** The entry of an identity's keys: negative, while hashes never are. */
export function entryOfIdentity(identity: number): number {
  return -identity;
}

/** Every entry of a key, without duplicates. */
export function entriesOf(hash: KeyedHash, { digest, foreignDigest, identity }: Findable): Set<number> {
  const entries = new Set<number>();
  if (typeof digest === "string") entries.add(hash(digest));
  if (typeof foreignDigest === "string") entries.add(hash(foreignDigest));
  if (identity !== null) entries.add(entryOfIdentity(identity));
  return entries;
}

export function createHashIndex(handle: Handle) {
  const tables = ["keystile_key_index", "keystile_key_index_recent"] as const;
  const add = handle.prepare("INSERT OR IGNORE INTO keystile_key_index (hash, key_number) VALUES (?, ?)");
  const addRecent = createManyRows(
    handle,
    "INSERT OR IGNORE INTO keystile_key_index_recent (hash, key_number) VALUES",
    2,
  );
  const remove = tables.map((table) => handle.prepare(`DELETE FROM ${table} WHERE hash = ? AND key_number = ?`));
  const clear = tables.map((table) => handle.prepare(`DELETE FROM ${table} WHERE hash = ?`));
  const count = select<{ count: number }>(handle, "SELECT count(*) AS count FROM keystile_key_index_recent");
  const after = select<{ hash: number | bigint; n: number | bigint }>(
    handle,
    "SELECT hash, key_number AS n FROM keystile_key_index_recent WHERE (hash, key_number) >= (?, ?) ORDER BY hash, key_number LIMIT 1 OFFSET ?",
  );
  const RANGE = "keystile_key_index_recent WHERE (hash, key_number) >= (?, ?) AND (hash, key_number) < (?, ?)";
  const copy = handle.prepare(
    `INSERT OR IGNORE INTO keystile_key_index (hash, key_number) SELECT hash, key_number FROM ${RANGE} ORDER BY hash, key_number`,
  );
  const drop = handle.prepare(`DELETE FROM ${RANGE}`);
  /** Where the next merge begins; wraps around. */
  let from: readonly [hash: number, n: number] = [START, 0];

  return {
    add: (hash: number, keyNumber: number): void => void add.run(hash, keyNumber),
    /** Adds many entries; hash and key number alternate. Call {@link HashIndex.mergeRecent} last in the transaction. */
    addRecent,
    remove(hash: number, keyNumber: number): void {
      for (const statement of remove) statement.run(hash, keyNumber);
    },
    /** Removes all entries of a hash. */
    clear(hash: number): void {
      for (const statement of clear) statement.run(hash);
    },
    /** Merges entries into the main table while there are more recent ones than its table keeps. */
    mergeRecent(): void {
      const surplus = Math.min(MAX_MERGED, Number(count.get()?.count) - RECENT_SIZE);
      if (surplus <= 0) return;
      const next = after.get(...from, surplus);
      const to = next === undefined ? ([END, 0] as const) : ([Number(next.hash), Number(next.n)] as const);
      copy.run(...from, ...to);
      drop.run(...from, ...to);
      from = next === undefined ? [START, 0] : to;
    },
  };
}

export type HashIndex = ReturnType<typeof createHashIndex>;
