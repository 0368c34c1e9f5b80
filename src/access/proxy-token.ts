/**
 * Proxy tokens: the short-lived JWTs of a dashboard's server. Spec §1, §5.
 *
 * Why so much beside `jwtVerify`. jose accepts a name given twice, padded or stray base64url, a byte order mark, headers that it does
 * not know, times with fractions, a lifetime of any length and tokens of any size; its tolerance for clocks prolongs `exp` too.
 */
import { base64url, errors, type JWTVerifyOptions, jwtVerify, SignJWT } from "jose";
import { callable, type Check, checkOptions, guardClock, integer, text, word } from "../lib/check-options.js";
import { newId } from "../lib/hash.js";
import { hasRepeatedName } from "./duplicate-names.js";
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
  /** `typ` that the header of every token must have, such as `keystile+jwt`, so that no other token of the issuer passes. Default: `JWT` or none. */
  readonly typ?: string;
  /**
   * Accepts each token once: how many token ids (`jti`, then required) are remembered, 1…1_000_000, each until its token ends. While
   * that many are, new tokens are refused: give more than are made in the lifetime of one. Each verifier has its own list, which ends
   * with the process. Absent: a token may be used until it ends.
   */
  readonly replayListSize?: number;
}

/** What a proxy token says of its bearer. */
export interface ProxyTokenClaims {
  /** `sub`: who acts, 1–255 characters. */
  readonly subject: string;
  readonly workspaceId: string;
  /** `perms`: grants in either form. */
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
 * @see hostile inputs A087–A105 · about 0.1 ms for each key that is tried: those of the token's algorithm, and of its `kid` if it has one
 */
export function createProxyTokenVerifier(
  options: ProxyTokenOptions,
  path = "options.proxyTokens",
): (token: string, now: number) => Promise<ProxyTokenClaims | undefined> {
  const { issuer, audience, workspaceClaim, keys, typ, replayListSize } = readOptions(options, path);
  const isFirstUse = replayListSize === undefined ? () => true : createReplayList(replayListSize);
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
      const claims = payload && readClaims(payload, workspaceClaim, now);
      return claims && isFirstUse(claims, now) ? claims.bearer : undefined;
    }
    return undefined;
  };
}

/**
 * Signs a proxy token with the first key, for the dashboard's side.
 * @throws TypeError or RangeError (rejects) naming what does not fit: an option, a claim, a first key that cannot sign
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
  // What would not be accepted is not signed.
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
  const checks = {
    issuer: text,
    audience: text,
    keys,
    workspaceClaim: word,
    typ: text,
    replayListSize: integer(1, 1_000_000),
  };
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

/** Base64url without padding, blanks or stray bits: one text for one value. */
function isCanonical(part: string): boolean {
  return /^[A-Za-z0-9_-]+$/.test(part) && part.length % 4 !== 1 && base64url.encode(base64url.decode(part)) === part;
}

/** Whether this key signed the token by its own algorithm, and `rules` hold for the claims. */
async function isVerified(token: string, { algorithm, verify }: ReadyKey, rules: JWTVerifyOptions): Promise<boolean> {
  try {
    await jwtVerify(token, await verify(), { ...rules, algorithms: [algorithm] });
    return true;
  } catch (error) {
    if (error instanceof errors.JOSEError || isNoKey(error)) return false;
    throw error;
  }
}

/** What importing a bad key throws, such as a point off its curve: it verifies no token, and is no fault of the server. */
function isNoKey(error: unknown): boolean {
  return error instanceof Error && error.name === "DataError";
}

/** A JSON object in UTF-8 that names nothing twice. */
function readJson(part: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const json = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(base64url.decode(part));
    const value: unknown = JSON.parse(json);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value) && !hasRepeatedName(json);
    return isObject ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

interface AcceptedClaims {
  readonly bearer: ProxyTokenClaims;
  readonly jti: unknown;
  /** Milliseconds. */
  readonly end: number;
}

/** What jose leaves to us. Times are whole seconds: as milliseconds `exp` would lie 50,000 years ahead. */
function readClaims(
  { aud, sub, exp, iat, nbf = iat, jti, perms = [], ...claims }: Readonly<Record<string, unknown>>,
  workspaceClaim: string,
  now: number,
): AcceptedClaims | undefined {
  const workspaceId = Object.hasOwn(claims, workspaceClaim) ? claims[workspaceClaim] : undefined;
  if (Array.isArray(aud) && !aud.every(isText)) return undefined;
  if (!isText(sub) || sub === "" || sub.length > 255 || !isText(workspaceId) || !WORKSPACE.test(workspaceId))
    return undefined;
  if (!isSeconds(exp) || !isSeconds(iat) || !isSeconds(nbf)) return undefined;
  if (exp <= iat || exp - iat > MAX_LIFETIME || now >= exp * 1_000) return undefined;
  if (!Array.isArray(perms) || perms.length > MAX_PERMISSIONS || !perms.every(isText)) return undefined;
  return { bearer: { subject: sub, workspaceId, permissions: perms }, jti, end: exp * 1_000 };
}

/** Remembers the ids of the tokens that were accepted, until each ends; while it is full, it refuses new ones. */
function createReplayList(size: number): (claims: AcceptedClaims, now: number) => boolean {
  const ends = new Map<string, number>();
  let forgottenTo = 0;
  return ({ jti, end }, now) => {
    // Oldest first: one that ends later than those after it keeps them for five minutes at most.
    for (const [used, ended] of ends) {
      if (ended > now) break;
      ends.delete(used);
      forgottenTo = Math.max(forgottenTo, ended);
    }
    // A clock that steps back must not revive tokens whose ids are forgotten.
    if (!isText(jti) || jti === "" || jti.length > 255 || ends.has(jti) || ends.size >= size || end <= forgottenTo)
      return false;
    ends.set(jti, end);
    return true;
  };
}

function isSeconds(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.isWellFormed();
}
