/** The last refusals of keys. Store clause 34. */
import type { Refusal, RefusalsQuery } from "../../../contracts/outcomes.js";
import { FORGOTTEN_KEYS, lastRefusals, REFUSED_KEYS, type RefusedKey } from "../../outcome-entries.js";
import { type Handle, select } from "../connection/handle.js";

/** Part of the file format: a row a key of a workspace, with a JSON list, newest first. They go with the key's row. */
export const KEEP_REFUSALS = {
  up: `
  CREATE TABLE keystile_refusals (
    key_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    time INTEGER NOT NULL,
    refusals TEXT NOT NULL,
    oldest INTEGER NOT NULL GENERATED ALWAYS AS (json_extract(refusals, '$[#-1].time')) STORED,
    PRIMARY KEY (key_id, workspace_id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX keystile_refusals_of ON keystile_refusals (workspace_id, time);
  CREATE INDEX keystile_refusals_by_age ON keystile_refusals (oldest);
  CREATE TRIGGER keystile_keys_removed AFTER DELETE ON keystile_keys
    BEGIN DELETE FROM keystile_refusals WHERE key_id = OLD.id; END;`,
  down: "DROP TRIGGER keystile_keys_removed; DROP TABLE keystile_refusals;",
  refuses: {},
} as const;

export function createRefusals(handle: Handle) {
  const find = select<{ refusals: string }>(
    handle,
    "SELECT refusals FROM keystile_refusals WHERE key_id = ? AND workspace_id = ?",
  );
  const put = handle.prepare(
    `INSERT INTO keystile_refusals VALUES (?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET time = excluded.time, refusals = excluded.refusals`,
  );
  const count = select<{ n: number | bigint }>(handle, "SELECT count(*) AS n FROM keystile_refusals");
  /** Removes the last places: each workspace counts its keys, newest first, so those with most keys lose. */
  const forget = handle.prepare(
    `DELETE FROM keystile_refusals WHERE (key_id, workspace_id) IN (SELECT key_id, workspace_id FROM (
       SELECT key_id, workspace_id, row_number() OVER (PARTITION BY workspace_id ORDER BY time DESC) AS place FROM keystile_refusals
     ) ORDER BY place DESC LIMIT ?)`,
  );
  const old = select<RefusalsQuery & { refusals: string }>(
    handle,
    "SELECT key_id AS keyId, workspace_id AS workspaceId, refusals FROM keystile_refusals WHERE oldest < ? LIMIT ?",
  );
  const remove = handle.prepare("DELETE FROM keystile_refusals WHERE key_id = ? AND workspace_id = ?");
  const read = ({ keyId, workspaceId }: RefusalsQuery): readonly Refusal[] =>
    JSON.parse(find.get(keyId, workspaceId)?.refusals ?? "[]") as Refusal[];
  const replace = ({ keyId, workspaceId }: RefusalsQuery, refusals: readonly Refusal[]): void =>
    void put.run(keyId, workspaceId, refusals[0]!.time, JSON.stringify(refusals));
  return {
    read,
    /** Adds refusals of keys; beyond the bound of keys some are forgotten. */
    keep(keys: readonly RefusedKey[]): void {
      for (const key of keys) replace(key, lastRefusals(key.refusals, read(key)));
      if (keys.length > 0 && Number(count.get()?.n) > REFUSED_KEYS) forget.run(FORGOTTEN_KEYS);
    },
    /** Removes refusals before a time, of at most so many keys. @returns of how many */
    prune(before: number, most: number): number {
      const keys = old.all(before, most);
      for (const key of keys) {
        const kept = (JSON.parse(key.refusals) as Refusal[]).filter(({ time }) => time >= before);
        if (kept.length > 0) replace(key, kept);
        else remove.run(key.keyId, key.workspaceId);
      }
      return keys.length;
    },
  };
}
