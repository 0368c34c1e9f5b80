/** Requests of imports, and the result for each key. Types only: the operations have their schemas. */
import type { MaybePromise, V2KeysMigrateKeyData } from "../../contracts/types.js";
import type { V2IdentitiesCreateIdentityRequestBody } from "./requests.js";

/** Body of `createMigration`. */
export interface CreateMigrationRequestBody {
  /** 3–255 code points; default a new id. */
  readonly id?: string;
  /** `sha256`, `sha512`, `prefixed-api-key` or a name of `options.migrationAlgorithms`, 1–255 code points. */
  readonly algorithm: string;
}
/** Body of `migrateKeys`. */
export interface V2KeysMigrateKeysRequestBody {
  /** Of a migration that `createMigration` made, 3–255 code points. */
  readonly migrationId: string;
  /** The API that the keys are imported into, 3–255 code points. */
  readonly apiId: string;
  /**
   * At least one in an array; for large imports anything that can be iterated, asynchronously or not.
   */
  readonly keys: readonly ImportedKeyData[] | Iterable<ImportedKeyData> | AsyncIterable<ImportedKeyData>;
}
/** A key of an import in the library, which takes more than the service. */
export interface ImportedKeyData extends V2KeysMigrateKeyData {
  /** When the key was made, Unix time in milliseconds; default: now. Refills count from the import on in any case. */
  readonly createdAt?: number;
  /** What the key begins with, shown as its `start` until it is first verified: 1–16 characters of `[a-zA-Z0-9_]`. */
  readonly prefix?: string;
  /** The first characters of the key, prefix included, if they are known: shown likewise; 1–32 of visible ASCII. */
  readonly start?: string;
  /**
   * The key's id in the system that it comes from, which it keeps: 8–255 characters of `[a-zA-Z0-9_]`; default: a new
   * one.
   */
  readonly keyId?: string;
  /** What the identity of `externalId` is made with; one that exists is not changed. Without `externalId` unused. */
  readonly identity?: ImportedIdentityData;
}
/** What the identity of an imported key is made with. */
export type ImportedIdentityData = Pick<V2IdentitiesCreateIdentityRequestBody, "meta" | "ratelimits">;
/** Options of `migrateKeys`. */
export interface MigrateKeysOptions {
  /** Keys stored in one step, 1–10,000, default 1,000. */
  readonly batchSize?: number;
  /** Called after each batch, and awaited. */
  readonly onProgress?: (totals: MigrationTotals) => unknown;
  /** Receives each batch's results, which the response then omits; awaited. */
  readonly onBatch?: (results: MigrationResults) => MaybePromise<void>;
  /**
   * Only say what would become of each key, default false: nothing is stored, created or recorded. Remembers some 200
   * bytes of each key that would go in, to find repeats. STORE_POWER_MISSING where the store cannot search.
   */
  readonly dryRun?: boolean;
}
/** How many keys have been imported and have failed so far. */
export interface MigrationTotals {
  readonly migrated: number;
  readonly failed: number;
}
/** The results for the keys of a batch, or of a whole import: each key is in one of the two lists. */
export interface MigrationResults {
  /** Imported keys. */
  readonly migrated: readonly MigratedKey[];
  /** Keys that failed, each with its reason. */
  readonly failed: readonly FailedKey[];
}
/** An imported key, by its given hash. */
export interface MigratedKey {
  /** As given. */
  readonly hash: string;
  /** `key_` and 22 characters; empty in a dry run. */
  readonly keyId: string;
}
/** A key that was not imported; the others are unaffected. */
export interface FailedKey {
  /** As given; empty where none was given. */
  readonly hash: string;
  /** Its place among the keys of an iterable, from 0. With `INVALID_KEY` alone. */
  readonly index?: number;
  /** The reason as a stable code. */
  readonly reason: MigrationFailure;
  /** The reason in words. */
  readonly message: string;
}
/**
 * Why a key was not imported: `INVALID_HASH`: not a digest of the migration's algorithm · `ALREADY_EXISTS`: its hash or
 * its keyId is anywhere in the store, or earlier in the same import · `UNKNOWN_ROLE`: one of its roles does not exist ·
 * `UNKNOWN_PERMISSION`: it gives a permission by an id that none has · `INVALID_KEY`: a key of an iterable that breaks
 * the schema; in an array it is a 400 for all · `INVALID_META`: its metadata does not fit the keyring's schema ·
 * `INVALID_EXTERNAL_ID`: its externalId is the id of an identity.
 */
export type MigrationFailure =
  | "INVALID_KEY"
  | "INVALID_HASH"
  | "ALREADY_EXISTS"
  | "UNKNOWN_ROLE"
  | "UNKNOWN_PERMISSION"
  | "INVALID_META"
  | "INVALID_EXTERNAL_ID";
