/** Records of idempotency keys in the file, and the secret that their digests are keyed with. */
import type { SecretName } from "../../../contracts/store.js";
import { EXPIRED_PER_WRITE, hasSpace, type OnceTable } from "../../spend-once.js";
import { type Handle, select } from "../connection/handle.js";
import { readSecret } from "../connection/secrets.js";
import { ALL, countRows, readCounts } from "../tables/counted-rows.js";

/** Part of the file format. */
export const CREATE_IDEMPOTENCY = `
  INSERT INTO keystile_secrets VALUES ('idempotency', randomblob(32));
  CREATE TABLE keystile_idempotency (
    id TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    body TEXT NOT NULL,
    expires INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX keystile_idempotency_expiry ON keystile_idempotency (expires);
  CREATE INDEX keystile_idempotency_share ON keystile_idempotency (workspace_id, expires);${countRows("idempotency", "records")}`;

export interface SqliteOnceTable extends OnceTable {
  /** @throws KeystileError STORE_INVALID: the file lacks it */
  readSecret(name: SecretName): string;
}

export function createOnceTable(handle: Handle): SqliteOnceTable {
  const byId = select<{ body: string; until: number | bigint }>(
    handle,
    "SELECT body, expires AS until FROM keystile_idempotency WHERE id = ?",
  );
  const removeOne = handle.prepare("DELETE FROM keystile_idempotency WHERE id = ?");
  const removeExpired = handle.prepare(
    `DELETE FROM keystile_idempotency WHERE id IN (
       SELECT id FROM keystile_idempotency WHERE expires <= ? ORDER BY expires LIMIT ${EXPIRED_PER_WRITE})`,
  );
  const removeExpiredOf = handle.prepare(
    `DELETE FROM keystile_idempotency WHERE id IN (
       SELECT id FROM keystile_idempotency WHERE workspace_id = ? AND expires <= ?
       ORDER BY expires LIMIT ${EXPIRED_PER_WRITE})`,
  );
  const counts = readCounts(handle, "idempotency", "records");
  const insert = handle.prepare(
    "INSERT INTO keystile_idempotency (id, workspace_id, body, expires) VALUES (?, ?, ?, ?)",
  );

  return {
    find(id) {
      const found = byId.get(id);
      return found && { body: found.body, until: Number(found.until) };
    },
    remove: (id) => void removeOne.run(id),
    makeSpace(workspaceId, now, bounds) {
      removeExpired.run(now);
      const hasIt = (): boolean => hasSpace(bounds, counts.of(workspaceId), counts.of(ALL), counts.workspaces);
      if (hasIt()) return true;
      removeExpiredOf.run(workspaceId, now);
      return hasIt();
    },
    add: ({ id, workspaceId, body, until }) => void insert.run(id, workspaceId, body, until),
    readSecret: (name) => readSecret(handle, name),
  };
}
