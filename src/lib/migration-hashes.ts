/**
 * Hashes of other providers: the algorithms, by which imported keys are found. What reads their hashes is in the
 * keyring.
 */
import type { MaybePromise } from "../contracts/types.js";
import { digestText } from "./hash.js";
import { isThenable } from "./thenable.js";

/**
 * Your own hash functions, by name. Each returns, for a presented key, the text that was imported as `hash`. It must
 * depend on the key alone (no salt), or keys could not be looked up by it.
 */
export type MigrationAlgorithms = Readonly<Record<string, (key: string) => MaybePromise<string>>>;

const MIN_PARTS = 3;

/**
 * @param custom functions for further algorithms; built-in names are rejected
 * @throws TypeError naming the option if it is not an object of functions or uses a built-in name
 */
export function createAlgorithms(custom: MigrationAlgorithms = {}, path = "options.migrationAlgorithms") {
  const known = new Map<string, (key: string) => MaybePromise<string | undefined>>([
    ["sha256", (key) => digestText("sha256", key, "base64")],
    ["sha512", (key) => digestText("sha512", key, "base64")],
    ["prefixed-api-key", hashLongToken],
  ]);
  if (typeof custom !== "object" || custom === null) throw new TypeError(`${path} must be an object of functions`);
  for (const [name, hash] of Object.entries(custom)) {
    if (typeof hash !== "function") throw new TypeError(`${path}.${name} must be a function`);
    if (known.has(name)) throw new TypeError(`${path}.${name}: this name is built in, choose another`);
    known.set(name, validated(name, hash));
  }
  return {
    /** Whether the algorithm is supported. */
    knows: (name: string): boolean => known.has(name),
    /** The canonical hash of a presented key; `undefined`: no such key can exist, or the algorithm is unknown. */
    foreignDigest: (name: string, key: string): MaybePromise<string | undefined> => known.get(name)?.(key),
  };
}

/** The algorithms that a verifier or keyring supports. */
export type Algorithms = ReturnType<typeof createAlgorithms>;

/** Wraps a custom function to validate its result: otherwise a value that is not a string would be looked up. */
function validated(name: string, hash: (key: string) => MaybePromise<string>): (key: string) => MaybePromise<string> {
  const check = (text: unknown): string => {
    if (typeof text !== "string") throw new TypeError(`options.migrationAlgorithms.${name} must return a string`);
    return text;
  };
  return (key) => {
    const text = hash(key);
    return isThenable(text) ? Promise.resolve(text).then(check) : check(text);
  };
}

/** `<prefix>_<short>_<long>`: the SHA-256 of what follows the last `_`. */
function hashLongToken(key: string): MaybePromise<string | undefined> {
  const parts = key.split("_");
  return parts.length < MIN_PARTS ? undefined : digestText("sha256", parts[parts.length - 1] as string, "base64");
}
