/** Example values for the documentation and the help of the command line, made from the schemas. */
import type { Json } from "../../contracts/types.js";
import type { JsonSchema } from "../../keyring/schemas/json-schema.js";
import type { Operation } from "../operations/operation.js";

/**
 * Values by the name of the property, or by that of its object and its own, valid for every operation; what stands in a
 * list has the name of the list.
 */
const SAMPLES: Readonly<Record<string, Json>> = {
  amount: 100,
  apiId: "api_4fY2rTqL",
  cost: 1,
  credits: 99,
  createdAt: 1_798_761_600_000,
  cursor: "key_9mKp2XwZ",
  description: "for the nightly export",
  duration: 60_000,
  exceeded: false,
  expiration: 86_400_000,
  expires: 1_830_297_600_000,
  externalId: "user_17",
  failed: "9f86d081884c7d65…",
  hash: "d04b98f48e8f8bcc…",
  id: "id_2Xw5bN8k",
  identifier: "user_17",
  identity: "user_17",
  identityId: "id_2Xw5bN8k",
  interval: "monthly",
  ipAllowlist: "203.0.113.0/24",
  key: "sk_3vQy8H…",
  keyId: "key_9mKp2XwZ",
  lastUsedAt: 1_798_848_000_000,
  limit: 100,
  meta: { plan: "pro" },
  migrationId: "mig_2019",
  name: "first key",
  namespace: "emails",
  operation: "increment",
  overrideId: "ro_8Jq1mT4v",
  permission: "documents.read",
  permissionId: "perm_6Rt9cL3y",
  permissions: "documents.read",
  prefix: "sk",
  refillDay: 1,
  "ratelimits.name": "requests",
  remaining: 99,
  reset: 60_000,
  role: "reader",
  roleId: "role_7Gd3kS5h",
  roles: "reader",
  search: "reader",
  slug: "documents.read",
  start: "sk_3vQy",
  tags: "path=/documents",
  updatedAt: 1_798_848_000_000,
  value: 100,
};

/** Optional properties of requests that an example shows, because the operation is about them. */
const SHOWN: ReadonlySet<string> = new Set(["credits", "permissions", "ratelimits", "value"]);

/** An example request of an operation. */
export function requestSample({ request }: Pick<Operation, "request">): Json {
  return sampleOf(request, "request", true);
}

/** An example of the property at `path`. In requests optional properties are left out, but for those worth seeing. */
export function sampleOf(schema: JsonSchema, path: string, isRequest: boolean): Json {
  if (schema.properties !== undefined) return objectOf(schema, path, isRequest);
  if (schema.items !== undefined) return [sampleOf(schema.items, path, isRequest)];
  return valueOf(schema, path);
}

function valueOf(schema: JsonSchema, path: string): Json {
  const [, prefix] = /^\^([a-z]+_)/.exec(schema.pattern ?? "") ?? [];
  const [name = "", of = ""] = path.split(".").reverse();
  const sample = prefix === undefined ? (SAMPLES[`${of}.${name}`] ?? SAMPLES[name]) : `${prefix}5Yh8vD2n`;
  if (sample !== undefined && (schema.enum === undefined || schema.enum.includes(sample))) return sample;
  return schema.const ?? schema.default ?? schema.enum?.[0] ?? (schema.type === "boolean" ? true : {});
}

function objectOf({ properties = {}, required = [] }: JsonSchema, path: string, isRequest: boolean): Json {
  const isShown = (name: string): boolean => !isRequest || required.includes(name) || SHOWN.has(name);
  return Object.fromEntries(
    Object.entries(properties)
      .filter(([name]) => isShown(name))
      .map(([name, schema]) => [name, sampleOf(schema, `${path}.${name}`, isRequest)]),
  );
}
