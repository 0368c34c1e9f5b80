/** Stores one batch of an import: every key is imported or fails by itself, with a reason. */
import type { MigrationRow, NewKey } from "../../contracts/store.js";
import { headOf, UNKNOWN_START } from "../../lib/hash.js";
import type { Context } from "../context.js";
import { buildKey } from "../keys/new-key.js";
import { type Ids, mayBecomeSlug, readReservedIds } from "../rbac/resolve-names.js";
import type * as M from "../schemas/migration-requests.js";
import { insertKeys } from "../write.js";
import { type ImportedHash, readHash } from "./imported-hash.js";
import type { ImportNames, KnownNames } from "./name-cache.js";

const NONE: readonly never[] = Object.freeze([]);
const NO_IDS: ReadonlySet<string> = new Set();

const MESSAGES: Readonly<Record<StoreFailure, string>> = {
  INVALID_HASH: "the hash is not one of the migration's algorithm, in hex, base64 or base64url",
  ALREADY_EXISTS: "this hash or keyId exists already, in the store or earlier in this import",
  UNKNOWN_ROLE: "a role of this key does not exist",
  UNKNOWN_PERMISSION: "a permission of this key, given by its id, does not exist",
  INVALID_EXTERNAL_ID: "the externalId of this key is the id of an identity",
  INVALID_META: "the metadata does not fit the schema of this keyring",
};

/** Why a key that is well formed fails. */
type StoreFailure = Exclude<M.MigrationFailure, "INVALID_KEY">;

/** Where the keys go. */
export interface Destination {
  readonly context: Context;
  readonly migration: MigrationRow;
  readonly apiId: string;
  /** Cached ids of the names that the keys refer to. */
  readonly names: ImportNames;
  /** Hashes of this import whose roles or permissions are unknown: a key that repeats one fails, in whatever batch. */
  readonly refused: Refused;
  /** Keys whose metadata does not fit the keyring's schema. */
  readonly misfits: ReadonlySet<M.ImportedKeyData>;
}

/** Most hashes kept, some 15 MB: an import with more failures is repeated anyway, once the roles exist. */
const MAX_REFUSED_HASHES = 100_000;

/** Remembers the last 100,000 that were added, so that an import of any size runs in bounded memory. */
export function createRefused(max = MAX_REFUSED_HASHES) {
  const digests = new Set<string>();
  return {
    has: (digest: string): boolean => digests.has(digest),
    add(digest: string): void {
      if (digests.has(digest)) return;
      const [oldest] = digests;
      if (digests.size >= max && oldest !== undefined) digests.delete(oldest);
      digests.add(digest);
    },
  };
}

/** Hashes in the form that is compared. */
type Refused = ReturnType<typeof createRefused>;

/** Validated keys. */
type Keys = readonly M.ImportedKeyData[];

/** Keys to be stored together. */
export interface Batch {
  readonly keys: Keys;
  /** Their rows, if {@link buildAhead} built them. */
  readonly ahead?: Built;
}

/** Keys as they are passed to the store. */
interface Built {
  /** The names that they were built with. */
  readonly names: KnownNames;
  readonly candidates: readonly Candidate[];
  /** Those that may be imported, and their rows. */
  readonly fit: readonly Candidate[];
  readonly rows: readonly NewKey[];
}

/** A key being imported: without a failure it has a hash, and once it is stored also an id. */
interface Candidate {
  readonly key: M.ImportedKeyData;
  readonly hash?: ImportedHash;
  keyId?: string;
  failure?: StoreFailure;
}

/**
 * @param onWaiting called while the store works, if it is asynchronous, with the names that the next batch may be built
 *   with
 * @returns `results`: every key of the batch in its order, either migrated or failed · `yielded`: whether the store was
 *   asynchronous, and so may have yielded to the event loop
 */
export async function storeBatch(to: Destination, batch: Batch, onWaiting: (names: KnownNames) => void) {
  const { context } = to;
  const names = await to.names.current();
  // Rows built ahead are valid only if their names still are: one may have been removed since.
  const built = batch.ahead?.names === names ? batch.ahead : await build(to, batch.keys, names);
  const { candidates, fit, rows } = await withoutRootKeys(context, built);
  const answer = rows.length === 0 ? NONE : insertKeys(context, rows);
  const yielded = answer instanceof Promise;
  if (yielded) onWaiting(names);
  const inserted = await answer;
  fit.forEach((candidate, i) => {
    if (inserted[i] === true) candidate.keyId = (rows[i] as NewKey).row.id;
    else candidate.failure = "ALREADY_EXISTS";
  });
  return { results: toResults(candidates), yielded };
}

/**
 * Refuses the digests of root keys of this workspace, deleted ones included. A second bolt: a verification refuses the
 * text of any root key in any case, so that such a key would never verify.
 */
async function withoutRootKeys({ store, workspaceId }: Context, built: Built): Promise<Built> {
  const digests = built.rows.flatMap(({ row }) => row.digest ?? []);
  const found = digests.length === 0 ? NONE : await store.readNames("rootKeys", workspaceId, digests);
  if (found.length === 0) return built;
  const refused = new Set<string | undefined>(found.map(({ digest }) => digest));
  const isRefused = (i: number) => refused.has(built.rows[i]?.row.digest);
  built.fit.forEach((candidate, i) => {
    if (isRefused(i)) candidate.failure = "ALREADY_EXISTS";
  });
  return {
    ...built,
    fit: built.fit.filter((_, i) => !isRefused(i)),
    rows: built.rows.filter((_, i) => !isRefused(i)),
  };
}

/**
 * Builds the rows of a batch whose turn has not come, if all its names are known. Creates no names and reads no store,
 * so that a batch that is never stored leaves nothing behind.
 */
export function buildAhead(to: Destination, keys: Keys, names: KnownNames | undefined): Batch {
  if (names === undefined || hasUnknown(keys, names)) return { keys };
  const candidates = keys.map((key) => toCandidate(to, key, names, NO_IDS));
  return { keys, ahead: buildRows(to, candidates, names) };
}

function hasUnknown(keys: Keys, names: KnownNames): boolean {
  const [roles, permissions] = [unknown(keys, "roles", names.roles), unknown(keys, "permissions", names.permissions)];
  return roles.size + permissions.size + unknownIdentities(keys, names.identities).size > 0;
}

async function build(to: Destination, batch: Keys, names: KnownNames): Promise<Built> {
  const { context } = to;
  await names.findRoles(unknown(batch, "roles", names.roles));
  const asIds = [...unknown(batch, "permissions", names.permissions)].filter((text) => !mayBecomeSlug(text));
  if (asIds.length > 0) await names.findPermissions(asIds);
  const reserved = await readReservedIds(context, unknownIdentities(batch, names.identities).keys());
  const candidates = batch.map((key) => toCandidate(to, key, names, reserved));
  const keys = candidates.filter((candidate) => candidate.failure === undefined).map((candidate) => candidate.key);
  await names.ensurePermissions(unknown(keys, "permissions", names.permissions));
  await names.ensureIdentities(unknownIdentities(keys, names.identities));
  return buildRows(to, candidates, names);
}

function buildRows(to: Destination, candidates: readonly Candidate[], names: KnownNames): Built {
  // Once per batch, not once per import: ids are ordered by time, which keeps a store's index appending.
  const at = { ...to, context: { ...to.context, now: to.context.clock() } };
  const fit = candidates.filter((candidate) => candidate.failure === undefined);
  return { names, candidates, fit, rows: fit.map((candidate) => toNewKey(at, candidate, names)) };
}

/**
 * Checks the reasons in this order; the store itself finds what it already has, and repeats of keys that were imported.
 * @param reserved externalIds that no identity may get
 */
function toCandidate(
  { context, migration, refused, misfits }: Destination,
  key: M.ImportedKeyData,
  { roles, permissions }: KnownNames,
  reserved: ReadonlySet<string>,
): Candidate {
  const hash = readHash(context.algorithms, migration.algorithm, key.hash);
  if (hash === undefined) return { key, failure: "INVALID_HASH" };
  const failure = unknownName(key, roles, permissions) ?? misfit(key, misfits, reserved);
  if (failure !== undefined) {
    refused.add(hash.foreignDigest);
    return { key, hash, failure };
  }
  // It repeats one that was not imported.
  return refused.has(hash.foreignDigest) ? { key, hash, failure: "ALREADY_EXISTS" } : { key, hash };
}

function misfit(
  key: M.ImportedKeyData,
  misfits: Destination["misfits"],
  reserved: ReadonlySet<string>,
): StoreFailure | undefined {
  if (key.externalId !== undefined && reserved.has(key.externalId)) return "INVALID_EXTERNAL_ID";
  return misfits.has(key) ? "INVALID_META" : undefined;
}

function unknownName(key: M.ImportedKeyData, roles: Ids, permissions: Ids): StoreFailure | undefined {
  if (key.roles?.some((role) => !roles.has(role)) === true) return "UNKNOWN_ROLE";
  const isUnknown = (text: string): boolean => !permissions.has(text) && !mayBecomeSlug(text);
  return key.permissions?.some(isUnknown) === true ? "UNKNOWN_PERMISSION" : undefined;
}

function toNewKey(to: Destination, { key, hash }: Candidate, names: KnownNames): NewKey {
  const { context } = to;
  const { row, balance } = buildKey(
    context,
    {
      id: key.keyId ?? context.newId("key", context.now),
      apiId: to.apiId,
      start: `${key.start ?? headOf(key.prefix)}${UNKNOWN_START}`,
      permissions: names.permissionIds(key.permissions),
      roles: names.roleIds(key.roles),
      identityId: key.externalId === undefined ? undefined : names.identities.get(key.externalId),
    },
    key,
  );
  const { digest, foreignDigest } = hash as ImportedHash;
  if (digest !== undefined) row.digest = digest;
  if (key.createdAt !== undefined) {
    row.createdAt = key.createdAt;
    // Boundaries before the import are not due.
    row.refillCursor = context.now;
  }
  row.migrationId = to.migration.id;
  row.hash = key.hash;
  row.foreignDigest = foreignDigest;
  return balance === undefined ? { row } : { row, balance };
}

function toResults(candidates: readonly Candidate[]): M.MigrationResults {
  const migrated: M.MigratedKey[] = [];
  const failed: M.FailedKey[] = [];
  for (const { key, keyId = "", failure } of candidates) {
    if (failure === undefined) migrated.push({ hash: key.hash, keyId });
    else failed.push({ hash: key.hash, reason: failure, message: MESSAGES[failure] });
  }
  return { migrated, failed };
}

/** Names of these keys that are not known yet. */
function unknown(keys: readonly M.ImportedKeyData[], field: "roles" | "permissions", known: Ids): Set<string> {
  const names = new Set<string>();
  for (const key of keys) for (const name of key[field] ?? NONE) if (!known.has(name)) names.add(name);
  return names;
}

/** Of several keys of a new identity the first decides what it is made with. */
function unknownIdentities(keys: readonly M.ImportedKeyData[], known: Ids): Map<string, M.ImportedKeyData["identity"]> {
  const found = new Map<string, M.ImportedKeyData["identity"]>();
  for (const { externalId, identity } of keys)
    if (externalId !== undefined && !known.has(externalId) && !found.has(externalId)) found.set(externalId, identity);
  return found;
}
