/**
 * Remembers what a store found, and what it did not find. Port clauses 8 and 9, ruling A7. Knows only the port.
 *
 * Why two partitions: a flood of unknown keys fills the small one and pushes no real key out; a miss is believed for a second at
 * most, since a key may be created elsewhere.
 */
import { LRUCache } from "lru-cache";
import type { KeyRecord, Store } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { type Check, checkOptions, checkStore, integer, oneOf } from "../lib/check-options.js";
import { deepFreeze } from "../lib/deep-freeze.js";
import { isThenable } from "../lib/thenable.js";
import { digestBackend } from "./digest-cache.js";
import { type CacheBackend, FingerprintCache, objectSlots } from "./fingerprint-cache.js";

/** How many keys are remembered, for how long, and how they are found. */
export interface CacheOptions {
  /** Records kept, 1…10_000_000; default 100_000. */
  readonly size?: number;
  /** Milliseconds for which a record is believed when the store tells of no change, 1…2^53 − 1; default: without end, `Infinity`. */
  readonly ttl?: number;
  /** Digests kept that were not found, 0…1_000_000; default 10_000; 0: none. */
  readonly missSize?: number;
  /** Milliseconds for which a miss is believed, 1…60_000; default 1_000. */
  readonly missTtl?: number;
  /**
   * How remembered keys are found: by a keyed tag of the presented text, 96 bits (default), or by their SHA-256, which each call then
   * computes: slower by a hash and a look-up, and no key is found by a tag.
   */
  readonly by?: "tag" | "digest";
}

/** What each of {@link CacheOptions} must be. */
export const CACHE_OPTIONS = {
  size: integer(1, 10_000_000),
  ttl: (value: unknown, path: string) =>
    value === Infinity ? undefined : integer(1, Number.MAX_SAFE_INTEGER)(value, path),
  missSize: integer(0, 1_000_000),
  missTtl: integer(1, 60_000),
  by: oneOf("tag", "digest"),
} as const satisfies Record<keyof CacheOptions, Check>;

/** Finds keys, in the form that `prepare` made of their records. */
export interface KeyCache<T> {
  /** @param digestOf the native digest of `text`; not asked when the text is remembered @param now for the store's `pollChanges` */
  find(text: string, digestOf: (text: string) => MaybePromise<string>, now?: number): MaybePromise<T | undefined>;
  /** What is remembered of `text` and still true, if anything is; asks the store at most whether anything has changed. */
  remembered(text: string, now?: number): MaybePromise<T | undefined>;
  /** Stops listening to the store. */
  close(): void;
}

/** A record as it is kept. */
interface Kept<T> {
  readonly value: T;
  /** Until when it is believed. */
  readonly expiresAt: number;
}

const MONOTONIC = { now: () => performance.now() };

/**
 * @param prepare called once per fill: makes the value that `find` then answers; it must not depend on anything that changes without the record
 * @param options judged by the caller, with {@link CACHE_OPTIONS}
 * @param backendOf makes the shelf for `size` values; default: a table of the objects themselves. Not used with a `ttl`, or by digests
 * @see src/contracts/store.ts, clause 9: a fill that began before a change is answered but not kept
 * · a hit costs the tag of the text, two reads of memory and the store's `pollChanges`
 */
export function createKeyCache<T>(
  store: Store,
  prepare: (record: KeyRecord) => T,
  options: CacheOptions = {},
  backendOf: (size: number) => CacheBackend<T> = objectBackend,
): KeyCache<T> {
  const { size = 100_000, ttl = Infinity, missSize = 10_000, missTtl = 1_000, by = "tag" } = options;
  const plain = by === "tag" ? objectBackend : digestBackend;
  const found = ttl !== Infinity ? withTtl(plain<Kept<T>>(size), ttl) : by === "tag" ? backendOf(size) : plain<T>(size);
  // A resolution of 0 keeps lru-cache from setting a timer.
  const negativeCache =
    missSize === 0
      ? undefined
      : new LRUCache<string, true>({ max: missSize, ttl: missTtl, ttlResolution: 0, perf: MONOTONIC });
  let generation = 0;
  const unsubscribe = store.subscribe((change) => {
    generation++;
    if (typeof change === "object") {
      found.delete(change.digest);
      negativeCache?.delete(change.digest);
      return;
    }
    negativeCache?.clear();
    if (change !== "created") found.clear();
  });

  const keep = (
    text: string,
    digest: string,
    record: KeyRecord | undefined,
    startGeneration: number,
  ): T | undefined => {
    const prepared = record === undefined ? undefined : prepare(record);
    if (startGeneration !== generation) return prepared;
    if (prepared === undefined) negativeCache?.set(digest, true);
    else found.set(text, digest, prepared);
    return prepared;
  };
  const fill = (text: string, digest: string): MaybePromise<T | undefined> => {
    const known = found.getByDigest?.(digest);
    if (known !== undefined) return known;
    if (negativeCache?.get(digest) === true) return undefined;
    const startGeneration = generation;
    const record = store.findKey(digest);
    return isThenable(record)
      ? Promise.resolve(record).then((resolved) => keep(text, digest, resolved, startGeneration))
      : keep(text, digest, record, startGeneration);
  };
  const lookUp = (text: string, digestOf: (text: string) => MaybePromise<string>): MaybePromise<T | undefined> => {
    const hit = found.get(text);
    if (hit !== undefined) return hit;
    const digest = digestOf(text);
    return typeof digest === "string" ? fill(text, digest) : digest.then((resolved) => fill(text, resolved));
  };
  return {
    find(text, digestOf, now) {
      const caughtUp = store.pollChanges(now);
      // Not `instanceof`: a promise of another realm, or a thenable, would not be waited for, and what is remembered trusted too early.
      return caughtUp === undefined
        ? lookUp(text, digestOf)
        : Promise.resolve(caughtUp).then(() => lookUp(text, digestOf));
    },
    remembered(text, now) {
      const hit = found.get(text);
      if (hit === undefined) return undefined;
      const before = generation;
      const caughtUp = store.pollChanges(now);
      const current = () => (generation === before ? hit : found.get(text));
      return caughtUp === undefined ? current() : Promise.resolve(caughtUp).then(current);
    },
    close: unsubscribe,
  };
}

function objectBackend<T>(size: number): CacheBackend<T> {
  return new FingerprintCache<T>(size, objectSlots());
}

/** Ends belief in values that are older than `ttl`. */
function withTtl<T>(backend: CacheBackend<Kept<T>>, ttl: number): CacheBackend<T> {
  const fresh = (kept: Kept<T> | undefined) =>
    kept !== undefined && performance.now() < kept.expiresAt ? kept.value : undefined;
  return {
    get: (text) => fresh(backend.get(text)),
    getByDigest: (digest) => fresh(backend.getByDigest?.(digest)),
    set: (text, digest, value) => backend.set(text, digest, { value, expiresAt: performance.now() + ttl }),
    delete: (digest) => backend.delete(digest),
    clear: () => backend.clear(),
  };
}

const itself = (digest: string): string => digest;

/**
 * A store whose finds are remembered; every other call goes straight through. Closing it closes the store behind it.
 * @throws TypeError or RangeError naming the option or the store's missing method
 * @see {@link CacheOptions} for bounds
 */
export function cachedStore(store: Store, options: CacheOptions = {}): Store {
  checkStore(store);
  const cache = createKeyCache(store, deepFreeze, checkOptions(options, CACHE_OPTIONS));
  return {
    findKey: (digest) => cache.find(digest, itself),
    findForeignKey: (migrationId, foreignDigest) => store.findForeignKey(migrationId, foreignDigest),
    findRootKey: (digest) => store.findRootKey(digest),
    adoptDigest: (ref, digest) => store.adoptDigest(ref, digest),
    spendCredits: (ref, cost, period, now) => store.spendCredits(ref, cost, period, now),
    drawCredits: (ref, request) => store.drawCredits(ref, request),
    returnCredits: (ref, holder, generation, unspent) => store.returnCredits(ref, holder, generation, unspent),
    readBalance: (keyId, period, now) => store.readBalance(keyId, period, now),
    read: (table, id) => store.read(table, id),
    readNames: (table, workspaceId, names) => store.readNames(table, workspaceId, names),
    list: (table, query) => store.list(table, query),
    insertKeys: (keys) => store.insertKeys(keys),
    write: (writes) => store.write(writes),
    subscribe: (listener) => store.subscribe(listener),
    pollChanges: (now) => store.pollChanges(now),
    close() {
      cache.close();
      return store.close();
    },
  };
}
