/** Validates configuration: mistakes are TypeErrors and RangeErrors that name the option. */
import { drop } from "./callbacks.js";
import { PLAIN_NAME } from "./problems.js";
import { MIN_TIME_MS } from "./seconds.js";

/** Validates one option; `path` is its name in the error message. */
export type Check = (value: unknown, path: string) => void;

/** The check of each option; an option that is absent is not checked, nor `undefined` unless {@link narrowing}. */
export type OptionChecks = Readonly<Record<string, Check>>;

/**
 * The check of an option that narrows what passes, such as `apiId`: where it is present and undefined, a program lost
 * its value, and everything would pass. That is a mistake, not an absence.
 */
export function narrowing(check: Check): Check & { readonly narrows: true } {
  const checked: Check = (value, path) => {
    if (value === undefined) throw new TypeError(`${path} is undefined: give it a value, or leave it out`);
    check(value, path);
  };
  return Object.assign(checked, { narrows: true } as const);
}

/** An integer from `min` to `max`. */
export const integer =
  (min: number, max: number): Check =>
  (value, path) => {
    if (!Number.isSafeInteger(value)) throw new TypeError(`${path} must be an integer`);
    if ((value as number) < min || (value as number) > max)
      throw new RangeError(`${path} must be from ${min} to ${max}`);
  };

/** A function. */
export const callable: Check = (value, path) => {
  if (typeof value !== "function") throw new TypeError(`${path} must be a function`);
};

/** A non-empty string. */
export const text: Check = (value, path) => {
  if (typeof value !== "string" || value === "") throw new TypeError(`${path} must be a string that is not empty`);
};

/** A boolean. */
export const flag: Check = (value, path) => {
  if (typeof value !== "boolean") throw new TypeError(`${path} must be true or false`);
};

/** The workspace when none is configured. */
export const DEFAULT_WORKSPACE = "ws_default";

/** 1 to 255 ASCII letters, digits, `_` and `-`: a workspace id, or the scheme of resource-name permissions. */
export const word: Check = (value, path) => {
  if (typeof value !== "string" || !/^[a-zA-Z0-9_-]{1,255}$/.test(value)) {
    throw new TypeError(`${path} must be 1 to 255 characters of a-z, A-Z, 0-9, _ and -`);
  }
};

/** The option `workspaceId`: it narrows everywhere. */
export const workspace = narrowing(word);

/** One of the given strings. */
export const oneOf =
  (...allowed: readonly string[]): Check =>
  (value, path) => {
    if (!allowed.includes(value as string)) throw new TypeError(`${path} must be one of: ${allowed.join(", ")}`);
  };

/** An object with these methods. */
export const methods =
  (...names: readonly string[]): Check =>
  (value, path) => {
    const object = value as Record<string, unknown> | null;
    if (typeof object !== "object" || object === null)
      throw new TypeError(`${path} must be an object with ${names.join(", ")}`);
    for (const name of names)
      if (typeof object[name] !== "function") throw new TypeError(`${path} lacks the method ${name}()`);
  };

/** An object of options. */
export const group =
  (checks: OptionChecks): Check =>
  (value, path) =>
    void checkOptions(value, checks, path);

/**
 * A plain object: no array, promise or class instance, in which a missing option would pass for one that was left out.
 */
export function isPlainObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && isPlain(value);
}

/** The error for a `context` argument that is not an object. */
export const contextError = (): TypeError => new TypeError("context must be an object, such as { caller }");

/**
 * A copy of an object's own properties, each read once, without a prototype: a polluted prototype adds nothing to it.
 */
export function ownOnly<T extends object>(value: T): T {
  return Object.assign({ __proto__: null }, value);
}

/** A property, if it is the object's own. */
export function ownProperty<T extends object, K extends keyof T>(value: T, name: K): T[K] | undefined {
  return Object.hasOwn(value, name) ? value[name] : undefined;
}

/**
 * Copies an object's own properties of these names. Those that it lacks are set to `undefined`, so that all copies have
 * the same shape, and none comes from a polluted prototype.
 * @returns `to`
 */
export function copyFields<To extends object, From extends object, K extends keyof From>(
  to: To,
  from: From,
  names: readonly K[],
): To & { readonly [N in Exclude<K, never>]: From[N] } {
  for (const name of names) (to as { [N in K]?: From[N] | undefined })[name] = ownProperty(from, name);
  return to as To & { readonly [N in Exclude<K, never>]: From[N] };
}

/** The error for a name that `known` lacks. It repeats plain names only: any other may be a value in a wrong place. */
export function unknownOption(path: string, name: string, known: object): TypeError {
  const what = PLAIN_NAME.test(name) ? `${path}.${name} is not an option` : `${path} has a property that is no option`;
  return new TypeError(`${what}; there are: ${Object.keys(known).join(", ")}`);
}

/**
 * Validates an options object.
 * @returns a copy of its own properties, as validated
 * @throws TypeError or RangeError that names the option: not a plain object, an unknown name, an invalid value,
 *   `undefined` where it is {@link narrowing}
 */
export function checkOptions<T>(options: T, checks: OptionChecks, path = "options"): T & object {
  if (!isPlainObject(options)) throw new TypeError(`${path} must be an object, not an array or a class instance`);
  const own = ownOnly(options);
  for (const [name, value] of Object.entries(own)) {
    const check = Object.hasOwn(checks, name) ? checks[name] : undefined;
    if (check === undefined) throw unknownOption(path, name, checks);
    if (value !== undefined || "narrows" in check) check(value, `${path}.${name}`);
  }
  return own;
}

/**
 * Whether an object is plain, in any realm: its prototype is absent or has none itself. Dates, maps and the like are
 * not, because a copy would lose their contents.
 */
export function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value) as object | null;
  if (prototype === null || prototype === Object.prototype) return true;
  // The `Object.prototype` of another realm. Without the second test, properties inherited from any object without a
  // prototype would be ignored silently.
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, "isPrototypeOf");
}

/** The last instant that a Date can represent, Unix time in milliseconds. */
export const MAX_DATE_MS = 8_640_000_000_000_000;

/** A clock in seconds may differ from the system's by a day. */
const SECONDS_WITHIN_MS = 86_400_000;

/**
 * Wraps a clock: whole milliseconds, validated. A clock that returns NaN must not make expired keys valid or count
 * refills since 1970, and one in nanoseconds must not store times that no Date can represent. By a clock in seconds it
 * is January 1970, and no key expires: it is recognised by the system's time, since a clock of a test may begin at 0.
 * @throws TypeError, when called, if the clock's value is not an instant that a Date can represent, or is the system's
 *   time in seconds
 */
export function guardClock(clock: () => number): () => number {
  return () => {
    const now = clock();
    if (!Number.isFinite(now) || Math.abs(now) > MAX_DATE_MS) {
      drop(now);
      throw new TypeError("options.clock must return Unix milliseconds");
    }
    if (now > 0 && now < MIN_TIME_MS && Math.abs(now * 1_000 - Date.now()) < SECONDS_WITHIN_MS)
      throw new TypeError("options.clock must return Unix milliseconds, not seconds");
    return Math.floor(now);
  };
}
