/** A key's row as the file has it, and as the port has it. Port clause 3. Pure: SQL is elsewhere. */
import { ownProperty } from "../../options.js";
import type { ApiRow, IdentityRow, KeyRow } from "../../store.js";
import { type KeyBody, readGrants, readIdentityBody, readKeyBody, readName } from "./read-body.js";

/** A key and its identity, if any, in one row: what a find reads. */
export interface KeyRaw {
  readonly n: number | bigint;
  readonly id: string;
  readonly api: number | bigint;
  readonly body: string;
  /** JSON of the ids of permissions and roles, granted directly; empty: none. A column of its own: many keys share one text. */
  readonly grants: string;
  readonly identityId: string | null;
  readonly externalId: string | null;
  readonly identityBody: string | null;
}

/** The rest, for administration. */
export interface FullKeyRaw extends KeyRaw {
  readonly version: number | bigint;
  readonly digest: string | null;
  readonly foreignDigest: string | null;
}

/** Columns of {@link KeyRaw} out of `keystile_keys k` joined with `keystile_identities i`. */
export const KEY_COLUMNS = "k.n, k.id, k.api, k.body, k.grants, i.id AS identityId, i.name AS externalId, i.body AS identityBody";

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** The JSON of a row's body. Written out field by field: an import does this a million times. */
export function encodeBody(row: KeyRow): string {
  // Own properties alone: what a polluted prototype holds must not be written as a part of the row.
  const body: KeyBody = { start: row.start, createdAt: row.createdAt };
  if (row.name !== undefined && Object.hasOwn(row, "name")) body.name = row.name;
  if (row.meta !== undefined && Object.hasOwn(row, "meta")) body.meta = row.meta;
  if (row.expires !== undefined && Object.hasOwn(row, "expires")) body.expires = row.expires;
  if (!row.enabled) body.disabled = true;
  if (row.ratelimits.length > 0) body.ratelimits = row.ratelimits;
  if (row.ipAllowlist.length > 0) body.ipAllowlist = row.ipAllowlist;
  if (row.limited) body.limited = true;
  if (row.refill !== undefined && Object.hasOwn(row, "refill")) body.refill = row.refill;
  if (row.countedTo !== undefined && Object.hasOwn(row, "countedTo")) body.countedTo = row.countedTo;
  if (row.generation !== 0) body.generation = row.generation;
  if (row.deleted) body.deleted = true;
  if (row.updatedAt !== undefined && Object.hasOwn(row, "updatedAt")) body.updatedAt = row.updatedAt;
  if (row.migrationId !== undefined && Object.hasOwn(row, "migrationId")) body.migrationId = row.migrationId;
  if (row.hash !== undefined && Object.hasOwn(row, "hash")) body.hash = row.hash;
  return JSON.stringify(body);
}

/** The text of a row's grants. */
export function encodeGrants({ permissions, roles }: KeyRow): string {
  return permissions.length === 0 && roles.length === 0 ? "" : JSON.stringify([permissions, roles]);
}

/** Ids of permissions and of roles out of {@link encodeGrants}. */
export function decodeGrants(text: string): Pick<KeyRow, "permissions" | "roles"> {
  if (text === "") return { permissions: [], roles: [] };
  const [permissions, roles] = readGrants(text);
  return { permissions, roles };
}

/**
 * A fresh row out of the file's (clause 10), without its grants.
 * @param version 0 where it is not needed: a find does not read it
 */
export function decodeKey(raw: KeyRaw, api: ApiRow, version: number, digest: string | undefined): Mutable<KeyRow> {
  const body = readKeyBody(raw.body);
  const row: Mutable<KeyRow> = {
    id: raw.id,
    workspaceId: api.workspaceId,
    version,
    apiId: api.id,
    start: body.start,
    enabled: body.disabled !== true,
    permissions: [],
    roles: [],
    ratelimits: body.ratelimits ?? [],
    ipAllowlist: body.ipAllowlist ?? [],
    limited: body.limited === true,
    generation: body.generation ?? 0,
    deleted: body.deleted === true,
    createdAt: body.createdAt,
  };
  if (digest !== undefined) row.digest = digest;
  if (body.name !== undefined) row.name = body.name;
  if (body.meta !== undefined) row.meta = body.meta;
  if (body.expires !== undefined) row.expires = body.expires;
  if (body.refill !== undefined) row.refill = body.refill;
  if (body.countedTo !== undefined) row.countedTo = body.countedTo;
  if (body.updatedAt !== undefined) row.updatedAt = body.updatedAt;
  if (body.migrationId !== undefined) row.migrationId = body.migrationId;
  if (body.hash !== undefined) row.hash = body.hash;
  if (raw.identityId !== null) row.identityId = raw.identityId;
  return row;
}

/** The same with all that administration sees. */
export function decodeFullKey(raw: FullKeyRaw, api: ApiRow): KeyRow {
  const row = decodeKey(raw, api, Number(raw.version), raw.digest ?? undefined);
  const { permissions, roles } = decodeGrants(raw.grants);
  row.permissions = permissions;
  row.roles = roles;
  if (raw.foreignDigest !== null) row.foreignDigest = raw.foreignDigest;
  return row;
}

/** The identity that was read with a key. */
export function decodeIdentity({ identityId, externalId, identityBody }: KeyRaw, api: ApiRow): IdentityRow | undefined {
  if (identityId === null || identityBody === null) return undefined;
  const body = readIdentityBody(identityBody);
  const { ratelimits } = body;
  const meta = ownProperty(body, "meta");
  const name = readName("identities", externalId);
  const identity: Mutable<IdentityRow> = { id: identityId, workspaceId: api.workspaceId, version: 0, externalId: name, ratelimits };
  if (meta !== undefined) identity.meta = meta;
  return identity;
}
