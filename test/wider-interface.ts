/**
 * What the operations of the wider interface name for each, as data: its statuses and the permissions of its caller.
 * Contract 4.1 agrees.
 */

/** One operation as the document has it. */
export interface DocumentedOperation {
  readonly statuses: readonly number[];
  readonly permissions: readonly string[];
}

const PATH = "<scheme>:v1:<workspace_id>:keyspaces";
const ofApi = (action: string) => [`api.*.${action}`, `api.<api_id>.${action}`];
const ofKeyspace = (action: string) => [...ofApi(action), `${PATH}/*#${action}`, `${PATH}/<keyspace_id>#${action}`];
const ofEveryKey = (action: string) => [
  ...ofApi(action),
  `${PATH}/*/keys/*#${action}`,
  `${PATH}/<keyspace_id>/keys/*#${action}`,
];
const ofKey = (action: string) => [...ofEveryKey(action), `${PATH}/<keyspace_id>/keys/<key_id>#${action}`];
const ofNamespace = (action: string) => [`ratelimit.*.${action}`, `ratelimit.<namespace_id>.${action}`];
const ofRbac = (...actions: string[]) => actions.map((action) => `rbac.*.${action}`);

const operation = (permissions: readonly string[], ...more: readonly number[]): DocumentedOperation => ({
  statuses: [200, 400, 401, 403, ...more, 429, 500],
  permissions,
});

/** All but `liveness`, which takes no caller. The grants of `analytics.getVerifications` are those of its own. */
export const DOCUMENT: Readonly<Record<string, DocumentedOperation>> = {
  "analytics.getVerifications": operation(ofApi("read_analytics"), 422),
  "apis.createApi": operation(["api.*.create_api"]),
  "apis.deleteApi": operation(ofApi("delete_api"), 404, 412),
  "apis.getApi": operation(ofApi("read_api"), 404),
  "apis.listKeys": operation([...ofApi("read_key"), ...ofApi("read_api"), ...ofApi("decrypt_key")], 404),
  "identities.createIdentity": operation(["identity.*.create_identity"], 409),
  "identities.deleteIdentity": operation(["identity.*.delete_identity"], 404),
  "identities.getIdentity": operation(["identity.*.read_identity"], 404),
  "identities.listIdentities": operation(["identity.*.read_identity"]),
  "identities.updateIdentity": operation(["identity.*.update_identity"], 404),
  "keys.addPermissions": operation(ofApi("update_key"), 404),
  "keys.addRoles": operation(ofApi("update_key"), 404),
  "keys.createKey": operation(ofKeyspace("create_key"), 404),
  "keys.deleteKey": operation(ofKey("delete_key"), 404),
  "keys.getKey": operation([...ofKey("read_key"), ...ofKey("decrypt_key")], 404),
  "keys.migrateKeys": operation(ofApi("create_key"), 404),
  "keys.removePermissions": operation(ofApi("update_key"), 404),
  "keys.removeRoles": operation(ofApi("update_key"), 404),
  "keys.rerollKey": operation([...ofKeyspace("create_key"), ...ofEveryKey("encrypt_key")], 404),
  "keys.setPermissions": operation(ofApi("update_key"), 404),
  "keys.setRoles": operation(ofApi("update_key"), 404),
  "keys.updateCredits": operation(ofKey("update_key"), 404),
  "keys.updateKey": operation(ofKey("update_key"), 404),
  "keys.verifyKey": operation(ofKey("verify_key"), 404),
  "keys.whoami": operation(ofKey("read_key"), 404),
  "permissions.createPermission": operation(ofRbac("create_permission"), 409),
  "permissions.createRole": operation(ofRbac("create_role", "add_permission_to_role", "create_permission"), 409),
  "permissions.deletePermission": operation(ofRbac("delete_permission"), 404),
  "permissions.deleteRole": operation(ofRbac("delete_role")),
  "permissions.getPermission": operation(ofRbac("read_permission"), 404),
  "permissions.getRole": operation(ofRbac("read_role"), 404),
  "permissions.listPermissions": operation(ofRbac("read_permission")),
  "permissions.listRoles": operation(ofRbac("read_role"), 404),
  "permissions.setRolePermissions": operation(
    ofRbac("add_permission_to_role", "remove_permission_from_role", "create_permission"),
    404,
  ),
  "ratelimit.deleteOverride": operation(ofNamespace("delete_override"), 404),
  "ratelimit.getOverride": operation(ofNamespace("read_override"), 404),
  "ratelimit.limit": operation(ofNamespace("limit"), 404, 410),
  "ratelimit.listOverrides": operation(ofNamespace("read_override"), 404),
  "ratelimit.multiLimit": operation(ofNamespace("limit"), 404, 410),
  "ratelimit.setOverride": operation(ofNamespace("set_override"), 404),
};
