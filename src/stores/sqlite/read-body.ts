/**
 * The JSON of rows, read and judged as far as it decides who is let in. README "Promises" (Failure), A035. Knows no SQL.
 *
 * Why judged: usual values are left out of the text, so `{}`, written by another tool, would read as a key that is enabled, unlimited
 * and never expires. It takes 40 to 50 ns, beside the 850 of JSON.parse.
 */
import { VerifierError } from "../../errors.js";
import { LAST_MOMENT, ownProperty } from "../../options.js";
import type { IdentityRow, KeyRow } from "../../store.js";
import type { RatelimitResponse } from "../../types.js";

/** What has no column of its own. What is usual is left out, so that a find has less to parse. */
export interface KeyBody {
  start: string;
  createdAt: number;
  name?: string;
  meta?: KeyRow["meta"];
  expires?: number;
  disabled?: true;
  ratelimits?: KeyRow["ratelimits"];
  ipAllowlist?: readonly string[];
  limited?: true;
  refill?: KeyRow["refill"];
  countedTo?: number;
  generation?: number;
  deleted?: true;
  updatedAt?: number;
  migrationId?: string;
  hash?: string;
}

type Fields = Record<string, unknown>;

/** Levels of `meta`, and UTF-16 units of a limit's name: more than any request can give them. */
const META_LEVELS = 32;
const MOST_UNITS = 512;

/** @throws VerifierError STORE_INVALID, or SyntaxError */
export function readKeyBody(text: string): KeyBody {
  const parsed = JSON.parse(text) as Partial<Record<keyof KeyBody, unknown>> | null;
  if (typeof parsed !== "object" || parsed === null) throw invalid("a key");
  const body = withoutInherited(parsed);
  if (!isKeyBody(body)) throw invalid("a key");
  return body as unknown as KeyBody;
}

/** What a text leaves out must not come from a polluted prototype. Written out: a copy by `assign` takes twice the parsing. */
function withoutInherited(body: Partial<Record<keyof KeyBody, unknown>>): Partial<Record<keyof KeyBody, unknown>> {
  return {
    start: ownProperty(body, "start"),
    createdAt: ownProperty(body, "createdAt"),
    name: ownProperty(body, "name"),
    meta: ownProperty(body, "meta"),
    expires: ownProperty(body, "expires"),
    disabled: ownProperty(body, "disabled"),
    ratelimits: ownProperty(body, "ratelimits"),
    ipAllowlist: ownProperty(body, "ipAllowlist"),
    limited: ownProperty(body, "limited"),
    refill: ownProperty(body, "refill"),
    countedTo: ownProperty(body, "countedTo"),
    generation: ownProperty(body, "generation"),
    deleted: ownProperty(body, "deleted"),
    updatedAt: ownProperty(body, "updatedAt"),
    migrationId: ownProperty(body, "migrationId"),
    hash: ownProperty(body, "hash"),
  } satisfies Record<keyof KeyBody, unknown>;
}

/** @throws VerifierError STORE_INVALID, or SyntaxError */
export function readIdentityBody(text: string): Pick<IdentityRow, "meta" | "ratelimits"> {
  return readSmallBody("identities", text) as unknown as Pick<IdentityRow, "meta" | "ratelimits">;
}

/** By table: what must hold of a body. Nothing depends on the tables left out. */
const JUDGES: Readonly<Record<string, (body: Fields) => boolean>> = {
  workspaces: ({ enabled }) => isBoolean(enabled),
  apis: ({ enabled, deleted, ipAllowlist }) => isBoolean(enabled) && isBoolean(deleted) && isTexts(ipAllowlist),
  identities: ({ ratelimits, meta }) => isLimits(ratelimits) && isMeta(meta),
  roles: ({ permissions }) => isTexts(permissions),
  rootKeys: ({ permissions, enabled, expires }) => isTexts(permissions) && isBoolean(enabled) && isTime(expires),
};

/** @throws VerifierError STORE_INVALID, or SyntaxError */
export function readSmallBody(table: string, text: string): Record<string, unknown> {
  const body = JSON.parse(text) as Fields | null;
  if (typeof body !== "object" || body === null || JUDGES[table]?.(body) === false) throw invalid(`table ${table}`);
  return body;
}

/** The name of a row that has one, in a column that may be NULL. @throws VerifierError STORE_INVALID */
export function readName(table: string, name: string | null): string {
  if (name === null) throw invalid(`table ${table}`);
  return name;
}

/** Ids of permissions and of roles. @throws VerifierError STORE_INVALID, or SyntaxError */
export function readGrants(text: string): [permissions: string[], roles: string[]] {
  const lists: unknown = JSON.parse(text);
  if (!Array.isArray(lists) || lists.length !== 2 || !lists.every(isTexts)) throw invalid("a key");
  return lists as [string[], string[]];
}

function isKeyBody(body: Partial<Record<keyof KeyBody, unknown>> | null): boolean {
  if (typeof body?.start !== "string" || !Number.isSafeInteger(body.createdAt)) return false;
  const { name, meta, expires, disabled, ratelimits, ipAllowlist, limited, refill, countedTo, generation, deleted } = body;
  if (!isMark(disabled) || !isMark(limited) || !isMark(deleted) || !isTime(expires)) return false;
  if (!isInteger(countedTo) || !isInteger(generation)) return false;
  if (ratelimits !== undefined && !isLimits(ratelimits)) return false;
  if (ipAllowlist !== undefined && !isTexts(ipAllowlist)) return false;
  return (name === undefined || isText(name)) && isMeta(meta) && (refill === undefined || isRefill(refill));
}

const isBoolean = (value: unknown): boolean => typeof value === "boolean";
const isText = (value: unknown): boolean => typeof value === "string";
/** A limit's name, which names its bucket. */
const isName = (value: unknown): boolean => typeof value === "string" && value.length <= MOST_UNITS;
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText);
const isMark = (value: unknown): boolean => value === undefined || value === true;
const isInteger = (value: unknown): boolean => value === undefined || Number.isSafeInteger(value);
const isTime = (value: unknown): boolean => value === undefined || (isInteger(value) && Math.abs(value as number) <= LAST_MOMENT);
const isMeta = (value: unknown): boolean => value === undefined || (isObject(value) && isFlat(value, META_LEVELS));
const isObject = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);

/** Whether nothing lies deeper than so many levels: what lies 9,000 deep parses, and cannot be copied (trap 6). */
function isFlat(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((part) => isFlat(part, levels - 1));
}

function isLimits(list: unknown): boolean {
  return Array.isArray(list) && list.every(isLimit);
}

function isLimit(value: unknown): boolean {
  const { id, name, limit, duration, autoApply } = (value ?? {}) as Partial<Record<keyof RatelimitResponse, unknown>>;
  if (!isText(id) || !isName(name) || typeof autoApply !== "boolean") return false;
  return Number.isSafeInteger(limit) && Number.isSafeInteger(duration) && (limit as number) >= 0 && (duration as number) >= 0;
}

function isRefill(value: unknown): boolean {
  const { interval, amount, refillDay } = (value ?? {}) as Record<string, unknown>;
  if ((interval !== "daily" && interval !== "monthly") || !Number.isSafeInteger(amount) || (amount as number) < 0) return false;
  if (refillDay === undefined) return interval === "daily";
  return Number.isSafeInteger(refillDay) && (refillDay as number) >= 1 && (refillDay as number) <= 31;
}

function invalid(what: string): VerifierError {
  return new VerifierError("STORE_INVALID", `the file has a row of ${what} that cannot be read; restore it from a backup`);
}
