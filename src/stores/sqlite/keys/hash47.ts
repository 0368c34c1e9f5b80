/** 47 bits of a text, for the indexes over digests. Part of the form of the file. No secret depends on it: whoever looks by it compares the texts. */

const MULTIPLIER_A = 0x9e3779b1;
const MULTIPLIER_B = 0x5f356495;
const MIX_A = 0x85ebca6b;
const MIX_B = 0xc2b2ae35;

/**
 * A number from 0 to 2^47 − 1, which SQLite stores in six bytes. It must never change: files hold it. Two texts may share a number.
 * @see src/stores/sqlite/connection/schema.ts for why · 75 ns for the 44 characters of a digest
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
