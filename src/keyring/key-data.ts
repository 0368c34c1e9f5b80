/** A key's row → what administration shows of it. Operations `KeyResponseData`; a property that does not apply is not there (ruling A5). */
import { periodOf } from "../credits.js";
import { ownOnly } from "../options.js";
import { showIdentity, toRatelimitResponse } from "../ratelimit.js";
import type { IdentityRow, KeyRow } from "../store.js";
import { toIdentity } from "../stores/record.js";
import type { Identity, KeyCreditsData } from "../types.js";
import type { KeyResponseData } from "./answers.js";
import type { Context } from "./context.js";
import { createReader, type Mutable, type Read } from "./rows.js";

/** Shows keys, reading each shared row once: make a new one per call. A page of keys may name 100,000 permissions. */
export function createKeyView(context: Context, now: number): (row: KeyRow) => Promise<KeyResponseData> {
  const permissionOf = createReader(context, "permissions");
  const roleOf = createReader(context, "roles");
  const identityOf = createReader(context, "identities");
  return async (given) => {
    // Own properties only: what the row lacks must not come from a polluted prototype.
    const row = ownOnly(given);
    const { id: keyId, start, enabled, createdAt } = row;
    const data: Mutable<KeyResponseData> = { keyId, start, enabled, createdAt };
    if (row.name !== undefined) data.name = row.name;
    if (row.meta !== undefined) data.meta = row.meta;
    if (row.updatedAt !== undefined) data.updatedAt = row.updatedAt;
    if (row.expires !== undefined) data.expires = row.expires;
    const permissions = await namesOf(row.permissions, permissionOf, (permission) => permission.slug);
    if (permissions.length > 0) data.permissions = permissions;
    const roles = await namesOf(row.roles, roleOf, (role) => role.name);
    if (roles.length > 0) data.roles = roles;
    if (row.limited || row.refill !== undefined) data.credits = await readCredits(context, row, now);
    const identity = row.identityId === undefined ? undefined : await identityOf(row.identityId);
    if (identity !== undefined) data.identity = viewIdentity(identity);
    if (row.ratelimits.length > 0) data.ratelimits = row.ratelimits.map(toRatelimitResponse);
    if (row.ipAllowlist.length > 0) data.ipAllowlist = row.ipAllowlist;
    return data;
  };
}

/** An identity as answers show it. */
export function viewIdentity(row: IdentityRow): Identity {
  return showIdentity(toIdentity(row));
}

/** Balance of a key as it stands, refills due by now counted. */
export async function readCredits(context: Context, row: KeyRow, now: number): Promise<KeyCreditsData> {
  const balance = row.limited ? await context.store.readBalance(row.id, periodOf(row.refill, now)) : undefined;
  const remaining = balance?.remaining ?? null;
  return row.refill === undefined ? { remaining } : { remaining, refill: row.refill };
}

/** Sorted; what was deleted since counts as absent. */
async function namesOf<Row>(ids: readonly string[], read: Read<Row>, nameOf: (row: Row) => string): Promise<string[]> {
  const names: string[] = [];
  for (const id of ids) {
    const row = await read(id);
    if (row !== undefined) names.push(nameOf(row));
  }
  return names.sort();
}
