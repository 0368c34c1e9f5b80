/**
 * Creates, lists, updates and deletes root keys. Spec §5. Only digest and `start` are stored; `createAuthenticator`
 * checks them.
 */
import type { RootKeyRow } from "../contracts/store.js";
import { digestKey, newKey, ROOT_KEY_PREFIX } from "../lib/hash.js";
import type { Mutable } from "../lib/mutable.js";
import { type Context, updateWithRetry } from "./context.js";
import { insertNamed, writeRows } from "./create-row.js";
import { readPage } from "./list-page.js";
import { notFound, ownedRow, requireNamed, setField } from "./rows.js";
import { parse } from "./schemas/parse.js";
import type { ListRequestBody } from "./schemas/requests.js";
import type { CreateRootKeyResponseData, EmptyResponse, Page, RootKeyData } from "./schemas/responses.js";
import type * as R from "./schemas/service-requests.js";
import * as schemas from "./schemas/service.js";

/** Random bytes of a root key: 192 bits. */
const BYTES = 24;

/** What the root-key operations use besides. */
export interface RootKeyContext extends Context {
  /** Scheme word of resource-name permissions. */
  readonly scheme: string;
}

/**
 * The response is the only place where the root key's text ever appears.
 * @throws KeystileError BAD_REQUEST, at `body.permissions[i]` for what could never grant anything in this workspace
 */
export async function createRootKey(
  context: RootKeyContext,
  body: R.CreateRootKeyRequestBody,
): Promise<CreateRootKeyResponseData> {
  const request = parse(schemas.createRootKey(context.workspaceId, context.scheme), body);
  const createdAt = context.clock();
  const { key, start } = newKey(ROOT_KEY_PREFIX, BYTES);
  const digest = await digestKey(key);
  const { permissions, enabled = true } = request;
  const row: Mutable<RootKeyRow> = {
    ...ownedRow(context, context.newId("rk", createdAt)),
    digest,
    start,
    permissions,
    enabled,
    createdAt,
  };
  setField(row, "name", request.name);
  setField(row, "expires", request.expires);
  await insertNamed(context, { table: "rootKeys", row }, "A root key with this digest");
  return { rootKeyId: row.id, key };
}

/** By id. @throws KeystileError BAD_REQUEST */
export async function listRootKeys(context: Context, body: ListRequestBody = {}): Promise<Page<RootKeyData>> {
  return readPage(context, parse(schemas.listRootKeys, body), {
    table: "rootKeys",
    toResponses: (rows) => rows.map(toRootKeyResponse),
  });
}

/**
 * Absent fields are unchanged, `null` clears. Takes effect from the next request on.
 * @throws KeystileError BAD_REQUEST · NOT_FOUND
 */
export async function updateRootKey(context: RootKeyContext, body: R.UpdateRootKeyRequestBody): Promise<EmptyResponse> {
  const request = parse(schemas.updateRootKey(context.workspaceId, context.scheme), body);
  return updateWithRetry(context, request.rootKeyId, async () => {
    const row: Mutable<RootKeyRow> = { ...(await requireRootKey(context, request.rootKeyId)) };
    setField(row, "name", request.name);
    setField(row, "expires", request.expires);
    setField(row, "permissions", request.permissions);
    setField(row, "enabled", request.enabled);
    return (await writeRows(context, [{ table: "rootKeys", row }])) ? {} : undefined;
  });
}

/**
 * It authenticates nobody from the next request on. Its digest stays, so that nobody can let its text in as a key's.
 * @throws KeystileError BAD_REQUEST · NOT_FOUND
 */
export async function deleteRootKey(context: Context, body: R.DeleteRootKeyRequestBody): Promise<EmptyResponse> {
  const { rootKeyId } = parse(schemas.deleteRootKey, body);
  return updateWithRetry(context, rootKeyId, async () => {
    const { name: _, expires: __, ...row } = await requireRootKey(context, rootKeyId);
    const deleted: RootKeyRow = { ...row, permissions: [], enabled: false, deleted: true };
    return (await writeRows(context, [{ table: "rootKeys", row: deleted }])) ? {} : undefined;
  });
}

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
