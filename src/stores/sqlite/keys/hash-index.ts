/**
 * Where keys are found: the number of a digest, a hash or an identity → the numbers of keys that may have it. Trap 13.
 *
 * Why not an index on the text: it is written at random. Half a million keys in, batches of 1,000 wrote 8.4 KB a key and went in at
 * less than half of the first speed. Here a text becomes a 47-bit number, and a big batch goes into a small table, from which as many
 * entries then move on, in order: 2.5 KB a key, and nearly the same speed to the end. A find reads the row and compares.
 */
import { type Handle, select } from "../connection/handle.js";
import { textHash } from "./hash47.js";
import { createManyRows } from "./multi-row-insert.js";

export interface HashIndex {
  add(place: number, n: number): void;
  /** Adds for many keys; place and number alternate. Call {@link HashIndex.mergeDelta} last in the transaction. */
  addToDelta(entries: readonly number[]): void;
  remove(place: number, n: number): void;
  /** Removes a place whoever has it. */
  clear(place: number): void;
  /** Carries over what the small table has above its size. */
  mergeDelta(): void;
}

/** What a key is found by. */
export interface Findable {
  readonly digest?: string | null | undefined;
  readonly foreignDigest?: string | null | undefined;
  /** Number of its identity; null also for a deleted key, which its identity does not list. */
  readonly identity: number | null;
}

/** Entries of the small table: a batch writes all its pages, which are as many as it then touches of the large table. */
const DELTA_SIZE = 48_000;
/** Entries carried over at a time, so that the event loop is not held up; more than the three per key of a batch of 1,000. */
const MAX_MERGED = 4_096;
/** Comes before any place. */
const START = -Number.MAX_SAFE_INTEGER;
const END = Number.MAX_SAFE_INTEGER;

/** Where the keys of an identity are: texts have no negative places. */
export function placeOfIdentity(identity: number): number {
  return -identity;
}

/** All places of a key, each once. */
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
  /** Where the next entries to be carried over begin; goes round. */
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
