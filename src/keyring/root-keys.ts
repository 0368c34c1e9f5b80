/**
 * Creates, lists, updates and deletes root keys. Contract 5. Only digest and `start` are stored; `createAuthenticator`
 * checks them.
 */
import { explainGrant } from "../access/grants.js";
import type { RootKeyRow } from "../contracts/store.js";
import { digestKey, newKey, ROOT_KEY_PREFIX } from "../lib/hash.js";
import type { Mutable } from "../lib/mutable.js";
import { type Context, type OfCall, type Shared, updateWithRetry } from "./context.js";
import { readPage } from "./list-page.js";
import { type Operation, operation } from "./operation.js";
import { notFound, ownedRow, requireNamed, setField } from "./rows.js";
import { list as listOf } from "./schemas/page.js";
import * as atom from "./schemas/primitives.js";
import type { CreateRootKeyResponseData, EmptyResponse, RootKeyData } from "./schemas/responses.js";
import type * as R from "./schemas/service-requests.js";
import { insertNamed, writeRows } from "./write.js";

const { body, nullable, optional } = atom;
/** Random bytes of a root key: 192 bits. */
const BYTES = 24;
const MAX_GRANTS = 1_000;

/** What the operations of a keyring share. */
export interface KeyringShared extends Shared {
  /** Scheme word of resource-name permissions. */
  readonly scheme: string;
}
type RootKeyContext = KeyringShared & OfCall;

/** Permissions that can grant something in this workspace: one for another would grant nothing. */
function grants({ workspaceId, scheme }: Pick<KeyringShared, "workspaceId" | "scheme">) {
  const explain = (permission: string) => explainGrant(permission, workspaceId, scheme);
  return atom.list(atom.checked(atom.text(1, 1_024), explain), 0, MAX_GRANTS);
}

/**
 * The response is the only place where the root key's text ever appears.
 * @throws KeystileError BAD_REQUEST, at `body.permissions[i]` for what could never grant anything in this workspace
 */
export const createRootKey: Operation<RootKeyContext, R.CreateRootKeyRequestBody, CreateRootKeyResponseData> = {
  name: "createRootKey",
  schema: (context) =>
    body<R.CreateRootKeyRequestBody>()({
      name: optional(atom.name),
      permissions: grants(context),
      expires: optional(atom.time),
      enabled: atom.optionalOr(atom.boolean, true),
    }),
  async act(context, { permissions, enabled = true, name, expires }) {
    const createdAt = context.now;
    const { key, start } = newKey(ROOT_KEY_PREFIX, BYTES);
    const digest = await digestKey(key);
    const base = ownedRow(context, context.newId("rk", createdAt));
    const row: Mutable<RootKeyRow> = { ...base, digest, start, permissions, enabled, createdAt };
    setField(row, "name", name);
    setField(row, "expires", expires);
    await insertNamed(context, { table: "rootKeys", row }, "A root key with this digest");
    return { rootKeyId: row.id, key };
  },
};

/** By id. */
export const listRootKeys = operation("listRootKeys", listOf("rootKeys"), (context, request) =>
  readPage(context, request, { table: "rootKeys", toResponses: (rows) => rows.map(toRootKeyResponse) }),
);

/** Absent fields are unchanged, `null` clears, from the next request on. @throws KeystileError NOT_FOUND */
export const updateRootKey: Operation<RootKeyContext, R.UpdateRootKeyRequestBody, EmptyResponse> = {
  name: "updateRootKey",
  schema: (context) =>
    body<R.UpdateRootKeyRequestBody>()({
      rootKeyId: atom.id,
      name: optional(nullable(atom.name)),
      permissions: optional(grants(context)),
      expires: optional(nullable(atom.time)),
      enabled: optional(atom.boolean),
      ...atom.explained,
    }),
  act: (context, { rootKeyId, name, expires, permissions, enabled }) =>
    updateWithRetry(context, rootKeyId, async () => {
      const row: Mutable<RootKeyRow> = { ...(await requireRootKey(context, rootKeyId)) };
      setField(row, "name", name);
      setField(row, "expires", expires);
      setField(row, "permissions", permissions);
      setField(row, "enabled", enabled);
      return (await writeRows(context, [{ table: "rootKeys", row }])) ? {} : undefined;
    }),
};

/**
 * It authenticates nobody from the next request on. Its digest stays, so that nobody can let its text in as a key's.
 * @throws KeystileError NOT_FOUND
 */
export const deleteRootKey = operation(
  "deleteRootKey",
  body<R.DeleteRootKeyRequestBody>()({ rootKeyId: atom.id, ...atom.explained }),
  (context, { rootKeyId }) =>
    updateWithRetry(context, rootKeyId, async () => {
      const { name: _, expires: __, ...row } = await requireRootKey(context, rootKeyId);
      const deleted: RootKeyRow = { ...row, permissions: [], enabled: false, deleted: true };
      return (await writeRows(context, [{ table: "rootKeys", row: deleted }])) ? {} : undefined;
    }),
);

/** @throws KeystileError NOT_FOUND, for a deleted one too */
async function requireRootKey(context: Context, rootKeyId: string): Promise<RootKeyRow> {
  const row = await requireNamed(context, "rootKeys", rootKeyId);
  if (row.deleted === true) throw notFound("The root key");
  return row;
}

function toRootKeyResponse({ id, start, name, permissions, expires, enabled, createdAt }: RootKeyRow): RootKeyData {
  return {
    rootKeyId: id,
    start,
    ...(name !== undefined && { name }),
    permissions,
    ...(expires !== undefined && { expires }),
    enabled,
    createdAt,
  };
}
