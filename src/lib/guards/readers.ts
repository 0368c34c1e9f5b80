/**
 * Readers of data that the program's own code returns. Each validates and copies a value, so that the validated value
 * is the value used. Only own properties, each read once. No error contains a value.
 */
import type { JsonObject } from "../../contracts/types.js";
import { copyPlain, isObject, Refusal } from "../copy-json.js";

/** @throws Malformed if the value is not a `T` */
export type Reader<T> = (value: unknown) => T;

/** A reader for each property, including optional ones: the compiler rejects a table that lacks one. */
export type Fields<T> = { readonly [K in keyof Required<T>]: Reader<T[K]> };

/** Largest text, in UTF-16 units, and longest list: several times what the longest legal row holds. */
const MAX_TEXT = 8_192;
const MAX_ITEMS = 200_000;

/** The place in a result that is invalid, and the rule that it violates. */
export class Malformed extends Error {
  constructor(
    readonly rule: string,
    readonly path = "",
    options?: ErrorOptions,
  ) {
    super(path === "" ? rule : `${path} ${rule}`, options);
  }
}

/** A string of `min` to 8,192 UTF-16 units. */
export const text =
  (min: number): Reader<string> =>
  (value) => {
    if (typeof value !== "string" || value.length < min || value.length > MAX_TEXT) {
      throw new Malformed(`must be a string of ${min} to ${MAX_TEXT} characters`);
    }
    return value;
  };

/** A boolean. */
export const flag: Reader<boolean> = (value) => {
  if (typeof value !== "boolean") throw new Malformed("must be true or false");
  return value;
};

/** An integer from `min` to `max`. */
export const integer =
  (min: number, max = Number.MAX_SAFE_INTEGER): Reader<number> =>
  (value) => {
    if (!Number.isSafeInteger(value) || (value as number) < min || (value as number) > max) {
      throw new Malformed(`must be an integer from ${min} to ${max}`);
    }
    // Turns −0 into 0: responses would show it.
    return (value as number) + 0;
  };

/** One of the given strings. */
export const oneOf =
  <const T extends string>(...allowed: readonly T[]): Reader<T> =>
  (value) => {
    if (!allowed.includes(value as T)) throw new Malformed(`must be one of: ${allowed.join(", ")}`);
    return value as T;
  };

/** What `read` accepts, or null. */
export const orNull =
  <T>(read: Reader<T>): Reader<T | null> =>
  (value) =>
    value === null ? null : read(value);

/** What `read` accepts, or nothing. */
export const optional =
  <T>(read: Reader<T>): Reader<T | undefined> =>
  (value) =>
    value === undefined ? undefined : read(value);

/** A list of at most `max` items. */
export const list =
  <T>(read: Reader<T>, max = MAX_ITEMS): Reader<T[]> =>
  (value) => {
    if (!Array.isArray(value)) throw new Malformed("must be an array");
    const { length } = value;
    if (!Number.isSafeInteger(length) || length > max) throw new Malformed(`must have at most ${max} items`);
    const copy: T[] = [];
    for (let i = 0; i < length; i++) {
      try {
        copy.push(read(readOwn(value, i)));
      } catch (cause) {
        throw within(`[${i}]`, cause);
      }
    }
    return copy;
  };

/** An object with these properties; others are omitted from the copy. */
export const object = <T extends object>(fields: Fields<T>): Reader<T> => {
  const entries = Object.entries(fields) as [name: string, read: Reader<unknown>][];
  return (value) => {
    if (typeof value !== "object" || value === null) throw new Malformed("must be an object");
    const copy: Record<string, unknown> = {};
    for (const [name, read] of entries) {
      try {
        const part = read(readOwn(value, name));
        if (part !== undefined) copy[name] = part;
      } catch (cause) {
        throw within(name, cause);
      }
    }
    return copy as T;
  };
};

/** Free-form JSON within the bounds of contract 8. */
export const json: Reader<JsonObject> = (value) => {
  if (!isObject(value)) throw new Malformed("must be an object");
  const copy = copyPlain(value);
  if (copy instanceof Refusal) throw new Malformed(copy.message);
  return copy as JsonObject;
};

function readOwn(value: object, name: string | number): unknown {
  return Object.hasOwn(value, name) ? (value as Record<string | number, unknown>)[name] : undefined;
}

/**
 * The same error with the outer property prepended to its path. An error thrown by a getter or a proxy becomes one too.
 */
function within(name: string, cause: unknown): Malformed {
  const { rule, path } = cause instanceof Malformed ? cause : { rule: "cannot be read", path: "" };
  const whole = path === "" || path.startsWith("[") ? name + path : `${name}.${path}`;
  return new Malformed(rule, whole, cause instanceof Malformed ? cause : { cause });
}
