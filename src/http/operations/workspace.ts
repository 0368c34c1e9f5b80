/**
 * Operations on what belongs to a workspace as a whole: `rootKeys.*` and `audit.*`. Additions of keystile. A root key
 * is made on the database alone, so that none can make another (contract 5).
 */
import { listAudit } from "../../keyring/list-audit.js";
import { deleteRootKey, listRootKeys } from "../../keyring/root-keys.js";
import type { AuditData, RootKeyData } from "../../keyring/schemas/responses.js";
import { onAll } from "./access.js";
import { group } from "./operation.js";
import { changeOfCredits, changesOfFields, flag, integer, object, text, texts, time } from "./responses.js";

const ofRootKeys = group("rootKeys", ({ keyring }) => keyring);
const ofAudit = group("audit", ({ keyring }) => keyring);

/** Root keys and the audit trail. */
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
];
