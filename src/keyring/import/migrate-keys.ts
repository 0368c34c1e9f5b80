/** Imports keys that were hashed elsewhere, in batches: the operation `keys.migrateKeys`. */
import { badRequest } from "../../contracts/errors.js";
import type { StandardSchema } from "../../contracts/standard-schema.js";
import type { MigrationRow } from "../../contracts/store.js";
import { callable, type Check, checkOptions, flag, integer } from "../../lib/check-options.js";
import { validateMeta } from "../../lib/meta-schema.js";
import { type Context, pause } from "../context.js";
import { requireApi, requireNamed, ownedRow, MAX_BATCH } from "../rows.js";
import type * as M from "../schemas/migration-requests.js";
import type { V2KeysMigrateKeysResponseData, CreateMigrationResponseData } from "../schemas/responses.js";
import { dryContext } from "./dry-store.js";
import { explainAlgorithm } from "./imported-hash.js";
import { type Import, type ImportFrame, readFrame, readImport } from "./import-batches.js";
import { createImportNames, type KnownNames } from "./name-cache.js";
import { buildAhead, createRefused, storeBatch } from "./store-batch.js";
import type { Operation } from "../operation.js";
import { migrationId } from "../schemas/imports.js";
import { body, checked, optional, text } from "../schemas/primitives.js";
import { insertNamed } from "../write.js";
import type { V2KeysMigrateKeyData } from "../../contracts/types.js";
import { PERMISSIONS, readIds } from "../rbac/resolve-names.js";

type Batch = NonNullable<Import["keys"]>;

const DEFAULT_BATCH = 1_000;
/** An asynchronous store may still not yield to the event loop: after this many batches a pause does. */
const MAX_UNYIELDED = 8;
const OPTIONS = {
  batchSize: integer(1, 10_000),
  onProgress: callable,
  onBatch: callable,
  dryRun: flag,
} satisfies Record<keyof M.MigrateKeysOptions, Check>;

/**
 * Each key is imported or fails by itself, and `failed` says why; permissions and identities that do not exist are
 * created.
 *
 * An array is validated as a whole first: one invalid key is a 400, and nothing is stored. Any other iterable is read a
 * batch at a time, for imports larger than memory: there an invalid key fails alone too, as INVALID_KEY with its index
 * and what is wrong with it. After an interruption, run it again: keys already stored are returned in `failed`
 * as ALREADY_EXISTS. With `onBatch` the results are passed on batch by batch and memory stays bounded; without it the
 * response lists them all. The result for a key does not depend on `batchSize`: a hash that repeats one whose roles
 * were unknown fails too, unless 100,000 such lie between them.
 *
 * While an asynchronous store writes one batch, the next one, and no more, is read and validated: with `sqliteStore`'s
 * writer thread both run in parallel. It is stored after the results of the batch before were taken, and its errors are
 * thrown then.
 *
 * With `dryRun` all of this is done but the write: the results are those that the import would have, without ids of
 * keys, and nothing is stored, created or told to the audit trail.
 * @throws KeystileError BAD_REQUEST · STORE_POWER_MISSING: a dry run on a store that cannot search · NOT_FOUND: no such
 *   migration or API, or the API was deleted meanwhile, and the keys from that batch on are not stored · TypeError,
 *   RangeError naming an option · whatever the iterable, `onProgress` or `onBatch` throws
 */
export async function migrateKeys(
  context: Context,
  body: M.V2KeysMigrateKeysRequestBody,
  options: M.MigrateKeysOptions = {},
): Promise<V2KeysMigrateKeysResponseData> {
  return importKeys(context, readFrame(body), checkOptions(options, OPTIONS));
}

/** What the service sets besides. */
export interface ImportOptions extends M.MigrateKeysOptions {
  /** New permissions of an array's keys; with more the call is a BAD_REQUEST at `body.keys`, and nothing is stored. */
  readonly maxNewPermissions?: number;
  /** Keys have the fields of the specification alone, without those of {@link ImportedKeyData}. */
  readonly specifiedFieldsOnly?: boolean;
}

/** {@link migrateKeys} of a body whose other fields were read. */
export async function importKeys(
  given: Context,
  frame: ImportFrame,
  options: ImportOptions,
): Promise<V2KeysMigrateKeysResponseData> {
  const { batchSize = DEFAULT_BATCH, maxNewPermissions, specifiedFieldsOnly = false, onProgress, onBatch } = options;
  const { dryRun = false } = options;
  const context = dryRun ? dryContext(given) : given;
  let invalid: M.FailedKey[] = [];
  const { migrationId, apiId, keys, batches } = await readImport(frame, {
    batchSize,
    turn: context.turns.next,
    extraFields: !specifiedFieldsOnly,
    onInvalid: (key) => void invalid.push(key),
  });
  const migration = await findUsable(context, migrationId);
  await requireApi(context, apiId);
  if (keys !== undefined && maxNewPermissions !== undefined) await boundNew(context, keys, maxNewPermissions);

  const migrated: M.MigratedKey[] = [];
  const failed: M.FailedKey[] = [];
  const take = onBatch ?? ((results: M.MigrationResults) => append(results, migrated, failed));
  const totals = { migrated: 0, failed: 0 };
  const names = createImportNames(context);
  const misfits = new Set<M.ImportedKeyData>();
  const destination = { context, migration, apiId, names, refused: createRefused(), misfits };
  let known: KnownNames | undefined;
  const checked = context.meta === undefined ? batches : withMisfits(context.meta, batches, misfits);
  const reading = createReadAhead(checked, (keys) => buildAhead(destination, keys, known));
  const onWaiting = (names: KnownNames): void => {
    known = names;
    reading.start();
  };
  let unyielded = 0;
  try {
    for (let batch = await reading.next(); batch !== undefined; batch = await reading.next()) {
      const stored = await storeBatch(destination, batch, onWaiting);
      const { yielded } = stored;
      const { failed } = stored.results;
      const migrated = dryRun ? stored.results.migrated.map(withoutId) : stored.results.migrated;
      // Those of the batch that was read ahead may be among them.
      const results = { migrated, failed: invalid.length === 0 ? failed : [...failed, ...invalid] };
      invalid = [];
      totals.migrated += results.migrated.length;
      totals.failed += results.failed.length;
      for (const key of batch.keys) misfits.delete(key);
      await take(results);
      await onProgress?.({ ...totals });
      // A synchronous store would otherwise block the event loop until the last key.
      unyielded = yielded ? (unyielded + 1) % MAX_UNYIELDED : 0;
      const isWhole = results.migrated.length + results.failed.length >= batchSize;
      if (isWhole && unyielded === 0) await pause(0);
    }
  } finally {
    names.close();
    await reading.close();
  }
  return { migrated, failed, totals };
}

const withoutId = ({ hash }: M.MigratedKey): M.MigratedKey => ({ hash, keyId: "" });

/** Without the algorithm no hash can be validated: the request fails, not each of its keys. */
async function findUsable(context: Context, migrationId: string): Promise<MigrationRow> {
  const migration = await requireNamed(context, "migrations", migrationId);
  if (explainAlgorithm(context.algorithms, migration.algorithm) === undefined) return migration;
  const message = "has an algorithm that this keyring does not know";
  throw badRequest([{ location: "body.migrationId", message, fix: "register it in options.migrationAlgorithms" }]);
}

/** The same batches, with the keys whose metadata does not fit added to `misfits` before each is passed on. */
async function* withMisfits(
  schema: StandardSchema,
  batches: Iterable<Batch> | AsyncIterable<Batch>,
  misfits: Set<M.ImportedKeyData>,
): AsyncIterable<Batch> {
  for await (const batch of batches) {
    for (const key of batch)
      if (key.meta !== undefined && "problems" in (await validateMeta(schema, key.meta))) misfits.add(key);
    yield batch;
  }
}

function append(results: M.MigrationResults, migrated: M.MigratedKey[], failed: M.FailedKey[]): void {
  for (const one of results.migrated) migrated.push(one);
  for (const one of results.failed) failed.push(one);
}

/* Declares how the keys of an import were hashed, before they are imported. */

/**
 * @throws KeystileError BAD_REQUEST, at `body.algorithm` also for an algorithm that is not known or cannot be looked up
 *   by hash · CONFLICT: the id exists
 */
export const createMigration: Operation<Context, M.CreateMigrationRequestBody, CreateMigrationResponseData> = {
  name: "createMigration",
  schema: ({ algorithms }) =>
    body<M.CreateMigrationRequestBody>()({
      id: optional(migrationId),
      algorithm: checked(text(1, 255), (name) => explainAlgorithm(algorithms, name)),
    }),
  async act(context, { id, algorithm }) {
    const row = { ...ownedRow(context, id ?? context.newId("mig", context.now)), algorithm };
    await insertNamed(context, { table: "migrations", row }, "A migration with this id");
    return { migrationId: row.id };
  },
};

/* Bounds how many permissions an import makes. */

/**
 * Reads a thousand names at a time and stops at the first too many: a request that names 70,000 new ones took 100 ms.
 * @throws KeystileError BAD_REQUEST at `body.keys` if the keys name more permissions that do not exist
 */
async function boundNew(context: Context, keys: readonly V2KeysMigrateKeyData[], most: number): Promise<void> {
  const seen = new Set<string>();
  let slugs: string[] = [];
  let unknown = 0;
  const count = async (): Promise<void> => {
    unknown += slugs.length - (await readIds(context, PERMISSIONS, slugs)).size;
    if (unknown > most) throw tooManyNew(most);
    slugs = [];
    await context.turns.next();
  };
  for (const { permissions = [] } of keys) {
    for (const slug of permissions) {
      if (seen.has(slug)) continue;
      seen.add(slug);
      slugs.push(slug);
      if (slugs.length === MAX_BATCH) await count();
    }
  }
  if (slugs.length > 0 && seen.size > most) await count();
}

function tooManyNew(most: number) {
  const message = `would make more than ${most} permissions that do not exist yet`;
  return badRequest([
    { location: "body.keys", message, fix: "send fewer keys at a time, or make the permissions first" },
  ]);
}

/* An iterator whose next item may be read while the current one is still being processed. */

/** @param make maps each item as soon as it is read */
export function createReadAhead<T, U>(source: Iterable<T> | AsyncIterable<T>, make: (one: T) => U) {
  const from = Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
  let isReading = false;
  let ahead: Promise<U | undefined> | undefined;
  const read = async (): Promise<U | undefined> => {
    isReading = true;
    try {
      const read = await from.next();
      return read.done === true ? undefined : make(read.value);
    } finally {
      isReading = false;
    }
  };
  return {
    /** The next item; `undefined`: there are no more. */
    next(): Promise<U | undefined> {
      const next = ahead ?? read();
      ahead = undefined;
      return next;
    },
    /** Starts reading the next item, unless that has started. Errors are thrown by `next`. */
    start(): void {
      if (ahead !== undefined) return;
      ahead = read();
      ahead.catch(ignore);
    },
    /**
     * Stops reading and closes the source; errors while closing are ignored. Does not wait for a read in progress: the
     * source is closed once that settles, so a source that never settles blocks nothing.
     */
    async close(): Promise<void> {
      const wasReading = isReading;
      const closed = Promise.resolve(from.return?.()).catch(ignore);
      if (!wasReading) await closed;
    },
  };
}

function ignore(): void {}
