/**
 * Remembers what a store found, and what it did not find. Port clauses 8 and 9, ruling A7. Knows only the port.
 *
 * Why two partitions: a flood of unknown keys fills the small one and pushes no real key out; a miss is believed for a second at
 * most, since a key may be created elsewhere.
 */
import { LRUCache } from "lru-cache";
import type { KeyRecord, Store } from "../store.js";
import type { MaybePromise } from "../types.js";
import { deepFreeze } from "./freeze.js";
import { frontRow } from "./front-row.js";

export interface CacheOptions {
  /** Records kept, 1…10_000_000; default 100_000. */
  readonly size?: number;
  /** Milliseconds for which a record is believed when the store tells of no change; default: without end. */
  readonly ttl?: number;
  /** Digests kept that were not found, 0…1_000_000; default 10_000; 0: none. */
  readonly missSize?: number;
  /** Milliseconds for which a miss is believed, at most 60_000; default 1_000. */
  readonly missTtl?: number;
}

/** Finds keys by native digest, in the form that `prepare` made of their records. */
export interface KeyCache<T> {
  find(digest: string): MaybePromise<T | undefined>;
  /** What was found for a key presented lately, by its text. `undefined`: ask {@link KeyCache.find}, which knows. */
  recall(text: string): T | undefined;
  /** Lets {@link KeyCache.recall} answer for this text. `value` is what `find(digest)` answered just now. */
  memorise(text: string, digest: string, value: T): void;
  /** Stops listening to the store. */
  close(): void;
}

/** Caches at least this large have a front row of 16,384. */
const FRONT_ROW_FROM = 16_384;
const MONOTONIC = { now: () => performance.now() };

/**
 * @param prepare makes, once a fill, what `find` answers; it must not depend on anything that changes without the record
 * @see src/store.ts, clause 9: a fill that began before a change is answered but not kept
 * · a hit costs one map look-up and the store's `catchUp`
 */
export function createKeyCache<T extends object>(store: Store, prepare: (record: KeyRecord) => T, options: CacheOptions = {}): KeyCache<T> {
  const { size = 100_000, ttl = Infinity, missSize = 10_000, missTtl = 1_000 } = options;
  // A resolution of 0 keeps lru-cache from setting a timer.
  const found = new LRUCache<string, T>({ max: size, ttlResolution: 0, perf: MONOTONIC, ...(ttl !== Infinity && { ttl }) });
  const missed =
    missSize === 0 ? undefined : new LRUCache<string, true>({ max: missSize, ttl: missTtl, ttlResolution: 0, perf: MONOTONIC });
  // With a time to live, belief must be judged at every find: the front row does not know ages. Nor may it outgrow `size`.
  const front = ttl === Infinity && size >= FRONT_ROW_FROM ? frontRow<T>() : undefined;
  let generation = 0;
  /** What was read last. */
  let filled: T | undefined;
  const unsubscribe = store.changes((change) => {
    generation++;
    if (typeof change === "object") {
      front?.delete(change.digest);
      found.delete(change.digest);
      missed?.delete(change.digest);
      return;
    }
    missed?.clear();
    if (change === "created") return;
    front?.clear();
    found.clear();
  });

  const keep = (digest: string, record: KeyRecord | undefined, begun: number): T | undefined => {
    const prepared = record === undefined ? undefined : prepare(record);
    if (begun !== generation) return prepared;
    filled = prepared;
    if (prepared !== undefined) found.set(digest, prepared);
    else missed?.set(digest, true);
    return prepared;
  };
  const fill = (digest: string): MaybePromise<T | undefined> => {
    const begun = generation;
    const record = store.findKey(digest);
    return record instanceof Promise ? record.then((late) => keep(digest, late, begun)) : keep(digest, record, begun);
  };
  const look = (digest: string): MaybePromise<T | undefined> => {
    const hit = found.get(digest);
    if (hit !== undefined) return hit;
    return missed?.get(digest) === true ? undefined : fill(digest);
  };
  return {
    find(digest) {
      const caughtUp = store.catchUp();
      return caughtUp instanceof Promise ? caughtUp.then(() => look(digest)) : look(digest);
    },
    recall(text) {
      if (front === undefined) return undefined;
      const caughtUp = store.catchUp();
      if (!(caughtUp instanceof Promise)) return front.get(text);
      // `find` asks again, waits, and reports what went wrong.
      caughtUp.catch(() => undefined);
      return undefined;
    },
    memorise(text, digest, value) {
      // Not at first sight: most keys of a million do not come again soon. And only what is still believed.
      const isFirst = value === filled;
      filled = undefined;
      if (front !== undefined && !isFirst && found.peek(digest) === value) front.set(text, digest, value);
    },
    close: unsubscribe,
  };
}

/**
 * A store whose finds are remembered; every other call goes straight through. Closing it closes the store behind it.
 * @see {@link CacheOptions} for bounds
 */
export function cachedStore(store: Store, options: CacheOptions = {}): Store {
  const cache = createKeyCache(store, deepFreeze, options);
  return {
    findKey: (digest) => cache.find(digest),
    findForeignKey: (migrationId, foreignDigest) => store.findForeignKey(migrationId, foreignDigest),
    findRootKey: (digest) => store.findRootKey(digest),
    adoptDigest: (ref, digest) => store.adoptDigest(ref, digest),
    spendCredits: (ref, cost, period) => store.spendCredits(ref, cost, period),
    drawCredits: (ref, request) => store.drawCredits(ref, request),
    returnCredits: (ref, holder, generation, unspent) => store.returnCredits(ref, holder, generation, unspent),
    readBalance: (keyId, period) => store.readBalance(keyId, period),
    read: (table, id) => store.read(table, id),
    readNames: (table, workspaceId, names) => store.readNames(table, workspaceId, names),
    list: (table, query) => store.list(table, query),
    insertKeys: (keys) => store.insertKeys(keys),
    write: (writes) => store.write(writes),
    changes: (listener) => store.changes(listener),
    catchUp: () => store.catchUp(),
    close() {
      cache.close();
      return store.close();
    },
  };
}
