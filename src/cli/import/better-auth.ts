/** Rows of the table `apikey` of better-auth's plugin `@better-auth/api-key`, 1.7, as keys of an import. */
import { isObject } from "../../lib/copy-json.js";
import { tryJson } from "../io/input.js";
import {
  booleanOf,
  bound,
  type ForeignRow,
  integerOf,
  isFalse,
  MAX_START,
  type Remarks,
  setAside,
  timeOf,
} from "./values.js";

/** Columns that have no place here, and why. */
const LEFT: Readonly<Record<string, string>> = {
  id: "keys get new ids",
  configId: "all keys are of one configuration",
  requestCount: "limits begin unused",
  lastRequest: "uses are told from now on",
  lastRefillAt: "refills count from now on",
  updatedAt: "the time of the import",
};
/** Columns that are read. The plugin lets a program name others in their place. */
const READ: ReadonlySet<string> = new Set([
  ...["key", "name", "referenceId", "userId", "start", "prefix", "createdAt", "expiresAt", "enabled"],
  ...["rateLimitEnabled", "rateLimitMax", "rateLimitTimeWindow", "remaining", "refillAmount", "refillInterval"],
  ...["permissions", "metadata"],
]);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** What a permission may be here: a `*` would be granted as a wildcard, which it is not there. */
const GRANTABLE = /^[a-zA-Z0-9_:\-./]{1,128}$/;

/**
 * A key of an import. The hash is SHA-256 of the whole key, base64url.
 * @param row columns in camel case, without those that are NULL
 * @param now a refill that is due by then is counted
 */
export function ofBetterAuth(row: ForeignRow, remarks: Remarks, now: number): object {
  setAside(Object.fromEntries(Object.entries(row).filter(([name]) => !READ.has(name))), LEFT, remarks);
  const { lose } = remarks;
  const createdAt = timeOf(row["createdAt"]);
  if (createdAt === undefined) lose("createdAt", "no time; the time of the import");
  return {
    hash: row["key"],
    name: row["name"],
    // Named so before the plugin had a package of its own.
    externalId: row["referenceId"] ?? row["userId"],
    start: typeof row["start"] === "string" ? row["start"].slice(0, MAX_START) : undefined,
    prefix: prefixOf(row, lose),
    createdAt,
    expires: bound(timeOf, row["expiresAt"]),
    enabled: bound(booleanOf, row["enabled"]),
    ratelimits: limitsOf(row),
    credits: creditsOf(row, createdAt, lose, now),
    permissions: permissionsOf(row["permissions"], lose),
    meta: metaOf(row["metadata"], lose),
  };
}

function prefixOf({ prefix }: ForeignRow, lose: Remarks["lose"]): string | undefined {
  if (typeof prefix !== "string") return undefined;
  const [, name] = /^([a-zA-Z0-9_]{1,16})_$/.exec(prefix) ?? [];
  if (name === undefined) lose("prefix", "does not end with _, or has other characters; rotated keys go without");
  return name;
}

/** A limit that fits no bucket here is refused with its key. */
function limitsOf(row: ForeignRow): object[] | undefined {
  const [limit, duration] = [bound(integerOf, row["rateLimitMax"]), bound(integerOf, row["rateLimitTimeWindow"])];
  if (isFalse(row["rateLimitEnabled"]) || limit === undefined || duration === undefined) return undefined;
  return [{ name: "requests", limit, duration, autoApply: true }];
}

function creditsOf(
  row: ForeignRow,
  createdAt: number | undefined,
  lose: Remarks["lose"],
  now: number,
): object | undefined {
  const [remaining, amount] = [bound(integerOf, row["remaining"]), bound(integerOf, row["refillAmount"])];
  const interval = bound(integerOf, row["refillInterval"]);
  if (remaining === undefined) {
    if (amount !== undefined) lose("refillAmount", "without `remaining` the key is unlimited");
    return undefined;
  }
  if (!amount || !interval) return { remaining };
  // A text such as `daily` must not pass for an interval of ours: none is refused.
  if (typeof interval !== "number") return { remaining, refill: { interval: null, amount } };
  const last = timeOf(row["lastRefillAt"]) ?? createdAt ?? now;
  const balance = now - last > interval ? amount : remaining;
  const refill = refillOf(interval, amount, last);
  if (refill === undefined) lose("refillInterval", "no hour, day, week or month; the balance goes without");
  return { remaining: balance, refill };
}

/** A refill there sets the balance: none of it stays. */
function refillOf(interval: number, amount: number, last: number): object | undefined {
  const refill = { amount, rollover: 0 };
  const day = new Date(last);
  if (interval === HOUR) return { interval: "hourly", ...refill };
  if (interval === DAY) return { interval: "daily", ...refill };
  if (interval === 7 * DAY) return { interval: "weekly", ...refill, refillDay: day.getUTCDay() || 7 };
  if (interval < 28 * DAY || interval > 31 * DAY) return undefined;
  return { interval: "monthly", ...refill, refillDay: day.getUTCDate() };
}

/** `{"documents":["read"]}` as `documents.read`. */
function permissionsOf(given: unknown, lose: Remarks["lose"]): string[] | undefined {
  const byResource = jsonOf(given);
  if (byResource === undefined) return undefined;
  if (!isObject(byResource)) {
    lose("permissions", "not an object of lists");
    return undefined;
  }
  const named = Object.entries(byResource).flatMap(([resource, actions]) =>
    Array.isArray(actions) ? actions.map((action) => `${resource}.${String(action)}`) : [],
  );
  const granted = named.filter((name) => GRANTABLE.test(name));
  if (granted.length < named.length)
    lose("permissions", "one has a *, a wildcard here, or other characters; not granted");
  return granted.length === 0 ? undefined : [...new Set(granted)];
}

function metaOf(given: unknown, lose: Remarks["lose"]): object | undefined {
  const meta = jsonOf(given);
  if (meta === undefined || isObject(meta)) return meta;
  lose("metadata", "not an object");
  return undefined;
}

/** Earlier versions wrote some as JSON of JSON. `null` is nothing. */
function jsonOf(given: unknown): unknown {
  let value = given;
  for (let depth = 0; depth < 2 && typeof value === "string"; depth++) value = tryJson(value).value ?? value;
  return value === null || value === "null" ? undefined : value;
}
