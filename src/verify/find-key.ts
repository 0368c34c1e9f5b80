/** Finds the record of a presented key, native or migrated, if it is visible to the caller. Checks nothing else. */
import type { CachedKey } from "../cache/cached-key.js";
import type { KeyCache } from "../cache/key-cache.js";
import type { Caller } from "../contracts/caller.js";
import { isKeystileError } from "../contracts/errors.js";
import type { KeyRecord, KeyRef, KeyRow, Store } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { digestKey, ROOT_KEY_PREFIX } from "../lib/hash.js";
import type { Algorithms } from "../lib/migration-hashes.js";
import type { VerificationRequest } from "./request.js";

/** Where keys are looked up. */
export interface KeySources {
  readonly store: Store;
  readonly cache: KeyCache;
  readonly algorithms: Algorithms;
  /** Whether `now` is the system clock, which a store may use to decide whether to poll for changes. */
  readonly isSystemTime: boolean;
  /** Only keys of this workspace are visible; `undefined`: keys of all workspaces. */
  readonly workspaceId: string | undefined;
  /** Whether a migrated key that is found gets its native digest. */
  readonly adopts: boolean;
}

/** Which keys are visible to a call. */
export interface Viewer {
  readonly caller: Caller | undefined;
  /** Only keys of this API are visible; `undefined`: keys of all APIs. */
  readonly apiId: string | undefined;
}

/** A call that looks for its key. */
export interface Lookup extends VerificationRequest {
  readonly deps: { readonly sources: KeySources };
  readonly context: Viewer;
  readonly now: number;
}

/** @returns undefined for a key that does not exist or is not visible: both look the same (contract 4.1-3) */
export function findKey(lookup: Lookup): MaybePromise<CachedKey | undefined> {
  const { deps, key, migrationId, context, now } = lookup;
  const { cache, isSystemTime, workspaceId } = deps.sources;
  const found = cache.find(key, isSystemTime ? now : undefined);
  // Comparing the first code unit saves most keys the call of `startsWith`.
  if (key.charCodeAt(0) === ROOT_KEY.charCodeAt(0) && key.startsWith(ROOT_KEY)) return unlessRootKey(lookup, found);
  const { caller, apiId } = context;
  if (migrationId === undefined && workspaceId === undefined && caller === undefined && apiId === undefined)
    return found;
  return found instanceof Promise ? whenFound(lookup, found) : orMigrated(lookup, found);
}

async function whenFound(lookup: Lookup, finding: Promise<CachedKey | undefined>): Promise<CachedKey | undefined> {
  return orMigrated(lookup, await finding);
}

/** {@link findKey} without the cache: polls the store for changes and reads the key from it. */
export async function findKeyAgain(lookup: Lookup): Promise<CachedKey | undefined> {
  const { deps, key } = lookup;
  const { store, cache } = deps.sources;
  await store.pollChanges("anew");
  const digest = await digestKey(key);
  const record = await store.findKey(digest);
  if (key.startsWith(ROOT_KEY) && (await store.findRootKey(digest)) !== undefined) return undefined;
  return orMigrated(lookup, record && cache.prepare(record));
}

/** The key with this id, read from the store; also an imported key that no verification has found yet. */
export async function findKeyById(sources: KeySources, keyId: string, viewer: Viewer): Promise<CachedKey | undefined> {
  const { store, cache } = sources;
  await store.pollChanges("anew");
  const [row] = await store.readMany("keys", [keyId]);
  const { digest, migrationId = "", foreignDigest = "" } = row ?? {};
  const record = await (digest === undefined
    ? store.findForeignKey(migrationId, foreignDigest)
    : store.findKey(digest));
  // The digest may have gone to another key in between.
  const found = record?.keyId === keyId ? cache.prepare(record) : undefined;
  return found !== undefined && isVisible(sources, viewer, found) ? found : undefined;
}

/**
 * A key that {@link findKey} or {@link findKeyById} did not find because the key or its API is deleted, if it would be
 * visible otherwise. A key named by its text is found only in a store with `powers.search`.
 */
export async function findDeletedKey(
  sources: KeySources,
  { key, keyId }: { readonly key: string; readonly keyId?: string },
  viewer: Viewer,
): Promise<KeyRow | undefined> {
  const { store } = sources;
  const ids =
    keyId === undefined && store.powers.search ? await store.findKeyIds!([{ digest: await digestKey(key) }]) : [];
  const named = keyId ?? ids[0];
  const [row] = named === undefined ? [] : await store.readMany("keys", [named]);
  if (row === undefined || !isVisible(sources, viewer, { policy: row, keyId: row.id })) return undefined;
  const [api] = await store.readMany("apis", [row.apiId]);
  return row.deleted || api?.deleted !== false ? row : undefined;
}

/** The prefix of root keys; an ordinary key may begin with it too. */
const ROOT_KEY = `${ROOT_KEY_PREFIX}_`;

/** A root key never verifies as a key, even if its hash was imported. */
async function unlessRootKey(
  lookup: Lookup,
  found: MaybePromise<CachedKey | undefined>,
): Promise<CachedKey | undefined> {
  const { store } = lookup.deps.sources;
  const finding = Promise.resolve(digestKey(lookup.key)).then((digest) => store.findRootKey(digest));
  // Both are awaited together, so that neither rejection is unhandled.
  const [root, native] = await Promise.all([finding, found]);
  return root === undefined ? orMigrated(lookup, native) : undefined;
}

function orMigrated(lookup: Lookup, native: CachedKey | undefined): MaybePromise<CachedKey | undefined> {
  const { deps, context, migrationId } = lookup;
  if (native !== undefined) return isVisible(deps.sources, context, native) ? native : undefined;
  return migrationId === undefined ? undefined : findMigrated(lookup, migrationId);
}

/**
 * Looks the key up by the hash that the migration's algorithm makes of it. A key without a native digest gets one in
 * the same call, once: the store refuses a second. The imported hash stays valid under its migration, because an old
 * scheme may hash only part of the key.
 */
async function findMigrated(lookup: Lookup, migrationId: string): Promise<CachedKey | undefined> {
  const { key, context, deps } = lookup;
  const { sources } = deps;
  const { store, algorithms } = sources;
  const [migration] = await store.readMany("migrations", [migrationId]);
  if (migration === undefined || !isInWorkspace(sources, context, migration.workspaceId)) return undefined;
  if (!algorithms.knows(migration.algorithm)) {
    throw new TypeError(
      `options.migrationAlgorithms lacks "${migration.algorithm}", which a migration of this store uses`,
    );
  }
  const foreignDigest = await algorithms.foreignDigest(migration.algorithm, key);
  if (foreignDigest === undefined) return undefined;
  const record = await store.findForeignKey(migrationId, foreignDigest);
  const found = record && sources.cache.prepare(record);
  if (found === undefined || !isVisible(sources, context, found)) return undefined;
  if (record?.unadopted === true && sources.adopts) await adopt(store, record.ref, key);
  return found;
}

/** In a read-only store the key gets no native digest. It verifies all the same, each time by its imported hash. */
async function adopt(store: Store, ref: KeyRef, key: string): Promise<void> {
  try {
    await store.adoptDigest(ref, await digestKey(key));
  } catch (error) {
    if (!isKeystileError(error) || error.code !== "STORE_READ_ONLY") throw error;
  }
}

/** The properties that decide whether a key is visible. */
interface Seen {
  readonly policy: Pick<KeyRecord, "workspaceId" | "apiId">;
  readonly keyId: string;
}

function isVisible(sources: KeySources, viewer: Viewer, { policy, keyId }: Seen): boolean {
  const { caller, apiId } = viewer;
  if (!isInWorkspace(sources, viewer, policy.workspaceId)) return false;
  if (apiId !== undefined && apiId !== policy.apiId) return false;
  return caller === undefined || caller.may("verify_key", { type: "api", id: policy.apiId, keyId });
}

function isInWorkspace({ workspaceId }: KeySources, { caller }: Viewer, owner: string): boolean {
  return (workspaceId === undefined || workspaceId === owner) && (caller === undefined || caller.workspaceId === owner);
}
