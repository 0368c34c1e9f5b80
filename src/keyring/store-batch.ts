/** One batch of an import: every key goes in or fails by itself, with a reason. Rulings E2, E3. Knows nothing of where keys come from. */
import type { ImportedHash } from "../algorithms.js";
import { newId } from "../hash.js";
import type { MigrationRow, NewKey } from "../store.js";
import type { V2KeysMigrateKeyData } from "../types.js";
import type { Context } from "./context.js";
import { buildKey } from "./new-key.js";
import { ensureIdentities, ensurePermissions, idsOf, readRoles, type Ids } from "./references.js";
import type { FailedKey, MigratedKey, MigrationFailure, MigrationResults } from "./requests.js";

/** Shown as `start`: the first characters of an imported key are not known. */
const UNKNOWN_START = "...";
const NONE: readonly never[] = Object.freeze([]);

const MESSAGES: Readonly<Record<MigrationFailure, string>> = {
  INVALID_HASH: "the hash is not one of the migration's algorithm",
  ALREADY_EXISTS: "this hash exists already, in the store or earlier in this import",
  UNKNOWN_ROLE: "a role of this key does not exist",
};

/** Where the keys go. */
export interface Destination {
  readonly migration: MigrationRow;
  readonly apiId: string;
}

interface References {
  readonly roles: Ids;
  readonly permissions: Ids;
  readonly identities: Ids;
}

/** A key on its way in: with a hash it may go in, and then it has an id; otherwise a failure. */
interface Candidate {
  readonly key: V2KeysMigrateKeyData;
  readonly hash?: ImportedHash;
  keyId?: string;
  failure?: MigrationFailure;
}

/** @returns every key of the batch in its order, either migrated or failed */
export async function storeBatch(context: Context, to: Destination, batch: readonly V2KeysMigrateKeyData[]): Promise<MigrationResults> {
  // Once a batch, not once an import: ids are ordered by time, which keeps a store's index appending.
  const now = context.clock();
  const roles = await readRoles(
    context,
    namesIn(batch, (key) => key.roles),
  );
  const seen = new Set<string>();
  const candidates = batch.map((key) => {
    const candidate = toCandidate(context, to.migration, key, roles);
    const digest = candidate.hash?.foreignDigest;
    // Also where the earlier one failed for another reason (ruling E2).
    if (digest !== undefined && seen.has(digest)) candidate.failure = "ALREADY_EXISTS";
    if (digest !== undefined) seen.add(digest);
    return candidate;
  });
  const fit = candidates.filter((candidate) => candidate.failure === undefined);
  const keys = fit.map((candidate) => candidate.key);
  const references: References = {
    roles,
    permissions: await ensurePermissions(
      context,
      namesIn(keys, (key) => key.permissions),
      now,
    ),
    identities: await ensureIdentities(
      context,
      namesIn(keys, ({ externalId }) => (externalId === undefined ? NONE : [externalId])),
      now,
    ),
  };
  const rows = fit.map((candidate) => toNewKey(context, to, candidate, references, now));
  const inserted = rows.length === 0 ? NONE : await context.store.insertKeys(rows);
  fit.forEach((candidate, i) => {
    if (inserted[i] === true) candidate.keyId = (rows[i] as NewKey).row.id;
    else candidate.failure = "ALREADY_EXISTS";
  });
  return toResults(candidates);
}

function toCandidate(context: Context, migration: MigrationRow, key: V2KeysMigrateKeyData, roles: Ids): Candidate {
  const hash = context.algorithms.importHash(migration.algorithm, key.hash);
  if (hash === undefined) return { key, failure: "INVALID_HASH" };
  return key.roles?.some((role) => !roles.has(role)) === true ? { key, hash, failure: "UNKNOWN_ROLE" } : { key, hash };
}

function toNewKey(context: Context, to: Destination, { key, hash }: Candidate, references: References, now: number): NewKey {
  const { row, balance } = buildKey(
    {
      id: newId("key", now),
      workspaceId: context.workspaceId,
      apiId: to.apiId,
      start: UNKNOWN_START,
      createdAt: now,
      permissions: key.permissions === undefined ? NONE : idsOf(key.permissions, references.permissions),
      roles: key.roles === undefined ? NONE : idsOf(key.roles, references.roles),
      identityId: key.externalId === undefined ? undefined : references.identities.get(key.externalId),
    },
    key,
  );
  const { digest, foreignDigest } = hash as ImportedHash;
  if (digest !== undefined) row.digest = digest;
  row.migrationId = to.migration.id;
  row.hash = key.hash;
  row.foreignDigest = foreignDigest;
  return balance === undefined ? { row } : { row, balance };
}

function toResults(candidates: readonly Candidate[]): MigrationResults {
  const migrated: MigratedKey[] = [];
  const failed: FailedKey[] = [];
  for (const { key, keyId = "", failure } of candidates) {
    if (failure === undefined) migrated.push({ hash: key.hash, keyId });
    else failed.push({ hash: key.hash, reason: failure, message: MESSAGES[failure] });
  }
  return { migrated, failed };
}

function* namesIn(
  keys: readonly V2KeysMigrateKeyData[],
  read: (key: V2KeysMigrateKeyData) => readonly string[] | undefined,
): Iterable<string> {
  for (const key of keys) yield* read(key) ?? NONE;
}
