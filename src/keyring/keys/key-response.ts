/** Maps a key's row to `KeyResponseData`; a property that does not apply is absent. */
import { KEY_FIELDS, type KeyField } from "../../contracts/key-fields.js";
import type { IdentityRow, KeyRow } from "../../contracts/store.js";
import type { Identity, Refill } from "../../contracts/types.js";
import { calendarOf, periodOf } from "../../credits/refill-calendar.js";
import { ownOnly } from "../../lib/check-options.js";
import { clampIdentity, toRatelimitResponse } from "../../ratelimit/applied-limits.js";
import { toIdentity } from "../../lib/identity.js";
import type { Context } from "../context.js";
import { createReader, type Mutable, type Read, requireKey, setField } from "../rows.js";
import { ALWAYS_SHOWN, SHOWN_UNLESS_USUAL } from "../schemas/key-names.js";
import type { KeyCredits, KeyResponseData } from "../schemas/responses.js";

/**
 * Maps keys, reading each shared row once: create a new mapper per call. A page of keys may name 100,000 permissions.
 */
export function createKeyMapper(context: Context, now: number): (row: KeyRow) => Promise<KeyResponseData> {
  const permissionOf = createReader(context, "permissions");
  const roleOf = createReader(context, "roles");
  const identityOf = createReader(context, "identities");
  return async (given) => {
    // Own properties only: a field that the row lacks must not come from a polluted prototype.
    const row = ownOnly(given);
    const data = showFields(row);
    const permissions = await namesOf(row.permissions, permissionOf, (permission) => permission.slug);
    if (permissions.length > 0) data.permissions = permissions;
    const roles = await namesOf(row.roles, roleOf, (role) => role.name);
    if (roles.length > 0) data.roles = roles;
    if (row.hasCredits || row.refill !== undefined) data.credits = await readCredits(context, row, now);
    const identity = row.identityId === undefined ? undefined : await identityOf(row.identityId);
    if (identity !== undefined) data.identity = toIdentityResponse(identity);
    if (row.ratelimits.length > 0) data.ratelimits = row.ratelimits.map(toRatelimitResponse);
    return data;
  };
}

/** Fields that are returned as they are stored. */
function showFields(row: KeyRow): Mutable<KeyResponseData> {
  const data: Mutable<Partial<KeyResponseData>> = { keyId: row.id };
  for (const name of ALWAYS_SHOWN) setField(data, name, row[name]);
  for (const name of SHOWN_UNLESS_USUAL) if (!isUsual(name, row[name])) setField(data, name, row[name]);
  return data as KeyResponseData;
}

function isUsual(name: (typeof SHOWN_UNLESS_USUAL)[number], value: unknown): boolean {
  const { usual }: KeyField = KEY_FIELDS[name];
  return value === usual || (Array.isArray(value) && value.length === 0);
}

/** An identity as responses contain it. */
export function toIdentityResponse(row: IdentityRow): Identity {
  return clampIdentity(toIdentity(row));
}

/**
 * Current balance of a key, with the refills due by now counted. If the refill changes between reading the row and
 * reading the balance, both are read again.
 */
export async function readCredits(context: Context, row: KeyRow, now: number): Promise<KeyCredits> {
  let { hasCredits, refill } = row;
  for (let attempts = 1; hasCredits; attempts++) {
    const period = periodOf(refill, now);
    const balance = await context.store.readBalance(row.id, period, now);
    const isCurrent = balance?.remaining != null && calendarOf(balance.period) === calendarOf(period);
    if (isCurrent || balance === undefined || attempts === MAX_READS)
      return toCredits(balance?.remaining ?? null, refill, balance?.reserved);
    ({ hasCredits, refill } = await requireKey(context, row.id));
  }
  return toCredits(null, refill);
}

/**
 * Most attempts while an administrator keeps changing the key: then the balance is returned without the refills that
 * are due.
 */
const MAX_READS = 4;

function toCredits(remaining: number | null, refill: Refill | undefined, reserved = 0): KeyCredits {
  const credits: Mutable<KeyCredits> = { remaining };
  if (refill !== undefined) credits.refill = refill;
  if (reserved > 0) credits.reserved = reserved;
  return credits;
}

/** Sorted; rows deleted since count as absent. */
async function namesOf<Row>(ids: readonly string[], read: Read<Row>, nameOf: (row: Row) => string): Promise<string[]> {
  const names: string[] = [];
  for (const id of ids) {
    const row = await read(id);
    if (row !== undefined) names.push(nameOf(row));
  }
  return names.sort();
}
