/**
 * What each property means, and an example of it, for the documentation and the help of the command line. A name means
 * the same in every schema, but where it stands here with its object. A test fails for a property that is not here.
 */
import type { Json } from "../../contracts/types.js";
import type { JsonSchema } from "../../keyring/schemas/json-schema.js";

interface Field {
  readonly text: string;
  /** Valid for every operation; absent: what the schema says of it suffices. */
  readonly sample?: Json;
}

/**
 * By a property's name, or by that of its object and its own: what stands in a list has the name of the list, and a
 * request or an answer that of its operation.
 */
const FIELDS: Readonly<Record<string, Field>> = {
  account: { text: "The store's own name of it.", sample: "key_9mKp2XwZ" },
  accounts: { text: "Where several accounts pay: those, in the order in which they are spent." },
  "accounts.expired": { text: "What a rollover or the end of a grant took.", sample: 0 },
  "accounts.granted": { text: "What was granted.", sample: 5_000 },
  "accounts.keyId": {
    text: "The key that the account is of; of a chain of rotations, its first key.",
    sample: "key_9mKp2XwZ",
  },
  "accounts.kind": { text: "`plan`: the main account; or a `grant`.", sample: "plan" },
  action: { text: "What to do with the keys: `disable`, `enable` or `delete`, which hides them.", sample: "disable" },
  actor: {
    text: "Who changed it: the id of a root key, the subject of a token, or whom a program acted for.",
    sample: "rk_5Jd8sK2p",
  },
  actorKind: { text: "What kind of caller that was, such as `rootKey` or `program`.", sample: "rootKey" },
  actorName: {
    text: "The name of the root key, for who has `workspace.*.read_root_key`; absent: it has none, or it is no root key.",
    sample: "gateway",
  },
  address: { text: "The client's address that no allow-list has; empty: it was not known.", sample: "203.0.113.7" },
  addressAllowed: { text: "Whether the allow-lists let the address pass." },
  adjustments: {
    text: "Balances that were given or taken away: first ones, changes by administrators, and what came or went with a key.",
    sample: 500,
  },
  amount: { text: "Credits added per refill.", sample: 100 },
  apiId: { text: "The id of the API.", sample: "api_4fY2rTqL" },
  asOf: { text: "When counting began: Unix time, milliseconds.", sample: 1_798_848_000_000 },
  autoApply: { text: "Whether every verification checks the limit without being asked." },
  byteLength: { text: "Random bytes in the key." },
  at: { text: "Unix time, milliseconds.", sample: 1_798_848_000_000 },
  "changeKeys.outcome": {
    text: "`changed`; `unchanged`: it was so already, or does not fit any more; or `notFound`.",
    sample: "changed",
  },
  "changeKeys.keyIds": { text: "1 to 100 ids, in place of a filter.", sample: "key_9mKp2XwZ" },
  changes: {
    text: "Who changed the identity or the keys, the latest 1,000; none for who lacks `workspace.*.read_audit`.",
  },
  "changes.credits": { text: "What the change did to a balance; absent: nothing." },
  "changes.operation": { text: "An operation, such as `updateKey`.", sample: "updateKey" },
  "changes.workspaceId": { text: "The workspace.", sample: "ws_default" },
  checks: { text: "Every check in order, those after the first failure too." },
  clientAddress: { text: "The address that the key would be used from.", sample: "203.0.113.7" },
  closing: { text: "What was there at the end, or is now.", sample: 65 },
  code: { text: "Why: VALID, or the first check that failed. Clients must tolerate unknown values." },
  cost: { text: "What this call takes; 0 only reads. Default 1.", sample: 1 },
  count: { text: "How many: verifications, or rows that were made, changed or removed.", sample: 17 },
  countedFrom: {
    text: "What an account was given and spent before this day is of it: Unix time, milliseconds.",
    sample: 1_798_761_600_000,
  },
  createdAt: { text: "Unix time, milliseconds.", sample: 1_798_761_600_000 },
  credits: { text: "Credits of the key; absent: unlimited.", sample: 99 },
  created: { text: "Whether this call made it: false where there was one under this id.", sample: true },
  "createIdentity.credits": { text: "Credits that all its keys share; absent: none." },
  creditsBelow: { text: "Only keys that draw on a balance below this.", sample: 100 },
  creditsFrom: {
    text: "Whose credits it takes: those of the `key`, of its `identity`, of `both` at once, or `none`: unlimited.",
    sample: "identity",
  },
  cursor: { text: "Where the list goes on: `pagination.cursor` of the page before.", sample: "key_9mKp2XwZ" },
  day: { text: "Start of the day, UTC: Unix time, milliseconds.", sample: 1_798_761_600_000 },
  days: { text: "Days on which credits were spent." },
  decrypt: { text: "Only false: the text of a key is never kept." },
  decidedBy: { text: "Who has the least, where key and identity both pay.", sample: "identity" },
  "deleteIdentity.keys": {
    text: "What becomes of its keys: only `disable`. Without it an identity that keys draw on is not deleted.",
  },
  degraded: { text: "Whether the fallback of a failed limiter was asked." },
  deleted: { text: "Whether the key is deleted, or its API is.", sample: true },
  added: { text: "Credits that the change added; negative: that it took away.", sample: 500 },
  "changePlan.now": {
    text: "`difference`: add at once what the new plan gives more. Default `nothing`.",
    sample: "difference",
  },
  deletedAt: { text: "When the key was deleted: Unix time, milliseconds.", sample: 1_798_848_000_000 },
  deletedBy: { text: "Who deleted the key, as `actor` or else `actorKind` has it.", sample: "rk_5Jd8sK2p" },
  description: { text: "For people.", sample: "for the nightly export" },
  disabled: { text: "How many are disabled.", sample: 12 },
  dryRun: { text: "Only say what would become of them. Default false.", sample: true },
  duration: { text: "Window, milliseconds.", sample: 60_000 },
  enabled: { text: "Whether it is enabled." },
  ended: { text: "Also those that have expired or were ended. Default false.", sample: true },
  endedAt: { text: "When it was ended: Unix time, milliseconds.", sample: 1_798_848_000_000 },
  entries: { text: "Of an import: how many batches this adds up; absent: it is one entry.", sample: 12 },
  exceeded: { text: "Whether the limit was exceeded.", sample: false },
  expiration: { text: "Milliseconds until the old key expires; 0: at once.", sample: 86_400_000 },
  expired: { text: "How many of the others have expired.", sample: 34 },
  expires: { text: "Unix time, milliseconds; absent: never.", sample: 1_830_297_600_000 },
  expiresBefore: { text: "Only keys that expire before this: Unix time, milliseconds.", sample: 1_830_297_600_000 },
  expiresFrom: {
    text: "Only keys that expire at this or later, not those that never do: Unix time, milliseconds.",
    sample: 1_830_211_200_000,
  },
  externalId: { text: "Your own id of the entity that the key belongs to.", sample: "user_17" },
  failed: { text: "The hashes that did not go in.", sample: "9f86d081884c7d65…" },
  fields: { text: "Names of the fields that were changed.", sample: "name" },
  forfeited: { text: "Lost with processes that vanished.", sample: 0 },
  from: { text: "Only entries of this time or later: Unix time, milliseconds.", sample: 1_798_761_600_000 },
  "getKeys.keys": { text: "The keys that are there, in the order of the request." },
  "getRefusals.apiId": { text: "Of all keys of this API.", sample: "api_7fTqL2ce" },
  "getRefusals.externalId": { text: "Of all keys of this owner.", sample: "user_17" },
  "getRefusals.from": {
    text: "From this hour on: Unix time, milliseconds. Default: a day before `to`.",
    sample: 1_798_761_600_000,
  },
  "getRefusals.keyId": { text: "Of this key, with the last ones.", sample: "key_9mKp2XwZ" },
  "getRefusals.to": {
    text: "Up to the end of this hour: Unix time, milliseconds. Default: now.",
    sample: 1_798_848_000_000,
  },
  "getStatement.accounts": { text: "Each account by itself." },
  "getStatement.expired": { text: "What a rollover or the end of a grant took.", sample: 0 },
  "getStatement.externalId": { text: "Of this owner: all accounts of its identity and keys.", sample: "user_17" },
  "getStatement.granted": { text: "What was granted.", sample: 5_000 },
  "getStatement.keyId": { text: "Of this key: the accounts that it draws on.", sample: "key_9mKp2XwZ" },
  "grantCredits.amount": { text: "Credits that are granted.", sample: 5_000 },
  granted: { text: "What can be spent of open grants, besides `remaining`.", sample: 0 },
  grantId: { text: "Your own id of the grant: the same again adds nothing.", sample: "order_4711" },
  grants: { text: "Grants, the oldest first." },
  "grants.amount": { text: "Credits that were granted.", sample: 5_000 },
  has: { text: "Permissions that the query names and the key has.", sample: "documents.read" },
  hash: { text: "The existing hash of the key, stored as given.", sample: "d04b98f48e8f8bcc…" },
  hasMore: { text: "Whether there is a page after this one." },
  hours: { text: "How many were refused, by time and code; nothing for an hour without refusals." },
  "hours.code": { text: "Why they were refused.", sample: "RATE_LIMITED" },
  "hours.count": { text: "How many.", sample: 812 },
  id: { text: "Its id.", sample: "id_2Xw5bN8k" },
  identifier: { text: "Who is limited: a user, an address, anything.", sample: "user_17" },
  external_id: { text: "The owner of the key; empty: it had none.", sample: "user_17" },
  identity: { text: "The identity, by its id or externalId.", sample: "user_17" },
  identityId: { text: "The id of the identity.", sample: "id_2Xw5bN8k" },
  ids: { text: "Of what was made, changed or removed.", sample: "key_9mKp2XwZ" },
  includeDeleted: { text: "Also a key that is deleted, or whose API is. Default false.", sample: true },
  interval: { text: "`hourly`, `daily`, `weekly` or `monthly`.", sample: "monthly" },
  ipAllowlist: { text: "Addresses and CIDR ranges that keys may be used from; empty: any.", sample: "203.0.113.0/24" },
  isCap: { text: "The credits of the key cap what it takes of its owner's: the sums leave them out." },
  key: { text: "The text of the key.", sample: "sk_3vQy8H…" },
  keyId: { text: "The id of the key.", sample: "key_9mKp2XwZ" },
  keyIds: { text: "The ids of the keys.", sample: "key_9mKp2XwZ" },
  keys: { text: "Keys that were hashed elsewhere." },
  kind: { text: "What the credential is: `rootKey`, `proxyToken`, or what an authenticator says.", sample: "rootKey" },
  kinds: { text: "What each of the ids is of, in their order.", sample: "key" },
  last: { text: "The last refusals of a key, at most 10, newest first." },
  "last.code": { text: "Why it was refused.", sample: "RATE_LIMITED" },
  "last.cost": { text: "Credits that it asked for.", sample: 1 },
  "last.decidedBy": {
    text: "`identity` or `api`, where the state or the credits of those decided.",
    sample: "identity",
  },
  "last.kind": { text: "`spend`: it was a spend by id.", sample: "spend" },
  "last.permissions": {
    text: "The query that was not satisfied, up to 256 characters of it.",
    sample: "documents.write",
  },
  "last.ratelimit": { text: "The first limit that was exceeded." },
  "last.time": { text: "Unix time, milliseconds.", sample: 1_798_848_000_000 },
  lastUsedAt: {
    text: "Unix time, milliseconds: when a verification last found it, to the minute.",
    sample: 1_798_848_000_000,
  },
  lines: { text: "What changed the balance besides spending, in the order of time." },
  "lines.credits": { text: "What it added; negative: what it took away.", sample: 500 },
  "lines.grantId": { text: "Of a grant: the id that it was given.", sample: "order_4711" },
  "lines.kind": {
    text: "`refill`, `grant`, `adjustment`, `moved` (with a key), `unexplained`, `forfeited` or `expired`.",
    sample: "adjustment",
  },
  "lines.operation": { text: "Of an adjustment: the operation.", sample: "updateCredits" },
  "lines.time": {
    text: "Unix time, milliseconds; where only the day is known, its start.",
    sample: 1_798_761_600_000,
  },
  "listAudit.actorSearch": {
    text: "Part of the id of who did it, or of the `actorName`, in any case.",
    sample: "gateway",
  },
  "listAudit.credits": { text: "What the change did to a balance; absent: nothing." },
  "listAudit.id": { text: "Only entries that name this id.", sample: "key_9mKp2XwZ" },
  "listAudit.operation": { text: "An operation, such as `keys.updateKey`.", sample: "keys.updateKey" },
  limit: { text: "The maximum: rows on a page of a list, or tokens of a rate limit per window.", sample: 100 },
  limits: { text: "One result a check, in order." },
  "listAudit.to": { text: "Only entries of before this time: Unix time, milliseconds.", sample: 1_798_848_000_000 },
  maxAge: {
    text: "Milliseconds: how old the answer may be, at most. Default 0: it is worked out anew.",
    sample: 60_000,
  },
  meta: { text: "Free-form data, at most 64 KB as JSON and 32 levels deep.", sample: { plan: "pro" } },
  migrated: { text: "The keys that went in." },
  migrationId: { text: "The id of the migration, made beforehand.", sample: "mig_2019" },
  missing: { text: "Permissions that the query names and the key lacks.", sample: "documents.write" },
  month: { text: "Year and month, UTC.", sample: "2026-11" },
  name: { text: "For people.", sample: "first key" },
  namespace: { text: "Id or name of the namespace.", sample: "emails" },
  next: { text: "The next refill." },
  opening: { text: "What was there at the start.", sample: 0 },
  operation: { text: "`set`, `increment` or `decrement`.", sample: "set" },
  owner: { text: "Whose it is: the `key`'s or its `identity`'s.", sample: "identity" },
  ownerDisabled: { text: "Whether its identity is disabled." },
  ownerExpires: {
    text: "When its identity expires: Unix time, milliseconds. The earlier of the two decides.",
    sample: 1_830_297_600_000,
  },
  ownerCredits: { text: "Credits of its identity, if it draws on them." },
  order: {
    text: "`made`: newest first; `expires`: soonest; `lastUsed`: latest; `credits`: fewest.",
    sample: "expires",
  },
  of: { text: "What a refill adds, or the credits that were granted.", sample: 1_000 },
  overrideId: { text: "The id of the override that decided, or was set.", sample: "ro_8Jq1mT4v" },
  parentDisabled: { text: "Whether its API or workspace is disabled." },
  passed: { text: "Whether it fits." },
  passes: { text: "Whether it would let the call pass." },
  permanent: { text: "True: its row is removed. Default false: it is hidden." },
  permission: { text: "Slug or id of the permission.", sample: "documents.read" },
  permissionId: { text: "The id of the permission.", sample: "perm_6Rt9cL3y" },
  permissions: { text: "Permissions by slug; `documents.*` covers all below it.", sample: "documents.read" },
  prefix: { text: "Goes before the random part of the key, with one `_` between.", sample: "sk" },
  priority: { text: "Place in the draw-down order: the lowest is spent first.", sample: 100 },
  "ratelimit.duration": { text: "Window of the limit, milliseconds.", sample: 60_000 },
  ratelimits: { text: "Rate limits by name." },
  "ratelimits.name": { text: "What requests and verifications call the limit.", sample: "requests" },
  reason: { text: "Why, for people; the audit trail and statements show it.", sample: "bonus" },
  recoverable: { text: "Only false: the text of a key is never kept." },
  refill: { text: "Automatic refill of credits." },
  refillDay: {
    text: "Required with monthly: the day of the month, or its last where it is shorter. With weekly: 1 (Monday) to 7.",
    sample: 1,
  },
  refills: { text: "What refills added.", sample: 1_000 },
  refusal: { text: "The code otherwise: that of the first check that fails.", sample: "EXPIRED" },
  refused: {
    text: "Verifications that took no credits because they failed, by code.",
    sample: { USAGE_EXCEEDED: 1 },
  },
  remaining: { text: "What is left: tokens of a rate limit, or credits (null: unlimited).", sample: 99 },
  repeated: { text: "The idempotency key was used before: nothing was changed, and this is how things stand." },
  rerolledFrom: { text: "The key that it replaced.", sample: "key_9mKp2XwZ" },
  rerolledTo: { text: "The key that replaced it.", sample: "key_9mKp2XwZ" },
  reserved: { text: "Credits that nodes or reservations have set aside.", sample: 1 },
  reset: { text: "Milliseconds until full.", sample: 60_000 },
  rest: { text: "Ids of those that did not fit: ask for them again.", sample: "key_9mKp2XwZ" },
  retryAfter: {
    text: "Milliseconds until the call could pass; absent: waiting does not help, or it passes.",
    sample: 30_000,
  },
  revalidateKeysCache: { text: "Without effect: lists are never cached." },
  role: { text: "Name or id of the role.", sample: "reader" },
  roleId: { text: "Id or name of the role.", sample: "role_7Gd3kS5h" },
  roles: { text: "Roles by name.", sample: "reader" },
  rollover: { text: "How much of the balance stays at a refill; the rest expires. Absent: all of it.", sample: 0 },
  rootKeyId: { text: "The id of the root key.", sample: "rk_5Jd8sK2p" },
  search: {
    text: "Part of the id, name, start, external id or slug, or of a role's description, whatever its case; blank: all.",
    sample: "reader",
  },
  since: { text: "When the first of several batches was made: Unix time, milliseconds.", sample: 1_798_761_600_000 },
  slug: { text: "What permission queries and grants compare.", sample: "documents.read" },
  spent: { text: "What was spent.", sample: 435 },
  start: { text: "First characters of the key, for people.", sample: "sk_3vQy" },
  state: {
    text: "What a verification finds that asks for nothing. A list of `expired` keys has rotated ones too.",
    sample: "active",
  },
  success: { text: "Whether it fits the limit." },
  key_id: { text: "The key; empty: it was not found.", sample: "key_9mKp2XwZ" },
  key_space_id: { text: "The API of the key.", sample: "api_4fY2rTqL" },
  outcome: { text: "What the verifications ended with.", sample: "RATE_LIMITED" },
  query: {
    text: "JSON of a query, or the object itself: `by`, `where`, `from`, `to`, `order`, `limit`.",
    sample: '{"by":["day","outcome"],"from":1793491200000,"to":1796083200000}',
  },
  spent_credits: { text: "Credits that they took.", sample: 17 },
  tags: { text: "Labels for analytics; they never change the outcome.", sample: "path=/documents" },
  time: { text: "Unix time, milliseconds; of counts the start of their period.", sample: 1_793_491_200_000 },
  timeZone: {
    text: "IANA name of the time zone in which hours and days begin. Default UTC.",
    sample: "Europe/Berlin",
  },
  total: { text: "How many there are.", sample: 1_000 },
  unattributed: { text: "Of `spent`, what no count explains.", sample: 0 },
  unexplained: { text: "Of `adjustments`, what no line explains.", sample: 0 },
  "updateIdentity.credits": { text: "Credits that all its keys share." },
  updatedAt: { text: "Unix time, milliseconds.", sample: 1_798_848_000_000 },
  valid: { text: "Whether the key may be used." },
  value: { text: "Credits; null, unlimited, goes only with `set`.", sample: 100 },
  workspaceId: { text: "The workspace of the credential.", sample: "ws_default" },
};

/** The property at the end of a path such as `request.ratelimits.name`. */
export function fieldAt(path: string): Field | undefined {
  const [name = "", of = ""] = path.split(".").reverse();
  return FIELDS[`${of}.${name}`] ?? FIELDS[name];
}

/** Adds a description to every property that has none. */
export function explain(schema: JsonSchema, path: string): JsonSchema {
  const { properties, items } = schema;
  const named =
    properties &&
    Object.fromEntries(
      Object.entries(properties).map(([name, part]) => [name, explainProperty(`${path}.${name}`, part)]),
    );
  return { ...schema, ...(named && { properties: named }), ...(items && { items: explain(items, path) }) };
}

function explainProperty(path: string, schema: JsonSchema): JsonSchema {
  const description = schema.description ?? fieldAt(path)?.text;
  const explained = explain(schema, path);
  return description === undefined || schema.$ref !== undefined ? explained : { description, ...explained };
}
