/** Replaces a key by one with a new id and a new text and the same settings: the operation `keys.rerollKey`. */
import type { KeyRow, Write } from "../../contracts/store.js";
import { MAX_DATE_MS } from "../../lib/check-options.js";
import { digestKey, newKey } from "../../lib/hash.js";
import type { Mutable } from "../../lib/mutable.js";
import { type Context, updateWithRetry } from "../context.js";
import { writeRows } from "../create-row.js";
import { requireKey } from "../rows.js";
import * as schemas from "../schemas/keys.js";
import { parse } from "../schemas/parse.js";
import type { V2KeysRerollKeyRequestBody } from "../schemas/requests.js";
import type { V2KeysCreateKeyResponseData } from "../schemas/responses.js";
import { DEFAULT_BYTES } from "./create-key.js";
import { lastOfAccount } from "./account-keys.js";
import { refillCursorOf } from "./credit-change.js";
import { toLimitRows } from "./new-key.js";

/** `<prefix>_` and the four characters that follow it in `start`. */
const PREFIXED = /^([a-zA-Z0-9_]{1,16})_.{4}$/;

/**
 * One write creates the new key and sets the old one's expiry. The new key has the old one's prefix and `expires`, but
 * 16 new random bytes. Both share one balance and the buckets of the key's own limits, so that replacing a key makes no
 * credits and no tokens; when the old key ends they belong to the new one. An old key that expires sooner anyway keeps
 * its `expires`.
 * @param check throws if the old key, as it is when it is written, is not to be replaced
 * @throws KeystileError BAD_REQUEST · NOT_FOUND · what `check` throws
 */
export async function rerollKey(
  context: Context,
  body: V2KeysRerollKeyRequestBody,
  check: (old: KeyRow) => unknown = () => undefined,
): Promise<V2KeysCreateKeyResponseData> {
  const { keyId, expiration } = parse(schemas.rerollKey, body);
  const now = context.clock();
  return updateWithRetry(context, keyId, async () => {
    const old = await requireKey(context, keyId);
    check(old);
    // One that was rerolled before is not the latest of its account.
    const last = await lastOfAccount(context, old);
    const { key, start } = newKey(PREFIXED.exec(old.start)?.[1], DEFAULT_BYTES);
    const digest = await digestKey(key);
    const row = copyOf(context, old, last, { id: context.newId("key", now), digest, start, createdAt: now });
    const retired: Mutable<KeyRow> = { ...old, expires: lastValidTime(old, expiration, now), updatedAt: now };
    const rows: KeyRow[] = [row, retired];
    if (last.id === old.id) retired.rerolledTo = row.id;
    else rows.push({ ...last, rerolledTo: row.id });
    const writes = rows.map((row): Write => ({ table: "keys", row }));
    return (await writeRows(context, writes)) ? { keyId: row.id, key } : undefined;
  });
}

function copyOf(
  context: Context,
  old: KeyRow,
  last: KeyRow,
  fresh: Pick<KeyRow, "id" | "start" | "createdAt"> & { readonly digest: string },
): Mutable<KeyRow> {
  const row: Mutable<KeyRow> = {
    ...old,
    ...fresh,
    version: 0,
    accountId: old.accountId ?? old.id,
    rerolledFrom: last.id,
    ratelimits: toLimitRows(context, old.ratelimits, fresh.createdAt),
  };
  if (refillCursorOf(old) > row.createdAt) row.refillCursor = refillCursorOf(old);
  else delete row.refillCursor;
  delete row.updatedAt;
  delete row.rerolledTo;
  // Import fields remain with the old key: they serve to find it by hash, and a hash belongs to one key.
  delete row.migrationId;
  delete row.hash;
  delete row.foreignDigest;
  return row;
}

/** A key is still valid at exactly `expires`, so to expire at once is a millisecond ago. */
function lastValidTime(old: KeyRow, expiration: number, now: number): number {
  const moment = expiration === 0 ? Math.max(0, now - 1) : Math.min(MAX_DATE_MS, now + expiration);
  return old.expires === undefined ? moment : Math.min(old.expires, moment);
}
