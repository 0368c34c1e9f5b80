/**
 * Parses the JSON of rows and validates every field that decides about access.
 *
 * Why: default values are left out of the text, so `{}`, written by another tool, would read as a key that is enabled,
 * unlimited and never expires. It takes 0.15 µs, beside the 0.85 of JSON.parse.
 */
import { KeystileError } from "../../contracts/errors.js";
import { KEY_FIELDS, type Shape } from "../../contracts/key-fields.js";
import type { IdentityRow, Table } from "../../contracts/store.js";
import { MAX_DATE_MS } from "../../lib/check-options.js";
import { isObject } from "../../lib/copy-json.js";

type Fields = Record<string, unknown>;

/** Levels of `meta`, and UTF-16 code units of a rate limit's name: above the bounds of requests. */
const META_LEVELS = 32;
const MAX_NAME_UNITS = 512;

/** What an identity has besides its ids and its name. */
export type IdentityBody = Omit<IdentityRow, "id" | "version" | "workspaceId" | "externalId">;

/** @throws KeystileError STORE_INVALID, or SyntaxError */
export function readIdentityBody(text: string): IdentityBody {
  return readEntityBody("identities", text) as unknown as IdentityBody;
}

/** Validation of a body by table; `undefined`: it decides nothing about access. */
const BODY_CHECKS: Readonly<Record<Exclude<Table, "keys">, ((body: Fields) => boolean) | undefined>> = {
  workspaces: ({ enabled }) => isBoolean(enabled),
  apis: ({ enabled, deleted, ipAllowlist }) => isBoolean(enabled) && isBoolean(deleted) && isTexts(ipAllowlist),
  identities: (body) => isLimits(body["ratelimits"]) && Object.entries(IDENTITY).every(([name, is]) => is(body[name])),
  roles: ({ permissions }) => isTexts(permissions),
  permissions: undefined,
  migrations: undefined,
  rootKeys: ({ permissions, enabled, expires }) =>
    isTexts(permissions) && isBoolean(enabled) && (expires === undefined || isTime(expires)),
  namespaces: ({ wildcards }) => wildcards === undefined || areWildcards(wildcards),
  overrides: (body) => isOverride(body),
  grants: (body) => isGrant(body) && Object.entries(GRANT).every(([name, is]) => is(body[name])),
};

/** @throws KeystileError STORE_INVALID, or SyntaxError */
export function readEntityBody(table: Exclude<Table, "keys">, text: string): Record<string, unknown> {
  const body = JSON.parse(text) as Fields | null;
  if (typeof body !== "object" || body === null || BODY_CHECKS[table]?.(body) === false)
    throw invalid(`table ${table}`);
  if (table === "identities")
    for (const name of Object.keys(body))
      if (name !== "ratelimits" && !Object.hasOwn(IDENTITY, name)) throw unknownName("an identity", name);
  return body;
}

/** The name of a row of a table with names, although the column may be NULL. @throws KeystileError STORE_INVALID */
export function readName(table: string, name: string | null): string {
  if (name === null) throw invalid(`table ${table}`);
  return name;
}

/** Ids of permissions and of roles. @throws KeystileError STORE_INVALID, or SyntaxError */
export function readGrants(text: string): [permissions: string[], roles: string[]] {
  const lists: unknown = JSON.parse(text);
  if (!Array.isArray(lists) || lists.length !== 2 || !lists.every(isTexts)) throw invalid("a key");
  return lists as [string[], string[]];
}

/** Whether a value is what a field's shape says. Made once a shape, by {@link checkOf}. */
export type Check = (value: unknown) => boolean;

const isBoolean: Check = (value) => typeof value === "boolean";
const isText: Check = (value) => typeof value === "string";
const isInteger: Check = (value) => Number.isSafeInteger(value);
const isTime: Check = (value) => isInteger(value) && Math.abs(value as number) <= MAX_DATE_MS;
const isMeta: Check = (value) => isObject(value) && isFlat(value, META_LEVELS);

const CHECKS: Readonly<Record<Extract<Shape, string>, Check>> = {
  text: isText,
  name: (value) => typeof value === "string" && value.length <= MAX_NAME_UNITS,
  integer: isInteger,
  count: (value) => isInteger(value) && (value as number) >= 0,
  time: isTime,
  flag: isBoolean,
  meta: isMeta,
  refill: isRefill,
};

/**
 * Builds the check of a shape. It uses loops, since each find runs it: with `every` a rate limit took twice as long.
 */
export function checkOf(shape: Shape): Check {
  if (typeof shape === "string") return CHECKS[shape];
  if (isList(shape)) return checkOfList(checkOf(shape[0]));
  const names = Object.keys(shape);
  const checks = Object.values(shape).map(checkOf);
  return (value) => {
    if (!isObject(value)) return false;
    for (let i = 0; i < names.length; i++) if (!(checks[i] as Check)(value[names[i] as string])) return false;
    return true;
  };
}

function checkOfList(isItem: Check): Check {
  return (value) => {
    if (!Array.isArray(value)) return false;
    for (const item of value) if (!isItem(item)) return false;
    return true;
  };
}

/** What an identity may lack: without `hasCredits` its keys without a balance are unlimited. */
const IDENTITY: Readonly<Record<Exclude<keyof IdentityBody, "ratelimits">, Check>> = {
  meta: unlessAbsent(isMeta),
  enabled: unlessAbsent(isBoolean),
  expires: unlessAbsent(isTime),
  hasCredits: unlessAbsent(isBoolean),
  refill: unlessAbsent(isRefill),
  refillCursor: unlessAbsent(isInteger),
  refillCalendar: unlessAbsent(CHECKS.count),
  generation: unlessAbsent(CHECKS.count),
  hasGrants: unlessAbsent((value) => value === true),
};

/** What a grant may lack: without `expires` it never expires. */
const GRANT: Readonly<Record<string, Check>> = {
  expires: unlessAbsent(isTime),
  endedAt: unlessAbsent(isTime),
  refill: unlessAbsent(isRefill),
};

function unlessAbsent(is: Check): Check {
  return (value) => value === undefined || is(value);
}

const isList = (shape: Exclude<Shape, string>): shape is readonly [Shape] => Array.isArray(shape);
const isTexts = checkOf(["text"]);
const isLimits = checkOf(KEY_FIELDS.ratelimits.row);
const areWildcards = checkOf([{ id: "text", identifier: "text" }]);
const isGrant = checkOf({
  ...{
    grantId: "text",
    amount: "count",
    priority: "count",
    createdAt: "time",
    hasCredits: "flag",
    generation: "count",
  },
});
/** An override whose fields are not there would leave the limit of the request in its place. */
const isOverride = checkOf({ namespaceId: "text", identifier: "text", limit: "count", duration: "count" });

/** Whether nothing is nested deeper than `levels`: 9,000 levels parse, but then cannot be cloned or stringified. */
function isFlat(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((part) => isFlat(part, levels - 1));
}

/** The last `refillDay` of each interval that has one. */
const LAST_DAYS: Readonly<Record<string, number | undefined>> = { __proto__: null!, daily: 31, weekly: 7, monthly: 31 };

function isRefill(value: unknown): boolean {
  const { interval, amount, refillDay, timeZone, rollover } = (value ?? {}) as Fields;
  const isNatural = CHECKS.count;
  if (!isNatural(amount) || !(timeZone === undefined || isText(timeZone))) return false;
  if (rollover !== undefined && !isNatural(rollover)) return false;
  const last = LAST_DAYS[interval as string];
  if (last === undefined || refillDay === undefined) return interval === "hourly" || interval === "daily";
  return isInteger(refillDay) && (refillDay as number) >= 1 && (refillDay as number) <= last;
}

/** The error for a row that is not valid. */
export function invalid(what: string): KeystileError {
  return new KeystileError(
    "STORE_INVALID",
    `the store has a row of ${what} that cannot be read; restore it from a backup`,
  );
}

/** The error for a row with a property that only a later version knows. */
export function unknownName(what: string, name: string): KeystileError {
  return new KeystileError(
    "STORE_INVALID",
    `the store has a row of ${what} with ${JSON.stringify(name.slice(0, 64))}, which this version does not know; run the later one that wrote it`,
  );
}
