import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type CacheOptions, createKeyCache, createRecordCache } from "../../src/cache/key-cache.js";
import type { Change, KeyRecord, RowChange, Store } from "../../src/contracts/store.js";
import { digestKey } from "../../src/lib/hash.js";
import { memoryStore } from "../../src/stores/memory.js";
import { sampleRecords } from "../records.js";
import { forming } from "./cached-store.js";

const KEYS = 6;
const SAMPLES = sampleRecords(20);
const textOf = (n: number) => `text ${n}`;
const digestOf = (n: number) => digestKey(textOf(n)) as string;
const NUMBERS = new Map(Array.from({ length: KEYS }, (_, n) => [digestOf(n), n]));

const step = fc.record({
  act: fc.constantFrom(
    "find",
    "find",
    "find",
    "findSlowly",
    "release",
    "change",
    "remove",
    "create",
    "all",
    "changeFar",
    "role",
    "permission",
    "identity",
    "api",
    "roleFar",
  ),
  n: fc.nat(KEYS - 1),
});

/** A store of which the test decides when a read settles and when a change made elsewhere is told. */
function scriptedStore() {
  const versions = new Map<number, number>();
  const state = { slow: false, releases: [] as (() => void)[], untold: [] as Change[] };
  const listeners = new Set<(change: Change) => void>();
  const tell = (change: Change) => listeners.forEach((listener) => listener(change));
  const recordOf = (n: number): KeyRecord | undefined => {
    const version = versions.get(n);
    if (version === undefined) return undefined;
    const { grantIds: _, identity: __, ...any } = SAMPLES[(n + version) % SAMPLES.length]!;
    return {
      ...any,
      ref: n,
      keyId: `key_${n}`,
      workspaceId: "ws",
      apiId: `api_${n % 2}`,
      name: `version ${version}`,
      permissions: [`version.${version % 3}`],
      // Of a third of the keys it is not known.
      ...(n % 3 !== 0 && { grantIds: [`role_${n % 2}`, `perm_${n % 2}`].sort() }),
      ...(n % 4 === 1 && { identity: { id: `id_${n % 2}`, externalId: "user", meta: {} } }),
    };
  };
  const store: Store = {
    ...memoryStore(),
    findKey(digest) {
      const record = recordOf(NUMBERS.get(digest)!);
      if (!state.slow) return record;
      return new Promise<void>((resolve) => state.releases.push(resolve)).then(() => record);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    pollChanges() {
      for (const change of state.untold.splice(0)) tell(change);
    },
  };
  return { store, state, versions, tell };
}

const isLikewise = (other: number, n: number): boolean => other % 2 === n % 2;
const ROWS = {
  role: { table: "roles", id: "role", isOf: isLikewise },
  roleFar: { table: "roles", id: "role", isOf: isLikewise },
  permission: { table: "permissions", id: "perm", isOf: isLikewise },
  identity: { table: "identities", id: "id", isOf: (other, n) => isLikewise(other, n) && other % 4 === 1 },
  api: { table: "apis", id: "api", isOf: isLikewise },
} satisfies Record<string, { table: RowChange["table"]; id: string; isOf: (other: number, n: number) => boolean }>;

interface Found {
  readonly keyId: string;
  readonly name: string | undefined;
  readonly names: readonly string[];
}

type RecordCache<T extends object> = ReturnType<typeof createRecordCache<T>>;

/** The verifier's cache, read as the other caches are. */
function ofKeys(store: Store, options: CacheOptions): RecordCache<Found> {
  const cache = createKeyCache(store, options);
  const toFound = (key: Awaited<ReturnType<typeof cache.find>>) =>
    key && { keyId: key.keyId, name: key.name, names: key.policy.grants.permissions ?? [] };
  return {
    ...cache,
    find(text, now) {
      const key = cache.find(text, now);
      return key instanceof Promise ? key.then(toFound) : toFound(key);
    },
  };
}

const ofRecords = (store: Store, options: CacheOptions): RecordCache<Found> =>
  createRecordCache(store, { ...forming(toFound), digestOf: digestKey }, options);
const toFound = ({ keyId, name, permissions }: KeyRecord): Found => ({ keyId, name, names: [...permissions] });

const OPTIONS: readonly CacheOptions[] = [{ size: 100 }, { size: 2 }, { size: 3, ttl: 1e9 }];
const CACHES = [
  ["keys", ofKeys],
  ["records", ofRecords],
] as const;
const cases = CACHES.flatMap(([name, make]) =>
  (["tag", "digest"] as const).flatMap((by) =>
    OPTIONS.map((options) => [`${name} by ${by}, ${JSON.stringify(options)}`, make, { ...options, by }] as const),
  ),
);

describe("whatever happens between finds, each returns what the store had when it was called", () => {
  it.each(cases)("%s", async (_name, make, options) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 80, size: "max" }), async (history) => {
        const { store, state, versions, tell } = scriptedStore();
        const cache = make(store, options);
        const expected = (n: number) => {
          const version = versions.get(n);
          return version === undefined
            ? undefined
            : { keyId: `key_${n}`, name: `version ${version}`, names: [`version.${version % 3}`] };
        };
        const slow: Promise<void>[] = [];
        let version = 0;
        const finds = { find: false, findSlowly: true };
        for (const { act, n } of history) {
          const change = { digest: digestOf(n) };
          if (act === "find" || act === "findSlowly") {
            state.slow = finds[act];
            const right = expected(n);
            const found = cache.find(textOf(n));
            if (found instanceof Promise) slow.push(found.then((value) => expect(value).toEqual(right)));
            else expect(found).toEqual(right);
          } else if (act === "release") {
            for (const release of state.releases.splice(0)) release();
            await new Promise(setImmediate);
          } else if (act === "create") {
            if (versions.has(n)) continue;
            versions.set(n, ++version);
            tell("created");
          } else if (act === "all") {
            for (const other of versions.keys()) versions.set(other, ++version);
            tell("all");
          } else if (act === "remove") {
            versions.delete(n);
            tell(change);
          } else if (act in ROWS) {
            // What a row changes, for every key that is made of it.
            const { table, id, isOf } = ROWS[act as keyof typeof ROWS];
            for (const other of versions.keys()) if (isOf(other, n)) versions.set(other, ++version);
            const row = { table, id: `${id}_${n % 2}` };
            if (act === "roleFar") state.untold.push(row);
            else tell(row);
          } else {
            versions.set(n, ++version);
            if (act === "change") tell(change);
            else state.untold.push(change);
          }
        }
        for (const release of state.releases.splice(0)) release();
        await Promise.all(slow);
        state.slow = false;
        for (let n = 0; n < KEYS; n++) expect(cache.find(textOf(n))).toEqual(expected(n));
      }),
    );
  });
});
