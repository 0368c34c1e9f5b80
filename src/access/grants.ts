/** What a credential may do: both permission forms of contract 5.4 with their wildcards. */
import type { Caller, Resource } from "../contracts/caller.js";

/** The default scheme of resource-name permissions. */
export const DEFAULT_SCHEME = "svc";

type ResourceType = Resource["type"];

/**
 * First path segment of each resource type: `keyspaces/<id>` is an API, `keyspaces/<id>/keys/<keyId>` one of its keys.
 */
const ROOTS: Readonly<Record<ResourceType, string>> = {
  api: "keyspaces",
  ratelimit: "namespaces",
  rbac: "rbac",
  identity: "identities",
  workspace: "workspace",
};
const TYPES = Object.keys(ROOTS) as ResourceType[];

const PERMISSION_ACTIONS = [
  ...["create_permission", "read_permission", "update_permission", "delete_permission", "add_permission_to_key"],
];
const ROLE_ACTIONS = [
  ...["create_role", "read_role", "update_role", "delete_role", "add_role_to_key", "remove_role_from_key"],
  ...["add_permission_to_role", "remove_permission_from_role"],
];

/** Another path of the same resources: `ratelimits/namespaces/<id>` is `namespaces/<id>`. */
interface Alias {
  readonly path: readonly [first: string, second: string];
  readonly type: ResourceType;
  /** The actions that it can grant; absent: any. A path of permissions grants nothing on roles, which share a root. */
  readonly actions?: readonly string[];
}
const ALIASES: readonly Alias[] = [
  { path: ["ratelimits", "namespaces"], type: "ratelimit" },
  { path: ["rbac", "permissions"], type: "rbac", actions: PERMISSION_ACTIONS },
  { path: ["rbac", "roles"], type: "rbac", actions: ROLE_ACTIONS },
];
const KEYS = "keys";
/**
 * Actions on a single key. A resource-name grant must include the path of keys to cover them: `keyspaces/*#verify_key`
 * does not, and is refused where root keys are made.
 */
const KEY_ACTIONS: ReadonlySet<string> = new Set([
  "verify_key",
  "read_key",
  "update_key",
  "delete_key",
  "encrypt_key",
  "decrypt_key",
]);
/** The one of them that an API is asked for as well: `listKeys` requires it on the API, besides on any key. */
const ALSO_ON_APIS = "read_key";

const ONE = "*";
const REST = "**";
const WORD = /^[a-zA-Z0-9_-]+$/;

/** A grant of one action, or of any, on the paths that match a pattern. */
interface Grant {
  readonly action: string;
  /** Literals; `*` for one segment; a trailing `**` for the path before it and everything below. */
  readonly path: readonly string[];
}

/** What the grants of one action cover of one resource type. The sets hold ids. */
interface Reach {
  /** Every resource of the type; otherwise those in `some`. */
  all: boolean;
  readonly some: Set<string>;
  /** Every key; otherwise all keys of `keyspaces`, `keys` in any API, and `pairs` of `<apiId>/<keyId>`. */
  allKeys: boolean;
  readonly keyspaces: Set<string>;
  readonly keys: Set<string>;
  readonly pairs: Set<string>;
}

/**
 * Compiles the permissions of a credential. A permission that is malformed, or of another workspace or scheme, grants
 * nothing.
 * @param permissions tuples such as `api.*.verify_key`, and resource names such as
 *   `svc:v1:<workspace>:keyspaces/*#create_key`
 * @param workspaceId the credential's workspace
 * @returns `may`: whether a grant covers the action on this resource (without an id, only a grant for all does);
 *   `mayAny`: on any resource of the type
 * @see contract 5.4, 4.1 · O(total length) once; then a question is two map look-ups, and more where ids are named
 */
export function createCallerGrants(
  permissions: readonly string[],
  workspaceId: string,
  scheme: string = DEFAULT_SCHEME,
): Pick<Caller, "may" | "mayAny"> {
  const grants = permissions.flatMap((permission) => readGrants(permission, workspaceId, scheme));
  const reaches = {} as Record<ResourceType, ReadonlyMap<string, Reach>>;
  for (const type of TYPES) reaches[type] = reachesOf(type, grants);
  // Checked one after the other rather than merged: merging would copy each grant of action `*` into every action.
  return {
    may(action, resource) {
      const reach = reaches[resource.type];
      return covers(reach.get(action), resource) || covers(reach.get(ONE), resource);
    },
    mayAny(action, type) {
      const reach = reaches[type];
      const coversAny = type === "api" && KEY_ACTIONS.has(action) ? coversAnyKey : coversAnyResource;
      return coversAny(reach.get(action)) || coversAny(reach.get(ONE));
    },
  };
}

function covers(reach: Reach | undefined, { id, keyId }: Resource): boolean {
  if (reach === undefined) return false;
  if (keyId === undefined) return reach.all || (id !== undefined && reach.some.has(id));
  if (reach.allKeys || reach.keys.has(keyId)) return true;
  return id !== undefined && (reach.keyspaces.has(id) || reach.pairs.has(`${id}/${keyId}`));
}

function coversAnyResource(reach: Reach | undefined): boolean {
  return reach !== undefined && (reach.all || reach.some.size > 0);
}

function coversAnyKey(reach: Reach | undefined): boolean {
  return reach !== undefined && (reach.allKeys || reach.keyspaces.size + reach.keys.size + reach.pairs.size > 0);
}

/**
 * Why a permission can never grant anything to a credential of this workspace; `undefined`: it can. The text does not
 * contain the permission.
 */
export function explainGrant(
  permission: string,
  workspaceId: string,
  scheme: string = DEFAULT_SCHEME,
): { readonly message: string; readonly fix: string } | undefined {
  const grants = readGrants(permission, workspaceId, scheme);
  if (grants.some((grant) => TYPES.some((type) => reachesSomething(type, grant)))) return undefined;
  if (!permission.startsWith(`${scheme}:`)) {
    const fix = `write <type>.<id or *>.<action> with a type of ${TYPES.join(", ")}, such as api.*.verify_key`;
    return { message: "is not a valid root key permission", fix };
  }
  const prefix = `${scheme}:v1:${workspaceId}:`;
  if (!permission.startsWith(prefix))
    return { message: "names another version or workspace", fix: `begin it with ${prefix}` };
  const roots = [...Object.values(ROOTS), ...ALIASES.map(({ path }) => path.join("/"))].join(", ");
  const fix = `write a path below ${roots} and an action, such as ${prefix}keyspaces/*/keys/*#verify_key`;
  return { message: "is not a valid root key permission", fix };
}

/** None for what is malformed, or of another workspace or scheme. */
function readGrants(permission: string, workspaceId: string, scheme: string): readonly Grant[] {
  const prefix = `${scheme}:v1:${workspaceId}:`;
  const isResourceName = permission.startsWith(prefix);
  const grant = isResourceName ? readResourceName(permission.slice(prefix.length)) : readTuple(permission);
  if (grant === undefined) return [];
  return isResourceName ? [grant, ...ALIASES.flatMap((alias) => readAlias(grant, alias))] : [grant];
}

/** What a path below an alias grants. Only a path that names the first segment of the alias is one. */
function readAlias({ action, path }: Grant, { path: [first, second], type, actions = [action] }: Alias): Grant[] {
  const [one, two = ""] = path;
  if (one !== first || ![second, ONE, REST].includes(two)) return [];
  const below = [ROOTS[type], ...(two === REST ? [REST] : path.slice(2))];
  const granted = action === ONE ? actions : actions.filter((named) => named === action);
  return granted.map((named) => ({ action: named, path: below }));
}

/**
 * `<type>.<id>.<action>`: only the id may be `*`. It also covers what belongs to the resource, such as the keys of an
 * API.
 */
function readTuple(permission: string): Grant | undefined {
  const [type = "", id = "", action = "", ...more] = permission.split(".");
  if (more.length > 0 || !Object.hasOwn(ROOTS, type) || !(id === ONE || WORD.test(id)) || !WORD.test(action))
    return undefined;
  return { action, path: [ROOTS[type as ResourceType], id, REST] };
}

/** `<path>#<action>`: `**` only as the last segment, and action `*` only together with it. */
function readResourceName(name: string): Grant | undefined {
  const [path = "", action = "", ...more] = name.split("#");
  const segments = path.split("/");
  const isDeep = segments.at(-1) === REST;
  const plain = isDeep ? segments.slice(0, -1) : segments;
  if (more.length > 0 || !plain.every((segment) => segment === ONE || WORD.test(segment))) return undefined;
  return WORD.test(action) || (action === ONE && isDeep) ? { action, path: segments } : undefined;
}

/** What the grants reach in one type, by action; grants of every action are under `*`. */
function reachesOf(type: ResourceType, grants: readonly Grant[]): Map<string, Reach> {
  const reaches = new Map<string, Reach>();
  for (const { action, path } of grants) {
    const reach = reaches.get(action) ?? newReach();
    reaches.set(action, reach);
    widen(reach, type, path);
  }
  return reaches;
}

/** Whether a grant covers a resource that its action is for. */
function reachesSomething(type: ResourceType, grant: Grant): boolean {
  const { action } = grant;
  const reach = reachesOf(type, [grant]).get(action);
  const isForKeysAlone = KEY_ACTIONS.has(action) && (type !== "api" || action !== ALSO_ON_APIS);
  return coversAnyKey(reach) || (!isForKeysAlone && coversAnyResource(reach));
}

/** Adds what a path pattern covers among the paths `<root>/<id>` and, for APIs, `<root>/<id>/keys/<keyId>`. */
function widen(reach: Reach, type: ResourceType, path: readonly string[]): void {
  const isDeep = path.at(-1) === REST;
  const base = isDeep ? path.slice(0, -1) : path;
  const [root = ONE, id = ONE, keys = ONE, keyId = ONE] = base;
  const covers = (length: number): boolean => base.length === length || (isDeep && base.length < length);
  if (root !== ONE && root !== ROOTS[type]) return;
  if (covers(2)) {
    if (id === ONE) reach.all = true;
    else reach.some.add(id);
  }
  if (type !== "api" || !covers(4) || (keys !== ONE && keys !== KEYS)) return;
  if (id === ONE && keyId === ONE) reach.allKeys = true;
  else if (keyId === ONE) reach.keyspaces.add(id);
  else if (id === ONE) reach.keys.add(keyId);
  else reach.pairs.add(`${id}/${keyId}`);
}

function newReach(): Reach {
  return { all: false, some: new Set(), allKeys: false, keyspaces: new Set(), keys: new Set(), pairs: new Set() };
}
