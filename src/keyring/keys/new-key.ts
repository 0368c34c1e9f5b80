/**
 * Builds the row and first balance of a new key, created or imported. Contract 2.3. Names are already resolved to ids.
 */
import { fieldsThat, KEY_FIELDS } from "../../contracts/key-fields.js";
import { badRequest } from "../../contracts/errors.js";
import type { KeyRow, NewBalance, NewKey } from "../../contracts/store.js";
import type { RatelimitRequest, RatelimitResponse } from "../../contracts/types.js";
import { periodOf } from "../../credits/refill-calendar.js";
import type { Context } from "../context.js";
import { setField } from "../rows.js";
import type { GivenKeyFields, V2KeysCreateKeyRequestBody, V2KeysUpdateKeyRequestBody } from "../schemas/requests.js";
import type { Mutable } from "../../lib/mutable.js";

/** The fields of a key that requests to create or import one have in common. */
export type KeyFields = GivenKeyFields & Pick<V2KeysCreateKeyRequestBody, "credits" | "creditsFrom" | "ratelimits">;

/** What identifies the new key, and the ids that it refers to. */
export interface KeyOrigin extends Pick<KeyRow, "id" | "apiId" | "start" | "permissions" | "roles"> {
  readonly identityId?: string | undefined;
}

const NONE: readonly never[] = Object.freeze([]);
/** The literal below sets all that a request gives and that are never absent: the compiler checks it. */
const OPTIONAL = [
  ...fieldsThat({ given: "clearable", absent: true }),
  ...fieldsThat({ given: "set", absent: true }),
] as const;

/**
 * Fields are set one by one: building by spread takes longer than all the rest (an import does this a million times).
 */
export function buildKey(
  context: Pick<Context, "newId" | "workspaceId" | "now">,
  origin: KeyOrigin,
  fields: KeyFields,
): { readonly row: Mutable<KeyRow>; readonly balance?: NewKey["balance"] } {
  const { credits, ratelimits } = fields;
  const remaining = credits?.remaining ?? null;
  const row: Mutable<KeyRow> = {
    id: origin.id,
    version: 0,
    workspaceId: context.workspaceId,
    apiId: origin.apiId,
    start: origin.start,
    enabled: fields.enabled ?? KEY_FIELDS.enabled.usual,
    permissions: origin.permissions,
    roles: origin.roles,
    ratelimits: ratelimits === undefined ? NONE : toLimitRows(context, ratelimits),
    ipAllowlist: fields.ipAllowlist ?? NONE,
    hasCredits: remaining !== null,
    generation: 0,
    deleted: false,
    createdAt: context.now,
  };
  for (const name of OPTIONAL) setField(row, name, fields[name]);
  if (origin.identityId !== undefined) row.identityId = origin.identityId;
  if (credits?.remaining === null || fields.creditsFrom === "none") row.creditsFrom = "none";
  else if (fields.creditsFrom === "key") row.creditsFrom = "key";
  if (credits?.refill !== undefined) row.refill = { ...credits.refill };
  if (remaining === null) return { row };
  const { refill } = row;
  const balance: Mutable<NewBalance> = {
    remaining,
    amount: refill?.amount ?? 0,
    period: periodOf(refill, context.now),
  };
  if (refill?.rollover !== undefined) balance.rollover = refill.rollover;
  return { row, balance };
}

/**
 * @param hasOwn whether the key has credits of its own, if the request does not say
 * @throws KeystileError BAD_REQUEST: two fields contradict each other about whose credits the key takes
 */
export function requireOneSource(
  { credits, creditsFrom }: Partial<Pick<V2KeysUpdateKeyRequestBody, "credits" | "creditsFrom">>,
  hasOwn = false,
): void {
  if (creditsFrom === undefined) return;
  const isOwn = creditsFrom === "key" || creditsFrom === "both";
  const remaining = credits === null ? null : credits?.remaining;
  if (isOwn && (remaining === undefined ? hasOwn : remaining !== null)) return;
  if (!isOwn && credits === undefined) return;
  const [message, fix] = isOwn
    ? ["goes only with credits of the key's own", "give credits with it, with a number as remaining"]
    : ["cannot be combined with credits", "give one of the two"];
  throw badRequest([{ location: "body.creditsFrom", message, fix }]);
}

/** Limits with ids; a limit that existed under the same name keeps its id. */
export function toLimitRows(
  { newId, now }: Pick<Context, "newId" | "now">,
  given: readonly RatelimitRequest[],
  before: readonly RatelimitResponse[] = NONE,
): RatelimitResponse[] {
  return given.map(({ name, limit, duration, autoApply = false }) => {
    const id = before.find((one) => one.name === name)?.id ?? newId("rl", now);
    return { id, name, limit, duration, autoApply };
  });
}
