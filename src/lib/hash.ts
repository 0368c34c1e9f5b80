/** Digests of keys, new keys, new ids. The only module that uses node:crypto; falls back to WebCrypto. */
import type { MaybePromise } from "../contracts/types.js";

/** SHA-1 is no protection: Redis names scripts by it. */
type Digest = "sha1" | "sha256" | "sha512";
/** Text encoding of a digest. */
type Encoding = "hex" | "base64";
type NodeCrypto = typeof import("node:crypto");

// Looked up at run time, so that bundlers and runtimes without Node's modules can load this file.
const runtime = globalThis as { process?: { getBuiltinModule?: (id: string) => NodeCrypto | undefined } };
const node = runtime.process?.getBuiltinModule?.("node:crypto");

/** Whether {@link digestText} is synchronous here. */
export const digestsAtOnce = node !== undefined;

/**
 * Digest of a text's UTF-8 bytes: synchronous with node:crypto, a promise with WebCrypto.
 * @param text well-formed text: a lone surrogate would hash like U+FFFD, so reject it first
 * @remarks about 290 ns for SHA-256 of 40 characters where `crypto.hash` exists (Node 20.16+)
 */
export const digestText: (algorithm: Digest, text: string, encoding: Encoding) => MaybePromise<string> =
  node === undefined
    ? digestOnTheWeb
    : typeof node.hash === "function"
      ? node.hash
      : (algorithm, text, encoding) => node.createHash(algorithm).update(text, "utf8").digest(encoding);

/** Characters of a keyed digest: 132 bits, which nobody meets twice without the secret. */
const KEYED_LENGTH = 22;

/**
 * A keyed digest of a text: HMAC-SHA256, the first 22 characters of its base64url.
 * @param secret text with 256 random bits; who lacks it can neither guess the text nor make two with one digest
 * @param text well-formed text
 */
export function keyedDigest(secret: string, text: string): MaybePromise<string> {
  if (node === undefined) return keyedDigestOnTheWeb(secret, text);
  return node.createHmac("sha256", secret).update(text, "utf8").digest("base64url").slice(0, KEYED_LENGTH);
}

async function keyedDigestOnTheWeb(secret: string, text: string): Promise<string> {
  const base64 = await hmacSha256(new TextEncoder().encode(secret), text);
  return base64.replaceAll("+", "-").replaceAll("/", "_").slice(0, KEYED_LENGTH);
}

/** HMAC-SHA256 of a text, in base64. */
export async function hmacSha256(secret: Uint8Array<ArrayBuffer>, text: string): Promise<string> {
  const { subtle } = globalThis.crypto;
  const key = await subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return toBase64(await subtle.sign("HMAC", key, new TextEncoder().encode(text)));
}

function toBase64(bytes: ArrayBuffer): string {
  return btoa(String.fromCharCode(...new Uint8Array(bytes)));
}

/** A new secret: 32 random bytes in hexadecimal. */
export function newSecret(): string {
  return Array.from(randomBytes(32), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The native digest of a key: SHA-256 of the whole key, standard base64. */
export function digestKey(key: string): MaybePromise<string> {
  return digestText("sha256", key, "base64");
}

async function digestOnTheWeb(algorithm: Digest, text: string, encoding: Encoding): Promise<string> {
  const name = algorithm.replace("sha", "SHA-");
  const digest = await globalThis.crypto.subtle.digest(name, new TextEncoder().encode(text));
  if (encoding === "base64") return toBase64(digest);
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
/** Random characters included in `start`. */
const SHOWN = 4;
const CHECKSUM_LENGTH = 6;

/**
 * A new key: `<prefix>_<random><checksum>`. The random part is `byteLength` random bytes in Base58. The checksum is the
 * CRC-32 of everything before it in six Base58 characters, so that secret scanners recognise a key; verification
 * ignores it.
 * @param prefix 1–16 characters of `[a-zA-Z0-9_]`, or none; of a `_` at its end there is one in the key
 * @param byteLength 16…255 random bytes (128…2040 bits)
 * @returns the key, to be shown once, and `start`: its prefix and first four random characters, for people
 */
export function newKey(
  prefix: string | undefined,
  byteLength: number,
): { readonly key: string; readonly start: string } {
  const head = headOf(prefix);
  const random = base58(randomBytes(byteLength));
  const body = head + random;
  return { key: body + checksum(body), start: head + random.slice(0, SHOWN) };
}

/** What a key with this prefix begins with. */
export function headOf(prefix: string | undefined): string {
  return prefix === undefined ? "" : `${prefix.replace(/([^_])_+$/, "$1")}_`;
}

/** Ends `start` of an imported key whose text no verification has shown yet, after what the import said of it. */
export const UNKNOWN_START = "...";

/** Whether no verification has shown more of an imported key than the import said. */
export function isUnknownStart(start: string): boolean {
  return start.endsWith(UNKNOWN_START);
}

/** Most characters of a prefix that `start` includes, as in new keys. */
const MAX_PREFIX = 16;
/** A key of which fewer than this many characters stay secret shows none. */
const MIN_SECRET = 16;
const PREFIX = /^[a-zA-Z0-9_]+_/;

/**
 * `start` of an imported key, once its text is known: its prefix, if it has one like those of new keys, and four
 * characters.
 * @returns {@link UNKNOWN_START} for a text of which fewer than 16 characters would stay secret, or that does not begin
 *   with visible ASCII
 */
export function startOf(text: string): string {
  const prefix = PREFIX.exec(text.slice(0, MAX_PREFIX + 1))?.[0] ?? "";
  const start = text.slice(0, prefix.length + SHOWN);
  return /^[!-~]+$/.test(start) && text.length - start.length >= MIN_SECRET ? start : UNKNOWN_START;
}

/** Prefix of root keys, so that people and scanners can tell them from other keys. */
export const ROOT_KEY_PREFIX = "root";

/** Characters of the time part of an id: 58^8 ms last until the year 6028. */
const TIME_LENGTH = 8;
const RANDOM_LENGTH = 14;

/**
 * A new id `<prefix>_<time><random>` in `[a-zA-Z0-9_]`. Later ids sort after earlier ones, so that imports append to
 * indexes.
 * @param prefix the kind of entity: `key`, `api`, `rl`, …
 * @param now Unix time, milliseconds
 */
export function newId(prefix: string, now: number = Date.now()): string {
  const units = new Array<number>(TIME_LENGTH);
  for (let rest = Math.max(0, Math.floor(now)), i = TIME_LENGTH - 1; i >= 0; i--) {
    units[i] = BASE58.charCodeAt(rest % 58);
    rest = Math.floor(rest / 58);
  }
  return `${prefix}_${String.fromCharCode(...units)}${randomText(RANDOM_LENGTH)}`;
}

/** The id number `count` of this prefix, in the form of {@link newId}: the same in every run, for tests. */
export function countedId(prefix: string, count: number): string {
  return `${prefix}_${digits58(BigInt(count), TIME_LENGTH + RANDOM_LENGTH)}`;
}

/** Whether a text has the form of an id that {@link newId} makes with this prefix. */
export function hasIdForm(prefix: string, text: string): boolean {
  if (!text.startsWith(`${prefix}_`) || text.length !== prefix.length + 1 + TIME_LENGTH + RANDOM_LENGTH) return false;
  for (let i = prefix.length + 1; i < text.length; i++) if (!BASE58.includes(text.charAt(i))) return false;
  return true;
}

/** A stable 64-bit hash in 16 hex digits, for ids of ad hoc limits. Not for secrets. */
export function shortDigest(text: string): string {
  let a = 0x811c9dc5;
  let b = 0x01000193;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    a = Math.imul(a ^ unit, 0x01000193);
    b = Math.imul(b ^ unit, 0x85ebca6b) ^ (b >>> 13);
  }
  return (a >>> 0).toString(16).padStart(8, "0") + (b >>> 0).toString(16).padStart(8, "0");
}

/**
 * Random Base58 characters from a pool: asking the system for each id took 2 µs, three times the rest of it, and a
 * million imported keys need two million ids. The pool is private, and each byte is used once.
 */
const randomText = pooled(4_096);

function pooled(size: number): (length: number) => string {
  const pool = new Uint8Array(size);
  let unused = 0;
  return (length) => {
    // Built from units in one step: appending characters left 600 bytes of garbage per id.
    const units = new Array<number>(length);
    for (let made = 0; made < length;) {
      if (unused === 0) {
        globalThis.crypto.getRandomValues(pool);
        unused = size;
      }
      const byte = pool[--unused] as number;
      // 58 does not divide 256: bytes from 232 on would favour the first characters, so they are skipped.
      if (byte < 232) units[made++] = BASE58.charCodeAt(byte % 58);
    }
    return String.fromCharCode(...units);
  };
}

function randomBytes(length: number): Uint8Array {
  return globalThis.crypto.getRandomValues(new Uint8Array(length));
}

/** The bytes as one Base58 number, padded to the longest that so many bytes can need. */
function base58(bytes: Uint8Array): string {
  let rest = 0n;
  for (const byte of bytes) rest = (rest << 8n) | BigInt(byte);
  return digits58(rest, Math.ceil((bytes.length * 8) / Math.log2(58)));
}

function digits58(value: bigint, length: number): string {
  let text = "";
  for (let rest = value; text.length < length; rest /= 58n) text = BASE58.charAt(Number(rest % 58n)) + text;
  return text;
}

/** Whether a text ends in the checksum of a key, as those of {@link newKey} do and one other text in 2^32. */
export function hasChecksum(text: string): boolean {
  return text.length > CHECKSUM_LENGTH && checksum(text.slice(0, -CHECKSUM_LENGTH)) === text.slice(-CHECKSUM_LENGTH);
}

function checksum(text: string): string {
  let crc = 0xffffffff;
  for (let i = 0; i < text.length; i++) {
    crc ^= text.charCodeAt(i) & 0xff;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return digits58(BigInt((crc ^ 0xffffffff) >>> 0), CHECKSUM_LENGTH);
}
