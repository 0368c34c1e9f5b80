/** Authentication: from an Authorization header to a Caller, by a root key or a proxy token. Contract 5. */
import type { Caller } from "../contracts/caller.js";
import { KeystileError } from "../contracts/errors.js";
import type { RootKeyRow, Store } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { callable, type Check, checkOptions, guardClock, integer, ownOnly, word } from "../lib/check-options.js";
import { checkStore, guardStore, STORE_GUARD_OPTIONS, type StoreGuardOptions } from "../lib/guards/guard-store.js";
import { MAX_KEY_LENGTH } from "../lib/copy-json.js";
import { digestKey } from "../lib/hash.js";
import { createCallerGrants, DEFAULT_SCHEME } from "./grants.js";
import { createProxyTokenVerifier, isTokenShaped, MAX_TOKEN, type ProxyTokenOptions } from "./proxy-token.js";
import { GrowingLru } from "../lib/growing-lru.js";
import { createGuardedReads } from "../lib/guarded-reads.js";

/** Options of {@link createAuthenticator}. */
export interface AuthenticatorOptions extends StoreGuardOptions {
  /** Accept proxy tokens as well as root keys; absent: only root keys. */
  readonly proxyTokens?: ProxyTokenOptions;
  /**
   * Scheme of resource-name permissions, 1–255 characters of `[a-zA-Z0-9_-]`, default `svc`. Give the keyring the same.
   */
  readonly scheme?: string;
  /** Root keys to cache, 1…1_000_000, default 10_000. */
  readonly rootKeys?: number;
  /** Unix time, milliseconds; default `Date.now`. */
  readonly clock?: () => number;
}

/** An authenticated caller, and what it was authenticated by. */
export interface AuthenticatedCaller extends Caller {
  readonly kind: "rootKey" | "proxyToken";
  /** Id of the root key, or the token's subject. Safe to log: it is no credential. */
  readonly id: string;
}

/** Authenticates callers; made by {@link createAuthenticator}. */
export interface Authenticator {
  /**
   * Authenticates the sender of an `Authorization` header.
   * @param authorization every value of the header: in Node `request.headersDistinct.authorization` (`request.headers`
   *   hides a second one), for a web `Request` `request.headers.get("authorization")` (which joins them)
   * @throws (rejects) KeystileError 401: AUTH_MISSING: no header, or an empty one · AUTH_MALFORMED: not a single
   *   `Bearer <token>` in visible ASCII · AUTH_KEY_NOT_FOUND: an unknown, disabled, expired or deleted root key, or an
   *   ordinary key, without saying which · AUTH_TOKEN_INVALID: an invalid proxy token. STORE_… when the store failed:
   *   never a caller
   * @remarks about 1 µs (a digest and a map look-up) for a cached root key; about 0.1 ms for a proxy token
   */
  authenticate(authorization: string | readonly string[] | null | undefined): Promise<AuthenticatedCaller>;
  /** Unsubscribes from the store. */
  close(): void;
}

/** The checks of {@link AuthenticatorOptions}. */
export const AUTHENTICATOR_OPTIONS = {
  ...STORE_GUARD_OPTIONS,
  proxyTokens: (value: unknown, path: string) => void createProxyTokenVerifier(value as ProxyTokenOptions, path),
  scheme: word,
  rootKeys: integer(1, 1_000_000),
  clock: callable,
} as const satisfies Record<keyof AuthenticatorOptions, Check>;

/** Most characters of the header: the scheme, a space and the longest proxy token. */
const MAX_HEADER = "Bearer ".length + MAX_TOKEN;
/**
 * Without the `u` flag, `i` is ASCII-only and independent of the locale. A comma is not allowed, because it separates
 * joined headers.
 */
const BEARER = /^[ \t]*bearer +([!-+\--~]+)[ \t]*$/i;
const EMPTY = /^[ \t]*$/;

/** A root key that is in force. */
export interface ActiveRootKey {
  readonly caller: AuthenticatedCaller;
  /** As granted. */
  readonly permissions: readonly string[];
}

/** A cached root key. */
interface KnownRootKey extends ActiveRootKey {
  readonly enabled: boolean;
  readonly expires: number | undefined;
}

/** Options of {@link createRootKeys}. */
export type RootKeysOptions = Pick<AuthenticatorOptions, "scheme" | "rootKeys" | "clock">;

/** @param store guarded */
export function createRootKeys(store: Store, options: RootKeysOptions) {
  const { scheme = DEFAULT_SCHEME, rootKeys = 10_000 } = options;
  const clock = guardClock(options.clock ?? Date.now);
  const cache = createRootKeyCache(store, (row) => toKnown(row, scheme), rootKeys);
  return {
    /** @returns undefined: unknown, disabled, expired or deleted */
    find(digest: string): MaybePromise<ActiveRootKey | undefined> {
      const now = clock();
      const found = cache.find(digest);
      return found instanceof Promise ? found.then((known) => inForce(known, now)) : inForce(found, now);
    },
    /** Unsubscribes from the store. */
    close: cache.close,
  };
}

/** Root keys that are in force, by their digest. */
export type RootKeys = ReturnType<typeof createRootKeys>;

/**
 * Creates an authenticator.
 *
 * Why root keys of a disabled workspace still authenticate: its administration goes on, so that it can be enabled
 * again. Verifications of its keys resolve as FORBIDDEN.
 * @throws TypeError or RangeError naming the option, including a proxy key that is too weak
 * @see contract 5
 */
export function createAuthenticator(given: Store, options: AuthenticatorOptions = {}): Authenticator {
  checkStore(given);
  const settings = checkOptions(options, AUTHENTICATOR_OPTIONS);
  const { proxyTokens, scheme = DEFAULT_SCHEME } = settings;
  const store = guardStore(given, settings.storeTimeout);
  const clock = guardClock(settings.clock ?? Date.now);
  const verifyToken = proxyTokens === undefined ? undefined : createProxyTokenVerifier(proxyTokens);
  const rootKeys = createRootKeys(store, settings);

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
    if (key.length > MAX_KEY_LENGTH) throw malformed();
    // Await only a promise: each await costs as much as a look-up.
    const digest = digestKey(key);
    const found = rootKeys.find(typeof digest === "string" ? digest : await digest);
    const active = found instanceof Promise ? await found : found;
    if (active === undefined) throw new KeystileError("AUTH_KEY_NOT_FOUND", "the root key was not found");
    return active.caller;
  };
  return Object.freeze({
    async authenticate(authorization: string | readonly string[] | null | undefined) {
      const token = readBearer(authorization);
      // Only the form decides: a credential is never tried as both.
      return isTokenShaped(token) ? byToken(token) : byRootKey(token);
    },
    close: rootKeys.close,
  });
}

function inForce(known: KnownRootKey | undefined, now: number): ActiveRootKey | undefined {
  return known?.enabled === true && (known.expires === undefined || now <= known.expires) ? known : undefined;
}

/** The token of a single header `Bearer <token>`. */
function readBearer(authorization: string | readonly string[] | null | undefined): string {
  const values = typeof authorization === "string" ? [authorization] : (authorization ?? []);
  if (values.length > 1) throw malformed();
  const header = values[0] ?? "";
  if (header.length > MAX_HEADER) throw malformed();
  if (EMPTY.test(header)) {
    throw new KeystileError("AUTH_MISSING", "no credential was sent; send the header Authorization: Bearer <ROOT_KEY>");
  }
  const token = BEARER.exec(header)?.[1];
  if (token === undefined) throw malformed();
  return token;
}

const malformed = () =>
  new KeystileError("AUTH_MALFORMED", "the header must be one, as Authorization: Bearer <ROOT_KEY>");

function toKnown(row: RootKeyRow, scheme: string): KnownRootKey {
  // Own properties only: a polluted prototype must not supply what the row lacks.
  const { id, workspaceId, permissions, enabled, expires } = ownOnly(row);
  const caller = Object.freeze({
    kind: "rootKey",
    id,
    workspaceId,
    ...createCallerGrants(permissions, workspaceId, scheme),
  } as const);
  return { enabled, expires, caller, permissions };
}

/** Milliseconds for which a digest counts as not found: another process may create that root key. */
const MISS_TTL = 1_000;

/**
 * @param size root keys to cache, ≥ 1
 * @remarks Store clause 9: a read that began before a change is returned but not cached · a hit costs a map look-up and
 * the store's `pollChanges`
 */
export function createRootKeyCache<T extends object>(store: Store, prepare: (row: RootKeyRow) => T, size: number) {
  const found = new GrowingLru<T>({ max: size });
  const reads = createGuardedReads(store, {
    found: {
      set: (_text, digest, value) => found.set(digest, value),
      delete: (digest) => void found.delete(digest),
      clear: () => found.clear(),
    },
    read: (digest) => store.findRootKey(digest),
    prepare,
    missTtl: MISS_TTL,
  });
  const lookUp = (digest: string): MaybePromise<T | undefined> => found.get(digest) ?? reads.read(digest, digest);
  return {
    find(digest: string): MaybePromise<T | undefined> {
      const polling = store.pollChanges();
      // Not `instanceof`: a promise of another realm, or a thenable, would not be waited for, and a removed root key
      // trusted.
      return polling === undefined ? lookUp(digest) : Promise.resolve(polling).then(() => lookUp(digest));
    },
    /** Unsubscribes from the store. */
    close: reads.close,
  };
}
