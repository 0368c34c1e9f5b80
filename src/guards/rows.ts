/** What a store may return, field by field: one table for each type of the port, complete because the compiler counts its fields. */
import { LAST_MOMENT } from "../options.js";
import type {
  ApiRow,
  CountedBalance,
  Draw,
  IdentityRow,
  KeyRecord,
  KeyRef,
  KeyRow,
  MigrationRow,
  NamespaceRow,
  OverrideRow,
  PermissionRow,
  RoleRow,
  RootKeyRow,
  Rows,
  Spend,
  Table,
  WorkspaceRow,
} from "../store.js";
import type { Identity, RatelimitResponse, Refill } from "../types.js";
import { type Fields, flag, integer, json, list, Malformed, object, oneOf, optional, orNull, type Reader, text } from "./readers.js";

/** An id, or another text that names something. */
const name = text(1);
const names = list(name);
const anyText = text(0);
const count = integer(0);
const moment = integer(-LAST_MOMENT, LAST_MOMENT);

const ref: Reader<KeyRef> = (value) => (typeof value === "number" ? integer(Number.MIN_SAFE_INTEGER)(value) : name(value));

const limits = list(
  object<RatelimitResponse>({ id: name, name, limit: count, duration: count, autoApply: flag } satisfies Fields<RatelimitResponse>),
);

const refillParts = object<{ interval: Refill["interval"]; amount: number; refillDay?: number | undefined }>({
  interval: oneOf("daily", "monthly"),
  amount: count,
  refillDay: optional(integer(1, 31)),
});
const refill: Reader<Refill> = (value) => {
  const parts = refillParts(value);
  if (parts.interval === "monthly" && parts.refillDay === undefined)
    throw new Malformed("must be there with a monthly refill", "refillDay");
  return parts as Refill;
};

const identity = object<Identity>({
  id: name,
  externalId: name,
  meta: optional(json),
  ratelimits: optional(limits),
} satisfies Fields<Identity>);

/** What a find returns. */
export const keyRecord = object<KeyRecord>({
  ref,
  keyId: name,
  workspaceId: name,
  apiId: name,
  name: optional(anyText),
  meta: optional(json),
  expires: optional(moment),
  enabled: flag,
  permissions: names,
  roles: names,
  identity: optional(identity),
  ratelimits: limits,
  limited: flag,
  refill: optional(refill),
  generation: count,
  suspended: flag,
  pending: flag,
  ipAllowlists: list(names),
} satisfies Fields<KeyRecord>);

/** What a spend returns. */
export const spend = object<Spend>({ ok: flag, remaining: orNull(count) } satisfies Fields<Spend>);

/** What a draw returns. */
export const draw = object<Draw>({ drawn: count, generation: count, remaining: orNull(count) } satisfies Fields<Draw>);

/** What administration reads of a balance. */
export const balance = object<CountedBalance>({ remaining: orNull(count), period: count } satisfies Fields<CountedBalance>);

const versioned = { id: name, version: count };
const owned = { ...versioned, workspaceId: name };

/** The rows, by table. */
export const rows: { readonly [T in Table]: Reader<Rows[T]> } = {
  workspaces: object<WorkspaceRow>({ ...versioned, enabled: flag } satisfies Fields<WorkspaceRow>),
  apis: object<ApiRow>({
    ...owned,
    name: anyText,
    enabled: flag,
    ipAllowlist: names,
    deleted: flag,
    createdAt: moment,
  } satisfies Fields<ApiRow>),
  identities: object<IdentityRow>({ ...owned, externalId: name, meta: optional(json), ratelimits: limits } satisfies Fields<IdentityRow>),
  roles: object<RoleRow>({ ...owned, name, description: optional(anyText), permissions: names } satisfies Fields<RoleRow>),
  permissions: object<PermissionRow>({
    ...owned,
    name: anyText,
    slug: name,
    description: optional(anyText),
  } satisfies Fields<PermissionRow>),
  migrations: object<MigrationRow>({ ...owned, algorithm: name } satisfies Fields<MigrationRow>),
  rootKeys: object<RootKeyRow>({
    ...owned,
    digest: name,
    start: anyText,
    name: optional(anyText),
    permissions: names,
    expires: optional(moment),
    enabled: flag,
    createdAt: moment,
  } satisfies Fields<RootKeyRow>),
  namespaces: object<NamespaceRow>({ ...owned, name, createdAt: moment } satisfies Fields<NamespaceRow>),
  overrides: object<OverrideRow>({
    ...owned,
    namespaceId: name,
    identifier: anyText,
    limit: count,
    duration: count,
  } satisfies Fields<OverrideRow>),
  keys: object<KeyRow>({
    ...owned,
    apiId: name,
    digest: optional(name),
    migrationId: optional(anyText),
    hash: optional(anyText),
    foreignDigest: optional(name),
    start: anyText,
    name: optional(anyText),
    meta: optional(json),
    expires: optional(moment),
    enabled: flag,
    identityId: optional(name),
    permissions: names,
    roles: names,
    ratelimits: limits,
    ipAllowlist: names,
    limited: flag,
    refill: optional(refill),
    countedTo: optional(moment),
    generation: count,
    deleted: flag,
    createdAt: moment,
    updatedAt: optional(moment),
  } satisfies Fields<KeyRow>),
};
