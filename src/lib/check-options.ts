/** Judges what a program configures: mistakes are TypeErrors and RangeErrors that name the option. Knows nothing of requests. */
import type { Store } from "../contracts/store.js";

/** Judges one option's value; `path` is its name in the words of the error. */
export type Check = (value: unknown, path: string) => void;

/** What each option must be; an option that is absent or `undefined` is not judged. */
export type OptionChecks = Readonly<Record<string, Check>>;

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

/** A text that is not empty. */
export const text: Check = (value, path) => {
  if (typeof value !== "string" || value === "") throw new TypeError(`${path} must be a string that is not empty`);
};

/** True or false. */
export const flag: Check = (value, path) => {
  if (typeof value !== "boolean") throw new TypeError(`${path} must be true or false`);
};

/** The workspace of a program that names none. */
export const DEFAULT_WORKSPACE = "ws_default";

/** A text of ASCII letters, digits, `_` and `-`: the id of a workspace, or the scheme word of permissions (ruling B7). */
export const word: Check = (value, path) => {
  if (typeof value !== "string" || !/^[a-zA-Z0-9_-]{1,255}$/.test(value)) {
    throw new TypeError(`${path} must be 1 to 255 characters of a-z, A-Z, 0-9, _ and -`);
  }
};

/** One of a few texts. */
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

/** An object that is no list, promise or instance of a class: in those, missing options would pass for ones left out. */
export function isPlainObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && isPlain(value);
}

/** What comes with a call besides its body is none: the programmer's mistake. */
export const contextError = (): TypeError => new TypeError("context must be an object, such as { caller }");

/** The own properties of an object, each read once, in one that inherits nothing: what a polluted prototype holds is not among them. */
export function ownOnly<T extends object>(value: T): T {
  return Object.assign({ __proto__: null }, value);
}

/** One property, if it is the object's own. */
export function ownProperty<T extends object, K extends keyof T>(value: T, name: K): T[K] | undefined {
  return Object.hasOwn(value, name) ? value[name] : undefined;
}

/**
 * Judges an options object.
 * @returns its own properties, as judged
 * @throws TypeError or RangeError that names the option: not an object, a name that does not exist, a value that does not fit
 */
export function checkOptions<T>(options: T, checks: OptionChecks, path = "options"): T & object {
  if (!isPlainObject(options)) throw new TypeError(`${path} must be an object, and a plain one`);
  const own = ownOnly(options);
  for (const [name, value] of Object.entries(own)) {
    const check = Object.hasOwn(checks, name) ? checks[name] : undefined;
    if (check === undefined)
      throw new TypeError(`${path}.${name} is not an option; there are: ${Object.keys(checks).join(", ")}`);
    if (value !== undefined) check(value, `${path}.${name}`);
  }
  return own;
}

/** Plain in any realm: no prototype, or one that has none itself. Dates, maps and the like would lose what they hold. */
export function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value) as object | null;
  if (prototype === null || prototype === Object.prototype) return true;
  // Another realm's; what a program put into an object without a prototype, to be inherited, would be passed over.
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, "isPrototypeOf");
}

/** The last millisecond of a Date, Unix time. */
export const MAX_DATE_MS = 8_640_000_000_000_000;

/**
 * A clock in whole milliseconds. One that answers nonsense must not make expired keys valid, nor count refills from 1970 on; one that
 * counts nanoseconds must not write times that no Date has.
 * @throws TypeError, when asked, for an answer that is no moment of a Date
 */
export function guardClock(clock: () => number): () => number {
  return () => {
    const now = clock();
    if (!Number.isFinite(now) || Math.abs(now) > MAX_DATE_MS)
      throw new TypeError("options.clock must return Unix milliseconds");
    return Math.floor(now);
  };
}

const STORE_METHODS = Object.keys({
  findKey: true,
  findForeignKey: true,
  findRootKey: true,
  adoptDigest: true,
  spendCredits: true,
  drawCredits: true,
  returnCredits: true,
  readBalance: true,
  read: true,
  readNames: true,
  list: true,
  insertKeys: true,
  write: true,
  subscribe: true,
  pollChanges: true,
  close: true,
} satisfies Record<keyof Store, true>);

/** @throws TypeError when a value cannot be a store, naming the method that it lacks */
export const checkStore = (store: unknown): void => methods(...STORE_METHODS)(store, "store");
