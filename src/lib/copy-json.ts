/** What a caller hands in: copied once, every property read once, and texts measured. Rulings G6, G7. Knows JSON, nothing of keys. */
import type { Json, JsonObject } from "../contracts/types.js";
import { isPlain } from "./check-options.js";

/** Levels of nesting in free-form data (ruling G7). */
const MAX_LEVELS = 32;
/** Size of free-form data as UTF-8 JSON, bytes (ruling G7). */
const MAX_BYTES = 65_536;
/** The one property of a request that holds free-form data. */
const FREE_FORM = "meta";
/** No typed part of a request is nested deeper, so anything deeper is wrong whatever it holds. */
const BODY_LEVELS = 6;
/** No list may be longer; one item more is copied, so that the schema sees it is. */
const MAX_ITEMS = 1_000;
/** Values copied of one request: objects that refer to one another would otherwise multiply. */
const MAX_VALUES = 20_000;

/**
 * Names longer or stranger than this are not repeated in a location: they might be a secret (ruling G4). New keys have 28 characters, and
 * imported ones may be shorter, but hardly without a digit; no name of ours has one.
 */
export const PLAIN_NAME = /^[A-Za-z_$]{1,24}$/;

/**
 * Whether a text has from `min` to `max` code points (ruling G6). There are at most as many as UTF-16 units and at least half as many: most
 * texts need no count.
 */
export function hasLength(text: string, min: number, max: number): boolean {
  if (text.length <= max && text.length >= min * 2) return true;
  if (text.length > max * 2) return false;
  let count = 0;
  for (const _ of text) count++;
  return count >= min && count <= max;
}

/** Stands where free-form data was refused; says why. */
export class Refusal {
  constructor(readonly message: string) {}
}

/** Returned up the recursion where free-form data is refused. */
const REFUSED = Symbol("refused");

/** Stands where a request went past its bounds: no schema accepts it. */
const UNREADABLE = Symbol("unreadable");

interface Walk {
  /** Bytes that the copy needs at least, as JSON. */
  least: number;
  /** Bytes that it needs at most. */
  most: number;
  refusal: string;
}

/**
 * Copies free-form JSON into fresh plain data. Own enumerable properties only, each read once; names such as `__proto__` stay
 * plain data; `undefined` properties are left out; −0 becomes 0.
 * @returns the copy, or a {@link Refusal}: deeper than 32 levels, over 64 KB as UTF-8 JSON, cyclic, text that is not well formed
 *   or holds U+0000, a number that is not finite, or anything that JSON cannot hold (functions, bigints, dates, maps)
 * @see rulings G6, G7 · about 60 ns a property
 */
export function copyPlain(value: unknown): Json | Refusal {
  const walk: Walk = { least: 0, most: 0, refusal: "" };
  const copy = copyValue(value, 1, walk);
  if (copy === REFUSED) return new Refusal(walk.refusal);
  // Measured only when the cheap upper bound does not settle it.
  if (walk.most > MAX_BYTES && new TextEncoder().encode(JSON.stringify(copy)).length > MAX_BYTES)
    return new Refusal(TOO_LARGE);
  return copy;
}

/**
 * Copies a request body one typed part after another, so that the value judged is the value used. Free-form data (`meta` of the
 * body itself) goes through {@link copyPlain}. What no schema accepts (functions, bigints, values nested too deep) stays unacceptable.
 * @see ruling G7
 */
export function copyBody(body: unknown): unknown {
  const walk = { values: 0 };
  if (typeof body !== "object" || body === null || Array.isArray(body)) return copyPart(body, 1, walk);
  const copy = bare();
  for (const name of Object.keys(body)) {
    const value = (body as Record<string, unknown>)[name];
    if (value === undefined) continue;
    if (name === FREE_FORM) setProperty(copy, name, value === null ? null : copyPlain(value));
    else setProperty(copy, name, copyPart(value, 2, walk));
  }
  return copy;
}

/** The own enumerable properties of an object in a fresh one, each read once, `undefined` left out; `undefined` for anything else. */
export function readOwnProperties(value: unknown): Record<string, unknown> | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const copy = bare();
  for (const name of Object.keys(value)) {
    const part = (value as Record<string, unknown>)[name];
    if (part !== undefined) setProperty(copy, name, part);
  }
  return copy;
}

/** The copy of a typed part inherits nothing: what a polluted prototype holds is no property of a request. */
function bare(): Record<string, unknown> {
  return { __proto__: null };
}

function copyPart(value: unknown, level: number, walk: { values: number }): unknown {
  if (typeof value === "number") return value + 0;
  if (typeof value !== "object" || value === null) return value;
  if (level > BODY_LEVELS) return UNREADABLE;
  if (Array.isArray(value)) {
    const items: unknown[] = [];
    const length = Math.min(value.length, MAX_ITEMS + 1);
    for (let i = 0; i < length; i++) {
      if (++walk.values > MAX_VALUES) return UNREADABLE;
      items.push(copyPart(value[i], level + 1, walk));
    }
    return items;
  }
  const copy = bare();
  for (const name of Object.keys(value)) {
    if (++walk.values > MAX_VALUES) return UNREADABLE;
    const part = (value as Record<string, unknown>)[name];
    if (part !== undefined) setProperty(copy, name, copyPart(part, level + 1, walk));
  }
  return copy;
}

const TOO_LARGE = "must be at most 64 KB as JSON";
const TOO_DEEP = "must be at most 32 levels deep and not refer to itself";
const NOT_TEXT = "must hold only well-formed text without U+0000";
const NOT_JSON = "must hold only what JSON can: text, finite numbers, true, false, null, arrays and plain objects";

/** {@link REFUSED}: `walk.refusal` says why. */
function copyValue(value: unknown, level: number, walk: Walk): Json | typeof REFUSED {
  switch (typeof value) {
    case "string":
      return takesText(value, walk) ? value : REFUSED;
    case "number":
      if (!Number.isFinite(value)) return refuse(walk, NOT_JSON);
      return takes(walk, 1, 26) ? value + 0 : REFUSED;
    case "boolean":
      return takes(walk, 4, 6) ? value : REFUSED;
    case "object":
      if (value === null) return takes(walk, 4, 5) ? null : REFUSED;
      if (level > MAX_LEVELS) return refuse(walk, TOO_DEEP);
      if (!takes(walk, 2, 3)) return REFUSED;
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
  for (const name of Object.keys(value)) {
    const part = (value as Record<string, unknown>)[name];
    if (part === undefined) continue;
    if (!takesText(name, walk)) return REFUSED;
    const item = copyValue(part, level + 1, walk);
    if (item === REFUSED) return REFUSED;
    setProperty(copy, name, item);
  }
  return copy;
}

/** Assigning to `__proto__` would call a setter; everything else is assigned, which is several times faster. */
function setProperty<T>(target: Record<string, T>, name: string, value: T): void {
  if (name === "__proto__")
    Object.defineProperty(target, name, { value, enumerable: true, writable: true, configurable: true });
  else target[name] = value;
}

/** A unit takes up to six bytes, as in `\u0000`. */
function takesText(text: string, walk: Walk): boolean {
  if (!takes(walk, text.length + 2, text.length * 6 + 4)) return false;
  if (text.isWellFormed() && !text.includes("\0")) return true;
  refuse(walk, NOT_TEXT);
  return false;
}

function takes(walk: Walk, least: number, most: number): boolean {
  walk.least += least;
  walk.most += most;
  if (walk.least <= MAX_BYTES) return true;
  refuse(walk, TOO_LARGE);
  return false;
}

function refuse(walk: Walk, why: string): typeof REFUSED {
  walk.refusal = why;
  return REFUSED;
}
