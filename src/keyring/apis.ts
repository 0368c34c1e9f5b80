/** Creates, reads, updates and deletes APIs: the operations `apis.*`. The keys of a deleted API count as absent. */
import { isKeystileError } from "../contracts/errors.js";
import type { ApiRow } from "../contracts/store.js";
import { type Context, updateWithRetry } from "./context.js";
import { insertNamed, writeRows } from "./create-row.js";
import { readPage } from "./list-page.js";
import { ownedRow, requireApi, setField } from "./rows.js";
import * as schemas from "./schemas/keys.js";
import { parse } from "./schemas/parse.js";
import type * as R from "./schemas/requests.js";
import type {
  EmptyResponse,
  GetOrCreateApiResponseData,
  Page,
  V2ApisCreateApiResponseData,
  V2ApisGetApiResponseData,
} from "./schemas/responses.js";
import type { Mutable } from "../lib/mutable.js";

/** @throws KeystileError BAD_REQUEST · CONFLICT: the given id exists, or belonged to an API that was deleted */
export async function createApi(context: Context, body: R.CreateApiRequestBody): Promise<V2ApisCreateApiResponseData> {
  const { name, apiId } = parse(schemas.createApi, body);
  return insertApi(context, name, apiId);
}

async function insertApi(context: Context, name: string, apiId?: string): Promise<V2ApisCreateApiResponseData> {
  const createdAt = context.clock();
  const base = ownedRow(context, apiId ?? context.newId("api", createdAt));
  const row: ApiRow = { ...base, name, enabled: true, ipAllowlist: [], deleted: false, createdAt };
  await insertNamed(context, { table: "apis", row }, "An API with this id");
  return { apiId: row.id };
}

/**
 * The API with this id, as it is, or a new one of this name: for programs that run their set-up at every start, several
 * at a time too.
 * @throws KeystileError BAD_REQUEST · CONFLICT: the id belongs to another workspace, or to an API that was deleted
 */
export async function getOrCreateApi(
  context: Context,
  body: R.GetOrCreateApiRequestBody,
): Promise<GetOrCreateApiResponseData> {
  const { name, apiId } = parse(schemas.getOrCreateApi, body);
  const isThere = async () => {
    const [row] = await context.store.readMany("apis", [apiId]);
    return row !== undefined && !row.deleted && row.workspaceId === context.workspaceId;
  };
  if (await isThere()) return { apiId, created: false };
  try {
    return { ...(await insertApi(context, name, apiId)), created: true };
  } catch (error) {
    // Another process may have created it meanwhile.
    if (isKeystileError(error) && error.code === "CONFLICT" && (await isThere())) return { apiId, created: false };
    throw error;
  }
}

/** By id. @throws KeystileError BAD_REQUEST */
export async function listApis(
  context: Context,
  body: R.ListRequestBody = {},
): Promise<Page<V2ApisGetApiResponseData>> {
  return readPage(context, parse(schemas.listApis, body), {
    table: "apis",
    toResponses: (rows) => rows.map(toApiResponse),
  });
}

function toApiResponse({ id, name, enabled, ipAllowlist }: ApiRow): V2ApisGetApiResponseData {
  return { id, name, enabled, ipAllowlist };
}

/** @throws KeystileError BAD_REQUEST · NOT_FOUND */
export async function getApi(context: Context, body: R.V2ApisGetApiRequestBody): Promise<V2ApisGetApiResponseData> {
  const { apiId } = parse(schemas.getApi, body);
  return toApiResponse(await requireApi(context, apiId));
}

/** Absent fields are unchanged. @throws KeystileError BAD_REQUEST · NOT_FOUND */
export async function updateApi(context: Context, body: R.V2ApisUpdateApiRequestBody): Promise<EmptyResponse> {
  const { apiId, name, enabled, ipAllowlist } = parse(schemas.updateApi, body);
  return writeApi(context, apiId, (row) => {
    setField(row, "name", name);
    setField(row, "enabled", enabled);
    if (ipAllowlist !== undefined) row.ipAllowlist = ipAllowlist ?? [];
  });
}

/**
 * Its keys are NOT_FOUND from then on, in verification and in administration. Deleting an API does not release their
 * hashes and digests: importing one anywhere in the store fails with ALREADY_EXISTS. To import one again, first delete
 * that key with `permanent: true`, before the API is deleted.
 * @throws KeystileError BAD_REQUEST · NOT_FOUND
 */
export async function deleteApi(context: Context, body: R.V2ApisDeleteApiRequestBody): Promise<EmptyResponse> {
  const { apiId } = parse(schemas.getApi, body);
  return writeApi(context, apiId, (row) => {
    row.deleted = true;
  });
}

function writeApi(context: Context, apiId: string, edit: (row: Mutable<ApiRow>) => void): Promise<EmptyResponse> {
  return updateWithRetry(context, apiId, async () => {
    const row: Mutable<ApiRow> = { ...(await requireApi(context, apiId)) };
    edit(row);
    return (await writeRows(context, [{ table: "apis", row }])) ? {} : undefined;
  });
}
