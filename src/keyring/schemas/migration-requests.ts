/** What the verbs of migration take, and what becomes of each key of an import. Rulings E1–E3, E6. Types only; schemas.ts judges them. */
import type { MaybePromise, V2KeysMigrateKeyData } from "../../contracts/types.js";

/** Body of `createMigration`. */
export interface CreateMigrationRequestBody {
  /** 3–255 code points; default a new id. */
  readonly id?: string;
  /** `sha256`, `sha512`, `prefixed-api-key` or a name of `options.migrationAlgorithms`, 1–255 code points (ruling E3). */
  readonly algorithm: string;
}
/** Body of `migrateKeys`. */
export interface V2KeysMigrateKeysRequestBody {
  /** Of a migration that `createMigration` made, 3–255 code points. */
  readonly migrationId: string;
  /** The API that the keys go to, 3–255 code points. */
  readonly apiId: string;
  /** At least one in an array, each hash at most 1,024 code points; for large imports anything that can be iterated, asynchronously or not. */
  readonly keys: readonly V2KeysMigrateKeyData[] | Iterable<V2KeysMigrateKeyData> | AsyncIterable<V2KeysMigrateKeyData>;
}
/** How an import goes on. */
export interface MigrateKeysOptions {
  /** Keys stored in one step, 1–10,000, default 1,000. */
  readonly batchSize?: number;
  /** Told after each batch; waited for. */
  readonly onProgress?: (totals: MigrationTotals) => unknown;
  /** Takes each batch's results, which the answer then leaves out; waited for. */
  readonly onBatch?: (results: MigrationResults) => MaybePromise<void>;
}
/** How many keys an import has taken and refused so far. */
export interface MigrationTotals {
  readonly migrated: number;
  readonly failed: number;
}
/** What became of the keys of a batch, or of a whole import: each is in one of the two lists. */
export interface MigrationResults {
  /** Those that went in. */
  readonly migrated: readonly MigratedKey[];
  /** Those that did not, each with its reason. */
  readonly failed: readonly FailedKey[];
}
/** A key that went in, by the hash that it came with. */
export interface MigratedKey {
  /** As given. */
  readonly hash: string;
  /** `key_` and 22 characters. */
  readonly keyId: string;
}
/** A key that did not go in; the others did (ruling E2). */
export interface FailedKey {
  /** As given. */
  readonly hash: string;
  /** The reason as a stable code. */
  readonly reason: MigrationFailure;
  /** The reason in words. */
  readonly message: string;
}
/**
 * Why a key did not go in (ruling E2): `INVALID_HASH`: no digest of the migration's algorithm · `ALREADY_EXISTS`: anywhere in the store, or
 * earlier in the same import · `UNKNOWN_ROLE`: one of its roles does not exist.
 */
export type MigrationFailure = "INVALID_HASH" | "ALREADY_EXISTS" | "UNKNOWN_ROLE";
