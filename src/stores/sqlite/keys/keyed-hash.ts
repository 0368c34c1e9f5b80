/** Keyed 47-bit hash of a text for the hash index. Part of the file format. */
import { keyedHashHex } from "../../../lib/sha256.js";
import type { Handle } from "../connection/handle.js";
import { readSecret } from "../connection/secrets.js";

/** A number from 0 to 2^47 − 1, which SQLite stores in six bytes. Two texts may share a number. */
export type KeyedHash = (text: string) => number;

/** Hexadecimal digits of 48 bits. */
const DIGITS = 12;

/**
 * The hash with the secret of this file.
 * @see src/stores/sqlite/keys/hash-index.ts for why · some 350 ns for the 44 characters of a digest
 */
export function createKeyedHash(handle: Handle): KeyedHash {
  const hashHex = keyedHashHex(readSecret(handle, "key_index"));
  return (text) => Math.floor(Number.parseInt(hashHex(text).slice(0, DIGITS), 16) / 2);
}
