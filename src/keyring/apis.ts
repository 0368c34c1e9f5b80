/** Creates, reads, updates and deletes APIs: the operations `apis.*`. The keys of a deleted API count as absent. */
import type { Caller } from "../contracts/caller.js";
import { isKeystileError } from "../contracts/errors.js";
import type { ApiRow } from "../contracts/store.js";
import type { Mutable } from "../lib/mutable.js";
import { type Context, updateWithRetry } from "./context.js";
import { readPage } from "./list-page.js";
import { operation } from "./operation.js";
import { ownedRow, requireApi, setField } from "./rows.js";
import { list } from "./schemas/page.js";
import { body, boolean, explained, ipAllowlist, label, longId, nullable, optional } from "./schemas/primitives.js";
import type * as R from "./schemas/requests.js";
import type { EmptyResponse, V2ApisCreateApiResponseData, V2ApisGetApiResponseData } from "./schemas/responses.js";
import type { Search } from "./search.js";
import { insertNamed, writeRows } from "./write.js";

const name = label(3, 256);
/** A new API over HTTP, where its id is not chosen. */
export const newApi = body<R.V2ApisCreateApiRequestBody>()({ name });
const given = body<R.V2ApisGetApiRequestBody>()({ apiId: longId });

/** @throws KeystileError CONFLICT: the given id exists, or belonged to an API that was deleted */
export const createApi = operation(
  "createApi",
  body<R.CreateApiRequestBody>()({ name, apiId: optional(longId) }),
  (context, { name, apiId }) => insertApi(context, name, apiId),
);

/**
 * The API with this id, as it is, or a new one of this name: for programs that run their set-up at every start, several
 * at a time too.
 * @throws KeystileError CONFLICT: the id belongs to another workspace, or to an API that was deleted
 */
export const getOrCreateApi = operation(
  "getOrCreateApi",
  body<R.GetOrCreateApiRequestBody>()({ name, apiId: longId }),
  async (context, { name, apiId }) => {
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
  },
);

/** By id; for a caller those that it may read. */
export const listApis = operation("listApis", list("apis"), (context, request) =>
  readPage(context, request, {
    table: "apis",
    search: readableBy(context.caller),
    toResponses: (rows) => rows.map(toApiResponse),
  }),
);

/** `undefined`: all. */
function readableBy(caller: Caller | undefined): Search<"apis"> | undefined {
  if (caller === undefined || caller.may("read_api", { type: "api" })) return undefined;
  return { text: "", matches: ({ id }) => caller.may("read_api", { type: "api", id }) };
}

/** @throws KeystileError NOT_FOUND */
export const getApi = operation("getApi", given, async (context, { apiId }) =>
  toApiResponse(await requireApi(context, apiId)),
);

/** Absent fields are unchanged. @throws KeystileError NOT_FOUND */
export const updateApi = operation(
  "updateApi",
  body<R.V2ApisUpdateApiRequestBody>()({
    apiId: longId,
    name: optional(name),
    enabled: optional(boolean),
    ipAllowlist: optional(nullable(ipAllowlist)),
    ...explained,
  }),
  (context, { apiId, name, enabled, ipAllowlist }) =>
    writeApi(context, apiId, (row) => {
      setField(row, "name", name);
      setField(row, "enabled", enabled);
      if (ipAllowlist !== undefined) row.ipAllowlist = ipAllowlist ?? [];
    }),
);

/**
 * Its keys are NOT_FOUND from then on, in verification and in administration. Deleting an API does not release their
 * hashes and digests: importing one anywhere in the store fails with ALREADY_EXISTS. To import one again, first delete
 * that key with `permanent: true`, before the API is deleted.
 * @throws KeystileError NOT_FOUND
 */
export const deleteApi = operation(
  "deleteApi",
  body<R.V2ApisDeleteApiRequestBody>()({ apiId: longId, ...explained }),
  (context, { apiId }) =>
    writeApi(context, apiId, (row) => {
      row.deleted = true;
    }),
);

async function insertApi(context: Context, name: string, apiId?: string): Promise<V2ApisCreateApiResponseData> {
  const createdAt = context.now;
  const base = ownedRow(context, apiId ?? context.newId("api", createdAt));
  const row: ApiRow = { ...base, name, enabled: true, ipAllowlist: [], deleted: false, createdAt };
  await insertNamed(context, { table: "apis", row }, "An API with this id");
  return { apiId: row.id };
}

function writeApi(context: Context, apiId: string, edit: (row: Mutable<ApiRow>) => void): Promise<EmptyResponse> {
  return updateWithRetry(context, apiId, async () => {
    const row: Mutable<ApiRow> = { ...(await requireApi(context, apiId)) };
    edit(row);
    return (await writeRows(context, [{ table: "apis", row }])) ? {} : undefined;
  });
}

function toApiResponse({ id, name, enabled, ipAllowlist }: ApiRow): V2ApisGetApiResponseData {
  return { id, name, enabled, ipAllowlist };
}
