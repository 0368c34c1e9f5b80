/** Reads and updates the workspace, which is an option of the keyring. It is enabled until it is disabled. */
import type { WorkspaceRow } from "../contracts/store.js";
import { type Context, updateWithRetry } from "./context.js";
import { operation } from "./operation.js";
import { body, boolean, explained } from "./schemas/primitives.js";
import type { UpdateWorkspaceRequestBody } from "./schemas/requests.js";
import { write } from "./write.js";

/** The workspace of the keyring. */
export const getWorkspace = operation("getWorkspace", body<object>()({}), async (context) => {
  const { id, enabled } = await readWorkspace(context);
  return { id, enabled };
});

/** While disabled, every verification of its keys is FORBIDDEN. */
export const updateWorkspace = operation(
  "updateWorkspace",
  body<UpdateWorkspaceRequestBody>()({ enabled: boolean, ...explained }),
  (context, { enabled }) =>
    updateWithRetry(context, context.workspaceId, async () => {
      const row = { ...(await readWorkspace(context)), enabled };
      // Not a name that is taken: of two that create the row, the second reads the first one's.
      return (await write(context, [{ table: "workspaces", row }])) === "written" ? {} : undefined;
    }),
);

async function readWorkspace({ store, workspaceId }: Context): Promise<WorkspaceRow> {
  const [row] = await store.readMany("workspaces", [workspaceId]);
  return row ?? { id: workspaceId, version: 0, enabled: true };
}
