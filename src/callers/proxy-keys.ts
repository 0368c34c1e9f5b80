/** The keys of proxy tokens, judged where they are configured. Ruling F3, hostile inputs A101. Knows key formats, verifies nothing. */

/** A public or private key as a JSON Web Key. */
export type JsonWebKeyLike = Readonly<Record<string, unknown>> | { readonly kty?: string; readonly crv?: string };
/** A key of WebCrypto. */
export interface CryptoKeyLike {
  readonly type: string;
  readonly algorithm: { readonly name: string };
  readonly usages: readonly string[];
}
/** A key of Node: `createPublicKey(pem)`. */
export interface KeyObjectLike {
  readonly type: string;
  export(options?: never): unknown;
}
/** A public or private key in one of the three forms that runtimes have. */
export type AsymmetricKey = JsonWebKeyLike | CryptoKeyLike | KeyObjectLike;

/** One key; its algorithm is said here, never by a token. */
export type ProxyTokenKey =
  | {
      /** HS256: at least 32 bytes, text counted as UTF-8. */
      readonly secret: string | Uint8Array;
      readonly algorithm?: never;
      readonly publicKey?: never;
      readonly privateKey?: never;
    }
  | {
      /** RS256 with at least 2048 bits, ES256 on P-256, EdDSA on Ed25519. */
      readonly algorithm: "RS256" | "ES256" | "EdDSA";
      /** A JWK, a `CryptoKey` or Node's `KeyObject`; not PEM text, which `createPublicKey(pem)` of node:crypto reads. */
      readonly publicKey: AsymmetricKey;
      /** Only where tokens are signed. */
      readonly privateKey?: AsymmetricKey;
    };

/** A key that was judged, and its algorithm. */
export interface ReadyKey {
  readonly algorithm: "HS256" | "RS256" | "ES256" | "EdDSA";
  readonly verify: Uint8Array | AsymmetricKey;
  readonly sign: Uint8Array | AsymmetricKey | undefined;
}

const MIN_SECRET_BYTES = 32;
const MIN_RSA_BITS = 2_048;
const MAX_KEYS = 16;

/** What a key of an algorithm is called in each format. */
interface Form {
  readonly kty: string;
  /** The curve in a JWK and in WebCrypto. */
  readonly crv?: string;
  /** Members of a public JWK, and how each is written. */
  readonly members: readonly string[];
  readonly member: RegExp;
  readonly webcrypto: string;
  readonly node: string;
  /** The curve in Node. */
  readonly curve?: string;
}
/** Base64url of bytes, and of a 32-byte coordinate: a bad key must fail here, not with the first token. */
const BYTES = /^(?:[\w-]{4})*[\w-]{2,4}$/;
const COORDINATE = /^[\w-]{43}$/;
const FORMS: Readonly<Record<"RS256" | "ES256" | "EdDSA", Form>> = {
  RS256: { kty: "RSA", members: ["n", "e"], member: BYTES, webcrypto: "RSASSA-PKCS1-v1_5", node: "rsa" },
  ES256: { kty: "EC", crv: "P-256", members: ["x", "y"], member: COORDINATE, webcrypto: "ECDSA", node: "ec", curve: "prime256v1" },
  EdDSA: { kty: "OKP", crv: "Ed25519", members: ["x"], member: COORDINATE, webcrypto: "Ed25519", node: "ed25519" },
};
type Algorithm = keyof typeof FORMS;

/** What a key turned out to be. */
interface Facts {
  /** Whether it is of the algorithm asked for. */
  readonly fits: boolean;
  readonly type: unknown;
  /** Of an RSA modulus. */
  readonly bits: unknown;
  /** The public one of RSA. */
  readonly exponent: unknown;
}

/**
 * Judges the keys, 1–16, and copies secrets.
 * @throws TypeError or RangeError naming the key: not there, of another algorithm, too weak, private where it must be public
 */
export function readProxyKeys(keys: unknown, path: string): ReadyKey[] {
  if (!Array.isArray(keys) || keys.length === 0 || keys.length > MAX_KEYS)
    throw new TypeError(`${path} must be an array of 1 to ${MAX_KEYS} keys`);
  return keys.map((key: unknown, i) => readKey(key, `${path}[${i}]`));
}

function readKey(key: unknown, path: string): ReadyKey {
  if (typeof key !== "object" || key === null)
    throw new TypeError(`${path} must be an object with secret, or with algorithm and publicKey`);
  const { secret, algorithm, publicKey, privateKey } = key as Record<string, unknown>;
  if ("secret" in key) {
    if (algorithm !== undefined || publicKey !== undefined) throw new TypeError(`${path} must have either a secret or a publicKey`);
    const bytes = readSecret(secret, `${path}.secret`);
    return { algorithm: "HS256", verify: bytes, sign: bytes };
  }
  if (typeof algorithm !== "string" || !Object.hasOwn(FORMS, algorithm)) {
    throw new TypeError(`${path}.algorithm must be one of: ${Object.keys(FORMS).join(", ")}; a key of HS256 has only a secret`);
  }
  const form = algorithm as Algorithm;
  return {
    algorithm: form,
    verify: readAsymmetric(publicKey, form, "public", `${path}.publicKey`),
    sign: privateKey === undefined ? undefined : readAsymmetric(privateKey, form, "private", `${path}.privateKey`),
  };
}

function readSecret(secret: unknown, path: string): Uint8Array {
  if (typeof secret !== "string" && !(secret instanceof Uint8Array)) throw new TypeError(`${path} must be a string or a Uint8Array`);
  const bytes = typeof secret === "string" ? new TextEncoder().encode(secret) : Uint8Array.from(secret);
  if (bytes.length < MIN_SECRET_BYTES) throw new RangeError(`${path} must have at least ${MIN_SECRET_BYTES} bytes`);
  return bytes;
}

/** The key itself, if it is of the algorithm, strong enough, and public or private as asked. */
function readAsymmetric(key: unknown, algorithm: Algorithm, type: "public" | "private", path: string): AsymmetricKey {
  if (typeof key !== "object" || key === null) throw new TypeError(`${path} must be a JWK, a CryptoKey or a KeyObject`);
  // A JWK is the program's own object: a copy is judged and used. The other two cannot change.
  const own = "kty" in key ? { ...key } : key;
  const facts = readFacts(own as Record<string, unknown>, algorithm);
  if (!facts.fits) throw new TypeError(`${path} must be a key of ${algorithm}`);
  if (facts.type !== type) throw new TypeError(`${path} must be a ${type} key`);
  if (algorithm === "RS256" && !(Number(facts.bits) >= MIN_RSA_BITS))
    throw new RangeError(`${path} must have at least ${MIN_RSA_BITS} bits`);
  if (algorithm === "RS256" && !isExponent(facts.exponent)) throw new RangeError(`${path} must have an odd exponent above 1`);
  return own;
}

function readFacts(key: Readonly<Record<string, unknown>>, algorithm: Algorithm): Facts {
  const form = FORMS[algorithm];
  if (typeof key["kty"] === "string") return readJwk(key, algorithm, form);
  const type = key["type"];
  if (typeof key["asymmetricKeyType"] === "string") {
    const { namedCurve, modulusLength: bits, publicExponent: exponent } = (key["asymmetricKeyDetails"] ?? {}) as Record<string, unknown>;
    return { fits: key["asymmetricKeyType"] === form.node && namedCurve === form.curve, type, bits, exponent };
  }
  const { name, namedCurve, hash, modulusLength: bits, publicExponent } = (key["algorithm"] ?? {}) as Record<string, unknown>;
  const isCurve = algorithm !== "ES256" || namedCurve === form.crv;
  const isHash = algorithm !== "RS256" || (hash as { name?: unknown } | undefined)?.name === "SHA-256";
  const usages = key["usages"];
  const isUsable = Array.isArray(usages) && usages.includes(type === "private" ? "sign" : "verify");
  const exponent = publicExponent instanceof Uint8Array ? publicExponent.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n) : undefined;
  return { fits: name === form.webcrypto && isCurve && isHash && isUsable, type, bits, exponent };
}

function readJwk(key: Readonly<Record<string, unknown>>, algorithm: Algorithm, { kty, crv, members, member }: Form): Facts {
  const isWhole = members.every((name) => typeof key[name] === "string" && member.test(key[name]));
  const isMeant = (key["alg"] ?? algorithm) === algorithm && (key["use"] ?? "sig") === "sig";
  const fits = key["kty"] === kty && key["crv"] === crv && isWhole && isMeant;
  const type = key["d"] === undefined ? "public" : "private";
  return { fits, type, bits: numberOf(key["n"])?.toString(2).length, exponent: numberOf(key["e"]) };
}

/** The number that base64url holds; bits past the last byte do not count. */
function numberOf(text: unknown): bigint | undefined {
  if (typeof text !== "string") return undefined;
  let number = 0n;
  for (const letter of text) number = number * 64n + BigInt(LETTERS.indexOf(letter));
  return number >> BigInt((text.length * 6) % 8);
}
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** With 1 anybody could sign; an even one belongs to no key. */
function isExponent(value: unknown): boolean {
  return typeof value === "bigint" && value > 1n && value % 2n === 1n;
}
