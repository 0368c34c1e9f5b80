/**
 * The operations `keys.updateKey` and `keys.deleteKey`. Absent fields are unchanged, `null` clears, a list replaces the
 * old one.
 */
import { badRequest } from "../../contracts/errors.js";
import { fieldsThat, KEY_FIELDS } from "../../contracts/key-fields.js";
import type { CreditChange, KeyRow, Write } from "../../contracts/store.js";
import type { MaybePromise } from "../../contracts/types.js";
import { ABANDONED } from "../../credits/account.js";
import { periodOf } from "../../credits/refill-calendar.js";
import { refillOf } from "../../lib/credits-source.js";
import type { Mutable } from "../../lib/mutable.js";
import { type Context, updateWithRetry } from "../context.js";
import { requireMeta } from "../meta.js";
import { operation } from "../operation.js";
import { ensureNames, idsOf, requireIds, ROLES } from "../rbac/resolve-names.js";
import { requireShowable, requireVerifiable } from "../rbac/showable.js";
import { requireKey, requireKeyIncludingDeleted, setField } from "../rows.js";
import { changedCredits, creditsFrom } from "../schemas/credits.js";
import { CLEARABLE, SETTABLE } from "../schemas/key-names.js";
import { changedKeyFields } from "../schemas/key-schemas.js";
import type { Schema } from "../schemas/parse.js";
import * as atom from "../schemas/primitives.js";
import { ratelimits } from "../schemas/ratelimits.js";
import type { V2KeysDeleteKeyRequestBody, V2KeysUpdateKeyRequestBody } from "../schemas/requests.js";
import type { EmptyResponse } from "../schemas/responses.js";
import { writeRows } from "../write.js";
import { removalsOf } from "../granted.js";
import { othersOfAccount, unlink } from "./account-keys.js";
import { changeCredits, type CreditPatch, refillCursorOf } from "./credit-change.js";
import { requireOneSource, toLimitRows } from "./new-key.js";
import type { ChangedRow } from "./key-response.js";
import { readBalances } from "./read-balances.js";

const { body, nullable, optional } = atom;

const changes = (externalId: Schema<string>) => ({
  keyId: atom.id,
  ...changedKeyFields,
  externalId: optional(nullable(externalId)),
  roles: optional(atom.roleNames(0)),
  permissions: optional(atom.slugs(0)),
  credits: optional(nullable(changedCredits)),
  creditsFrom: optional(creditsFrom),
  ratelimits: optional(ratelimits),
  ...atom.explained,
});

/** Changes of a key over HTTP, with an external id of this form; a time may be past. */
export const specifiedChange = (externalId: Schema<string>) =>
  body<V2KeysUpdateKeyRequestBody>()({ ...changes(externalId), expires: optional(nullable(atom.specifiedTime)) });

/**
 * Changes a key. Permissions and the identity are created when they do not exist. A key that moves draws on the credits
 * of its new identity, unless it has its own.
 * @throws KeystileError BAD_REQUEST, also for a later end of a key that was rerolled · NOT_FOUND: no such key, or a
 *   role that does not exist
 */
export const updateKey = operation(
  "updateKey",
  body<V2KeysUpdateKeyRequestBody>()(changes(atom.anyExternalId)),
  async (context, request) => {
    await requireMeta(context, request.meta);
    const { keyId, roles, permissions, externalId } = request;
    const has = await requireKey(context, keyId);
    // Here too, before names are created.
    requireOneSource(request, has.hasCredits);
    const roleIds = roles && (await requireIds(context, ROLES, roles));
    requireNoLaterEnd(has, request.expires);
    const externalIds = typeof externalId === "string" ? [externalId] : [];
    const { permissionIds: ids, identityIds } = await ensureNames(context, permissions ?? [], externalIds);
    const permissionIds = permissions && idsOf(permissions, ids);
    if (permissionIds !== undefined) await requireShowable(context, permissionIds);
    if (roleIds !== undefined || permissionIds !== undefined)
      await requireVerifiable(context, roleIds ?? has.roles, permissionIds ?? has.permissions);
    return writeKey(context, keyId, (row) => {
      requireNoLaterEnd(row, request.expires);
      for (const name of SETTABLE) setField(row, name, request[name]);
      for (const name of CLEARABLE) setField(row, name, request[name] === null ? whenCleared(name) : request[name]);
      setField(row, "identityId", typeof externalId === "string" ? identityIds.get(externalId) : externalId);
      setField(row, "roles", roleIds);
      setField(row, "permissions", permissionIds);
      if (request.ratelimits !== undefined) row.ratelimits = toLimitRows(context, request.ratelimits, row.ratelimits);
      return changeSource(context, row, request);
    });
  },
);

/** A key that was rerolled ends with its overlap, or sooner. @param wanted null: never */
function requireNoLaterEnd({ rerolledTo, expires = Infinity }: KeyRow, wanted: number | null | undefined): void {
  if (rerolledTo === undefined || wanted === undefined || (wanted ?? Infinity) <= expires) return;
  const message = "cannot be later than it is: the key was rotated";
  throw badRequest([{ location: "body.expires", message, fix: `use ${rerolledTo}, which replaced it` }]);
}

/** What a request says of whose credits a key takes. */
async function changeSource(
  context: Context,
  row: Mutable<KeyRow>,
  request: Pick<V2KeysUpdateKeyRequestBody, "credits" | "creditsFrom">,
): Promise<CreditChange | undefined> {
  const { credits, creditsFrom } = request;
  requireOneSource(request, row.hasCredits);
  if (creditsFrom === "identity") return giveUpBalance(context, row);
  const patch = creditsFrom === "none" ? null : credits;
  const change = patch === undefined ? undefined : await changeBalance(context, row, patch ?? { remaining: null });
  if (creditsFrom === "key" || creditsFrom === "both")
    setField(row, "creditsFrom", creditsFrom === "key" ? creditsFrom : null);
  return change;
}

/**
 * Why its balance does not become unlimited: until other processes hear of the change, they spend from it, and would
 * let any number of calls pass.
 */
async function giveUpBalance(context: Context, row: Mutable<KeyRow>): Promise<CreditChange | undefined> {
  const change = row.hasCredits ? await changeBalance(context, row, { remaining: null }) : undefined;
  setField(row, "creditsFrom", null);
  return change && { ...change, remaining: 0, refill: { amount: 0, period: ABANDONED } };
}

/**
 * Hides a key, or removes it with all that belongs to it; one that is hidden can still be removed.
 * @throws KeystileError NOT_FOUND
 */
export const deleteKey = operation(
  "deleteKey",
  body<V2KeysDeleteKeyRequestBody>()({
    ...{ keyId: atom.id, permanent: atom.optionalOr(atom.boolean, false) },
    ...atom.explained,
  }),
  (context, { keyId, permanent = false }) => {
    if (!permanent) return writeKey(context, keyId, (row) => (hide(context, row), undefined));
    return updateWithRetry(context, keyId, async () => {
      const row = await requireKeyIncludingDeleted(context, keyId);
      const writes: Write[] = [{ table: "keys", remove: keyId, version: row.version }, ...(await unlink(context, row))];
      // They end with the last key of the account.
      if ((await othersOfAccount(context, row)).length === 0)
        writes.push(...(await removalsOf(context, row.accountId ?? row.id)));
      return (await writeRows(context, writes)) ? {} : undefined;
    });
  },
);

/** The default value of the field, or `undefined`. */
function whenCleared(name: (typeof CLEARABLE)[number]) {
  const field = KEY_FIELDS[name];
  return "usual" in field ? field.usual : null;
}

/** What deleting a key does to its row. */
export function hide({ audit: { actor }, now }: Context, row: Mutable<KeyRow>): void {
  row.deleted = true;
  row.deletedAt = now;
  row.deletedBy = actor.actor ?? actor.actorKind;
}

/**
 * {@link changeCredits} of the current balance. One that is named as null is unlimited, whatever the identity has.
 */
export function changeBalance(
  context: Context,
  row: Mutable<KeyRow>,
  patch: CreditPatch,
): Promise<CreditChange | undefined> {
  if (patch.remaining === null) row.creditsFrom = "none";
  else if (patch.remaining !== undefined && row.creditsFrom === "none") setField(row, "creditsFrom", null);
  return changeBalanceOf(context, row, { keyId: row.id }, patch);
}

/** The same of a key, an identity or a grant. Of an invalid balance, the store takes no change but a new balance. */
export async function changeBalanceOf(
  context: Context,
  row: Parameters<typeof changeCredits>[0],
  owner: { readonly keyId: string } | { readonly identityId: string } | { readonly grantId: string },
  patch: CreditPatch,
): Promise<CreditChange | undefined> {
  const { now } = context;
  const period = periodOf(refillOf(row), now);
  const [balance] = await readBalances(context.store, [{ ...owner, period }], now);
  const unknown = { remaining: null, period, reserved: 0 };
  const counted = balance === "invalid" ? unknown : (balance ?? unknown);
  const { remaining, refill = null } = patch;
  // Unlimited stays as it is. A balance is set also to what it seems to be: a call may take from it meanwhile, a refill
  // that is not counted yet may be part of it, and nodes may have leased from it.
  const isUnlimited = remaining === null && counted.remaining === null && !row.hasCredits;
  return changeCredits(row, isUnlimited ? { refill } : patch, now, counted);
}

/** What is done to the row of a key. Returns the change of the balance, if any; may run again on a fresh row. */
type Edit = (row: Mutable<KeyRow>) => MaybePromise<CreditChange | undefined>;

/** {@link changeKey}, whose response is empty. */
export async function writeKey(context: Context, keyId: string, edit: Edit): Promise<EmptyResponse> {
  await changeKey(context, keyId, edit);
  return {};
}

/**
 * Reads a key, lets `edit` change the row, and writes it.
 * @returns the row, and the balance as a change of it left it
 * @throws KeystileError NOT_FOUND · whatever `edit` throws
 */
export async function changeKey(context: Context, keyId: string, edit: Edit): Promise<ChangedRow<KeyRow>> {
  return updateWithRetry(context, keyId, async () => {
    const before = await requireKey(context, keyId);
    const row: Mutable<KeyRow> = { ...before, updatedAt: context.now };
    const credits = await edit(row);
    const writes: Write[] = [credits === undefined ? { table: "keys", row } : { table: "keys", row, credits }];
    if (!hasCreditsOf(row, before)) {
      // The other keys of its account would be wrong about it.
      for (const other of await othersOfAccount(context, row))
        writes.push({ table: "keys", row: withCreditsOf(row, other) });
    }
    const balances = await writeRows(context, writes);
    return balances && { row, balance: balances[0] };
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
