/** VERB authenticate: Authorization header → Caller, by a root key or a proxy token. Spec §5, rulings F2, F3. What a caller may do, its grants say. */
import type { Caller } from "../contracts/caller.js";
import { KeystileError } from "../contracts/errors.js";
import type { RootKeyRow, Store } from "../contracts/store.js";
import {
  callable,
  type Check,
  checkOptions,
  checkStore,
  guardClock,
  integer,
  ownOnly,
  word,
} from "../lib/check-options.js";
import { guardStore, STORE_GUARD_OPTIONS, type StoreGuardOptions } from "../lib/guards/guard-store.js";
import { digestKey } from "../lib/hash.js";
import { createCallerGrants, DEFAULT_SCHEME } from "./grants.js";
import { createProxyTokenVerifier, isTokenShaped, type ProxyTokenOptions } from "./proxy-token.js";
import { createRootKeyCache } from "./root-key-cache.js";

/** Options of {@link createAuthenticator}. */
export interface AuthenticatorOptions extends StoreGuardOptions {
  /** Proxy tokens that are accepted beside root keys (ruling F3); absent: none is. */
  readonly proxyTokens?: ProxyTokenOptions;
  /** Scheme word of resource-name permissions (ruling B7), default `svc`. Give the keyring the same. */
  readonly scheme?: string;
  /** Root keys remembered, 1…1_000_000, default 10_000. */
  readonly rootKeys?: number;
  /** Unix time, milliseconds; default `Date.now`. */
  readonly clock?: () => number;
}

/** A caller, and by what it was let in. */
export interface AuthenticatedCaller extends Caller {
  readonly kind: "rootKey" | "proxyToken";
  /** Id of the root key, or the token's subject: fit for logs, lets nobody in. */
  readonly id: string;
}

/** Lets callers in. */
export interface Authenticator {
  /**
   * Who sends this header.
   * @param authorization every value of the header that came: `request.headersDistinct.authorization` of Node, which hides no second
   *   one as `request.headers` does, or `request.headers.get("authorization")` of a web `Request`, which joins them
   * @throws (rejects) KeystileError 401: AUTH_MISSING: none, or empty · AUTH_MALFORMED: not one `Bearer <token>` in visible ASCII ·
   *   AUTH_KEY_NOT_FOUND: an unknown, disabled, expired or deleted root key, or an ordinary key; all look alike ·
   *   AUTH_TOKEN_INVALID: a proxy token that does not hold. A store that failed: STORE_…, never a caller
   * @see ruling F2 · a digest and a map look-up, about 1 µs, for a root key seen before; about 0.1 ms for a proxy token
   */
  authenticate(authorization: string | readonly string[] | null | undefined): Promise<AuthenticatedCaller>;
  /** Stops listening to the store. */
  close(): void;
}

/** What each of {@link AuthenticatorOptions} must be. */
export const AUTHENTICATOR_OPTIONS = {
  ...STORE_GUARD_OPTIONS,
  proxyTokens: (value: unknown, path: string) => void createProxyTokenVerifier(value as ProxyTokenOptions, path),
  scheme: word,
  rootKeys: integer(1, 1_000_000),
  clock: callable,
} as const satisfies Record<keyof AuthenticatorOptions, Check>;

/** Characters of the header; a proxy token may fill it. */
const MAX_HEADER = 8_192;
/** Characters of a root key (spec §8, `key`). */
const MAX_KEY = 512;
/** Without the `u` flag, `i` is ASCII only and knows no locale. The comma is out: it stands between headers that were joined. */
const BEARER = /^[ \t]*bearer[ \t]+([!-+\--~]+)[ \t]*$/i;
const BLANK = /^[ \t]*$/;

/** What is remembered of a root key. */
interface KnownRootKey {
  readonly enabled: boolean;
  readonly expires: number | undefined;
  readonly caller: AuthenticatedCaller;
}

/**
 * Makes what lets callers in.
 *
 * Why root keys of a disabled workspace still let callers in: what they verify is FORBIDDEN (ruling A4), and nobody else could be
 * told so.
 * @throws TypeError or RangeError naming the option, among them a proxy key that is too weak
 * @see spec §5, rulings F1–F3 · remembers callers as long as the store tells of no change
 */
export function createAuthenticator(given: Store, options: AuthenticatorOptions = {}): Authenticator {
  checkStore(given);
  const own = checkOptions(options, AUTHENTICATOR_OPTIONS);
  const { proxyTokens, scheme = DEFAULT_SCHEME, rootKeys = 10_000 } = own;
  const store = guardStore(given, own.storeTimeout);
  const clock = guardClock(own.clock ?? Date.now);
  const verifyToken = proxyTokens === undefined ? undefined : createProxyTokenVerifier(proxyTokens);
  const cache = createRootKeyCache(store, (row) => toKnown(row, scheme), rootKeys);

  const byToken = async (token: string): Promise<AuthenticatedCaller> => {
    const claims = await verifyToken?.(token, clock());
    if (claims === undefined) throw new KeystileError("AUTH_TOKEN_INVALID", "the token is not valid, or no longer");
    const { subject, workspaceId, permissions } = claims;
    return Object.freeze({
      kind: "proxyToken",
      id: subject,
      workspaceId,
      ...createCallerGrants(permissions, workspaceId, scheme),
    });
  };
  const byRootKey = async (key: string): Promise<AuthenticatedCaller> => {
    if (key.length > MAX_KEY) throw malformed();
    const now = clock();
    // Awaits only what is a promise: each await costs as much as a look-up.
    const digest = digestKey(key);
    const found = cache.find(typeof digest === "string" ? digest : await digest);
    const known = found instanceof Promise ? await found : found;
    if (known === undefined || !known.enabled || (known.expires !== undefined && now > known.expires)) {
      throw new KeystileError("AUTH_KEY_NOT_FOUND", "the root key was not found");
    }
    return known.caller;
  };
  return Object.freeze({
    async authenticate(authorization: string | readonly string[] | null | undefined) {
      const token = readBearer(authorization);
      // The form alone decides: what fails as the one is never tried as the other.
      return isTokenShaped(token) ? byToken(token) : byRootKey(token);
    },
    close: cache.close,
  });
}

/** The token of one header `Bearer <token>`. */
function readBearer(authorization: string | readonly string[] | null | undefined): string {
  const values = typeof authorization === "string" ? [authorization] : (authorization ?? []);
  if (values.length > 1) throw malformed();
  const header = values[0] ?? "";
  if (header.length > MAX_HEADER) throw malformed();
  if (BLANK.test(header)) {
    throw new KeystileError("AUTH_MISSING", "no credential was sent; send the header Authorization: Bearer <ROOT_KEY>");
  }
  const token = BEARER.exec(header)?.[1];
  if (token === undefined) throw malformed();
  return token;
}

const malformed = () =>
  new KeystileError("AUTH_MALFORMED", "the header must be one, as Authorization: Bearer <ROOT_KEY>");

function toKnown(row: RootKeyRow, scheme: string): KnownRootKey {
  // Own properties only: what the row lacks must not come from a polluted prototype.
  const { id, workspaceId, permissions, enabled, expires } = ownOnly(row);
  const caller = Object.freeze({
    kind: "rootKey",
    id,
    workspaceId,
    ...createCallerGrants(permissions, workspaceId, scheme),
  } as const);
  return { enabled, expires, caller };
}
