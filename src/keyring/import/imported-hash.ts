/** Hashes that other providers stored of their keys, in the canonical form in which a verification compares them. */
import type { Algorithms } from "../../lib/migration-hashes.js";

/** An imported hash in canonical form. */
export interface ImportedHash {
  readonly foreignDigest: string;
  /** The native digest, if the hash is one: such a key verifies without a migration id. */
  readonly digest?: string;
}

/**
 * Algorithms that are salted on purpose: the same key hashes differently each time, so it cannot be looked up by its
 * hash.
 */
const SALTED = /bcrypt|argon|scrypt|pbkdf/i;

/** Readers of the built-in algorithms' hashes. A function that was registered gets its hashes as they are. */
const READERS: ReadonlyMap<string, (hash: string) => ImportedHash | undefined> = new Map([
  ["sha256", readSha256],
  ["sha512", readSha512],
  ["prefixed-api-key", readLongToken],
]);

/** Bytes of the longest hash in UTF-8: stores look keys up by it, and their indexes bound what they hold. */
const MAX_HASH = 1_024;
const encoder = new TextEncoder();

/** @returns `undefined`: the text is not a hash of this algorithm, or of any, or the algorithm is unknown */
export function readHash({ knows }: Algorithms, algorithm: string, hash: string): ImportedHash | undefined {
  if (!knows(algorithm) || isTooLong(hash)) return undefined;
  const read = READERS.get(algorithm);
  return read === undefined ? { foreignDigest: hash } : read(hash);
}

/** A unit of UTF-16 takes at most three bytes, so that few hashes are encoded. */
function isTooLong(hash: string): boolean {
  const { length } = hash;
  return length > MAX_HASH || (length * 3 > MAX_HASH && encoder.encode(hash).length > MAX_HASH);
}

/**
 * Why keys cannot be imported by an algorithm: it is unknown, or salted and so useless for look-ups; nothing: they can.
 */
export function explainAlgorithm({ knows }: Algorithms, name: string) {
  if (knows(name)) return undefined;
  if (!SALTED.test(name)) {
    return {
      message: "is not a known algorithm",
      fix: 'use "sha256", "sha512", "prefixed-api-key" or a name registered in options.migrationAlgorithms',
    };
  }
  return {
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

/** The hex SHA-256 of the last part of a key. */
function readLongToken(hash: string): ImportedHash | undefined {
  return /^[0-9a-f]{64}$/i.test(hash) ? { foreignDigest: toBase64(hash, 32) as string } : undefined;
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
