/**
 * The hash index that finds keys: hash of a digest or foreign digest, or an identity (`place`) → row numbers of keys
 * (`n`) that may have it. A find reads the row and compares.
 *
 * Why not an index on the text: digests are random, so each insert writes to another page. At half a million keys,
 * batches of 1,000 wrote 8.4 KB per key and ran at less than half the initial speed. Here entries are 47-bit hashes,
 * and a large batch goes into a small delta table, from which as many entries are then merged into the main table, in
 * order: 2.5 KB per key, at nearly constant speed.
 */
import { type Handle, select } from "../connection/handle.js";
import { textHash } from "./hash47.js";
import { createManyRows } from "./multi-row-insert.js";

export interface HashIndex {
  add(place: number, n: number): void;
  /** Adds many entries; `place` and `n` alternate. Call {@link HashIndex.mergeDelta} last in the transaction. */
  addToDelta(entries: readonly number[]): void;
  remove(place: number, n: number): void;
  /** Removes all entries of a `place`. */
  clear(place: number): void;
  /** Merges entries into the main table while the delta table is above its size. */
  mergeDelta(): void;
}

/** The fields by which a key is found. */
export interface Findable {
  readonly digest?: string | null | undefined;
  readonly foreignDigest?: string | null | undefined;
  /** Row number of its identity; null also for a deleted key, which is not listed under its identity. */
  readonly identity: number | null;
}

/**
 * Entries kept in the delta table: a batch then writes about as many pages of it as the merge writes of the main table.
 */
const DELTA_SIZE = 48_000;
/** Entries per merge, to bound its time; more than the three per key that a batch of 1,000 adds. */
const MAX_MERGED = 4_096;
/** Below and above every `place`. */
const START = -Number.MAX_SAFE_INTEGER;
const END = Number.MAX_SAFE_INTEGER;

/** The `place` of an identity's keys: negative, while hashes never are. */
export function placeOfIdentity(identity: number): number {
  return -identity;
}

/** Every `place` of a key, without duplicates. */
export function placesOf({ digest, foreignDigest, identity }: Findable): Set<number> {
  const places = new Set<number>();
  if (typeof digest === "string") places.add(textHash(digest));
  if (typeof foreignDigest === "string") places.add(textHash(foreignDigest));
  if (identity !== null) places.add(placeOfIdentity(identity));
  return places;
}

export function createHashIndex(handle: Handle): HashIndex {
  const tables = ["keystile_places", "keystile_fresh_places"] as const;
  const add = handle.prepare("INSERT OR IGNORE INTO keystile_places (place, n) VALUES (?, ?)");
  const addToDelta = createManyRows(handle, "INSERT OR IGNORE INTO keystile_fresh_places (place, n) VALUES", 2);
  const remove = tables.map((table) => handle.prepare(`DELETE FROM ${table} WHERE place = ? AND n = ?`));
  const clear = tables.map((table) => handle.prepare(`DELETE FROM ${table} WHERE place = ?`));
  const count = select<{ count: number }>(handle, "SELECT count(*) AS count FROM keystile_fresh_places");
  const after = select<{ place: number | bigint; n: number | bigint }>(
    handle,
    "SELECT place, n FROM keystile_fresh_places WHERE (place, n) >= (?, ?) ORDER BY place, n LIMIT 1 OFFSET ?",
  );
  const RANGE = "keystile_fresh_places WHERE (place, n) >= (?, ?) AND (place, n) < (?, ?)";
  const copy = handle.prepare(
    `INSERT OR IGNORE INTO keystile_places (place, n) SELECT place, n FROM ${RANGE} ORDER BY place, n`,
  );
  const drop = handle.prepare(`DELETE FROM ${RANGE}`);
  /** Where the next merge begins; wraps around. */
  let from: readonly [place: number, n: number] = [START, 0];

  return {
    add: (place, n) => void add.run(place, n),
    addToDelta,
    remove(place, n) {
      for (const statement of remove) statement.run(place, n);
    },
    clear(place) {
      for (const statement of clear) statement.run(place);
    },
    mergeDelta() {
      const surplus = Math.min(MAX_MERGED, Number(count.get()?.count) - DELTA_SIZE);
      if (surplus <= 0) return;
      const next = after.get(...from, surplus);
      const to = next === undefined ? ([END, 0] as const) : ([Number(next.place), Number(next.n)] as const);
      copy.run(...from, ...to);
      drop.run(...from, ...to);
      from = next === undefined ? [START, 0] : to;
    },
  };
}
