/**
 * Synchronous SHA-256, for the look-ups by hash of synchronous stores. Computed by node:crypto where that exists, and
 * elsewhere by plain code, since WebCrypto returns only promises.
 *
 * Why no library: only Durable Objects without `nodejs_compat` run the plain code, where a call takes a thousand times
 * as long. @noble/hashes 2.4 takes 0.4 of its time in Node (2.5 against 6.5 µs for a key of 40 characters, on a busy
 * host), adds 2.3 kB to the 189 of a bundle where this adds 0.1, and would be installed with every keystile, from Node
 * 20.19 on. What it computes is compared with node:crypto, for all lengths of a block.
 */
import { digestsAtOnce, digestText } from "./hash.js";

/** The first bits of the fractional parts of the roots of the first primes. @see FIPS 180-4, 4.2.2 and 5.3.3 */
function rootsOfPrimes(count: number, root: number): number[] {
  const found: number[] = [];
  for (let n = 2; found.length < count; n++) {
    let divisor = 2;
    while (divisor * divisor <= n && n % divisor !== 0) divisor++;
    if (divisor * divisor > n) found.push(((n ** (1 / root) % 1) * 2 ** 32) | 0);
  }
  return found;
}
const ROUNDS = Int32Array.from(rootsOfPrimes(64, 3));
const START = rootsOfPrimes(8, 2);
const BLOCK = 64;

/** SHA-256 of a text's UTF-8 bytes, in hexadecimal. */
export const sha256Hex: (text: string) => string = digestsAtOnce
  ? (text) => digestText("sha256", text, "hex") as string
  : plainSha256Hex;

/**
 * A keyed hash: SHA-256 of the secret and the text, in hexadecimal.
 * @param secret of 64 characters, so that it fills one block of SHA-256
 */
export function keyedHashHex(secret: string): (text: string) => string {
  return (text) => sha256Hex(secret + text);
}

/** {@link sha256Hex} in plain code. @see FIPS 180-4, 6.2 · 4 µs for a secret and a digest, 12 times node:crypto */
export function plainSha256Hex(text: string): string {
  const bytes = new TextEncoder().encode(text);
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / BLOCK) * BLOCK);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  // The length in bits, as a 64-bit number in two halves; a text is shorter than 2^50 bytes.
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, bytes.length << 3);
  const state = Int32Array.from(START);
  for (let at = 0; at < padded.length; at += BLOCK) addBlock(state, view, at);
  return Array.from(state, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}

const turned = (word: number, by: number): number => (word >>> by) | (word << (32 - by));

function addBlock(state: Int32Array, view: DataView, at: number): void {
  const words = new Int32Array(64);
  for (let i = 0; i < 16; i++) words[i] = view.getInt32(at + i * 4);
  for (let i = 16; i < 64; i++) {
    const [near, far] = [words[i - 2]!, words[i - 15]!];
    const mixedNear = turned(near, 17) ^ turned(near, 19) ^ (near >>> 10);
    const mixedFar = turned(far, 7) ^ turned(far, 18) ^ (far >>> 3);
    words[i] = words[i - 16]! + mixedFar + words[i - 7]! + mixedNear;
  }
  let [a, b, c, d, e, f, g, h] = state as unknown as [
    ...[number, number, number, number],
    ...[number, number, number, number],
  ];
  for (let i = 0; i < 64; i++) {
    const chosen = (e & f) ^ (~e & g);
    const first = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + chosen + ROUNDS[i]! + words[i]!) | 0;
    const second = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, i) => (state[i] = state[i]! + word));
}
