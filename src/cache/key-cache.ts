/**
 * Caches keys that a store found, and misses. Store clauses 8 and 9.
 *
 * Only this module decides how keys are stored: each key is one object, found by a keyed fingerprint of its text, and
 * values that many keys share are stored once.
 *
 * Why one form: the alternative packed keys in rows of numbers, and kept the keys in use as objects in a second tier.
 * It found a key in 259 ns instead of 401 (any 4,096 of 400,000), 321 instead of 483 (any of 10,000), and 1,143 instead
 * of 1,146 (any of 400,000); SHA-256 of the key took 308. These are medians of CPU time, measured in turns in one
 * process on a busy machine. It took 121 bytes per key beyond its text, this form takes 256. But a new field left out
 * of the packed form made keys VALID that its check refuses.
 */
import type { KeyRecord, RowChange, Store } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { type Check, integer, oneOf } from "../lib/check-options.js";
import { createGuardedReads } from "../lib/guarded-reads.js";
import { digestKey } from "../lib/hash.js";
import { isMadeOf, type MadeOfRows } from "../contracts/row-changes.js";
import { type CacheBackend, digestBackend, type Expiring, withTtl } from "./cache-backend.js";
import { type CachedKey, createPreparer } from "./cached-key.js";
import { FingerprintCache } from "./fingerprint-cache.js";
import { jsonBytes } from "../lib/json-bytes.js";

/** How many keys are cached, for how long, and how they are found. */
export interface CacheOptions {
  /**
   * Records kept, 1…10_000_000; default 100_000. Records with more than 1 KiB of metadata (theirs and their identity's)
   * and allow-lists are bounded by bytes as well: at most `size` KiB of that as JSON, which takes up to four times as
   * much in memory.
   */
  readonly size?: number;
  /** Milliseconds for which a record is used unless the store notifies a change, 1…2^53 − 1; default `Infinity`. */
  readonly ttl?: number;
  /**
   * Milliseconds for which a miss is used, 1…60_000; default 1_000. For as long, calls for a key that is already being
   * looked up wait for that look-up instead of starting their own, unless something changed since it began.
   */
  readonly missTtl?: number;
  /**
   * How cached keys are found. `tag` (default): by a keyed fingerprint of the presented text, 96 bits. `digest`: by
   * SHA-256, without fingerprints; each call is slower by a hash and a look-up.
   */
  readonly by?: "tag" | "digest";
}

/** Most cached keys examined per second for changes of rows that keys refer to; beyond that the cache is emptied. */
const MAX_EXAMINED = 10_000_000;

/** The bounds of {@link CacheOptions}. */
export const CACHE_OPTIONS = {
  size: integer(1, 10_000_000),
  ttl: (value: unknown, path: string) =>
    value === Infinity ? undefined : integer(1, Number.MAX_SAFE_INTEGER)(value, path),
  missTtl: integer(1, 60_000),
  by: oneOf("tag", "digest"),
} as const satisfies Record<keyof CacheOptions, Check>;

/**
 * @param options validated by the caller, with {@link CACHE_OPTIONS}
 * @remarks {@link createGuardedReads} decides which results are kept; a hit costs the text's fingerprint, two memory
 *   reads and the store's `pollChanges`
 */
export function createKeyCache(store: Store, options: CacheOptions = {}) {
  const prepare = createPreparer();
  return {
    ...createRecordCache(store, { prepare, digestOf: digestKey, madeOf: (key) => key, weigh: bytesOf }, options),
    /** The cached form of a record that was found elsewhere; does not cache it. */
    prepare,
  };
}

/** Finds keys as verifications need them. */
export type KeyCache = ReturnType<typeof createKeyCache>;

/** Of what a key may have much of, as JSON. */
function bytesOf({ rare: { meta, identity, ipAllowlists } }: CachedKey): number {
  const isShort = meta === undefined && identity === undefined && ipAllowlists.length === 0;
  return isShort ? 0 : jsonBytes([meta, identity, ipAllowlists]);
}

/** What a cache makes of texts and records. */
export interface Forming<T> {
  /** Creates the value that `find` returns; called once per fill, and must depend only on the record. */
  readonly prepare: (record: KeyRecord) => T;
  /** The native digest of a text; not called when the text is cached. */
  readonly digestOf: (text: string) => MaybePromise<string>;
  /** The rows that a value was made of; `undefined`: unknown, so a change of any row drops the value. */
  readonly madeOf: (value: T) => MadeOfRows | undefined;
  /** How many bytes a value takes, about. */
  readonly weigh: (value: T) => number;
}

/**
 * Exported for its tests.
 * @param options validated by the caller, with {@link CACHE_OPTIONS}
 */
export function createRecordCache<T extends object>(
  store: Store,
  { prepare, digestOf, madeOf, weigh }: Forming<T>,
  options: CacheOptions = {},
) {
  const { size = 100_000, ttl = Infinity, missTtl = 1_000, by = "tag" } = options;
  const backendOf = <V extends object>(): CacheBackend<V> =>
    by === "tag" ? new FingerprintCache(size) : digestBackend(size);
  const found: CacheBackend<T | Heavy<T>> =
    ttl === Infinity ? backendOf() : withTtl(backendOf<Expiring<T | Heavy<T>>>(), ttl);
  const heavy = new HeavyValues<T>(size * LIGHT_BYTES);
  let examined = 0;
  let windowEnd = -Infinity;
  const dropMadeOf = (change: RowChange): boolean => {
    const now = performance.now();
    if (now >= windowEnd) {
      windowEnd = now + 1_000;
      examined = 0;
    }
    if (examined >= MAX_EXAMINED) return false;
    examined += found.deleteWhere((kept) => {
      const value = kept instanceof Heavy ? kept.value : kept;
      const rows = value && madeOf(value);
      return rows === undefined || isMadeOf(rows, change);
    });
    return true;
  };
  const reads = createGuardedReads(store, {
    found: {
      set: (text, digest, value) => found.set(text, digest, heavy.hold(value, weigh(value))),
      delete: (digest) => found.delete(digest),
      clear() {
        found.clear();
        heavy.clear();
      },
    },
    dropMadeOf,
    read: (digest) => store.findKey(digest),
    prepare,
    missTtl,
  });
  /** What is cached is returned; anything else is read from the store. */
  const openOrRead = (cached: T | Heavy<T> | undefined, text: string): MaybePromise<T | undefined> => {
    const value = cached instanceof Heavy ? heavy.use(cached) : cached;
    if (value !== undefined) return value;
    const digest = digestOf(text);
    return typeof digest === "string" ? readByDigest(digest, text) : whenDigested(digest, text);
  };
  const readByDigest = (digest: string, text: string): MaybePromise<T | undefined> => {
    const cached = found.getByDigest?.(digest);
    return (cached instanceof Heavy ? heavy.use(cached) : cached) ?? reads.read(text, digest);
  };
  const whenDigested = async (digesting: Promise<string>, text: string): Promise<T | undefined> =>
    readByDigest(await digesting, text);
  const whenPolled = async (polling: PromiseLike<void>, text: string): Promise<T | undefined> => {
    await polling;
    return openOrRead(found.get(text), text);
  };
  return {
    /** @param now for the store's `pollChanges` */
    find(text: string, now?: number): MaybePromise<T | undefined> {
      const polling = store.pollChanges(now);
      // Not `instanceof`: a promise of another realm, or a thenable, would not be awaited, and an outdated record
      // would be used.
      if (polling !== undefined) return whenPolled(polling, text);
      const cached = found.get(text);
      return cached === undefined || cached instanceof Heavy ? openOrRead(cached, text) : cached;
    },
    /** Unsubscribes from the store. */
    close: reads.close,
  };
}

/*
 * Bounds what long values of a cache take together, by their bytes, where the cache itself counts values.
 *
 * Why apart from the cache: with one bound for all, the long values of one workspace would push out the short ones of
 * others. Here they push out each other, the least recently used first. Metadata of 64 KB takes up to 240 KB in memory.
 */

/** A long value in a cache. */
export class Heavy<T> {
  /** @param value `undefined`: it was pushed out, and is as one that is not cached */
  constructor(
    public value: T | undefined,
    readonly bytes: number,
  ) {}
}

/** Bytes up to which a value is not counted. */
const LIGHT_BYTES = 1_024;

/** The long values of one cache, bounded together. */
export class HeavyValues<T> {
  readonly #max: number;
  #bytes = 0;
  /** The least recently used first; those that left the cache stay until they are pushed out. */
  readonly #held = new Set<Heavy<T>>();

  /** @param max bytes of all values together */
  constructor(max: number) {
    this.#max = max;
  }

  /** What to put into the cache for a value. @param bytes of the value, about */
  hold(value: T, bytes: number): T | Heavy<T> {
    if (bytes <= LIGHT_BYTES) return value;
    const heavy = new Heavy(value, bytes);
    this.#held.add(heavy);
    this.#bytes += bytes;
    for (const oldest of this.#held) {
      if (this.#bytes <= this.#max) break;
      this.#held.delete(oldest);
      this.#bytes -= oldest.bytes;
      oldest.value = undefined;
    }
    return heavy;
  }

  /** The value, which counts as used; `undefined`: it was pushed out. */
  use(heavy: Heavy<T>): T | undefined {
    if (this.#held.delete(heavy)) this.#held.add(heavy);
    return heavy.value;
  }

  clear(): void {
    this.#held.clear();
    this.#bytes = 0;
  }
}
