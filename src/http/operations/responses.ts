/**
 * What operations return, as JSON Schemas of `data`. Spec §2.2, operations of the wider interface. Each object names
 * its type: the compiler refuses a property that the type lacks, and one that it has and the schema lacks.
 */
import type {
  Identity,
  RatelimitResponse,
  Refill,
  V2KeysVerifyKeyResponseData,
  VerificationCode,
  VerifyKeyRatelimitData,
} from "../../contracts/types.js";
import type { JsonSchema } from "../../keyring/schemas/json-schema.js";
import type { MigratedKey, MigrationResults } from "../../keyring/schemas/migration-requests.js";
import type { OptionalKey } from "../../keyring/schemas/parse.js";
import type * as A from "../../keyring/schemas/responses.js";
import { MAX_DATE_MS } from "../../lib/check-options.js";
import type { WireKey } from "./wire-key.js";

const MAX = Number.MAX_SAFE_INTEGER;
const text: JsonSchema = { type: "string" };
const flag: JsonSchema = { type: "boolean" };
const texts: JsonSchema = { type: "array", items: text };
const free: JsonSchema = { type: "object", additionalProperties: true };
const integer = (minimum: number, maximum = MAX): JsonSchema => ({
  type: "integer",
  format: "int64",
  minimum,
  maximum,
});
const time = integer(0, MAX_DATE_MS);
const id: JsonSchema = { type: "string", minLength: 3, maxLength: 255, pattern: "^[a-zA-Z0-9_]+$" };
const longId: JsonSchema = { ...id, minLength: 8 };

type Schemas<Names extends PropertyKey> = Readonly<Record<Names, JsonSchema>>;
/** An object of the properties of `T` and no others. */
function object<T>(
  required: Schemas<Exclude<keyof T, OptionalKey<T>>>,
  ...[optional]: [OptionalKey<T>] extends [never] ? [] : [Schemas<OptionalKey<T>>]
): JsonSchema {
  const names = Object.keys(required);
  return {
    type: "object",
    properties: { ...required, ...optional },
    ...(names.length > 0 && { required: names }),
    additionalProperties: false,
  };
}
const arrayOf = (items: JsonSchema): JsonSchema => ({ type: "array", items });

/** Nothing to say but that it was done. */
export const empty = object<object>({});

const limitId: JsonSchema = { type: "string", minLength: 8, maxLength: 255, pattern: "^rl_[a-zA-Z0-9_]+$" };
const limit = {
  id: { ...limitId, description: "The id of the limit." },
  name: { ...text, minLength: 1, maxLength: 128 },
  limit: { ...integer(1, 1_000_000), description: "Requests a window." },
  duration: integer(1_000, 2_592_000_000),
  autoApply: flag,
};
const ratelimit = object<RatelimitResponse>(limit);

/** Spec §2.2. */
export const identity = object<Identity>(
  { id: text, externalId: text },
  { meta: free, ratelimits: arrayOf(ratelimit) },
);

const owner: JsonSchema = { ...identity, description: "The entity that the key belongs to." };

const refill = object<Extract<Refill, { readonly interval: "daily" }>>(
  { interval: { type: "string", enum: ["daily", "monthly"] }, amount: integer(1) },
  { refillDay: integer(1, 31) },
);
/** `remaining` is null for an unlimited key. */
export const credits = object<A.WireCredits>(
  { remaining: { ...integer(0), type: ["integer", "null"] } },
  {
    refill,
    invalid: {
      type: "boolean",
      enum: [true],
      description: "The credits of the key do not add up, and cannot be spent until its balance is set.",
    },
  },
);

/** A permission of the workspace. */
export const permission = object<A.Permission>(
  { id, name: { ...text, minLength: 1, maxLength: 512 }, slug: { ...text, minLength: 1, maxLength: 512 } },
  { description: text },
);
/** Permissions, sorted by slug. */
export const permissions = arrayOf(permission);
/** A role of the workspace. */
export const role = object<A.Role>(
  { id: text, name: text },
  { description: text, permissions: { ...permissions, maxItems: 1_000 } },
);
/** Roles, sorted by name. */
export const roles = arrayOf(role);

/** A key as administration sees it. */
export const key = object<WireKey>(
  { keyId: longId, start: { ...text, minLength: 1, maxLength: 50 }, enabled: flag, createdAt: time },
  {
    name: { ...text, maxLength: 255 },
    meta: free,
    updatedAt: time,
    lastUsedAt: time,
    expires: time,
    permissions: texts,
    roles: texts,
    credits,
    identity: owner,
    ratelimits: { ...arrayOf(ratelimit), maxItems: 50 },
    ipAllowlist: texts,
  },
);
/** The only time that a key is shown. */
export const createdKey = object<A.V2KeysCreateKeyResponseData>({
  keyId: text,
  key: { ...text, description: "The key itself, shown this once: only its digest is kept." },
});

/** A new API. */
export const createdApi = object<A.V2ApisCreateApiResponseData>({ apiId: longId });
/** `enabled` and `ipAllowlist` are additions of keystile. */
export const api = object<A.V2ApisGetApiResponseData>({
  id: longId,
  name: { ...text, minLength: 3, maxLength: 256 },
  enabled: flag,
  ipAllowlist: texts,
});
/** A new permission. */
export const createdPermission = object<A.V2PermissionsCreatePermissionResponseData>({ permissionId: id });
/** A new role. */
export const createdRole = object<A.V2PermissionsCreateRoleResponseData>({ roleId: id });
/** A new identity. */
export const createdIdentity = object<A.V2IdentitiesCreateIdentityResponseData>({ identityId: text });
type MigrationAnswer = Pick<MigrationResults, "migrated" | "failed">;
/** Both are always arrays; of failures only the hashes are listed. */
export const migration = object<MigrationAnswer>({
  migrated: arrayOf(object<MigratedKey>({ hash: text, keyId: text })),
  failed: texts,
});

/** A record, so that the compiler reports missing and extra codes. */
const CODES = Object.keys({
  VALID: true,
  NOT_FOUND: true,
  FORBIDDEN: true,
  INSUFFICIENT_PERMISSIONS: true,
  USAGE_EXCEEDED: true,
  RATE_LIMITED: true,
  DISABLED: true,
  EXPIRED: true,
} satisfies Record<VerificationCode, true>);
/** Spec §2.2; `code` may gain values in time, and clients must tolerate them. */
export const verification = object<V2KeysVerifyKeyResponseData>(
  { valid: flag, code: { type: "string", enum: CODES } },
  {
    keyId: text,
    name: text,
    meta: free,
    expires: time,
    credits: { ...integer(0), description: "Credits left after this call; absent: unlimited." },
    enabled: flag,
    permissions: texts,
    roles: texts,
    identity: owner,
    ratelimits: arrayOf(
      object<VerifyKeyRatelimitData>({
        exceeded: flag,
        ...limit,
        reset: integer(1_000, 2_592_000_000),
        remaining: integer(0, 1_000_000),
      }),
    ),
  },
);

const counted = { limit: integer(0), remaining: integer(0), reset: integer(0) };
/** A namespace of rate limits. */
export const namespace = object<A.NamespaceData>({ id, name: text });
/** Another limit for one identifier. */
export const override = object<A.RatelimitOverride>({
  overrideId: text,
  duration: integer(1_000),
  identifier: text,
  limit: integer(0),
});
/** A new override, or the one that was replaced. */
export const createdOverride = object<A.V2RatelimitSetOverrideResponseData>({ overrideId: text });
/** One check. */
export const limited = object<A.V2RatelimitLimitResponseData>({ ...counted, success: flag }, { overrideId: text });
/** Several checks, all or nothing. */
export const multiLimited = object<A.V2RatelimitMultiLimitResponseData>({
  passed: flag,
  limits: arrayOf(
    object<A.V2RatelimitMultiLimitCheck>(
      { namespace: text, identifier: text, ...counted, passed: flag },
      { overrideId: text },
    ),
  ),
});

/** Up, and able to read its store. */
export const alive = object<{ readonly message: string }>({ message: text });
