/** Operation `callers.whoami`: what a credential is and may do. An addition of keystile. */
import { ownOnly } from "../../lib/check-options.js";
import { body } from "../../keyring/schemas/primitives.js";
import type { RootKeyData } from "../../keyring/schemas/responses.js";
import { bySchema, describe, type Operation } from "./operation.js";
import { object, text, texts, time } from "./responses.js";

/** Who calls. */
interface CallerData extends Partial<Pick<RootKeyData, "name" | "start" | "permissions" | "expires">> {
  readonly kind: string;
  readonly id?: string;
  readonly workspaceId: string;
}

const { request, read } = bySchema(body<object>()({}));

export const whoIsCaller: Operation = {
  ...describe("callers.whoami", request, {
    summary: "Shows whom the credential of the call belongs to, and of a root key its permissions.",
    answer: object<CallerData>(
      { kind: text, workspaceId: text },
      { id: text, name: text, start: text, permissions: texts, expires: time },
    ),
    access: { action: "", type: "workspace", permissions: [] },
    statuses: [],
  }),
  mayAny: () => true,
  validate: (given) => void read(given, "specified"),
  async perform({ store }, { caller, body: given }): Promise<CallerData> {
    read(given, "specified");
    const { kind = "caller", id, workspaceId } = caller;
    const known = { kind, workspaceId, ...(id !== undefined && { id }) };
    if (kind !== "rootKey" || id === undefined) return known;
    const [row] = await store.readMany("rootKeys", [id]);
    if (row?.workspaceId !== workspaceId) return known;
    const { name, start, permissions, expires } = ownOnly(row);
    return {
      ...known,
      start,
      permissions,
      ...(name !== undefined && { name }),
      ...(expires !== undefined && { expires }),
    };
  },
};
