/**
 * What several operations return, as JSON Schemas of `data`, and what all are made of. Contract 2.2. Each object names
 * its type: the compiler refuses a property that the type lacks, and one that it has and the schema lacks.
 */
import type { AuditChange, AuditCredits } from "../../contracts/audit.js";
import type { Identity, RatelimitResponse, Refill } from "../../contracts/types.js";
import type { JsonSchema } from "../../keyring/schemas/json-schema.js";
import type { OptionalKey } from "../../keyring/schemas/parse.js";
import type * as A from "../../keyring/schemas/responses.js";
import { MAX_DATE_MS } from "../../lib/check-options.js";

const MAX = Number.MAX_SAFE_INTEGER;
export const text: JsonSchema = { type: "string" };
export const flag: JsonSchema = { type: "boolean" };
export const texts: JsonSchema = { type: "array", items: text };
export const free: JsonSchema = { type: "object", additionalProperties: true };
export const integer = (minimum: number, maximum = MAX): JsonSchema => ({
  type: "integer",
  format: "int64",
  minimum,
  maximum,
});
export const time = integer(0, MAX_DATE_MS);
export const id: JsonSchema = { type: "string", minLength: 3, maxLength: 255, pattern: "^[a-zA-Z0-9_]+$" };
export const longId: JsonSchema = { ...id, minLength: 8 };

type Schemas<Names extends PropertyKey> = Readonly<Record<Names, JsonSchema>>;
/** An object of the properties of `T` and no others. */
export function object<T>(
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
/** Properties of one schema. */
export const each = <const Name extends string>(schema: JsonSchema, ...names: readonly Name[]): Schemas<Name> =>
  Object.fromEntries(names.map((name) => [name, schema])) as Record<Name, JsonSchema>;
export const arrayOf = (items: JsonSchema): JsonSchema => ({ type: "array", items });

/** Nothing to say but that it was done. */
export const empty = object<object>({});

const limitId: JsonSchema = { type: "string", minLength: 8, maxLength: 255, pattern: "^rl_[a-zA-Z0-9_]+$" };
export const limit = {
  id: { ...limitId, description: "The id of the limit." },
  name: { ...text, minLength: 1, maxLength: 128 },
  limit: { ...integer(1, 1_000_000), description: "Requests a window." },
  duration: integer(1_000, 2_592_000_000),
  autoApply: flag,
};
export const ratelimit = object<RatelimitResponse>(limit);

const [ofIdentity, mayHave] = [
  { id: text, externalId: text },
  { meta: free, ratelimits: arrayOf(ratelimit) },
] as const;
const mayBe = {
  ...mayHave,
  enabled: { ...flag, enum: [false], description: "Only where it is disabled." },
  expires: time,
};
/** Contract 2.2, and its state where it is not the usual one. */
export const identity = object<Omit<A.IdentityData, "credits">>(ofIdentity, mayBe);

/** Contract 2.2. */
export const owner: JsonSchema = {
  ...object<Identity>(ofIdentity, mayHave),
  description: "The entity that the key belongs to.",
};

const refill = object<Extract<Refill, { readonly interval: "daily" }>>(
  { interval: { type: "string", enum: ["hourly", "daily", "weekly", "monthly"] }, amount: integer(1) },
  { refillDay: integer(1, 31), timeZone: text, rollover: integer(0) },
);
const balance = { remaining: { ...integer(0), type: ["integer", "null"] } } as const;
const ofBalance = {
  refill,
  invalid: {
    type: "boolean",
    enum: [true],
    description: "The credits of the key do not add up, and cannot be spent until its balance is set.",
  },
} as const;
/** `remaining` is null for an unlimited key. */
export const credits = object<A.WireCredits>(balance, ofBalance);
/** The same with what is set aside and granted. */
export const reservable = {
  ...credits,
  properties: { ...credits.properties, reserved: integer(0), granted: integer(0) },
};
/** Of a list. */
export const listedIdentity = object<A.ListedIdentity>(ofIdentity, {
  ...{ ...mayBe, credits: reservable, keyCount: integer(0, 100), hasMoreKeys: flag },
});
/** The same after a change. */
export const changedCredits = object<Omit<A.ChangedCredits, "reserved" | "granted">>(balance, {
  ...ofBalance,
  repeated: { ...flag, enum: [true] },
});

/** What fields were and are, as the audit trail has it. */
const [value, item] = [
  { type: ["string", "integer", "boolean", "object"], additionalProperties: true },
  { type: ["string", "object"], additionalProperties: true },
] as const satisfies readonly JsonSchema[];
export const changesOfFields = arrayOf(
  object<AuditChange>({ field: text }, { from: value, to: value, removed: arrayOf(item), added: arrayOf(item) }),
);
/** What a change did to a balance, as the audit trail has it. */
export const changeOfCredits = object<AuditCredits>(
  { added: integer(-MAX), remaining: { ...integer(0), type: ["integer", "null"] } },
  { grantId: text },
);

/** A new grant, or the one under the same id. */
export const newGrant = object<A.GrantCreditsData>(
  { grantId: text, id, amount: integer(1), remaining: integer(0), created: { type: "boolean" } },
  { expires: integer(0), repeated: { ...flag, enum: [true] } },
);
export const endedGrant = object<A.EndGrantData>(
  { grantId: text, id, amount: integer(1), endedAt: integer(0), withdrawn: integer(0) },
  { repeated: { ...flag, enum: [true] } },
);
/** What an owner has, account by account. */
export const accounts = arrayOf(
  object<A.AccountData>(
    {
      owner: { type: "string", enum: ["key", "identity"] },
      kind: { type: "string", enum: ["plan", "grant"] },
      remaining: integer(0),
    },
    {
      ...{ reserved: integer(0), of: integer(0), next: object({ at: time, amount: integer(0) }) },
      ...{ grantId: text, priority: integer(0, 255), expires: time, reason: text },
    },
  ),
);
export const ownerBalance = object<A.BalanceData>({ ...balance, accounts });
export const grantList = object<A.ListGrantsData>({
  grants: arrayOf(
    object<A.GrantData>(
      {
        ...{ grantId: text, id, amount: integer(1), remaining: integer(0) },
        ...{ priority: integer(0, 255), createdAt: integer(0) },
      },
      { ...{ expires: integer(0), endedAt: integer(0), reserved: integer(1) }, refill, reason: text },
    ),
  ),
});

/** A permission of the workspace. */
export const permission = object<A.Permission>(
  { id, name: { ...text, minLength: 1, maxLength: 512 }, slug: { ...text, minLength: 1, maxLength: 512 } },
  { description: text },
);
/** Permissions, sorted by slug. */
export const permissionList = arrayOf(permission);
/** A role of the workspace. */
export const role = object<A.Role>(
  { id: text, name: text },
  { description: text, permissions: { ...permissionList, maxItems: 1_000 } },
);
/** Roles, sorted by name. */
export const roleList = arrayOf(role);

/** Up, and able to read its store. */
export const alive = object<{ readonly message: string }>({ message: text });
