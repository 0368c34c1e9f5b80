/** Copies of callers' data, with every property read once, and checks of text length. */
import type { Json, JsonObject } from "../contracts/types.js";
import { isPlain } from "./check-options.js";

/** Levels of nesting in free-form data. */
const MAX_LEVELS = 32;
/** Size of free-form data as UTF-8 JSON, bytes. */
const MAX_BYTES = 65_536;
/** The only request property with free-form data. */
const FREE_FORM = "meta";
/** The typed parts of a request are not nested deeper, so anything deeper is invalid. */
const BODY_LEVELS = 6;
/** No list may be longer. One more item is copied, so that the schema can detect it. */
const MAX_ITEMS = 1_000;
/** No object of a request but `meta` has more properties. One more is copied, so that the schema finds too many. */
const MAX_PROPERTIES = 100;
/** Most values copied per request: objects that share references would otherwise multiply. */
const MAX_VALUES = 20_000;

/**
 * As a method of `Object.prototype`: inside `for … in` the compiler drops this check, and `Object.hasOwn` takes 10 ns.
 */
export const { hasOwnProperty } = Object.prototype;

/** Whether a value is an object, and not an array. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Most code points of a key's text (contract 8). */
export const MAX_KEY_LENGTH = 512;

/**
 * Whether a text has from `min` to `max` code points. It has at most as many as UTF-16 units and at least half as many,
 * so most texts need no counting.
 */
export function hasLength(text: string, min: number, max: number): boolean {
  if (text.length <= max && text.length >= min * 2) return true;
  if (text.length > max * 2) return false;
  let count = 0;
  for (const _ of text) count++;
  return count >= min && count <= max;
}

/**
 * The fields of requests that narrow: what a new key may do, how often a grant is given, or what is listed. They are
 * kept in a copy where they are undefined, and then fit no schema, since the program lost a value. Any other undefined
 * field counts as absent.
 */
export const NARROWING_FIELDS: ReadonlySet<string> = new Set([
  ...["apiId", "externalId", "id", "actor", "actorSearch", "operation", "search", "from", "to", "state"],
  ...["expiresBefore", "expiresFrom", "creditsBelow", "keyIds", "dryRun"],
  ...["permissions", "roles", "ipAllowlist", "enabled", "expires", "expiresIn"],
  ...["credits", "remaining", "rollover", "value", "ratelimits", "autoApply", "grantId"],
]);

const isAbsent = (name: string, value: unknown): boolean => value === undefined && !NARROWING_FIELDS.has(name);

/** Replaces free-form data that was rejected; `message` says why. */
export class Refusal {
  constructor(readonly message: string) {}
}

/** Returned through the recursion when free-form data is rejected. */
const REFUSED = Symbol("refused");

/** Replaces a part of a request that exceeds the bounds above: no schema accepts it. */
const EXCESSIVE = Symbol("excessive");

interface Walk {
  /** Lower bound of the copy's size as JSON, bytes. */
  min: number;
  /** Upper bound, bytes. */
  max: number;
  /** Properties without a value, which add nothing to the size. */
  absent: number;
  refusal: string;
}

/**
 * Copies free-form JSON into new plain data. Only own enumerable properties, each read once; names such as `__proto__`
 * stay plain data; `undefined` properties are omitted; −0 becomes 0.
 * @returns the copy, or a {@link Refusal}: deeper than 32 levels, over 64 KB as UTF-8 JSON, cyclic, text that is not
 *   well formed or contains U+0000, a number that is not finite, or anything that JSON cannot represent (functions,
 *   bigints, dates, maps)
 * @remarks about 60 ns per property
 */
export function copyPlain(value: unknown): Json | Refusal {
  const walk: Walk = { min: 0, max: 0, absent: 0, refusal: "" };
  const copy = copyValue(value, 1, walk);
  if (copy === REFUSED) return new Refusal(walk.refusal);
  // Measured only if the cheap upper bound is exceeded.
  if (walk.max > MAX_BYTES && new TextEncoder().encode(JSON.stringify(copy)).length > MAX_BYTES)
    return new Refusal(TOO_LARGE);
  return copy;
}

/**
 * Copies the typed parts of a request body, so that the validated value is the value used. Free-form data (a top-level
 * `meta`) goes through {@link copyPlain}. An undefined property is left out, unless it narrows. What no schema accepts
 * (functions, bigints, values nested too deep) stays invalid.
 */
export function copyBody(body: unknown): unknown {
  const walk = { values: 0 };
  if (!isObject(body)) return copyPart(body, 1, walk);
  const copy = bare();
  for (const name of namesOf(body)) {
    const value = body[name];
    if (isAbsent(name, value)) continue;
    if (name === FREE_FORM) setProperty(copy, name, value === null ? null : copyPlain(value));
    else setProperty(copy, name, copyPart(value, 2, walk));
  }
  return copy;
}

/**
 * A copy of an object's own enumerable properties, each read once, without `undefined`; `undefined` for anything else.
 */
export function readOwnProperties(value: unknown): Record<string, unknown> | undefined {
  if (!isObject(value)) return undefined;
  const copy = bare();
  for (const name of namesOf(value)) {
    const part = value[name];
    if (part !== undefined) setProperty(copy, name, part);
  }
  return copy;
}

/**
 * Names of an object's own properties, up to one more than any schema has: more are too many anyway, and each costs
 * microseconds. `for … in` asks a Proxy for its names once and for each descriptor as it gets there; `Object.keys` asks
 * for all of them.
 */
function namesOf(value: object): readonly string[] {
  const names: string[] = [];
  for (const name in value) {
    if (!hasOwnProperty.call(value, name)) continue;
    names.push(name);
    if (names.length > MAX_PROPERTIES) break;
  }
  return names;
}

/** An object without a prototype, so that a polluted prototype adds no properties to a request. */
function bare(): Record<string, unknown> {
  return { __proto__: null };
}

function copyPart(value: unknown, level: number, walk: { values: number }): unknown {
  if (typeof value === "number") return value + 0;
  if (typeof value !== "object" || value === null) return value;
  if (level > BODY_LEVELS) return EXCESSIVE;
  if (Array.isArray(value)) {
    const items: unknown[] = [];
    const length = Math.min(value.length, MAX_ITEMS + 1);
    for (let i = 0; i < length; i++) {
      if (++walk.values > MAX_VALUES) return EXCESSIVE;
      items.push(copyPart(value[i], level + 1, walk));
    }
    return items;
  }
  const copy = bare();
  for (const name of namesOf(value)) {
    if (++walk.values > MAX_VALUES) return EXCESSIVE;
    const part = (value as Record<string, unknown>)[name];
    if (!isAbsent(name, part)) setProperty(copy, name, copyPart(part, level + 1, walk));
  }
  return copy;
}

const TOO_LARGE = "must be at most 64 KB as JSON";
const TOO_DEEP = "must be at most 32 levels deep and not refer to itself";
const NOT_TEXT = "must hold only well-formed text without U+0000";
const NOT_JSON = "must hold only what JSON can: text, finite numbers, true, false, null, arrays and plain objects";

/** {@link REFUSED}: `walk.refusal` holds the reason. */
function copyValue(value: unknown, level: number, walk: Walk): Json | typeof REFUSED {
  switch (typeof value) {
    case "string":
      return fitsText(value, walk) ? value : REFUSED;
    case "number":
      if (!Number.isFinite(value)) return refuse(walk, NOT_JSON);
      return fits(walk, 1, 26) ? value + 0 : REFUSED;
    case "boolean":
      return fits(walk, 4, 6) ? value : REFUSED;
    case "object":
      if (value === null) return fits(walk, 4, 5) ? null : REFUSED;
      if (level > MAX_LEVELS) return refuse(walk, TOO_DEEP);
      if (!fits(walk, 2, 3)) return REFUSED;
      return Array.isArray(value) ? copyArray(value, level, walk) : copyObject(value, level, walk);
    case "undefined":
    case "function":
    case "bigint":
    case "symbol":
      return refuse(walk, NOT_JSON);
  }
}

function copyArray(value: readonly unknown[], level: number, walk: Walk): Json[] | typeof REFUSED {
  const copy: Json[] = [];
  const { length } = value;
  for (let i = 0; i < length; i++) {
    const item = copyValue(value[i], level + 1, walk);
    if (item === REFUSED) return REFUSED;
    copy.push(item);
  }
  return copy;
}

function copyObject(value: object, level: number, walk: Walk): JsonObject | typeof REFUSED {
  if (!isPlain(value)) return refuse(walk, NOT_JSON);
  const copy: JsonObject = {};
  for (const name in value) {
    if (!hasOwnProperty.call(value, name)) continue;
    const part = (value as Record<string, unknown>)[name];
    if (part === undefined) {
      if (++walk.absent > MAX_BYTES) return refuse(walk, TOO_LARGE);
      continue;
    }
    if (!fitsText(name, walk)) return REFUSED;
    const item = copyValue(part, level + 1, walk);
    if (item === REFUSED) return REFUSED;
    setProperty(copy, name, item);
  }
  return copy;
}

/** Assigning to `__proto__` would call a setter. Everything else is assigned, which is several times faster. */
function setProperty<T>(target: Record<string, T>, name: string, value: T): void {
  if (name === "__proto__")
    Object.defineProperty(target, name, { value, enumerable: true, writable: true, configurable: true });
  else target[name] = value;
}

/** A UTF-16 unit takes up to six bytes, as in `\u0000`. */
function fitsText(text: string, walk: Walk): boolean {
  if (!fits(walk, text.length + 2, text.length * 6 + 4)) return false;
  if (text.isWellFormed() && !text.includes("\0")) return true;
  refuse(walk, NOT_TEXT);
  return false;
}

function fits(walk: Walk, min: number, max: number): boolean {
  walk.min += min;
  walk.max += max;
  if (walk.min <= MAX_BYTES) return true;
  refuse(walk, TOO_LARGE);
  return false;
}

function refuse(walk: Walk, why: string): typeof REFUSED {
  walk.refusal = why;
  return REFUSED;
}
