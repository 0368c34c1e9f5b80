/** Reads and updates the workspace, which is an option of the keyring. It is enabled until it is disabled. */
import type { WorkspaceRow } from "../contracts/store.js";
import { type Context, updateWithRetry } from "./context.js";
import * as schemas from "./schemas/keys.js";
import { parse } from "./schemas/parse.js";
import type { UpdateWorkspaceRequestBody } from "./schemas/requests.js";
import type { EmptyResponse, WorkspaceData } from "./schemas/responses.js";

/** @throws KeystileError BAD_REQUEST */
export async function getWorkspace(context: Context, body: object = {}): Promise<WorkspaceData> {
  parse(schemas.getWorkspace, body);
  const { id, enabled } = await readWorkspace(context);
  return { id, enabled };
}

/** While disabled, every verification of its keys is FORBIDDEN. @throws KeystileError BAD_REQUEST */
export async function updateWorkspace(context: Context, body: UpdateWorkspaceRequestBody): Promise<EmptyResponse> {
  const { enabled } = parse(schemas.updateWorkspace, body);
  return updateWithRetry(context, context.workspaceId, async () => {
    const row = { ...(await readWorkspace(context)), enabled };
    // Not a name that is taken: of two that create the row, the second reads the first one's.
    return (await context.store.write([{ table: "workspaces", row }])) === "written" ? {} : undefined;
  });
}

async function readWorkspace({ store, workspaceId }: Context): Promise<WorkspaceRow> {
  const [row] = await store.readMany("workspaces", [workspaceId]);
  return row ?? { id: workspaceId, version: 0, enabled: true };
}
