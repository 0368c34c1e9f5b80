/** createKeyring: administration of keys and of what they refer to. Its methods are the operations of `keyring/`. */
import { DEFAULT_SCHEME } from "../access/grants.js";
import type { StandardSchema } from "../contracts/standard-schema.js";
import type { Store } from "../contracts/store.js";
import type { Identity, JsonObject } from "../contracts/types.js";
import { type Check, checkOptions, word } from "../lib/check-options.js";
import { checkStore, type StoreGuardOptions } from "../lib/guards/guard-store.js";
import { standardSchema } from "../lib/meta-schema.js";
import type { MigrationAlgorithms } from "../lib/migration-hashes.js";
import { adjustmentMethod, type AdjustmentOptions } from "./adjustment.js";
import { createApi, deleteApi, getApi, getOrCreateApi, listApis, updateApi } from "./apis.js";
import { type Audited, type AuditOptions, PROGRAM_OPTIONS, programAudit } from "./audit.js";
import { type Audit, createContext } from "./context.js";
import { changePlan } from "./change-plan.js";
import { getBalance } from "./balance.js";
import { endGrant, grantCredits, listGrants } from "./credit-grants.js";
import { createIdentity, deleteIdentity, getIdentity, listIdentities, updateIdentity } from "./identities.js";
import { createMigration, migrateKeys } from "./import/migrate-keys.js";
import { countKeys } from "./keys/count-keys.js";
import { changeKeys } from "./keys/change-keys.js";
import { createKey } from "./keys/create-key.js";
import * as grants from "./keys/key-grants.js";
import { getKey, getKeys, listKeys, whoami } from "./keys/read-keys.js";
import { rerollKey } from "./keys/reroll-key.js";
import { searchKeys } from "./keys/search-keys.js";
import { deleteKey, updateKey } from "./keys/update-key.js";
import { methodsOf, runCall, withContext } from "./operation.js";
import { listAudit } from "./list-audit.js";
import * as permissions from "./rbac/permissions.js";
import * as roles from "./rbac/roles.js";
import * as rootKeys from "./root-keys.js";
import type { KeyringShared } from "./root-keys.js";
import type * as M from "./schemas/migration-requests.js";
import type * as R from "./schemas/requests.js";
import type * as A from "./schemas/responses.js";
import type * as S from "./schemas/service-requests.js";
import { updateCredits, updateIdentityCredits } from "./update-credits.js";
import { getWorkspace, updateWorkspace } from "./workspace.js";

/** Options of {@link createKeyring}; `Meta` is the metadata that the schema in `meta` accepts. */
export interface KeyringOptions<Meta = unknown> extends StoreGuardOptions, AuditOptions {
  /**
   * Who the program acts for, in the audit trail: 1–1,024 characters, such as the name of an administrator. Never a
   * secret: it is stored and passed on. Default: none.
   */
  readonly actor?: string;
  /** 1–255 characters of `[a-zA-Z0-9_-]`, default `ws_default`. Workspaces cannot see each other's rows. */
  readonly workspaceId?: string;
  /** Unix time, milliseconds; default `Date.now`. */
  readonly clock?: () => number;
  /**
   * Makes the id of a new row, for tests: `prefix`, `_` and 22 characters of `1-9`, `A-Z` and `a-z` without `I`, `O`
   * and `l`, never the same twice; `testIds()` of `keystile/testing` is one. Default: from `now` (Unix time,
   * milliseconds) and random characters.
   */
  readonly newId?: (prefix: string, now: number) => string;
  /** Further algorithms of imported hashes, by name. Give the verifier the same. */
  readonly migrationAlgorithms?: MigrationAlgorithms;
  /**
   * A Standard Schema of the metadata of keys: creating, changing and importing a key refuses what does not fit. It is
   * stored as given. Give `createVerifier` the same. Default: any metadata.
   */
  readonly meta?: StandardSchema<unknown, Meta> | undefined;
  /** Scheme word of the resource-name permissions of root keys, default `svc`. Give authentication the same. */
  readonly scheme?: string;
}

/** A request whose metadata has the type of the program's own schema. */
export type WithMeta<Body, Meta> = Omit<Body, "meta"> & {
  /** Replaces the whole of it. Bounds as of any metadata, and what the schema asks. */
  readonly meta?: Meta;
};

/**
 * The administrative operations. Each accepts the request body of the operation of its name and resolves to its `data`.
 * All reject with a `KeystileError`: BAD_REQUEST with every problem of the body, before any change; NOT_FOUND, the same
 * for rows that are unknown, deleted or in another workspace; CONFLICT; STORE_… when the store fails. A write is
 * durable, as the store documents, before the promise resolves.
 *
 * Pages end before 4 MiB of JSON, with one row at least. A role or key with permissions that make more than 1 MiB is a
 * BAD_REQUEST at the field that gives them.
 *
 * Each operation names its errors besides BAD_REQUEST and STORE_…. Changes of one row run in sequence in a keyring;
 * STORE_BUSY also means that other writers conflicted 20 times. Bounds are documented at the bodies.
 * `Meta` is the type of the metadata of keys: what the schema in `options.meta` accepts.
 * @see contract 4.3, 5, 7
 */
export interface Keyring<Meta = JsonObject> {
  /**
   * Creates an API, enabled and open to any address. Several may have the same name.
   * @throws KeystileError CONFLICT: the given id exists, or belonged to an API that was deleted
   */
  createApi(body: R.CreateApiRequestBody): Promise<A.V2ApisCreateApiResponseData>;
  /**
   * The API with this id, as it is, or a new one of this name: for programs that run their set-up at every start.
   * @throws KeystileError CONFLICT: the id belongs to another workspace, or to an API that was deleted
   */
  getOrCreateApi(body: R.GetOrCreateApiRequestBody): Promise<A.GetOrCreateApiResponseData>;
  /** By id, 100 per page unless `limit` says otherwise. */
  listApis(body?: R.ListRequestBody): Promise<A.Page<A.V2ApisGetApiResponseData>>;
  /** An API by its id. @throws KeystileError NOT_FOUND */
  getApi(body: R.V2ApisGetApiRequestBody): Promise<A.V2ApisGetApiResponseData>;
  /** Name, `enabled`, allow-list of addresses; absent fields are unchanged. @throws KeystileError NOT_FOUND */
  updateApi(body: R.V2ApisUpdateApiRequestBody): Promise<A.EmptyResponse>;
  /** Its keys are NOT_FOUND from then on; their hashes are not released. @throws KeystileError NOT_FOUND */
  deleteApi(body: R.V2ApisDeleteApiRequestBody): Promise<A.EmptyResponse>;

  /**
   * The response is the only place where the key's text ever appears. Unknown permissions and identities are created.
   * @throws KeystileError BAD_REQUEST at `body.expires` also for a time that is past, as one in seconds is; at
   *   `body.meta` for metadata that does not fit `options.meta` · NOT_FOUND: no such API, or a role that does not
   *   exist; nothing is created then
   */
  createKey(body: WithMeta<R.CreateKeyRequestBody, Meta>): Promise<A.V2KeysCreateKeyResponseData>;
  /** A key, with the refills due by now counted in `credits`. @throws KeystileError NOT_FOUND */
  getKey(body: R.V2KeysGetKeyRequestBody): Promise<A.KeyResponseData>;
  /** Up to 100 keys by their ids, in that order; those that do not exist are left out. */
  getKeys(body: R.GetKeysRequestBody): Promise<A.GetKeysResponseData>;
  /** Keys of an API by id, 100 per page unless `limit` says otherwise. @throws KeystileError NOT_FOUND: no such API */
  listKeys(body: R.V2KeysListKeysRequestBody): Promise<A.Page<A.KeyResponseData>>;
  /**
   * Keys of all APIs by text, state and bounds, newest first or in another order, 50 per page unless `limit` says
   * otherwise. A page also ends after 80 ms of looking, with a cursor and however few keys.
   * @throws KeystileError NOT_FOUND: no such API · BAD_REQUEST at `body.apiId` without one, where there are more than
   *   1,000 APIs · STORE_POWER_MISSING: the store cannot search
   */
  searchKeys(body?: R.SearchKeysRequestBody): Promise<A.SearchPage<A.KeyResponseData>>;
  /**
   * How many keys there are, disabled and expired ones among them: about 0.1 s of small steps for 100,000.
   * @throws KeystileError as `searchKeys`
   */
  countKeys(body?: R.CountKeysRequestBody): Promise<A.CountKeysResponseData>;
  /**
   * Absent fields are unchanged, `null` clears, a given list replaces the old one. Unknown permissions and identities
   * are created.
   * @throws KeystileError BAD_REQUEST at `body.meta` also for metadata that does not fit `options.meta`, and at
   *   `body.expires` for a later end of a key that was rerolled · NOT_FOUND: no such key, or a role that does not exist
   */
  updateKey(body: WithMeta<R.V2KeysUpdateKeyRequestBody, Meta | null>): Promise<A.EmptyResponse>;
  /**
   * Disables, enables or deletes many keys: the keys that `keyIds` names, or the keys that a filter of `searchKeys`
   * finds. A call changes at most 100 keys in one step, with one entry in the audit trail. A call with the cursor of
   * the last page goes on, also after an interruption; `changeAllKeys` makes all these calls. `dryRun` changes nothing
   * and says what a call would do.
   * @throws KeystileError as `searchKeys` · BAD_REQUEST: nothing selects keys
   */
  changeKeys(body: R.ChangeKeysRequestBody): Promise<A.SearchPage<A.KeyChange>>;
  /**
   * Hides the key, which is NOT_FOUND from then on; `permanent` removes it, a hidden one too.
   * @throws KeystileError NOT_FOUND
   */
  deleteKey(body: R.V2KeysDeleteKeyRequestBody): Promise<A.EmptyResponse>;
  /**
   * A new id and 16 new random bytes, with all else as it was. Old and new key share the balance and the buckets of the
   * key's limits, and name each other as `rerolledFrom` and `rerolledTo`; the old key expires `expiration` milliseconds
   * from now, or at its own `expires` if that is sooner, and is never valid for longer than that.
   * @throws KeystileError NOT_FOUND · CONFLICT: the key was rerolled before, and the newest of its chain is named; or
   *   it has expired
   */
  rerollKey(body: R.V2KeysRerollKeyRequestBody): Promise<A.V2KeysCreateKeyResponseData>;
  /**
   * Returns the balance after the change, which may include concurrent spends. Setting it voids what nodes have leased.
   * @param options an idempotency key, so that a change that comes twice is made once
   * @throws KeystileError BAD_REQUEST at `body.operation` for `increment` and `decrement` on an unlimited key ·
   *   NOT_FOUND · IDEMPOTENCY_MISMATCH: the key was used with another body · IDEMPOTENCY_FULL · STORE_POWER_MISSING:
   *   the store keeps no idempotency keys; TypeError for a key that is no string
   */
  updateCredits(body: R.V2KeysUpdateCreditsRequestBody, options?: AdjustmentOptions): Promise<A.ChangedCredits>;
  /**
   * The record of a key by its text. An imported key is found by its text once it has verified, or from the start where
   * its hash is a SHA-256 of the whole key. A root key is NOT_FOUND.
   * @throws KeystileError NOT_FOUND
   */
  whoami(body: R.V2KeysWhoamiRequestBody): Promise<A.KeyResponseData>;

  /**
   * Grants permissions directly, at most 1,000 a call; those that do not exist are created. Returns all direct grants
   * afterwards, sorted by slug.
   * @throws KeystileError BAD_REQUEST at `body.permissions`, or at `body.roles` for all that its roles grant besides,
   *   if the key would have more than 1 MiB of permissions · NOT_FOUND: nothing is created then
   */
  addPermissions(body: R.V2KeysPermissionsRequestBody): Promise<readonly A.Permission[]>;
  /** Removes direct grants, if it has them. Returns those left, sorted by slug. @throws KeystileError NOT_FOUND */
  removePermissions(body: R.V2KeysPermissionsRequestBody): Promise<readonly A.Permission[]>;
  /**
   * Replaces the direct grants; permissions that do not exist are created. Returns them, sorted by slug.
   * @throws KeystileError NOT_FOUND
   */
  setPermissions(body: R.V2KeysPermissionsRequestBody): Promise<readonly A.Permission[]>;
  /**
   * Adds roles, which must exist. Returns all that the key has afterwards, sorted by name.
   * @throws KeystileError BAD_REQUEST at `body.roles` if the key would have more than 100 · NOT_FOUND as for `setRoles`
   */
  addRoles(body: R.V2KeysRolesRequestBody): Promise<readonly A.Role[]>;
  /** Removes roles, if it has them. Returns those left, sorted by name. @throws KeystileError NOT_FOUND */
  removeRoles(body: R.V2KeysRolesRequestBody): Promise<readonly A.Role[]>;
  /**
   * Replaces the roles. Returns them, sorted by name.
   * @throws KeystileError NOT_FOUND: no such key, or a role that does not exist
   */
  setRoles(body: R.V2KeysRolesRequestBody): Promise<readonly A.Role[]>;

  /** Creates a permission, as granting an unknown one does. @throws KeystileError CONFLICT: the slug exists */
  createPermission(
    body: R.V2PermissionsCreatePermissionRequestBody,
  ): Promise<A.V2PermissionsCreatePermissionResponseData>;
  /** A permission by its slug or id. @throws KeystileError NOT_FOUND */
  getPermission(body: R.V2PermissionsGetPermissionRequestBody): Promise<A.Permission>;
  /** By id, 100 per page unless `limit` says otherwise. */
  listPermissions(body?: R.SearchRequestBody): Promise<A.Page<A.Permission>>;
  /** Keys and roles that had it lose it at once. @throws KeystileError NOT_FOUND */
  deletePermission(body: R.V2PermissionsGetPermissionRequestBody): Promise<A.EmptyResponse>;
  /**
   * Creates a role; permissions that do not exist are created.
   * @throws KeystileError CONFLICT: the name exists; nothing is created then
   */
  createRole(body: R.V2PermissionsCreateRoleRequestBody): Promise<A.V2PermissionsCreateRoleResponseData>;
  /** A role by its name or id, with its permissions. @throws KeystileError NOT_FOUND */
  getRole(body: R.V2PermissionsGetRoleRequestBody): Promise<A.Role>;
  /** By id, 100 per page unless `limit` says otherwise, each with its permissions. */
  listRoles(body?: R.SearchRequestBody): Promise<A.Page<A.Role>>;
  /** Keys that had it lose it, and what it granted, at once. @throws KeystileError NOT_FOUND */
  deleteRole(body: R.V2PermissionsGetRoleRequestBody): Promise<A.EmptyResponse>;
  /**
   * Replaces a role's permissions; those that do not exist are created. Returns them, sorted by slug.
   * @throws KeystileError NOT_FOUND
   */
  setRolePermissions(body: R.V2PermissionsSetRolePermissionsRequestBody): Promise<readonly A.Permission[]>;

  /**
   * Creates an identity, as naming an unknown one for a key does.
   * @throws KeystileError CONFLICT: the externalId exists
   */
  createIdentity(body: R.V2IdentitiesCreateIdentityRequestBody): Promise<A.V2IdentitiesCreateIdentityResponseData>;
  /** An identity by its externalId or id, with the refills due by now in `credits`. @throws KeystileError NOT_FOUND */
  getIdentity(body: R.V2IdentitiesGetIdentityRequestBody): Promise<A.IdentityData>;
  /** By id, 100 per page unless `limit` says otherwise; with `details` also their credits, and their keys counted. */
  listIdentities(body?: R.ListIdentitiesRequestBody): Promise<A.Page<A.ListedIdentity>>;
  /**
   * Absent fields are unchanged, `null` clears, a given list replaces the old one. Returns the identity afterwards.
   * @throws KeystileError NOT_FOUND
   */
  updateIdentity(body: R.V2IdentitiesUpdateIdentityRequestBody): Promise<Identity>;
  /**
   * Returns the balance that its keys share after the change, which may include concurrent spends. Setting it voids
   * what nodes have leased; taking it away, as `set` with null, makes the keys that drew on it unlimited.
   * @param options an idempotency key, so that a change that comes twice is made once
   * @throws KeystileError BAD_REQUEST at `body.operation` for `increment` and `decrement` without credits · NOT_FOUND ·
   *   of an idempotency key as `updateCredits`
   */
  updateIdentityCredits(
    body: R.UpdateIdentityCreditsRequestBody,
    options?: AdjustmentOptions,
  ): Promise<A.ChangedCredits>;
  /**
   * Gives an identity or a key credits beside its balance, perhaps with an expiry, a refill and a place in the order in
   * which credits are spent. The same `grantId` again returns that grant and adds nothing, until at least 400
   * days after it ended.
   * @param options an idempotency key, for whoever has no `grantId`: what comes twice is granted once
   * @throws KeystileError BAD_REQUEST at `body.identity` or `body.keyId` also for an owner without credits of its own,
   *   and at `body.expires` for a time that is not later than now · NOT_FOUND · CONFLICT: the owner has 16 open grants
   *   · STORE_POWER_MISSING: the store cannot take credits from several accounts · of an idempotency key as
   *   `updateCredits`
   */
  grantCredits(body: R.GrantCreditsRequestBody, options?: AdjustmentOptions): Promise<A.GrantCreditsData>;
  /**
   * Ends a grant before its time, such as a pack that is refunded: what is left of it is taken away, with what nodes
   * have leased and calls have reserved of it. One that has ended stays as it is, and the call succeeds.
   * @param options an idempotency key, so that a repeat answers as such
   * @throws KeystileError NOT_FOUND: the owner, or its grant · STORE_POWER_MISSING · of an idempotency key as
   *   `updateCredits`
   * @example
   * await keyring.endGrant({ identity: "acme", grantId: "order_4711", reason: "refund" });
   */
  endGrant(body: R.EndGrantRequestBody, options?: AdjustmentOptions): Promise<A.EndGrantData>;
  /**
   * Moves an identity or a key to another plan: its refill, and with `now: "difference"` at once what the new one gives
   * more, in one step. Returns the balance as the change left it.
   * @param options an idempotency key, so that a change that comes twice is made once
   * @throws KeystileError BAD_REQUEST at `body.identity` or `body.keyId` also for an owner without credits · NOT_FOUND
   *   · of an idempotency key as `updateCredits`
   * @example
   * const refill = { interval: "monthly", amount: 10_000, refillDay: 1, rollover: 0 } as const;
   * await keyring.changePlan({ identity: "acme", refill, now: "difference" }, { idempotencyKey: event.id });
   */
  changePlan(body: R.ChangePlanRequestBody, options?: AdjustmentOptions): Promise<A.ChangedCredits>;
  /**
   * What an identity or a key could spend now, account by account: its plan, and its open grants.
   * @throws KeystileError NOT_FOUND
   */
  getBalance(body: R.GetBalanceRequestBody): Promise<A.BalanceData>;
  /**
   * The open grants of an identity or a key, and on demand those that have ended.
   * @throws KeystileError NOT_FOUND · STORE_POWER_MISSING
   */
  listGrants(body: R.ListGrantsRequestBody): Promise<A.ListGrantsData>;
  /**
   * Its keys remain, without an identity and without its shared limits. No key becomes unlimited by it: with
   * `keys: "disable"` all its keys are disabled first, those with credits of their own too.
   * @throws KeystileError NOT_FOUND · CONFLICT: so many keys draw on its credits, and `keys` is not `disable`
   */
  deleteIdentity(body: R.DeleteIdentityRequestBody): Promise<A.EmptyResponse>;

  /**
   * Declares how the keys of an import were hashed, before they are imported.
   * @throws KeystileError BAD_REQUEST at `body.algorithm` if it is unknown, or its hashes cannot be looked up ·
   *   CONFLICT: the id exists
   */
  createMigration(body: M.CreateMigrationRequestBody): Promise<A.CreateMigrationResponseData>;
  /**
   * Imports keys by their hashes; for large imports give an iterable and `onBatch`. A key that cannot be imported fails
   * alone, and the response says why; permissions and identities that do not exist are created. Run again after an
   * interruption, it resumes.
   * @throws KeystileError BAD_REQUEST at `body.keys[i]` also for one invalid key of an array: nothing is stored then.
   *   Of an iterable an invalid key fails alone, as INVALID_KEY · NOT_FOUND: no such migration or API · what the
   *   iterable, `onProgress` or `onBatch` throws
   * @throws TypeError or RangeError naming an option
   */
  migrateKeys(
    body: M.V2KeysMigrateKeysRequestBody,
    options?: M.MigrateKeysOptions,
  ): Promise<A.V2KeysMigrateKeysResponseData>;

  /**
   * The response is the only place where the root key's text ever appears.
   * @throws KeystileError BAD_REQUEST at `body.permissions[i]` also for what could never grant anything in this
   *   workspace
   */
  createRootKey(body: S.CreateRootKeyRequestBody): Promise<A.CreateRootKeyResponseData>;
  /** By id, 100 per page unless `limit` says otherwise, disabled and expired ones too. */
  listRootKeys(body?: R.ListRequestBody): Promise<A.Page<A.RootKeyData>>;
  /**
   * Absent fields are unchanged, `null` clears; takes effect from the next request on, as for `deleteRootKey`.
   * @throws KeystileError NOT_FOUND
   */
  updateRootKey(body: S.UpdateRootKeyRequestBody): Promise<A.EmptyResponse>;
  /**
   * Authenticates nobody from the next request on: here at once, in other processes as the store documents.
   * @throws KeystileError NOT_FOUND
   */
  deleteRootKey(body: S.DeleteRootKeyRequestBody): Promise<A.EmptyResponse>;

  /**
   * The audit trail, newest first. A page also ends after 80 ms of looking for entries that fit, with a cursor.
   * @throws KeystileError STORE_POWER_MISSING: the store keeps none, or does not give it back
   */
  listAudit(body?: R.ListAuditRequestBody): Promise<A.Page<A.AuditData>>;

  /** The workspace of this keyring; enabled until `updateWorkspace` says otherwise. */
  getWorkspace(body?: Record<string, never>): Promise<A.WorkspaceData>;
  /** While disabled, every verification of its keys is FORBIDDEN. */
  updateWorkspace(body: R.UpdateWorkspaceRequestBody): Promise<A.EmptyResponse>;
}

const OPTIONS = {
  ...PROGRAM_OPTIONS,
  migrationAlgorithms: () => {},
  meta: standardSchema,
  scheme: word,
} satisfies Record<keyof KeyringOptions, Check>;

/**
 * Creates a keyring on a store, which the caller closes. With `options.meta` the metadata of keys has the type that the
 * schema accepts.
 * @throws TypeError or RangeError naming the invalid option, or the method that the store lacks
 * @see contract 4.3, 5
 */
export function createKeyring<Meta>(
  given: Store,
  options: KeyringOptions<Meta> & { readonly meta: StandardSchema<unknown, Meta> },
): Keyring<Meta> & Audited;
/** Creates a keyring on a store, whose keys have any metadata; the rest as for the overload with `options.meta`. */
export function createKeyring(given: Store, options?: KeyringOptions): Keyring & Audited;
export function createKeyring(given: Store, options: KeyringOptions = {}): Keyring & Audited {
  checkStore(given);
  const own = checkOptions(options, OPTIONS);
  const context = keyringContext(given, own, programAudit(own));
  return withContext(keyringOf(context), CONTEXT, context);
}

/** What the operations work with, of options that were checked, and an audit trail that others share. */
export function keyringContext(
  given: Store,
  options: Omit<KeyringOptions, "onAudit" | "audit" | "actor">,
  audit: Audit,
): KeyringShared {
  const { meta, scheme = DEFAULT_SCHEME } = options;
  return { ...createContext(given, options, audit), meta, scheme };
}

function keyringOf(context: KeyringShared): Keyring {
  const operations = {
    ...{ createApi, getOrCreateApi, listApis, getApi, updateApi, deleteApi },
    ...{ createKey, getKey, getKeys, listKeys, searchKeys, countKeys, updateKey, changeKeys, deleteKey, rerollKey },
    ...{ whoami, getBalance, listGrants, createMigration, listAudit, getWorkspace, updateWorkspace },
    ...{ createIdentity, getIdentity, listIdentities, updateIdentity, deleteIdentity },
    ...{ ...grants, ...permissions, ...roles, ...rootKeys },
  };
  return {
    ...methodsOf(context, operations),
    updateCredits: adjustmentMethod(context, updateCredits),
    updateIdentityCredits: adjustmentMethod(context, updateIdentityCredits),
    grantCredits: adjustmentMethod(context, grantCredits),
    endGrant: adjustmentMethod(context, endGrant),
    changePlan: adjustmentMethod(context, changePlan),
    migrateKeys: (body, options) =>
      runCall({ context, operation: "migrateKeys" }, (importing) => migrateKeys(importing, body, options)),
  };
}

const CONTEXT = Symbol.for("keystile.keyring.context");

/** What a keyring works with; `undefined` for what {@link createKeyring} did not create. */
export function contextOfKeyring(keyring: Keyring): KeyringShared | undefined {
  return (keyring as { readonly [CONTEXT]?: KeyringShared } | undefined)?.[CONTEXT];
}
