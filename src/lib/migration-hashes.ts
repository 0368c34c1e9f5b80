/** Hashes of other providers: the known algorithms, and the canonical form in which their hashes are compared. */
import { badRequest } from "../contracts/errors.js";
import type { MaybePromise } from "../contracts/types.js";
import { digestText } from "./hash.js";
import { isThenable } from "./thenable.js";

/**
 * Your own hash functions, by name. Each returns, for a presented key, the text that was imported as `hash`. It must
 * depend on the key alone (no salt), or keys could not be looked up by it.
 */
export type MigrationAlgorithms = Readonly<Record<string, (key: string) => MaybePromise<string>>>;

/** An imported hash in canonical form. */
export interface ImportedHash {
  readonly foreignDigest: string;
  /** The native digest, if the hash is one: such a key verifies without a migration id. */
  readonly digest?: string;
}

interface Algorithm {
  /** `undefined`: not a hash of this algorithm. */
  readonly read: (hash: string) => ImportedHash | undefined;
  /** `undefined`: not a key of this algorithm. */
  readonly hash: (key: string) => MaybePromise<string | undefined>;
}

/** The algorithms that a verifier or keyring supports. */
export interface Algorithms {
  /** @throws KeystileError BAD_REQUEST at `body.algorithm`: unknown, or salted and so useless for look-ups */
  assertUsable(name: string): void;
  /** Whether the algorithm is supported. */
  knows(name: string): boolean;
  /** `undefined`: the text is not a hash of this algorithm, or the algorithm is unknown. */
  importHash(name: string, hash: string): ImportedHash | undefined;
  /** The canonical hash of a presented key; `undefined`: no such key can exist. */
  foreignDigest(name: string, key: string): MaybePromise<string | undefined>;
}

/**
 * Algorithms that are salted on purpose: the same key hashes differently each time, so it cannot be looked up by its
 * hash.
 */
const SALTED = /bcrypt|argon|scrypt|pbkdf/i;
const MIN_PARTS = 3;

/**
 * @param custom functions for further algorithms; built-in names are rejected
 * @throws TypeError naming the option if it is not an object of functions or uses a built-in name
 */
export function createAlgorithms(custom: MigrationAlgorithms = {}, path = "options.migrationAlgorithms"): Algorithms {
  const known = new Map<string, Algorithm>([
    ["sha256", { read: readSha256, hash: (key) => digestText("sha256", key, "base64") }],
    ["sha512", { read: readSha512, hash: (key) => digestText("sha512", key, "base64") }],
    ["prefixed-api-key", { read: readLongToken, hash: hashLongToken }],
  ]);
  if (typeof custom !== "object" || custom === null) throw new TypeError(`${path} must be an object of functions`);
  for (const [name, hash] of Object.entries(custom)) {
    if (typeof hash !== "function") throw new TypeError(`${path}.${name} must be a function`);
    if (known.has(name)) throw new TypeError(`${path}.${name}: this name is built in, choose another`);
    known.set(name, { read: (text) => ({ foreignDigest: text }), hash: validated(name, hash) });
  }
  return {
    assertUsable(name) {
      if (!known.has(name)) throw badRequest([problemWith(name)]);
    },
    knows: (name) => known.has(name),
    importHash: (name, hash) => known.get(name)?.read(hash),
    foreignDigest: (name, key) => known.get(name)?.hash(key),
  };
}

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

function problemWith(name: string) {
  const location = "body.algorithm";
  if (!SALTED.test(name)) {
    return {
      location,
      message: "is not a known algorithm",
      fix: 'use "sha256", "sha512", "prefixed-api-key" or a name registered in options.migrationAlgorithms',
    };
  }
  return {
    location,
    message: "is a slow salted hash: the same key hashes differently each time, so no key can be found by it",
    fix: "keep verifying such keys where they are, and issue new keys as their owners come by",
  };
}

function readSha256(hash: string): ImportedHash | undefined {
  const digest = toBase64(hash, 32);
  return digest === undefined ? undefined : { foreignDigest: digest, digest };
}

function readSha512(hash: string): ImportedHash | undefined {
  const foreignDigest = toBase64(hash, 64);
  return foreignDigest === undefined ? undefined : { foreignDigest };
}

/** `<prefix>_<short>_<long>`: the hash is the hex SHA-256 of what follows the last `_`. */
function readLongToken(hash: string): ImportedHash | undefined {
  return /^[0-9a-f]{64}$/i.test(hash) ? { foreignDigest: toBase64(hash, 32) as string } : undefined;
}

function hashLongToken(key: string): MaybePromise<string | undefined> {
  const parts = key.split("_");
  return parts.length < MIN_PARTS ? undefined : digestText("sha256", parts[parts.length - 1] as string, "base64");
}

/**
 * Digests that are already canonical, as most are: standard base64, padded, without stray low bits in the last
 * character.
 */
const CANONICAL: ReadonlyMap<number, RegExp> = new Map([
  [32, /^[0-9A-Za-z+/]{42}[AEIMQUYcgkosw048]=$/],
  [64, /^[0-9A-Za-z+/]{85}[AQgw]==$/],
]);

/**
 * A digest of `size` bytes in hex, base64 or base64url, padded or not, as standard base64; `undefined` if it is none of
 * these.
 */
function toBase64(text: string, size: number): string | undefined {
  if (CANONICAL.get(size)?.test(text) === true) return text;
  if (text.length === size * 2 && /^[0-9a-f]+$/i.test(text)) {
    // A loop rather than `replace` with a function: 0.9 µs per imported hash instead of 3.
    let bytes = "";
    for (let i = 0; i < text.length; i += 2) bytes += String.fromCharCode(parseInt(text.slice(i, i + 2), 16));
    return btoa(bytes);
  }
  const standard = text
    .replace(/-/g, "+")
    .replace(/_/g, "/")
    .replace(/={1,2}$/, "");
  if (standard.length !== Math.ceil((size * 4) / 3) || !/^[0-9A-Za-z+/]+$/.test(standard)) return undefined;
  // Decoded and re-encoded: stray low bits in the last character would give one digest two spellings.
  const canonical = btoa(atob(standard));
  return canonical.slice(0, standard.length) === standard ? canonical : undefined;
}
