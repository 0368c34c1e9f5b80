/**
 * Operations on what belongs to a workspace as a whole: `rootKeys.*`, `audit.*` and `callers.whoami`, which says what a
 * credential is and may do. Additions of keystile. A root key is made on the database alone, so that none can make
 * another (contract 5).
 */
import { ownOnly } from "../../lib/check-options.js";
import { body } from "../../keyring/schemas/primitives.js";
import { listAudit } from "../../keyring/list-audit.js";
import { deleteRootKey, listRootKeys } from "../../keyring/root-keys.js";
import type { AuditData, RootKeyData } from "../../keyring/schemas/responses.js";
import { onAll } from "./access.js";
import { bySchema, describe, group, type Operation } from "./operation.js";
import { changeOfCredits, changesOfFields, flag, integer, object, text, texts, time } from "./responses.js";

const ofRootKeys = group("rootKeys", ({ keyring }) => keyring);
const ofAudit = group("audit", ({ keyring }) => keyring);

/** Who calls. */
interface CallerData extends Partial<Pick<RootKeyData, "name" | "start" | "permissions" | "expires">> {
  readonly kind: string;
  readonly id?: string;
  readonly workspaceId: string;
}

const { request, read } = bySchema(body<object>()({}));

const whoIsCaller: Operation = {
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

/** Root keys, the audit trail and who calls. */
export const workspaceOperations = [
  ofRootKeys(listRootKeys, {
    summary: "Lists root keys, by id, disabled and expired ones too.",
    answer: object<RootKeyData>(
      { rootKeyId: text, start: text, permissions: texts, enabled: flag, createdAt: time },
      { name: text, expires: time },
    ),
    isList: true,
    access: onAll("read_root_key", "workspace"),
    statuses: [],
  }),
  ofRootKeys(deleteRootKey, {
    summary: "Deletes a root key, which authenticates nobody from the next request on.",
    access: onAll("delete_root_key", "workspace"),
  }),
  ofAudit(listAudit, {
    summary: "Lists who changed what, newest first.",
    answer: object<AuditData>(
      { time, actorKind: text, operation: text, ids: texts, kinds: texts, fields: texts, count: integer(0) },
      {
        changes: changesOfFields,
        actor: text,
        actorName: text,
        credits: changeOfCredits,
        reason: text,
        entries: integer(2),
        since: time,
      },
    ),
    isList: true,
    access: onAll("read_audit", "workspace"),
    statuses: [],
  }),
  whoIsCaller,
];
