/**
 * The keys of proxy tokens, checked when they are configured, so that a weak or wrong key fails at startup and not at
 * the first token.
 */
import { settled } from "../lib/callbacks.js";
import { text } from "../lib/check-options.js";

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
/** A public or private key in any of the three forms that runtimes have. */
export type AsymmetricKey = JsonWebKeyLike | CryptoKeyLike | KeyObjectLike;

/** One key. Its algorithm is configured here, never taken from a token. */
export type ProxyTokenKey =
  | {
      /**
       * HS256: at least 32 random bytes, or their text. Refused are texts that obviously are not: of fewer than 8
       * different bytes; and PEM text, since a public key is no secret.
       */
      readonly secret: string | Uint8Array;
      /**
       * The key's id. The key does not verify tokens whose header has another `kid`. Absent: it is tried for every
       * token.
       */
      readonly kid?: string;
      readonly algorithm?: never;
      readonly publicKey?: never;
      readonly privateKey?: never;
    }
  | {
      /** RS256 with at least 2048 bits, ES256 on P-256, EdDSA on Ed25519. */
      readonly algorithm: "RS256" | "ES256" | "EdDSA";
      /**
       * A JWK, a `CryptoKey` or Node's `KeyObject`; not PEM text, which `createPublicKey(pem)` of node:crypto reads.
       */
      readonly publicKey: AsymmetricKey;
      /** Needed only to sign tokens. */
      readonly privateKey?: AsymmetricKey;
      /** As for a secret; default: the `kid` of a public JWK. */
      readonly kid?: string;
    };

/** A checked key and its algorithm. */
export interface ReadyKey {
  readonly algorithm: "HS256" | Algorithm;
  readonly kid: string | undefined;
  readonly verify: ImportedKey;
  readonly sign: ImportedKey | undefined;
}
/** Returns the key in a form that jose imports at most once. */
type ImportedKey = () => AsymmetricKey | Promise<CryptoKeyLike>;

const MIN_SECRET_BYTES = 32;
/** Different ones. Of 10,000,000 texts of 32 random hexadecimal digits about one has fewer. */
const MIN_DISTINCT_BYTES = 8;
const MIN_RSA_BITS = 2_048;
const MAX_KEYS = 16;

/** How each format describes keys of an algorithm. */
interface Form {
  readonly kty: string;
  /** The curve in a JWK and in WebCrypto. */
  readonly crv?: string;
  /** Members of a public JWK, and the pattern of their values. */
  readonly members: readonly string[];
  readonly member: RegExp;
  /** The algorithm in WebCrypto. */
  readonly name: string;
}
/** Base64url of bytes, and of a 32-byte coordinate. */
const BYTES = /^(?:[\w-]{4})*(?:[\w-]{2,3})?$/;
const COORDINATE = /^[\w-]{43}$/;
const FORMS: Readonly<Record<"RS256" | "ES256" | "EdDSA", Form>> = {
  RS256: { kty: "RSA", members: ["n", "e"], member: BYTES, name: "RSASSA-PKCS1-v1_5" },
  ES256: { kty: "EC", crv: "P-256", members: ["x", "y"], member: COORDINATE, name: "ECDSA" },
  EdDSA: { kty: "OKP", crv: "Ed25519", members: ["x"], member: COORDINATE, name: "Ed25519" },
};
type Algorithm = keyof typeof FORMS;
type Members = Readonly<Record<string, unknown>>;
type Wanted = { readonly algorithm: Algorithm; readonly type: "public" | "private" };

/**
 * Checks 1–16 keys, and copies secrets and JWKs.
 * @throws TypeError or RangeError naming the key: missing, of another algorithm, too weak, private where it must be
 *   public
 */
export function readProxyKeys(keys: unknown, path: string): ReadyKey[] {
  if (!Array.isArray(keys) || keys.length === 0 || keys.length > MAX_KEYS)
    throw new TypeError(`${path} must be an array of 1 to ${MAX_KEYS} keys`);
  return keys.map((key: unknown, i) => readKey(key, `${path}[${i}]`));
}

function readKey(key: unknown, path: string): ReadyKey {
  if (typeof key !== "object" || key === null)
    throw new TypeError(`${path} must be an object with secret, or with algorithm and publicKey`);
  const { secret, algorithm, publicKey, privateKey, kid } = key as Members;
  if (kid !== undefined) text(kid, `${path}.kid`);
  if ("secret" in key) {
    if (algorithm !== undefined || publicKey !== undefined)
      throw new TypeError(`${path} must have either a secret or a publicKey`);
    const imported = importOnce(readSecret(secret, `${path}.secret`));
    return { algorithm: "HS256", kid: kid as string | undefined, verify: imported, sign: imported };
  }
  if (typeof algorithm !== "string" || !Object.hasOwn(FORMS, algorithm)) {
    throw new TypeError(
      `${path}.algorithm must be one of: ${Object.keys(FORMS).join(", ")}; a key of HS256 has only a secret`,
    );
  }
  const form = algorithm as Algorithm;
  const verify = readAsymmetric(publicKey, { algorithm: form, type: "public" }, `${path}.publicKey`);
  const sign =
    privateKey === undefined
      ? undefined
      : readAsymmetric(privateKey, { algorithm: form, type: "private" }, `${path}.privateKey`);
  const id = kid ?? (verify as Members)["kid"];
  return {
    algorithm: form,
    kid: typeof id === "string" ? id : undefined,
    verify: () => verify,
    sign: sign && (() => sign),
  };
}

function readSecret(secret: unknown, path: string): Uint8Array<ArrayBuffer> {
  if (typeof secret !== "string" && !(secret instanceof Uint8Array))
    throw new TypeError(`${path} must be a string or a Uint8Array`);
  const bytes = typeof secret === "string" ? new TextEncoder().encode(secret) : Uint8Array.from(secret);
  if (bytes.length < MIN_SECRET_BYTES) throw new RangeError(`${path} must have at least ${MIN_SECRET_BYTES} bytes`);
  if (new Set(bytes).size < MIN_DISTINCT_BYTES) {
    throw new TypeError(
      `${path} must be random: it has fewer than ${MIN_DISTINCT_BYTES} different bytes; take randomBytes(32) of node:crypto`,
    );
  }
  if (new TextDecoder().decode(bytes).includes("-----BEGIN ")) {
    throw new TypeError(`${path} must not be PEM text: give algorithm and publicKey, or bytes that nobody else knows`);
  }
  return bytes;
}

/**
 * jose would import a secret again for each token, which costs more than the signature. Imported with the first token:
 * Workers allow no asynchronous work in the global scope, where programs make their verifiers.
 */
function importOnce(secret: Uint8Array<ArrayBuffer>): ImportedKey {
  let imported: Promise<CryptoKeyLike> | undefined;
  const start = () =>
    globalThis.crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
  return async () => {
    try {
      return await (imported ??= start());
    } catch (error) {
      imported = undefined;
      throw error;
    }
  };
}

/** The key, if it has the algorithm, is strong enough, and is public or private as required. */
function readAsymmetric(key: unknown, { algorithm, type }: Wanted, path: string): AsymmetricKey {
  if (typeof key !== "object" || key === null) throw new TypeError(`${path} must be a JWK, a CryptoKey or a KeyObject`);
  // A JWK is the program's own mutable object, so a copy is checked and used. The other two cannot change.
  const copy = "kty" in key ? { ...key } : key;
  const described = ("kty" in copy || !("export" in copy) ? copy : toJwk(copy as KeyObjectLike)) as Members;
  const actual = "kty" in described ? typeOfJwk(described, algorithm) : typeOfCryptoKey(described, algorithm);
  if (actual === undefined) throw new TypeError(`${path} must be a key of ${algorithm}`);
  if (actual !== type) throw new TypeError(`${path} must be a ${type} key`);
  if (algorithm === "RS256") checkRsa(described, path);
  return copy;
}

/** A KeyObject that has no JWK form has none of our algorithms. */
function toJwk(key: KeyObjectLike): Members {
  try {
    return settled(key.export({ format: "jwk" } as never), "export") as Members;
  } catch {
    return {};
  }
}

/** `undefined`: not a key of the algorithm. */
function typeOfJwk(key: Members, algorithm: Algorithm): string | undefined {
  const { kty, crv, members, member } = FORMS[algorithm];
  const isMeant = (key["alg"] ?? algorithm) === algorithm && (key["use"] ?? "sig") === "sig";
  const isWhole = members.every((name) => typeof key[name] === "string" && member.test(key[name]));
  if (key["kty"] !== kty || key["crv"] !== crv || !isMeant || !isWhole) return undefined;
  return key["d"] === undefined ? "public" : "private";
}

/** `undefined`: not a key of the algorithm, or not usable for signing or verifying. */
function typeOfCryptoKey({ type, algorithm: actual, usages }: Members, algorithm: Algorithm): string | undefined {
  const { name, crv } = FORMS[algorithm];
  const {
    name: actualName,
    namedCurve = crv,
    hash,
  } = (actual ?? {}) as { name?: string; namedCurve?: string; hash?: { name: string } };
  const isUsable = Array.isArray(usages) && usages.includes(type === "private" ? "sign" : "verify");
  const fits = actualName === name && namedCurve === crv && (hash?.name ?? "SHA-256") === "SHA-256" && isUsable;
  return fits ? String(type) : undefined;
}

/** With an exponent of 1 anybody could sign; an even one is never valid. */
function checkRsa(key: Members, path: string): void {
  const { modulusLength, publicExponent } = (key["algorithm"] ?? {}) as {
    modulusLength?: number;
    publicExponent?: Uint8Array;
  };
  const bits = modulusLength ?? toNumber(decode(key["n"])).toString(2).length;
  if (bits < MIN_RSA_BITS) throw new RangeError(`${path} must have at least ${MIN_RSA_BITS} bits`);
  const exponent = toNumber(publicExponent ?? decode(key["e"]));
  if (exponent < 2n || exponent % 2n === 0n) throw new RangeError(`${path} must have an odd exponent above 1`);
}

/** @param member base64url, already checked */
function decode(member: unknown): Uint8Array {
  return Uint8Array.from(atob((member as string).replace(/-/g, "+").replace(/_/g, "/")), (letter) =>
    letter.charCodeAt(0),
  );
}

function toNumber(bytes: Uint8Array): bigint {
  return bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
}
