/**
 * Records of idempotency keys in the file, and the secret that their digests are keyed with. Triggers keep the number
 * of records of each workspace and of all, so that no statement can change the one without the other.
 */
import { KeystileError } from "../../../contracts/errors.js";
import type { SecretName } from "../../../contracts/store.js";
import { EXPIRED_PER_WRITE, hasSpace, type OnceTable } from "../../spend-once.js";
import { type Handle, select } from "../connection/handle.js";

/** Under this name, which no workspace has, stands the number of all records. */
const ALL = "";

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
  CREATE INDEX keystile_idempotency_share ON keystile_idempotency (workspace_id, expires);
  CREATE TABLE keystile_idempotency_counts (
    workspace_id TEXT NOT NULL PRIMARY KEY,
    records INTEGER NOT NULL CHECK (records >= 0)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO keystile_idempotency_counts VALUES ('${ALL}', 0);
  CREATE TRIGGER keystile_idempotency_added AFTER INSERT ON keystile_idempotency BEGIN
    UPDATE keystile_idempotency_counts SET records = records + 1 WHERE workspace_id = '${ALL}';
    INSERT INTO keystile_idempotency_counts VALUES (NEW.workspace_id, 1)
      ON CONFLICT (workspace_id) DO UPDATE SET records = records + 1;
  END;
  CREATE TRIGGER keystile_idempotency_removed AFTER DELETE ON keystile_idempotency BEGIN
    UPDATE keystile_idempotency_counts SET records = records - 1 WHERE workspace_id IN ('${ALL}', OLD.workspace_id);
    DELETE FROM keystile_idempotency_counts WHERE workspace_id = OLD.workspace_id AND records = 0;
  END;`;

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
  const count = select<{ records: number | bigint }>(
    handle,
    "SELECT records FROM keystile_idempotency_counts WHERE workspace_id = ?",
  );
  const insert = handle.prepare(
    "INSERT INTO keystile_idempotency (id, workspace_id, body, expires) VALUES (?, ?, ?, ?)",
  );
  const secret = select<{ secret: string }>(
    handle,
    "SELECT lower(hex(secret)) AS secret FROM keystile_secrets WHERE name = ?",
  );
  const workspaces = select<{ n: number | bigint }>(
    handle,
    "SELECT count(*) - 1 AS n FROM keystile_idempotency_counts",
  );
  const countWorkspaces = (): number => Number(workspaces.get()?.n);
  const countOf = (workspaceId: string): number => Number(count.get(workspaceId)?.records ?? 0);

  return {
    find(id) {
      const found = byId.get(id);
      return found && { body: found.body, until: Number(found.until) };
    },
    remove: (id) => void removeOne.run(id),
    makeSpace(workspaceId, now, bounds) {
      removeExpired.run(now);
      const hasIt = (): boolean => hasSpace(bounds, countOf(workspaceId), countOf(ALL), countWorkspaces);
      if (hasIt()) return true;
      removeExpiredOf.run(workspaceId, now);
      return hasIt();
    },
    add: ({ id, workspaceId, body, until }) => void insert.run(id, workspaceId, body, until),
    readSecret(name) {
      const found = secret.get(name)?.secret;
      if (found === undefined)
        throw new KeystileError("STORE_INVALID", "the file lacks a secret that it was made with; restore a backup");
      return found;
    },
  };
}
