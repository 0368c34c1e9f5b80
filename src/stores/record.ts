/** Makes the record that a find answers out of a key's row and what it refers to. Ruling A5, port clauses 10 and 18. Knows no engine. */
import type { ApiRow, IdentityRow, KeyRecord, KeyRef, KeyRow, RoleRow } from "../store.js";
import type { Identity } from "../types.js";

/** What a key's row refers to, looked up by the store; what was deleted is absent. */
export interface Related {
  readonly api: ApiRow | undefined;
  readonly workspaceEnabled: boolean;
  readonly identity: IdentityRow | undefined;
  role(id: string): RoleRow | undefined;
  /** The permission's slug. */
  permission(id: string): string | undefined;
}

/** The ready-made record, or `undefined` when the key or its API is deleted. */
export function toRecord(ref: KeyRef, row: KeyRow, related: Related): KeyRecord | undefined {
  const { api, identity } = related;
  if (row.deleted || api === undefined || api.deleted) return undefined;
  const { roles, permissions } = flatten(row, related);
  return {
    ref,
    keyId: row.id,
    workspaceId: row.workspaceId,
    apiId: row.apiId,
    ...(row.name !== undefined && { name: row.name }),
    ...(row.meta !== undefined && { meta: row.meta }),
    ...(row.expires !== undefined && { expires: row.expires }),
    enabled: row.enabled,
    permissions,
    roles,
    ...(identity !== undefined && { identity: toIdentity(identity) }),
    ratelimits: row.ratelimits,
    limited: row.limited,
    ...(row.refill !== undefined && { refill: row.refill }),
    generation: row.generation,
    suspended: !api.enabled || !related.workspaceEnabled,
    pending: row.digest === undefined,
    ipAllowlists: [row.ipAllowlist, api.ipAllowlist].filter((list) => list.length > 0),
  };
}

/** An identity as answers show it (spec §2.2). */
export function toIdentity({ id, externalId, meta, ratelimits }: IdentityRow): Identity {
  return { id, externalId, ...(meta !== undefined && { meta }), ...(ratelimits.length > 0 && { ratelimits }) };
}

/** Names of roles and of permissions, direct and through roles; sorted, without duplicates. */
function flatten(row: KeyRow, related: Related): { roles: string[]; permissions: string[] } {
  const roles = new Set<string>();
  const ids = new Set(row.permissions);
  for (const id of row.roles) {
    const role = related.role(id);
    if (role === undefined) continue;
    roles.add(role.name);
    for (const permission of role.permissions) ids.add(permission);
  }
  const names = new Set<string>();
  for (const id of ids) {
    const name = related.permission(id);
    if (name !== undefined) names.add(name);
  }
  return { roles: [...roles].sort(), permissions: [...names].sort() };
}
