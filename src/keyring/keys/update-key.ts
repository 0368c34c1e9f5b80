/**
 * The operations `keys.updateKey` and `keys.deleteKey`. Absent fields are unchanged, `null` clears, a list replaces the
 * old one.
 */
import { fieldsThat, KEY_FIELDS } from "../../contracts/key-fields.js";
import type { CreditChange, KeyRow, Write } from "../../contracts/store.js";
import type { MaybePromise } from "../../contracts/types.js";
import { periodOf } from "../../credits/refill-calendar.js";
import { type Context, updateWithRetry } from "../context.js";
import { requireMeta } from "../meta.js";
import { writeRows } from "../create-row.js";
import { ensureNames, idsOf, requireRoles } from "../rbac/resolve-names.js";
import { requireShowable, requireVerifiable } from "../rbac/showable.js";
import { requireKey, requireKeyIncludingDeleted, setField } from "../rows.js";
import { CLEARABLE, SETTABLE } from "../schemas/key-names.js";
import * as schemas from "../schemas/keys.js";
import { parse } from "../schemas/parse.js";
import type { V2KeysDeleteKeyRequestBody, V2KeysUpdateKeyRequestBody } from "../schemas/requests.js";
import type { EmptyResponse } from "../schemas/responses.js";
import { othersOfAccount, unlink } from "./account-keys.js";
import { changeCredits, type CreditPatch, refillCursorOf } from "./credit-change.js";
import { toLimitRows } from "./new-key.js";
import { readBalances } from "./read-balances.js";
import type { Mutable } from "../../lib/mutable.js";

/**
 * Changes a key. Permissions and the identity are created when they do not exist.
 * @throws KeystileError BAD_REQUEST · NOT_FOUND: no such key, or a role that does not exist
 */
export async function updateKey(context: Context, body: V2KeysUpdateKeyRequestBody): Promise<EmptyResponse> {
  const request = parse(schemas.updateKey, body);
  const now = context.clock();
  await requireMeta(context, request.meta);
  const { keyId, roles, permissions, externalId } = request;
  const has = await requireKey(context, keyId);
  const roleIds = roles && (await requireRoles(context, roles));
  const externalIds = typeof externalId === "string" ? [externalId] : [];
  const { permissionIds: ids, identityIds } = await ensureNames(context, permissions ?? [], externalIds, now);
  const permissionIds = permissions && idsOf(permissions, ids);
  if (permissionIds !== undefined) await requireShowable(context, permissionIds);
  if (roleIds !== undefined || permissionIds !== undefined)
    await requireVerifiable(context, roleIds ?? has.roles, permissionIds ?? has.permissions);
  return writeKey(context, keyId, now, (row) => {
    for (const name of SETTABLE) setField(row, name, request[name]);
    for (const name of CLEARABLE) setField(row, name, request[name] === null ? whenCleared(name) : request[name]);
    setField(row, "identityId", typeof externalId === "string" ? identityIds.get(externalId) : externalId);
    setField(row, "roles", roleIds);
    setField(row, "permissions", permissionIds);
    if (request.ratelimits !== undefined)
      row.ratelimits = toLimitRows(context, request.ratelimits, now, row.ratelimits);
    if (request.credits === undefined) return undefined;
    return changeBalance(context, row, request.credits ?? { remaining: null }, now);
  });
}

/**
 * Hides a key, or removes it with all that belongs to it; one that is hidden can still be removed.
 * @throws KeystileError BAD_REQUEST · NOT_FOUND
 */
export async function deleteKey(context: Context, body: V2KeysDeleteKeyRequestBody): Promise<EmptyResponse> {
  const { keyId, permanent = false } = parse(schemas.deleteKey, body);
  const now = context.clock();
  if (!permanent) return writeKey(context, keyId, now, hide);
  return updateWithRetry(context, keyId, async () => {
    const row = await requireKeyIncludingDeleted(context, keyId);
    const removal: Write = { table: "keys", remove: keyId, version: row.version };
    return (await writeRows(context, [removal, ...(await unlink(context, row))])) ? {} : undefined;
  });
}

/** The default value of the field, or `undefined`. */
function whenCleared(name: (typeof CLEARABLE)[number]) {
  const field = KEY_FIELDS[name];
  return "usual" in field ? field.usual : null;
}

function hide(row: Mutable<KeyRow>): undefined {
  row.deleted = true;
}

/**
 * {@link changeCredits} of the current balance. Of one that is invalid, the store takes no change but a new balance.
 */
export async function changeBalance(
  context: Context,
  row: Mutable<KeyRow>,
  patch: CreditPatch,
  now: number,
): Promise<CreditChange | undefined> {
  const period = periodOf(row.refill, now);
  const [balance] = await readBalances(context.store, [{ keyId: row.id, period }], now);
  const unknown = { remaining: null, period, reserved: 0 };
  return changeCredits(row, patch, now, balance === "invalid" ? unknown : (balance ?? unknown));
}

/**
 * Reads a key, lets `edit` change the row, and writes it.
 * @param edit may run again on a fresh row; returns the change of the balance, if any, or a promise of it
 * @throws KeystileError NOT_FOUND · whatever `edit` throws
 */
export async function writeKey(
  context: Context,
  keyId: string,
  now: number,
  edit: (row: Mutable<KeyRow>) => MaybePromise<CreditChange | undefined>,
): Promise<EmptyResponse> {
  return updateWithRetry(context, keyId, async () => {
    const before = await requireKey(context, keyId);
    const row: Mutable<KeyRow> = { ...before, updatedAt: now };
    const credits = await edit(row);
    const writes: Write[] = [credits === undefined ? { table: "keys", row } : { table: "keys", row, credits }];
    if (!hasCreditsOf(row, before)) {
      // The other keys of its account would be wrong about it.
      for (const other of await othersOfAccount(context, row))
        writes.push({ table: "keys", row: withCreditsOf(row, other) });
    }
    return (await writeRows(context, writes)) ? {} : undefined;
  });
}

/** What it says of its credits, besides the cursor. */
const SHARED = fieldsThat({ shared: true });

/** Whether a key says of its credits what another of its account says. */
function hasCreditsOf(source: KeyRow, row: KeyRow): boolean {
  const isSame = (name: (typeof SHARED)[number]) => JSON.stringify(row[name]) === JSON.stringify(source[name]);
  return SHARED.every(isSame) && refillCursorOf(row) >= refillCursorOf(source);
}

/** A key with the credit fields of another of its account. Its cursor only moves forward, as boundaries do. */
function withCreditsOf(source: KeyRow, row: KeyRow): KeyRow {
  const copy: Mutable<KeyRow> = { ...row };
  for (const name of SHARED) setField(copy, name, source[name] ?? null);
  if (refillCursorOf(source) > refillCursorOf(row)) copy.refillCursor = refillCursorOf(source);
  return copy;
}
