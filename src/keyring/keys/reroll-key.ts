/** Replaces a key by one with a new id and a new text and the same settings: the operation `keys.rerollKey`. */
import type { CreditChange, KeyRow, Write } from "../../contracts/store.js";
import { periodOf } from "../../credits/refill-calendar.js";
import { MAX_DATE_MS } from "../../lib/check-options.js";
import { digestKey, newId, newKey } from "../../lib/hash.js";
import { type Context, updateWithRetry } from "../context.js";
import { writeRows } from "../create-row.js";
import { type Mutable, requireKey } from "../rows.js";
import * as schemas from "../schemas/keys.js";
import { parse } from "../schemas/parse.js";
import type { V2KeysRerollKeyRequestBody } from "../schemas/requests.js";
import type { V2KeysCreateKeyResponseData } from "../schemas/responses.js";
import { DEFAULT_BYTES } from "./create-key.js";
import { refillCursorOf } from "./credit-change.js";
import { toLimitRows } from "./new-key.js";

/** `<prefix>_` and the four characters that follow it in `start`. */
const PREFIXED = /^([a-zA-Z0-9_]{1,16})_.{4}$/;

/**
 * One write creates the new key and sets the old one's expiry. The new key has the old one's prefix, balance (what
 * nodes have leased is returned to the old key) and `expires`, but 16 new random bytes and fresh rate-limit buckets. An
 * old key that expires sooner anyway keeps its `expires`.
 * @throws KeystileError BAD_REQUEST · NOT_FOUND
 */
export async function rerollKey(
  context: Context,
  body: V2KeysRerollKeyRequestBody,
): Promise<V2KeysCreateKeyResponseData> {
  const { keyId, expiration } = parse(schemas.rerollKey, body);
  const now = context.clock();
  return updateWithRetry(context, keyId, async () => {
    const old = await requireKey(context, keyId);
    const { key, start } = newKey(PREFIXED.exec(old.start)?.[1], DEFAULT_BYTES);
    const row = copyOf(old, { id: newId("key", now), digest: await digestKey(key), start, createdAt: now });
    const credits = copyCredits(old, row, now);
    const made: Write = credits === undefined ? { table: "keys", row } : { table: "keys", row, credits };
    const retired: Write = {
      table: "keys",
      row: { ...old, expires: lastValidTime(old, expiration, now), updatedAt: now },
    };
    return (await writeRows(context, [made, retired])) ? { keyId: row.id, key } : undefined;
  });
}

function copyOf(
  old: KeyRow,
  fresh: Pick<KeyRow, "id" | "start" | "createdAt"> & { readonly digest: string },
): Mutable<KeyRow> {
  const row: Mutable<KeyRow> = {
    ...old,
    ...fresh,
    version: 0,
    generation: 0,
    ratelimits: toLimitRows(old.ratelimits, fresh.createdAt),
  };
  if (refillCursorOf(old) > row.createdAt) row.refillCursor = refillCursorOf(old);
  else delete row.refillCursor;
  delete row.updatedAt;
  // Import fields remain with the old key: they serve to find it by hash, and a hash belongs to one key.
  delete row.migrationId;
  delete row.hash;
  delete row.foreignDigest;
  return row;
}

/**
 * The old key's balance at the moment when the new row is written: a balance read earlier would restore credits spent
 * in between. Setting it starts generation 1.
 */
function copyCredits(old: KeyRow, row: Mutable<KeyRow>, now: number): CreditChange | undefined {
  if (!old.hasCredits) return undefined;
  row.generation = 1;
  const period = periodOf(old.refill, now);
  return { period, copyOf: old.id, refill: { amount: old.refill?.amount ?? 0 } };
}

/** A key is still valid at exactly `expires`, so to expire at once is a millisecond ago. */
function lastValidTime(old: KeyRow, expiration: number, now: number): number {
  const moment = expiration === 0 ? Math.max(0, now - 1) : Math.min(MAX_DATE_MS, now + expiration);
  return old.expires === undefined ? moment : Math.min(old.expires, moment);
}
