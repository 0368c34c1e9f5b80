/** Replaces a key by one with a new id and a new text and the same settings: the operation `keys.rerollKey`. */
import { KeystileError } from "../../contracts/errors.js";
import type { KeyRow, Write } from "../../contracts/store.js";
import type { MaybePromise } from "../../contracts/types.js";
import { MAX_DATE_MS } from "../../lib/check-options.js";
import { digestKey, newKey } from "../../lib/hash.js";
import type { Mutable } from "../../lib/mutable.js";
import { type Context, updateWithRetry } from "../context.js";
import { operation } from "../operation.js";
import { requireKey } from "../rows.js";
import { body, explained, id, integer, length, MAX_TIME, optional, prefix } from "../schemas/primitives.js";
import type { V2KeysRerollKeyRequestBody } from "../schemas/requests.js";
import type { V2KeysCreateKeyResponseData } from "../schemas/responses.js";
import { writeRows } from "../write.js";
import { DEFAULT_BYTES } from "./create-key.js";
import { lastOfAccount } from "./account-keys.js";
import { refillCursorOf } from "./credit-change.js";
import { toLimitRows } from "./new-key.js";

/**
 * `<prefix>_` and what follows it in `start`: four characters, or of an import that never verified what it said, and
 * three dots.
 */
const PREFIXED = /^([a-zA-Z0-9_]{1,16})_(?:.{4}|.*\.{3})$/;

const request = { keyId: id, prefix: optional(prefix), ...explained };

/** A rotation over HTTP: an overlap may be shorter than a second. */
export const specifiedRotation = body<V2KeysRerollKeyRequestBody>()({ ...request, expiration: integer(0, MAX_TIME) });

/**
 * One write creates the new key and sets the old one's expiry. The new key has the old one's `expires` and, unless the
 * request names another, its prefix, but 16 new random bytes. Both share one balance and the buckets of the key's own
 * limits, so that replacing a key makes no credits and no tokens; when the old key ends they belong to the new one. An
 * old key that expires sooner anyway keeps its `expires`. Of concurrent calls for one key, one succeeds.
 * @throws KeystileError NOT_FOUND · CONFLICT: the key was rerolled before, or has expired
 */
export const rerollKey = operation(
  "rerollKey",
  body<V2KeysRerollKeyRequestBody>()({ ...request, expiration: length(0, MAX_TIME) }),
  (context, request) => replaceKey(context, request, () => undefined),
);

/**
 * The same for whoever may not replace every key.
 * @param check throws (or rejects) if the old key, as it is when it is written, is not to be replaced
 * @throws KeystileError NOT_FOUND · CONFLICT as {@link requireRotatable} says · what `check` throws
 */
export async function replaceKey(
  context: Context,
  { keyId, expiration, prefix }: V2KeysRerollKeyRequestBody,
  check: (old: KeyRow) => MaybePromise<unknown>,
): Promise<V2KeysCreateKeyResponseData> {
  const { now } = context;
  return updateWithRetry(context, keyId, async () => {
    const old = await requireKey(context, keyId);
    await check(old);
    await requireRotatable(context, old);
    const { key, start } = newKey(prefix ?? PREFIXED.exec(old.start)?.[1], DEFAULT_BYTES);
    const digest = await digestKey(key);
    const row = copyOf(context, old, { id: context.newId("key", now), digest, start });
    const ended = { expires: lastValidTime(old, expiration, now), updatedAt: now, rerolledTo: row.id };
    const writes: Write[] = [
      { table: "keys", row },
      { table: "keys", row: { ...old, ...ended } },
    ];
    return (await writeRows(context, writes)) ? { keyId: row.id, key } : undefined;
  });
}

/**
 * Refuses a key whose successor would end with it. Why also where the newest key of its chain was deleted: whoever
 * deletes that one ends the chain, and an old key must not bring it back.
 * @throws KeystileError CONFLICT: the key was rerolled before, and the newest of its chain is named, if it is there; or
 *   it has expired
 */
export async function requireRotatable(context: Context, row: KeyRow): Promise<void> {
  const { rerolledTo, expires = Infinity } = row;
  if (rerolledTo !== undefined) {
    const newest = await lastOfAccount(context, row);
    const isThere = newest.rerolledTo === undefined && !newest.deleted;
    const next = isThere
      ? `rotate the newest key of its chain, ${newest.id}`
      : "the newest key of its chain was deleted: create a new key";
    throw new KeystileError("CONFLICT", `the key was rotated before; ${next}`);
  }
  if (expires < context.now)
    throw new KeystileError("CONFLICT", "the key has expired; give it a later `expires` first, or create a new key");
}

function copyOf(
  context: Context,
  old: KeyRow,
  fresh: Pick<KeyRow, "id" | "start"> & { readonly digest: string },
): Mutable<KeyRow> {
  const row: Mutable<KeyRow> = {
    ...old,
    ...fresh,
    version: 0,
    createdAt: context.now,
    accountId: old.accountId ?? old.id,
    rerolledFrom: old.id,
    ratelimits: toLimitRows(context, old.ratelimits),
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
