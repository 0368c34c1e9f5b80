/** Keyed 47-bit hash of a text for the hash index. Part of the file format. */
import { KeystileError } from "../../../contracts/errors.js";
import { keyedHashHex } from "../../../lib/sha256.js";
import { type Handle, select } from "../connection/handle.js";

/** A number from 0 to 2^47 − 1, which SQLite stores in six bytes. Two texts may share a number. */
export type KeyedHash = (text: string) => number;

/** Hexadecimal digits of 48 bits. */
const DIGITS = 12;

/**
 * The hash with the secret of this file.
 * @see src/stores/sqlite/keys/hash-index.ts for why · some 350 ns for the 44 characters of a digest
 */
export function createKeyedHash(handle: Handle): KeyedHash {
  const found = select<{ secret: string }>(
    handle,
    "SELECT lower(hex(secret)) AS secret FROM keystile_secrets WHERE name = 'key_index'",
  ).get();
  if (found === undefined)
    throw new KeystileError("STORE_INVALID", "the file has no secret for its index of keys; restore it from a backup");
  const hashHex = keyedHashHex(found.secret);
  return (text) => Math.floor(Number.parseInt(hashHex(text).slice(0, DIGITS), 16) / 2);
}
