/** createKeyring: administration of keys and of what they refer to. Wires the verbs of `keyring/`, which hold the rules. Knows no engine. */
import { createAlgorithms, type MigrationAlgorithms } from "./algorithms.js";
import { DEFAULT_SCHEME } from "./callers/grants.js";
import type * as A from "./keyring/answers.js";
import { createApi, deleteApi, getApi, updateApi } from "./keyring/apis.js";
import { createQueue, type Context } from "./keyring/context.js";
import { createKey } from "./keyring/create-key.js";
import { createMigration } from "./keyring/create-migration.js";
import { createIdentity, deleteIdentity, getIdentity, listIdentities, updateIdentity } from "./keyring/identities.js";
import { addPermissions, addRoles, removePermissions, removeRoles, setPermissions, setRoles } from "./keyring/key-grants.js";
import { migrateKeys } from "./keyring/migrate-keys.js";
import { createPermission, deletePermission, getPermission, listPermissions } from "./keyring/permissions.js";
import { getKey, listKeys, whoami } from "./keyring/read-keys.js";
import type * as R from "./keyring/requests.js";
import { rerollKey } from "./keyring/reroll-key.js";
import { createRole, deleteRole, getRole, listRoles, setRolePermissions } from "./keyring/roles.js";
import { createRootKey, deleteRootKey, listRootKeys, type RootKeyContext, updateRootKey } from "./keyring/root-keys.js";
import type * as S from "./keyring/service-requests.js";
import { updateCredits } from "./keyring/update-credits.js";
import { deleteKey, updateKey } from "./keyring/update-key.js";
import { getWorkspace, updateWorkspace } from "./keyring/workspace.js";
import { callable, checkOptions, checkStore, DEFAULT_WORKSPACE, guardClock, word } from "./options.js";
import type { Store } from "./store.js";
import type { Identity, KeyCreditsData } from "./types.js";

/** Options of {@link createKeyring}. */
export interface KeyringOptions {
  /** 1–255 characters of `[a-zA-Z0-9_-]`, default `ws_default`. Nothing of one workspace is seen from another. */
  readonly workspaceId?: string;
  /** Unix time, milliseconds; default `Date.now`. */
  readonly clock?: () => number;
  /** Further algorithms of imported hashes, by name (ruling E3). Give the verifier the same. */
  readonly migrationAlgorithms?: MigrationAlgorithms;
  /** Scheme word of the resource-name permissions of root keys (ruling B7), default `svc`. Give authentication the same. */
  readonly scheme?: string;
}

/**
 * The verbs of administration. Each takes the body of the operation of its name and resolves to its `data`. All reject with a
 * `VerifierError`: BAD_REQUEST with every problem of the body, before any change; NOT_FOUND, the same for unknown, deleted and
 * foreign; CONFLICT; STORE_… when the store fails. A write is durable, as the store states, before the promise resolves.
 */
export interface Keyring {
  createApi(body: R.V2ApisCreateApiRequestBody): Promise<A.V2ApisCreateApiResponseData>;
  getApi(body: R.V2ApisGetApiRequestBody): Promise<A.V2ApisGetApiResponseData>;
  /** Name, `enabled`, allow-list of addresses; absent fields stay. */
  updateApi(body: R.V2ApisUpdateApiRequestBody): Promise<A.EmptyResponse>;
  /** Its keys are NOT_FOUND from then on; their hashes stay taken (ruling E2). */
  deleteApi(body: R.V2ApisDeleteApiRequestBody): Promise<A.EmptyResponse>;

  /** The answer is the only place where the key's text ever appears. */
  createKey(body: R.V2KeysCreateKeyRequestBody): Promise<A.V2KeysCreateKeyResponseData>;
  getKey(body: R.V2KeysGetKeyRequestBody): Promise<A.KeyResponseData>;
  listKeys(body: R.V2KeysListKeysRequestBody): Promise<A.Page<A.KeyResponseData>>;
  /** Absent fields stay, `null` clears, a given list replaces. */
  updateKey(body: R.V2KeysUpdateKeyRequestBody): Promise<A.EmptyResponse>;
  /** Hides the key; `permanent` removes it. */
  deleteKey(body: R.V2KeysDeleteKeyRequestBody): Promise<A.EmptyResponse>;
  /** A new id and text with all else as it was; the old key expires `expiration` milliseconds from now. */
  rerollKey(body: R.V2KeysRerollKeyRequestBody): Promise<A.V2KeysCreateKeyResponseData>;
  /** Answers the balance after the change. */
  updateCredits(body: R.V2KeysUpdateCreditsRequestBody): Promise<KeyCreditsData>;
  /** The record of a key by its text. */
  whoami(body: R.V2KeysWhoamiRequestBody): Promise<A.KeyResponseData>;

  addPermissions(body: R.V2KeysPermissionsRequestBody): Promise<readonly A.Permission[]>;
  removePermissions(body: R.V2KeysPermissionsRequestBody): Promise<readonly A.Permission[]>;
  setPermissions(body: R.V2KeysPermissionsRequestBody): Promise<readonly A.Permission[]>;
  addRoles(body: R.V2KeysRolesRequestBody): Promise<readonly A.Role[]>;
  removeRoles(body: R.V2KeysRolesRequestBody): Promise<readonly A.Role[]>;
  setRoles(body: R.V2KeysRolesRequestBody): Promise<readonly A.Role[]>;

  createPermission(body: R.V2PermissionsCreatePermissionRequestBody): Promise<A.V2PermissionsCreatePermissionResponseData>;
  getPermission(body: R.V2PermissionsGetPermissionRequestBody): Promise<A.Permission>;
  listPermissions(body?: R.SearchRequestBody): Promise<A.Page<A.Permission>>;
  deletePermission(body: R.V2PermissionsGetPermissionRequestBody): Promise<A.EmptyResponse>;
  createRole(body: R.V2PermissionsCreateRoleRequestBody): Promise<A.V2PermissionsCreateRoleResponseData>;
  getRole(body: R.V2PermissionsGetRoleRequestBody): Promise<A.Role>;
  listRoles(body?: R.SearchRequestBody): Promise<A.Page<A.Role>>;
  deleteRole(body: R.V2PermissionsGetRoleRequestBody): Promise<A.EmptyResponse>;
  setRolePermissions(body: R.V2PermissionsSetRolePermissionsRequestBody): Promise<readonly A.Permission[]>;

  createIdentity(body: R.V2IdentitiesCreateIdentityRequestBody): Promise<A.V2IdentitiesCreateIdentityResponseData>;
  getIdentity(body: R.V2IdentitiesGetIdentityRequestBody): Promise<Identity>;
  listIdentities(body?: R.SearchRequestBody): Promise<A.Page<Identity>>;
  updateIdentity(body: R.V2IdentitiesUpdateIdentityRequestBody): Promise<Identity>;
  deleteIdentity(body: R.V2IdentitiesGetIdentityRequestBody): Promise<A.EmptyResponse>;

  createMigration(body: R.CreateMigrationRequestBody): Promise<A.CreateMigrationResponseData>;
  /** Takes in keys by their hashes; for large imports give an iterable and `onBatch`. */
  migrateKeys(body: R.V2KeysMigrateKeysRequestBody, options?: R.MigrateKeysOptions): Promise<A.V2KeysMigrateKeysResponseData>;

  /** The answer is the only place where the root key's text ever appears. */
  createRootKey(body: S.CreateRootKeyRequestBody): Promise<A.CreateRootKeyResponseData>;
  listRootKeys(body?: R.ListRequestBody): Promise<A.Page<A.RootKeyData>>;
  /** Absent fields stay, `null` clears; holds from the next request on. */
  updateRootKey(body: S.UpdateRootKeyRequestBody): Promise<A.EmptyResponse>;
  /** It lets nobody in from the next request on: in this process at once, in others as the store states. */
  deleteRootKey(body: S.DeleteRootKeyRequestBody): Promise<A.EmptyResponse>;

  getWorkspace(body?: Record<string, never>): Promise<A.WorkspaceData>;
  /** While disabled, every verification of its keys is FORBIDDEN. */
  updateWorkspace(body: R.UpdateWorkspaceRequestBody): Promise<A.EmptyResponse>;
}

const OPTIONS = { workspaceId: word, clock: callable, migrationAlgorithms: () => {}, scheme: word };

/**
 * Administration over a store, which stays the caller's to close.
 * @throws TypeError or RangeError naming an option that does not fit, or the method that the store lacks
 * @see operations of the wider interface, issue §2
 */
export function createKeyring(store: Store, options: KeyringOptions = {}): Keyring {
  checkStore(store);
  checkOptions(options, OPTIONS);
  const { workspaceId = DEFAULT_WORKSPACE, migrationAlgorithms, scheme = DEFAULT_SCHEME } = options;
  const clock = guardClock(options.clock ?? Date.now);
  const context: Context = { store, workspaceId, clock, algorithms: createAlgorithms(migrationAlgorithms), queue: createQueue() };
  const rootKeys: RootKeyContext = { ...context, scheme };
  const verb =
    <B, A>(act: (context: Context, body: B) => Promise<A>) =>
    (body: B): Promise<A> =>
      act(context, body);
  const keyring: Keyring = {
    createApi: verb(createApi),
    getApi: verb(getApi),
    updateApi: verb(updateApi),
    deleteApi: verb(deleteApi),
    createKey: verb(createKey),
    getKey: verb(getKey),
    listKeys: verb(listKeys),
    updateKey: verb(updateKey),
    deleteKey: verb(deleteKey),
    rerollKey: verb(rerollKey),
    updateCredits: verb(updateCredits),
    whoami: verb(whoami),
    addPermissions: verb(addPermissions),
    removePermissions: verb(removePermissions),
    setPermissions: verb(setPermissions),
    addRoles: verb(addRoles),
    removeRoles: verb(removeRoles),
    setRoles: verb(setRoles),
    createPermission: verb(createPermission),
    getPermission: verb(getPermission),
    listPermissions: verb(listPermissions),
    deletePermission: verb(deletePermission),
    createRole: verb(createRole),
    getRole: verb(getRole),
    listRoles: verb(listRoles),
    deleteRole: verb(deleteRole),
    setRolePermissions: verb(setRolePermissions),
    createIdentity: verb(createIdentity),
    getIdentity: verb(getIdentity),
    listIdentities: verb(listIdentities),
    updateIdentity: verb(updateIdentity),
    deleteIdentity: verb(deleteIdentity),
    createMigration: verb(createMigration),
    migrateKeys: (body, importing) => migrateKeys(context, body, importing),
    createRootKey: (body) => createRootKey(rootKeys, body),
    listRootKeys: verb(listRootKeys),
    updateRootKey: (body) => updateRootKey(rootKeys, body),
    deleteRootKey: verb(deleteRootKey),
    getWorkspace: verb(getWorkspace),
    updateWorkspace: verb(updateWorkspace),
  };
  // Not enumerable: nothing that prints or copies a keyring meets a store.
  return Object.defineProperty(keyring, STORE, { value: store });
}

const STORE = Symbol.for("keystile.keyring.store");

/** The store that a keyring works on, for the service around it; `undefined` for what {@link createKeyring} did not make. */
export function storeOf(keyring: Keyring): Store | undefined {
  return (keyring as { readonly [STORE]?: Store })[STORE];
}
