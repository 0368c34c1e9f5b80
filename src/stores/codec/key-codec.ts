/** Converts a key between the row that an SQL store keeps and the `KeyRow` of the store contract. */
import { KEY_FIELDS, type KeyField } from "../../contracts/key-fields.js";
import type { ApiRow, IdentityRow, KeyRow } from "../../contracts/store.js";
import { ownProperty } from "../../lib/check-options.js";
import { isObject } from "../../lib/copy-json.js";
import type { Mutable } from "../../lib/mutable.js";
import { type Check, checkOf, invalid, readGrants, readIdentityBody, readName, unknownName } from "./read-body.js";

/** A key joined with its identity, if any: what a find reads. Numbers are as the driver returns them. */
export interface KeyRaw {
  readonly n: number | bigint | string;
  readonly id: string;
  /** What the store knows the API by. */
  readonly api: number | bigint | string;
  readonly body: string;
  /**
   * JSON of the ids of directly granted permissions and roles; empty: none. Separate column, since many keys share a
   * value.
   */
  readonly grants: string;
  readonly identityId: string | null;
  readonly externalId: string | null;
  readonly identityBody: string | null;
  /** Number of the identity's account; null: it never had one. */
  readonly identityAccount: number | bigint | string | null;
  /** Number of the account that it shares; null: its own. */
  readonly account: number | bigint | string | null;
}

/** The rest, for administration. */
export interface FullKeyRaw extends KeyRaw {
  readonly version: number | bigint | string;
  readonly digest: string | null;
  readonly foreignDigest: string | null;
  readonly lastUsedAt: number | bigint | string | null;
}

/** Fields with their own column. All others are in the body. */
const COLUMNS = [
  "id",
  "version",
  "workspaceId",
  "apiId",
  "identityId",
  "digest",
  "foreignDigest",
  "lastUsedAt",
  "permissions",
  "roles",
] as const satisfies readonly (keyof KeyRow)[];
type Column = (typeof COLUMNS)[number];
/**
 * Fields with another name in the body, part of the format. A flag is written only if it is not the default, as
 * true.
 */
const NAMES: Partial<Record<keyof KeyRow, string>> = {
  enabled: "disabled",
  hasCredits: "limited",
  refillCursor: "countedTo",
};

/** A field of the body. */
interface BodyField {
  readonly field: Exclude<keyof KeyRow, Column>;
  readonly name: string;
  readonly usual: unknown;
  /** Every body has it. */
  readonly isRequired: boolean;
  readonly isFlag: boolean;
  readonly isList: boolean;
  readonly isValid: Check;
}

const isMark: Check = (value) => value === true;
const inBody = (field: string): field is BodyField["field"] => !(COLUMNS as readonly string[]).includes(field);

const BODY: readonly BodyField[] = Object.entries<KeyField>(KEY_FIELDS).flatMap(
  ([field, { row, absent = false, usual }]) => {
    if (row === undefined || !inBody(field)) return [];
    const [isFlag, isList] = [row === "flag", Array.isArray(row)];
    const isRequired = !absent && usual === undefined;
    const name = NAMES[field] ?? field;
    return { field, name, usual, isRequired, isFlag, isList, isValid: isFlag ? isMark : checkOf(row) };
  },
);
const BY_NAME: ReadonlyMap<string, BodyField> = new Map(BODY.map((field) => [field.name, field]));
const REQUIRED = BODY.filter(({ isRequired }) => isRequired).length;

/** The JSON of a row's body. Default values are left out, so that a find has less to parse. */
export function encodeBody(row: KeyRow): string {
  const body: Record<string, unknown> = {};
  for (const { field, name, usual, isFlag, isList } of BODY) {
    // Own properties only: values from a polluted prototype must not be written.
    const value = Object.hasOwn(row, field) ? row[field] : undefined;
    if (value === undefined || value === usual) continue;
    // The empty list is left out where it is the default. Where the list may be absent, it says something else.
    if (isList && usual !== undefined && (value as readonly unknown[]).length === 0) continue;
    body[name] = isFlag ? true : value;
  }
  return JSON.stringify(body);
}

/** The text of a row's grants. */
export function encodeGrants({ permissions, roles }: KeyRow): string {
  return permissions.length === 0 && roles.length === 0 ? "" : JSON.stringify([permissions, roles]);
}

/** Reads what {@link encodeGrants} wrote. */
export function decodeGrants(text: string): Pick<KeyRow, "permissions" | "roles"> {
  if (text === "") return { permissions: [], roles: [] };
  const [permissions, roles] = readGrants(text);
  return { permissions, roles };
}

/**
 * Decodes a key into a new object, without its grants.
 * @param version 0 if not needed: a find does not read it
 * @throws KeystileError STORE_INVALID, or SyntaxError
 */
export function decodeKey(raw: KeyRaw, api: ApiRow, version: number, digest: string | undefined): Mutable<KeyRow> {
  // A literal, which the compiler checks for completeness: a find took 0.3 µs more with an object built from the table.
  const row: Mutable<KeyRow> = {
    id: raw.id,
    workspaceId: api.workspaceId,
    version,
    apiId: api.id,
    start: "",
    enabled: KEY_FIELDS.enabled.usual,
    permissions: [],
    roles: [],
    ratelimits: [],
    ipAllowlist: [],
    hasCredits: KEY_FIELDS.hasCredits.usual,
    generation: KEY_FIELDS.generation.usual,
    deleted: KEY_FIELDS.deleted.usual,
    createdAt: 0,
  };
  decodeBody(raw.body, row);
  if (digest !== undefined) row.digest = digest;
  if (raw.identityId !== null) row.identityId = raw.identityId;
  return row;
}

/**
 * A name that is not known is refused: it may be a restriction that a later version added, whose keys must not pass
 * here, and the next change would lose it.
 */
function decodeBody(text: string, row: object): void {
  const body: unknown = JSON.parse(text);
  if (!isObject(body)) throw invalid("a key");
  let missing = REQUIRED;
  // Over the body and not the table of fields: most keys have fewer than half of them.
  for (const name of Object.keys(body)) {
    const known = BY_NAME.get(name);
    if (known === undefined) throw unknownName("a key", name);
    const value = body[name];
    if (!known.isValid(value)) throw invalid("a key");
    if (known.isRequired) missing--;
    (row as Record<string, unknown>)[known.field] = known.isFlag ? known.usual !== true : value;
  }
  if (missing > 0) throw invalid("a key");
}

/** Decodes a complete row, for administration. */
export function decodeFullKey(raw: FullKeyRaw, api: ApiRow): KeyRow {
  const row = decodeKey(raw, api, Number(raw.version), raw.digest ?? undefined);
  const { permissions, roles } = decodeGrants(raw.grants);
  row.permissions = permissions;
  row.roles = roles;
  if (raw.foreignDigest !== null) row.foreignDigest = raw.foreignDigest;
  if (raw.lastUsedAt !== null) row.lastUsedAt = Number(raw.lastUsedAt);
  return row;
}

/** What an identity may lack, as far as a find reads it. */
const IDENTITY_FIELDS = [
  "meta",
  "enabled",
  "expires",
  "hasCredits",
  "refill",
  "refillCalendar",
  "generation",
  "hasGrants",
] as const;

/** Decodes the identity joined with a key. */
export function decodeIdentity({ identityId, externalId, identityBody }: KeyRaw, api: ApiRow): IdentityRow | undefined {
  if (identityId === null || identityBody === null) return undefined;
  const body = readIdentityBody(identityBody);
  const { ratelimits } = body;
  const name = readName("identities", externalId);
  const identity: Mutable<IdentityRow> = {
    id: identityId,
    workspaceId: api.workspaceId,
    version: 0,
    externalId: name,
    ratelimits,
  };
  for (const field of IDENTITY_FIELDS) {
    const value = ownProperty(body, field);
    if (value !== undefined) (identity as Record<string, unknown>)[field] = value;
  }
  return identity;
}
