/** Proxy tokens: the short-lived JWTs of a dashboard's server. Spec §1, §5, ruling F3. jose verifies signatures; here is what it leaves out. */
import { base64url, compactVerify, errors, SignJWT } from "jose";
import { hasRepeatedName } from "./json-names.js";
import { callable, checkOptions, guardClock, integer, text, word } from "../options.js";
import { type ProxyTokenKey, readProxyKeys, type ReadyKey } from "./proxy-keys.js";

/** What proxy tokens must be. */
export interface ProxyTokenOptions {
  /** `iss` of every token. */
  readonly issuer: string;
  /** `aud` of every token, or one of its `aud`. */
  readonly audience: string;
  /** 1–16 keys. Each verifies tokens of its own algorithm; the first signs. To rotate, put the new one first, later drop the old one. */
  readonly keys: readonly ProxyTokenKey[];
  /** Name of the claim that holds the workspace, default `workspaceId`. */
  readonly workspaceClaim?: string;
}

/** What a proxy token says of its bearer. */
export interface ProxyTokenClaims {
  /** `sub`: who acts, 1–255 characters. */
  readonly subject: string;
  readonly workspaceId: string;
  /** `perms`: grants in either form (rulings B6, B7). */
  readonly permissions: readonly string[];
}

/** Options of {@link signProxyToken}. */
export interface SignProxyTokenOptions extends ProxyTokenOptions {
  /** Milliseconds, 1_000…300_000, default 60_000; whole seconds count. */
  readonly lifetime?: number;
  /** Unix time, milliseconds; default `Date.now`. */
  readonly clock?: () => number;
}

/** Characters of a token. */
const MAX_TOKEN = 8_192;
/** Seconds between `iat` and `exp`. */
const MAX_LIFETIME = 300;
/** Seconds by which the signer's clock may be ahead. `exp` has none: a token is over when it says so. */
const TOLERANCE = 5;
const MAX_PERMISSIONS = 1_000;
const WORKSPACE = /^[a-zA-Z0-9_-]{1,255}$/;
/** The header may hold these and no others: nothing in it may bring a key along (`jwk`, `jku`, `x5u`) or change how it is read (`crit`, `b64`). */
const HEADER_NAMES: ReadonlySet<string> = new Set(["alg", "typ", "kid"]);
const RESERVED: ReadonlySet<string> = new Set(["iss", "sub", "aud", "exp", "nbf", "iat", "jti", "perms", "__proto__"]);

/** Whether a credential has the form of a token: three parts, even if one is empty. No root key has a dot. */
export function isTokenShaped(credential: string): boolean {
  return credential.split(".", 4).length === 3;
}

/**
 * Makes what verifies proxy tokens.
 * @returns the claims; `undefined` for a token that does not hold, whatever the reason
 * @throws TypeError or RangeError naming the option, among them a key that is too weak
 * @see ruling F3, hostile inputs A087–A105 · about 0.1 ms for each key of the token's algorithm
 */
export function createProxyTokenVerifier(
  options: ProxyTokenOptions,
  path = "options.proxyTokens",
): (token: string, now: number) => Promise<ProxyTokenClaims | undefined> {
  const expected = readOptions(options, path);
  return async (token, now) => {
    const algorithm = token.length > MAX_TOKEN ? undefined : readAlgorithm(token);
    for (const key of expected.keys) {
      if (key.algorithm !== algorithm) continue;
      const payload = await verifySignature(token, key);
      if (payload !== undefined) return readClaims(readJson(payload), expected, now);
    }
    return undefined;
  };
}

/**
 * Signs a proxy token with the first key, for the dashboard's side.
 * @throws TypeError or RangeError (rejects) naming what does not fit: an option, a claim, a first key that cannot sign
 * @see ruling F3
 */
export async function signProxyToken(claims: ProxyTokenClaims, options: SignProxyTokenOptions): Promise<string> {
  const { lifetime = 60_000, clock = Date.now, ...rest } = options;
  checkOptions({ lifetime, clock }, { lifetime: integer(1_000, MAX_LIFETIME * 1_000), clock: callable });
  const { issuer, audience, keys, workspaceClaim } = readOptions(rest, "options");
  const { algorithm, sign } = keys[0] as ReadyKey;
  if (sign === undefined) throw new TypeError("options.keys[0] must have a privateKey to sign with");
  const iat = Math.floor(guardClock(clock)() / 1_000);
  const { subject, workspaceId, permissions } = claims;
  const payload = { iss: issuer, aud: audience, sub: subject, [workspaceClaim]: workspaceId, perms: permissions, iat };
  const whole = { ...payload, exp: iat + Math.floor(lifetime / 1_000) };
  // What would not be accepted is not signed.
  if (readClaims(whole, { issuer, audience, workspaceClaim }, iat * 1_000) === undefined) {
    throw new TypeError("claims must be a subject of 1 to 255 characters, a workspaceId, and a list of at most 1000 permissions");
  }
  const token = await new SignJWT(whole).setProtectedHeader({ alg: algorithm, typ: "JWT" }).sign(sign);
  if (token.length > MAX_TOKEN) throw new RangeError(`claims.permissions must fit in a token of ${MAX_TOKEN} characters`);
  return token;
}

function readOptions(options: ProxyTokenOptions, path: string) {
  checkOptions(options, { issuer: text, audience: text, keys: () => undefined, workspaceClaim: word }, path);
  const { issuer, audience, workspaceClaim = "workspaceId" } = options;
  for (const name of ["issuer", "audience"] as const) if (options[name] === undefined) throw new TypeError(`${path}.${name} must be given`);
  if (RESERVED.has(workspaceClaim)) throw new TypeError(`${path}.workspaceClaim must not be a claim of another meaning`);
  return { issuer, audience, workspaceClaim, keys: readProxyKeys(options.keys, `${path}.keys`) };
}

/** The algorithm that the header names, if the token is well-formed; the token does not choose the key. */
function readAlgorithm(token: string): string | undefined {
  const parts = token.split(".");
  const header = parts.length === 3 && parts.every(isCanonical) ? readJson(base64url.decode(parts[0] as string)) : undefined;
  if (header === undefined) return undefined;
  const { alg, typ = "JWT", kid = "" } = header;
  if (!Object.keys(header).every((name) => HEADER_NAMES.has(name)) || typeof typ !== "string" || typeof kid !== "string") return undefined;
  return typeof alg === "string" && typ.toUpperCase() === "JWT" ? alg : undefined;
}

/** Base64url without padding, blanks or stray bits: one text for one value. */
function isCanonical(part: string): boolean {
  return /^[A-Za-z0-9_-]+$/.test(part) && part.length % 4 !== 1 && base64url.encode(base64url.decode(part)) === part;
}

/** The payload, if this key signed it. */
async function verifySignature(token: string, { algorithm, verify }: ReadyKey): Promise<Uint8Array | undefined> {
  try {
    const { payload } = await compactVerify(token, verify as never, { algorithms: [algorithm] });
    return payload;
  } catch (error) {
    if (error instanceof errors.JOSEError || isNoKey(error)) return undefined;
    throw error;
  }
}

/** What importing a bad key throws, such as a point off its curve: it verifies no token, and is no fault of the server. */
function isNoKey(error: unknown): boolean {
  return error instanceof Error && error.name === "DataError";
}

/** A JSON object in UTF-8 that names nothing twice. */
function readJson(bytes: Uint8Array): Readonly<Record<string, unknown>> | undefined {
  try {
    const json = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    const value: unknown = JSON.parse(json);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value) && !hasRepeatedName(json);
    return isObject ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** Every claim is required but `nbf` and `perms`; times are whole seconds (hostile inputs A093). */
function readClaims(
  claims: Readonly<Record<string, unknown>> | undefined,
  { issuer, audience, workspaceClaim }: Required<Omit<ProxyTokenOptions, "keys">>,
  now: number,
): ProxyTokenClaims | undefined {
  if (claims === undefined) return undefined;
  const { iss, aud, sub, exp, iat, nbf = iat, perms = [] } = claims;
  const workspaceId = Object.hasOwn(claims, workspaceClaim) ? claims[workspaceClaim] : undefined;
  if (iss !== issuer || !(aud === audience || (Array.isArray(aud) && aud.every(isText) && aud.includes(audience)))) return undefined;
  if (!isText(sub) || sub === "" || sub.length > 255 || !isText(workspaceId) || !WORKSPACE.test(workspaceId)) return undefined;
  if (!isSeconds(exp) || !isSeconds(iat) || !isSeconds(nbf)) return undefined;
  const soon = now / 1_000 + TOLERANCE;
  if (exp <= iat || exp - iat > MAX_LIFETIME || now >= exp * 1_000 || iat > soon || nbf > soon) return undefined;
  if (!Array.isArray(perms) || perms.length > MAX_PERMISSIONS || !perms.every(isText)) return undefined;
  return { subject: sub, workspaceId, permissions: perms };
}

function isSeconds(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.isWellFormed();
}
