/**
 * When keys were last used: a table of its own, since an update of a key's row writes its whole body again. Store
 * clause 24.
 */
import type { KeyUse } from "../../../contracts/store.js";
import type { Handle } from "../connection/handle.js";

/** Part of the file format. */
export const CREATE_USES = `
  CREATE TABLE keystile_key_uses (
    key_number INTEGER PRIMARY KEY REFERENCES keystile_keys (number) ON DELETE CASCADE,
    last_used INTEGER NOT NULL CHECK (last_used BETWEEN -9007199254740991 AND 9007199254740991)
  ) STRICT;`;

/** The column `lastUsedAt` of a key `k`. */
export const LAST_USED = "(SELECT last_used FROM keystile_key_uses WHERE key_number = k.number) AS lastUsedAt";

/** Records uses, inside the caller's transaction. */
export function createKeyUses(handle: Handle): (uses: readonly KeyUse[]) => void {
  const record = handle.prepare(
    `INSERT INTO keystile_key_uses (key_number, last_used)
     SELECT k.number, json_extract(j.value, '$.usedAt') FROM json_each(?) j
       CROSS JOIN keystile_keys k ON k.id = json_extract(j.value, '$.keyId')
     ON CONFLICT (key_number) DO UPDATE SET last_used = excluded.last_used WHERE excluded.last_used > last_used`,
  );
  return (uses) => void record.run(JSON.stringify(uses));
}
