/**
 * Proxy tokens: the short-lived JWTs of a dashboard's server. Contract 1, 5.
 *
 * Why the checks besides `jwtVerify`: jose accepts duplicate names, padded or non-canonical base64url, a byte order
 * mark, unknown headers, fractional times, any lifetime and any size; and its clock tolerance also extends `exp`.
 */
import { base64url, errors, type JWTVerifyOptions, jwtVerify, SignJWT } from "jose";
import {
  callable,
  type Check,
  checkOptions,
  guardClock,
  integer,
  narrowing,
  text,
  word,
} from "../lib/check-options.js";
import { isObject } from "../lib/copy-json.js";
import { newId } from "../lib/hash.js";
import { type ProxyTokenKey, readProxyKeys, type ReadyKey } from "./proxy-keys.js";

/**
 * Requirements on proxy tokens. A token can be used any number of times until its `exp`: `jti` is not read, so that
 * whoever sees one can use it too. Sign one for each request, with a short lifetime, and send it over TLS alone.
 */
export interface ProxyTokenOptions {
  /** `iss` that every token must have, not empty. */
  readonly issuer: string;
  /** `aud` that every token must have, alone or in a list; not empty. */
  readonly audience: string;
  /**
   * 1–16 keys. Each verifies tokens of its own algorithm; the first one signs. To rotate, put the new key first, and
   * remove the old one later.
   */
  readonly keys: readonly ProxyTokenKey[];
  /**
   * Name of the claim with the workspace id, 1–255 characters of `[a-zA-Z0-9_-]`, not a claim of another meaning such
   * as `sub`; default `workspaceId`.
   */
  readonly workspaceClaim?: string;
  /**
   * `typ` that every token's header must have, such as `keystile+jwt`, so that other tokens of the issuer are rejected.
   * Default: `JWT` or none.
   */
  readonly typ?: string;
}

/** The claims of a proxy token. */
export interface ProxyTokenClaims {
  /** `sub`: the user, 1–255 characters. */
  readonly subject: string;
  readonly workspaceId: string;
  /** `perms`: grants in either form of contract 5.4. */
  readonly permissions: readonly string[];
}

/** Options of {@link signProxyToken}. */
export interface SignProxyTokenOptions extends ProxyTokenOptions {
  /** Milliseconds, 1_000…300_000, default 60_000; rounded down to whole seconds. */
  readonly lifetime?: number;
  /** Unix time, milliseconds; default `Date.now`. */
  readonly clock?: () => number;
}

/** Most characters of a token. */
export const MAX_TOKEN = 8_192;
/** Most seconds between `iat` and `exp`. */
const MAX_LIFETIME = 300;
/** Seconds by which the signer's clock may be ahead. `exp` has no tolerance. */
const TOLERANCE = 5;
const MAX_PERMISSIONS = 1_000;
const WORKSPACE = /^[a-zA-Z0-9_-]{1,255}$/;
/** The allowed header names: a token must not bring its own key (`jwk`, …) or change how it is read (`crit`, `b64`). */
const HEADER_NAMES: ReadonlySet<string> = new Set(["alg", "typ", "kid"]);
const RESERVED: ReadonlySet<string> = new Set(["iss", "sub", "aud", "exp", "nbf", "iat", "jti", "perms", "__proto__"]);

/**
 * Whether a credential has the form of a token: three parts separated by dots, possibly empty. No root key contains a
 * dot.
 */
export function isTokenShaped(credential: string): boolean {
  return credential.split(".", 4).length === 3;
}

/**
 * Creates a verifier of proxy tokens.
 * @returns a function that tells the claims; `undefined` for an invalid token, whatever the reason
 * @throws TypeError or RangeError naming the option, including a key that is too weak
 * @remarks about 0.1 ms for each key tried: those of the token's algorithm, and of its `kid` if it has one
 */
export function createProxyTokenVerifier(
  options: ProxyTokenOptions,
  path = "options.proxyTokens",
): (token: string, now: number) => Promise<ProxyTokenClaims | undefined> {
  const { issuer, audience, workspaceClaim, keys, typ } = readOptions(options, path);
  const expected = {
    issuer,
    audience,
    clockTolerance: TOLERANCE,
    maxTokenAge: MAX_LIFETIME,
    requiredClaims: ["exp", "sub", workspaceClaim],
  };
  return async (token, now) => {
    const parts = token.length > MAX_TOKEN ? [] : token.split(".");
    const header = parts.length === 3 && parts.every(isCanonical) ? readHeader(parts[0] as string) : undefined;
    if (header === undefined) return undefined;
    const rules = {
      ...expected,
      currentDate: new Date(now),
      ...((typ ?? header.typ) !== undefined && { typ: typ ?? "JWT" }),
    };
    for (const key of keys) {
      const isOther = key.kid !== undefined && header.kid !== undefined && key.kid !== header.kid;
      if (isOther || !(await isVerified(token, key, rules))) continue;
      const payload = readJson(parts[1] as string);
      return payload && readClaims(payload, workspaceClaim, now);
    }
    return undefined;
  };
}

/**
 * Signs a proxy token with the first key, for the dashboard's server.
 * @throws TypeError or RangeError (rejects) naming an invalid option or claim, or a key that cannot sign
 */
export async function signProxyToken(claims: ProxyTokenClaims, options: SignProxyTokenOptions): Promise<string> {
  const { lifetime = 60_000, clock = Date.now, ...rest } = options;
  checkOptions({ lifetime, clock }, { lifetime: integer(1_000, MAX_LIFETIME * 1_000), clock: callable });
  const { issuer, audience, keys, workspaceClaim, typ = "JWT" } = readOptions(rest, "options");
  const { algorithm, kid, sign } = keys[0] as ReadyKey;
  if (sign === undefined) throw new TypeError("options.keys[0] must have a privateKey to sign with");
  const now = guardClock(clock)();
  const iat = Math.floor(now / 1_000);
  const { subject, workspaceId, permissions } = claims;
  const named = { iss: issuer, aud: audience, sub: subject, [workspaceClaim]: workspaceId, perms: permissions };
  const payload = { ...named, iat, exp: iat + Math.floor(lifetime / 1_000), jti: newId("tok", now) };
  // Never sign a token that would be rejected.
  if (readClaims(payload, workspaceClaim, iat * 1_000) === undefined) {
    throw new TypeError(
      "claims must be a subject of 1 to 255 characters, a workspaceId, and a list of at most 1000 permissions",
    );
  }
  const header = { alg: algorithm, typ, ...(kid !== undefined && { kid }) };
  const token = await new SignJWT(payload).setProtectedHeader(header).sign(await sign());
  if (token.length > MAX_TOKEN)
    throw new RangeError(`claims.permissions must fit in a token of ${MAX_TOKEN} characters`);
  return token;
}

function readOptions(options: ProxyTokenOptions, path: string) {
  const keys = () => undefined;
  const checks = { issuer: text, audience: text, keys, workspaceClaim: word, typ: narrowing(text) };
  checkOptions(options, checks satisfies Record<keyof ProxyTokenOptions, Check>, path);
  const { workspaceClaim = "workspaceId" } = options;
  for (const name of ["issuer", "audience"] as const)
    if (options[name] === undefined) throw new TypeError(`${path}.${name} must be given`);
  if (RESERVED.has(workspaceClaim))
    throw new TypeError(`${path}.workspaceClaim must not be a claim of another meaning`);
  return { ...options, workspaceClaim, keys: readProxyKeys(options.keys, `${path}.keys`) };
}

function readHeader(part: string): { readonly kid?: unknown; readonly typ?: unknown } | undefined {
  const header = readJson(part);
  const isKnown = header !== undefined && Object.keys(header).every((name) => HEADER_NAMES.has(name));
  return isKnown && (header["kid"] === undefined || typeof header["kid"] === "string") ? header : undefined;
}

/** Canonical base64url, without padding, white space or stray bits: one text per value. */
function isCanonical(part: string): boolean {
  return /^[A-Za-z0-9_-]+$/.test(part) && part.length % 4 !== 1 && base64url.encode(base64url.decode(part)) === part;
}

/** Whether this key signed the token with the key's own algorithm, and the claims match `rules`. */
async function isVerified(token: string, { algorithm, verify }: ReadyKey, rules: JWTVerifyOptions): Promise<boolean> {
  try {
    await jwtVerify(token, await verify(), { ...rules, algorithms: [algorithm] });
    return true;
  } catch (error) {
    if (error instanceof errors.JOSEError || isInvalidKey(error)) return false;
    throw error;
  }
}

/** Importing an invalid key throws it (a point off its curve): it verifies no token, and the server is not at fault. */
function isInvalidKey(error: unknown): boolean {
  return error instanceof Error && error.name === "DataError";
}

/** A JSON object in UTF-8 without duplicate names. */
function readJson(part: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const json = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(base64url.decode(part));
    const value: unknown = JSON.parse(json);
    return isObject(value) && !hasRepeatedName(json) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The checks that jose does not make. Times are whole seconds: `exp` in milliseconds would be 50,000 years ahead. */
function readClaims(
  { aud, sub, exp, iat, nbf = iat, perms = [], ...claims }: Readonly<Record<string, unknown>>,
  workspaceClaim: string,
  now: number,
): ProxyTokenClaims | undefined {
  const workspaceId = claims[workspaceClaim];
  if (Array.isArray(aud) && !aud.every(isText)) return undefined;
  if (!isText(sub) || sub === "" || sub.length > 255 || !isText(workspaceId) || !WORKSPACE.test(workspaceId))
    return undefined;
  if (!isSeconds(exp) || !isSeconds(iat) || !isSeconds(nbf)) return undefined;
  if (exp <= iat || exp - iat > MAX_LIFETIME || now >= exp * 1_000) return undefined;
  if (!Array.isArray(perms) || perms.length > MAX_PERMISSIONS || !perms.every(isText)) return undefined;
  return { subject: sub, workspaceId, permissions: perms };
}

function isSeconds(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.isWellFormed();
}

/*
 * Detection of duplicate property names in JSON: parsers keep the last one silently, so two readers could see different
 * values.
 */

/** A bracket, or a string with the colon after it if it is a property name. Other JSON tokens contain neither. */
const PARTS = /"(?:[^"\\]|\\.)*"(\s*:)?|[{}[\]]/g;

/**
 * Whether any object in `json` has two properties of the same name, after unescaping.
 * @param json valid JSON of at most a few kilobytes
 * @remarks O(length)
 */
export function hasRepeatedName(json: string): boolean {
  const open: Set<string>[] = [];
  for (const [part, colon] of json.matchAll(PARTS)) {
    if (part === "{" || part === "[") open.push(new Set());
    else if (part === "}" || part === "]") open.pop();
    else if (colon !== undefined) {
      const name = JSON.parse(part.slice(0, -colon.length)) as string;
      const names = open.at(-1);
      if (names?.has(name) === true) return true;
      names?.add(name);
    }
  }
  return false;
}
