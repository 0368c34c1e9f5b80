/** JSON Schemas of `data` in the responses of operations. */
import type { VerificationCode } from "../../contracts/types.js";
import type { JsonSchema } from "../../keyring/schemas/json-schema.js";
import { MAX_DATE_MS } from "../../lib/check-options.js";

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

/** An object of these properties and no others. */
function object(
  required: Readonly<Record<string, JsonSchema>>,
  optional: Readonly<Record<string, JsonSchema>> = {},
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

/** An empty result. */
export const empty = object({});

const limitId: JsonSchema = { type: "string", minLength: 8, maxLength: 255, pattern: "^rl_[a-zA-Z0-9_]+$" };
const limit = {
  id: { ...limitId, description: "The id of the limit." },
  name: { ...text, minLength: 1, maxLength: 128 },
  limit: { ...integer(1, 1_000_000), description: "Requests a window." },
  duration: integer(1_000, 2_592_000_000),
  autoApply: flag,
};
const ratelimit = object(limit);

/** An identity (spec §2.2). */
export const identity = object({ id: text, externalId: text }, { meta: free, ratelimits: arrayOf(ratelimit) });

const owner: JsonSchema = { ...identity, description: "The entity that the key belongs to." };

const refill = object(
  { interval: { type: "string", enum: ["daily", "monthly"] }, amount: integer(1) },
  { refillDay: integer(1, 31) },
);
/** Credits of a key. `remaining` is null for an unlimited key. */
export const credits = object({ remaining: { ...integer(0), type: ["integer", "null"] } }, { refill });

/** A permission of the workspace. */
export const permission = object(
  { id, name: { ...text, minLength: 1, maxLength: 512 }, slug: { ...text, minLength: 1, maxLength: 512 } },
  { description: text },
);
/** Permissions, sorted by slug. */
export const permissions = arrayOf(permission);
/** A role of the workspace. */
export const role = object(
  { id: text, name: text },
  { description: text, permissions: { ...permissions, maxItems: 1_000 } },
);
/** Roles, sorted by name. */
export const roles = arrayOf(role);

/** A key, for administration. */
export const key = object(
  { keyId: longId, start: { ...text, minLength: 1, maxLength: 50 }, enabled: flag, createdAt: time },
  {
    name: { ...text, maxLength: 255 },
    meta: free,
    updatedAt: time,
    expires: time,
    permissions: texts,
    roles: texts,
    credits,
    identity: owner,
    ratelimits: { ...arrayOf(ratelimit), maxItems: 50 },
    ipAllowlist: texts,
  },
);
/** A new key: the only response with its text. */
export const createdKey = object({
  keyId: text,
  key: { ...text, description: "The key itself, shown this once: only its digest is kept." },
});

/** A new API. */
export const createdApi = object({ apiId: longId });
/** `enabled` and `ipAllowlist` are additions of keystile. */
export const api = object({
  id: longId,
  name: { ...text, minLength: 3, maxLength: 256 },
  enabled: flag,
  ipAllowlist: texts,
});
/** A new permission. */
export const createdPermission = object({ permissionId: id });
/** A new role. */
export const createdRole = object({ roleId: id });
/** A new identity. */
export const createdIdentity = object({ identityId: text });
/** Result of an import: both are always arrays. */
export const migration = object({ migrated: arrayOf(object({ hash: text, keyId: text })), failed: texts });

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
/** A verification (spec §2.2). `code` may gain values, which clients must tolerate. */
export const verification = object(
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
      object({ exceeded: flag, ...limit, reset: integer(1_000, 2_592_000_000), remaining: integer(0, 1_000_000) }),
    ),
  },
);

const counted = { limit: integer(0), remaining: integer(0), reset: integer(0) };
/** A limit that replaces the default for one identifier. */
export const override = object({ overrideId: text, duration: integer(1_000), identifier: text, limit: integer(0) });
/** The override that was set, new or replaced. */
export const createdOverride = object({ overrideId: text });
/** Result of one rate limit check. */
export const limited = object({ ...counted, success: flag }, { overrideId: text });
/** Result of several checks, all or nothing. */
export const multiLimited = object({
  passed: flag,
  limits: arrayOf(object({ namespace: text, identifier: text, ...counted, passed: flag }, { overrideId: text })),
});

/** Result of liveness. */
export const alive = object({ message: text });
