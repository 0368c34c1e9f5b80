/**
 * 47-bit hash of a string for the hash index. Part of the file format. Not cryptographic: finds also compare the
 * strings.
 */

const MULTIPLIER_A = 0x9e3779b1;
const MULTIPLIER_B = 0x5f356495;
const MIX_A = 0x85ebca6b;
const MIX_B = 0xc2b2ae35;

/**
 * A number from 0 to 2^47 − 1, which SQLite stores in six bytes. The function must never change, since files contain
 * its results. Two strings may share a number.
 * @see src/stores/sqlite/keys/hash-index.ts for why · 75 ns for the 44 characters of a digest
 */
export function textHash(text: string): number {
  let a = 0xdeadbeef;
  let b = 0x41c6ce57;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    a = Math.imul(a ^ unit, MULTIPLIER_A);
    b = Math.imul(b ^ unit, MULTIPLIER_B);
  }
  a = Math.imul(a ^ (a >>> 16), MIX_A) ^ Math.imul(b ^ (b >>> 13), MIX_B);
  b = Math.imul(b ^ (b >>> 16), MIX_A) ^ Math.imul(a ^ (a >>> 13), MIX_B);
  return (b & 0x7fff) * 0x1_0000_0000 + (a >>> 0);
}
