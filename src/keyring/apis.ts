/** Creates, reads, updates and deletes APIs: the operations `apis.*`. The keys of a deleted API count as absent. */
import type { ApiRow } from "../contracts/store.js";
import { newId } from "../lib/hash.js";
import { type Context, updateWithRetry } from "./context.js";
import { insertNamed, writeRows } from "./create-row.js";
import { type Mutable, ownedRow, requireApi, setField } from "./rows.js";
import * as schemas from "./schemas/keys.js";
import { parse } from "./schemas/parse.js";
import type * as R from "./schemas/requests.js";
import type { EmptyResponse, V2ApisCreateApiResponseData, V2ApisGetApiResponseData } from "./schemas/responses.js";

/** @throws KeystileError BAD_REQUEST */
export async function createApi(
  context: Context,
  body: R.V2ApisCreateApiRequestBody,
): Promise<V2ApisCreateApiResponseData> {
  const { name } = parse(schemas.createApi, body);
  const createdAt = context.clock();
  const base = ownedRow(context, newId("api", createdAt));
  const row: ApiRow = { ...base, name, enabled: true, ipAllowlist: [], deleted: false, createdAt };
  await insertNamed(context, { table: "apis", row }, "An API with this id");
  return { apiId: row.id };
}

/** @throws KeystileError BAD_REQUEST · NOT_FOUND */
export async function getApi(context: Context, body: R.V2ApisGetApiRequestBody): Promise<V2ApisGetApiResponseData> {
  const { apiId } = parse(schemas.getApi, body);
  const { id, name, enabled, ipAllowlist } = await requireApi(context, apiId);
  return { id, name, enabled, ipAllowlist };
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
