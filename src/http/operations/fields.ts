/** Descriptions of properties by name, for the documentation: a name means the same in every schema. */
import type { JsonSchema } from "../../keyring/schemas/json-schema.js";

const FIELDS: Readonly<Record<string, string>> = Object.freeze({
  amount: "Credits added per refill.",
  apiId: "The id of the API.",
  autoApply: "Whether every verification checks the limit without being asked.",
  byteLength: "Random bytes in the key.",
  code: "Why: VALID, or the first check that failed. Clients must tolerate unknown values.",
  cost: "What this call takes; 0 only reads. Default 1.",
  createdAt: "Unix time, milliseconds.",
  credits: "Credits of the key; absent: unlimited.",
  cursor: "Where the list goes on: `pagination.cursor` of the page before.",
  decrypt: "Only false: the text of a key is never kept.",
  description: "For people.",
  duration: "Window, milliseconds.",
  enabled: "Whether it is enabled.",
  exceeded: "Whether the limit was exceeded.",
  expiration: "Milliseconds until the old key expires; 0: at once.",
  expires: "Unix time, milliseconds; absent: never.",
  externalId: "Your own id of the entity that the key belongs to.",
  failed: "The hashes that did not go in.",
  hasMore: "Whether there is a page after this one.",
  hash: "The existing hash of the key, stored as given.",
  identifier: "Who is limited: a user, an address, anything.",
  identity: "The identity, by its id or externalId.",
  interval: "`daily` or `monthly`.",
  ipAllowlist: "Addresses and CIDR ranges that keys may be used from; empty: any.",
  key: "The text of the key.",
  keyId: "The id of the key.",
  keys: "Keys that were hashed elsewhere.",
  limit: "The maximum: rows on a page of a list, or tokens of a rate limit per window.",
  limits: "One result a check, in order.",
  meta: "Free-form data, at most 64 KB as JSON and 32 levels deep.",
  migrated: "The keys that went in.",
  migrationId: "The id of the migration, made beforehand.",
  name: "For people.",
  namespace: "Id or name of the namespace.",
  operation: "`set`, `increment` or `decrement`.",
  overrideId: "The id of the override that decided, or was set.",
  passed: "Whether it fits.",
  permanent: "True: its row is removed. Default false: it is hidden.",
  permission: "Slug or id of the permission.",
  permissions: "Permissions by slug; `documents.*` covers all below it.",
  prefix: "Goes before the random part of the key.",
  ratelimits: "Rate limits by name.",
  recoverable: "Only false: the text of a key is never kept.",
  refill: "Automatic refill of credits.",
  refillDay: "Day of the month, required with monthly; the last day where the month is shorter.",
  remaining: "What is left: tokens of a rate limit, or credits (null: unlimited).",
  reset: "Milliseconds until full.",
  revalidateKeysCache: "Without effect: lists are never cached.",
  role: "Name or id of the role.",
  roleId: "Id or name of the role.",
  roles: "Roles by name.",
  search: "Part of the id, name, external id, slug or description, whatever its case; blank: all.",
  slug: "What permission queries and grants compare.",
  start: "First characters of the key, for people.",
  success: "Whether it fits the limit.",
  tags: "Labels for analytics; they never change the outcome.",
  updatedAt: "Unix time, milliseconds.",
  valid: "Whether the key may be used.",
  value: "Credits; null, unlimited, goes only with `set`.",
});

/** Adds a description to every property that has none. */
export function explain(schema: JsonSchema): JsonSchema {
  const { properties, items } = schema;
  if (properties === undefined && items === undefined) return schema;
  const named =
    properties &&
    Object.fromEntries(Object.entries(properties).map(([name, part]) => [name, explainProperty(name, part)]));
  return { ...schema, ...(named && { properties: named }), ...(items && { items: explain(items) }) };
}

function explainProperty(name: string, schema: JsonSchema): JsonSchema {
  const description = schema.description ?? (Object.hasOwn(FIELDS, name) ? FIELDS[name] : undefined);
  const explained = explain(schema);
  return description === undefined || schema.$ref !== undefined ? explained : { description, ...explained };
}
