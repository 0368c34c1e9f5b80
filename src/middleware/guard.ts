/**
 * The guard that every framework's middleware is a shell of: from a request to pass, skip or refuse. Fails closed: the
 * only way to pass is a result that says VALID.
 */
import { compileQuery, createGrants } from "../access/permission-query.js";
import { isKeystileError } from "../contracts/errors.js";
import type {
  JsonObject,
  MaybePromise,
  V2KeysVerifyKeyRequestBody,
  VerificationResult,
  VerifiedKey as ValidResult,
} from "../contracts/types.js";
import { drop, fireAndForget, settled } from "../lib/callbacks.js";
import {
  callable,
  type Check,
  checkOptions,
  flag,
  integer,
  methods,
  narrowing,
  oneOf,
  text,
} from "../lib/check-options.js";
import { createPermissionCheck, type PermissionCheck, TELL_PERMISSIONS } from "../verify/parse-permission-query.js";
import type { Reservation, ReservationSettlement } from "../verify/reserve.js";
import { DEFAULT_HEADERS, type Presented, readHeaders, toKey } from "../verify/credential.js";
import type { Verifier } from "../verify/verifier.js";
import { type HeaderFields, withRatelimitFields } from "./ratelimit-fields.js";
import { createRefusal, type Refusal, type RefusalBody, type RefusalOptions, renderProblem } from "./refusal.js";
import {
  checkRequirement,
  headerNamesOrFunction,
  isFixed,
  type KeyRequirement,
  mergeRequirements,
  partOfRequest,
  REQUIREMENT_OPTIONS,
  resolveRequirements,
  type ResolvedRequirement,
} from "./requirement.js";
import { createReserved, type Reserved, type Unsettled } from "./reserved.js";
import { remainingRequest, remember, reservedBefore, withoutRemovedLimits } from "./session.js";

declare global {
  /** Types of your program that keystile's middleware shows where a framework declares its request once. */
  // oxlint-disable-next-line typescript/no-namespace -- the one place that a program can extend for every entry
  namespace Keystile {
    /**
     * Extend it with `meta: Type`: the type of `meta` in `req.apiKey` of Express, Fastify and Nest, and `c.var.apiKey`.
     */
    // oxlint-disable-next-line typescript/no-empty-object-type -- to be extended
    interface Register {}
  }
}

/** The type of `meta` that the program registered; {@link JsonObject} otherwise. */
export type RegisteredMeta = Keystile.Register extends { meta: infer Meta } ? Meta : JsonObject;

/** What a guard needs of a verifier: `createVerifier(store)` has it. */
export type KeyVerifier<Meta = unknown> = Pick<Verifier<Meta>, "verify"> & Partial<Pick<Verifier<Meta>, "reserve">>;

/** The result of a verification that passed. */
export interface VerifiedKey<Meta = RegisteredMeta> extends ValidResult<Meta> {
  /**
   * Whether the permissions that the key had when it was verified satisfy a permission query, with wildcards as in a
   * verification. Takes no tokens and no credits, and reads no store. Not enumerable: a copy of the key lacks it.
   * @param query such as `documents.write OR admin`, 1–1_000 code points
   * @throws KeystileError PERMISSIONS_QUERY_SYNTAX; BAD_REQUEST for what is not text, or is too long. TypeError if the
   *   guard has a verifier of your own that neither passes on its context nor lists the key's permissions
   * @example
   * if (!verifiedKey(req).can("documents.write OR admin")) return res.sendStatus(403);
   */
  readonly can: (query: string) => boolean;
  /**
   * Keeps so many of the credits that the guard reserved ({@link ApiKeyOptions} `reserve`) as spent, and returns the
   * others. Once; what is not settled when the response ends, `unsettled` decides about. Not enumerable.
   * @param spent an integer from 0 to what was reserved
   * @throws (rejects) as `commit` of `verifier.reserve`; TypeError: the guard reserves nothing
   * @example
   * await verifiedKey(req).commit(usage.total_tokens);
   */
  readonly commit: (spent: number) => Promise<ReservationSettlement>;
}

/**
 * The verified key of a guarded request: of Express, Fastify and Nest `verifiedKey(req)`, of Hono `verifiedKey(c.var)`,
 * of tRPC `verifiedKey(ctx)`. The compiler cannot know which handlers a guard stands before, so `apiKey` may be absent
 * to it.
 * @throws TypeError no guard let the request pass with a key
 */
export function verifiedKey<Key extends VerifiedKey<unknown>>(of: { readonly apiKey?: Key | undefined }): Key {
  if (of.apiKey === undefined) throw new TypeError("no key was verified: put a guard before this handler");
  return of.apiKey;
}

/** Options of a guard: what it asks of a key, where the key is, and how refusals look. All have defaults. */
export interface ApiKeyOptions<Request> extends KeyRequirement<Request>, RefusalOptions {
  /**
   * Names of the headers that may hold the key; the first that does counts. Of `authorization` only the scheme Bearer
   * does. Or a function that returns the key; null or undefined: none was sent. Default
   * `["authorization", "x-api-key"]`.
   */
  readonly keyFrom?: readonly string[] | ((request: Request) => MaybePromise<string | null | undefined>) | undefined;
  /**
   * Pass over a Bearer value in the form of a JWT. A request with nothing else then goes on **without a key**, for the
   * next guard to decide about. Default false: it is refused, as any other text that is no key.
   */
  readonly skipJwt?: boolean | undefined;
  /**
   * The client's address, for allow-lists; a key with an allow-list is refused without one. Not async: a promise is a
   * 500. Default: `ip` of the framework's request where there is one.
   */
  readonly clientAddress?: ((request: Request) => string | undefined) | undefined;
  /** Id of the API whose keys pass; those of others are refused as unknown. Default: keys of every API. */
  readonly apiId?: string;
  /** Migration under which an unknown key may have been imported, at most 256 code points. */
  readonly migrationId?: string | undefined;
  /**
   * What becomes of reserved credits that the handler has not settled when its response ends: `status` keeps them all
   * after a 2xx or 3xx and returns them after anything else, `commit` keeps and `release` returns them always. Default
   * `status`.
   */
  readonly unsettled?: Unsettled | undefined;
  /**
   * Milliseconds after which reserved credits that nobody settled return, 1_000…86_400_000, default 300_000. A response
   * that lasts longer is free unless this is longer: what it commits comes too late.
   */
  readonly reserveTimeout?: number | undefined;
  /** Renders the bodies of refusals. Not async: a promise is a 500. Default: problem+json with `code`. */
  readonly render?: ((refusal: Refusal) => RefusalBody) | undefined;
  /**
   * Called with the reason of every 500 and 503, which the client does not get. Default: `console.error`. What it
   * throws or rejects with is dropped.
   */
  readonly onError?: ((error: unknown, request: Request) => unknown) | undefined;
}

/** Headers by their names in lower case, as Node has them. */
export type HeaderMap = Readonly<Record<string, string | readonly string[] | undefined>>;

/** A request as a guard reads it. */
export interface IncomingRequest<Request> {
  /** What functions of the options get. */
  readonly request: Request;
  /**
   * The object that stands for the request: guards of one verifier that are given the same object take from a key only
   * what earlier ones have not. Give a new object to charge again, such as for each message of a socket.
   */
  readonly memory: object;
  /** A header's value by its name in lower case; several values are joined by commas. See {@link headersOf}. */
  readonly header: (name: string) => string | readonly string[] | null | undefined;
  /** The client's address, unless the option `clientAddress` finds it; a key with an allow-list is refused without. */
  readonly clientAddress?: string | undefined;
}

/**
 * What becomes of a request.
 * - `pass`: hand `apiKey` to the handler, and set `headers` on its response, by {@link setHeaders}.
 * - `skip`: it has a Bearer JWT and no key, and the option `skipJwt` is set. **Nobody was authenticated.**
 * - `refuse`: respond as {@link Refused} says.
 */
export type Decision =
  | {
      readonly outcome: "pass";
      readonly apiKey: VerifiedKey;
      readonly headers: HeaderFields;
      /**
       * Where the guard reserved credits: call it with the status once the response has ended, also where the handler
       * failed. It settles what the handler has not, and never rejects. `isCut`: the client has gone away; the handler
       * has a minute to settle before. Absent: there is nothing to settle.
       */
      readonly end?: (status: number, isCut?: boolean) => Promise<void>;
    }
  | { readonly outcome: "skip" }
  | Refused;

/** A request that is refused. */
export interface Refused {
  readonly outcome: "refuse";
  /** Why, as code, status and text. */
  readonly refusal: Refusal;
  /** The body, and its `Content-Type`. */
  readonly rendered: RefusalBody;
  /** Those of the refusal, and `Vary`; without `Content-Type`. */
  readonly headers: HeaderFields;
}

/** A guard; made by {@link createGuard}. */
export interface Guard<Request> {
  /**
   * Decides about a request, and takes what it costs if it passes. Never rejects: what goes wrong is a refusal, and its
   * reason goes to `onError`.
   * @param inner returns the requirements of the route, which are merged with those of the guard before anything is
   *   taken; if it throws, or returns one that is not valid, the request is refused with a 500
   */
  check(incoming: IncomingRequest<Request>, inner?: () => readonly KeyRequirement<Request>[]): Promise<Decision>;
}

const NONE: readonly never[] = Object.freeze([]);

const usageStatus: Check = (value, path) => {
  if (value !== 402 && value !== 429) throw new TypeError(`${path} must be 402 or 429`);
};

/** The checks of {@link ApiKeyOptions}. */
export const GUARD_OPTIONS = {
  ...REQUIREMENT_OPTIONS,
  keyFrom: headerNamesOrFunction,
  skipJwt: flag,
  clientAddress: callable,
  apiId: narrowing(text),
  migrationId: partOfRequest("migrationId"),
  unsettled: oneOf("status", "commit", "release"),
  reserveTimeout: integer(1_000, 86_400_000),
  reveal: flag,
  scope: flag,
  usageExceeded: usageStatus,
  legacyHeaders: flag,
  render: callable,
  onError: callable,
} as const satisfies Record<keyof ApiKeyOptions<unknown>, Check>;

/**
 * Makes a guard, which reads a request's key, verifies it, and says what becomes of the request. For frameworks and
 * protocols that have no entry point of their own: `check` a request, set the headers of the decision, and go on or
 * respond. A request passes only if its verification returned VALID.
 *
 * A decision that refuses has one of these codes, each with its status:
 * - 401 `KEY_MISSING`, `KEY_INVALID`; with `reveal` also `NOT_FOUND`, `DISABLED`, `EXPIRED`
 * - 403 `FORBIDDEN`, `INSUFFICIENT_PERMISSIONS`
 * - 429 `RATE_LIMITED`, `USAGE_EXCEEDED`, which the option `usageExceeded` can make a 402
 * - 500 `INTERNAL`: a mistake of the program, such as an option's function that threw
 * - 503 `UNAVAILABLE`: the store or the limiter failed, or the verifier was closed
 * @param verifier made by `createVerifier(store)`
 * @param given `apiId`, `permissions` and `ratelimits` narrow what passes: leave them out, or give a value
 * @throws TypeError or RangeError that names the option: an unknown name, a value that is not valid, a permission query
 *   that does not parse, `undefined` for one that narrows
 * @example
 * const guard = createGuard<IncomingMessage>(verifier, { apiId, permissions: "documents.read" });
 * const header = headersOf(request.headers, request.rawHeaders);
 * const decision = await guard.check({ request, memory: request, header });
 * if (decision.outcome === "pass") serve(request, decision.apiKey);
 */
export function createGuard<Request>(verifier: KeyVerifier, given: ApiKeyOptions<Request> = {}): Guard<Request> {
  methods("verify")(verifier, "verifier");
  const options = Object.freeze(checkOptions(given, GUARD_OPTIONS));
  if (options.reserve !== undefined) methods("reserve")(verifier, "verifier");
  const { keyFrom = DEFAULT_HEADERS, render = renderProblem, onError = logError, unsettled = "status" } = options;
  const { apiId, migrationId } = options;
  /** What narrows must not be undefined in it. A spread in place of the two literals takes 2 µs more. */
  const contextOf = (clientAddress: string | undefined, tell: (check: PermissionCheck) => void) =>
    apiId === undefined
      ? { clientAddress, [TELL_PERMISSIONS]: tell }
      : { clientAddress, apiId, [TELL_PERMISSIONS]: tell };
  /** What most routes ask: read once, when the route is built. */
  const fixed = isFixed(options) ? mergeRequirements([options]) : undefined;
  const names = typeof keyFrom === "function" ? undefined : keyFrom.map((name) => name.toLowerCase());

  /** A shared cache must not give one caller's response to another. */
  const varying: HeaderFields = names === undefined ? {} : { Vary: names.join(", ") };
  const passing: HeaderFields = { ...varying, "Cache-Control": PRIVATE };

  const report = (error: unknown, request: Request): void => fireAndForget(() => onError(error, request));

  const headersFor = (refusal: Refusal): HeaderFields => ({ ...varying, ...refusal.headers });

  const refuse = (refusal: Refusal, request: Request): Decision => {
    try {
      return { outcome: "refuse", refusal, rendered: readRendered(render(refusal)), headers: headersFor(refusal) };
    } catch (error) {
      report(error, request);
      const internal = createRefusal("INTERNAL", options);
      return { outcome: "refuse", refusal: internal, rendered: renderProblem(internal), headers: headersFor(internal) };
    }
  };

  const present = (incoming: IncomingRequest<Request>) =>
    names === undefined
      ? ask(incoming)
      : readHeaders(names, (name) => joined(incoming.header(name)), options.skipJwt === true);

  const ask = async (incoming: IncomingRequest<Request>) => {
    const value = await (keyFrom as (request: Request) => MaybePromise<string | null | undefined>)(incoming.request);
    return { presented: value == null ? undefined : toKey(value), skipped: false };
  };

  const verify = async (
    incoming: IncomingRequest<Request>,
    clientAddress: string | undefined,
    requirement: ResolvedRequirement,
    body: V2KeysVerifyKeyRequestBody,
  ): Promise<Decision> => {
    const { request, memory } = incoming;
    let result: VerificationResult<unknown>;
    let can: PermissionCheck | undefined;
    const before = reservedBefore(memory, verifier, body.key);
    const reserves = requirement.reserves && before === undefined;
    try {
      const context = contextOf(clientAddress, (check) => void (can = check));
      result = await (reserves
        ? verifier.reserve!(body, { ...context, timeout: options.reserveTimeout })
        : verifier.verify(body, context));
    } catch (error) {
      // Each time with fewer limits.
      const less = withoutRemovedLimits(body, requirement, error);
      if (less !== undefined) return verify(incoming, clientAddress, requirement, less);
      report(error, request);
      // The key was validated before, so what is wrong with the request is the program's.
      const isMistake = isKeystileError(error) && error.status < 500;
      return refuse(createRefusal(isMistake ? "INTERNAL" : "UNAVAILABLE", options), request);
    }
    if (!isVerified(result))
      return refuse(createRefusal(result.code, options, result, requirement.permissions), request);
    const reserved = reserves
      ? createReserved(
          { ...(result as ValidResult & Reservation) },
          {
            ...{ cost: body.credits?.cost ?? 0, unsettled, reserveTimeout: options.reserveTimeout },
            onError: (error) => report(error, request),
          },
        )
      : undefined;
    remember(memory, verifier, body, result, reserved);
    const headers = withRatelimitFields(passing, result.ratelimits, options.legacyHeaders === true, Date.now);
    const apiKey = withMethods(result, can ?? checkOfList(result), reserved ?? before);
    return reserved === undefined
      ? { outcome: "pass", apiKey, headers }
      : { outcome: "pass", apiKey, headers, end: reserved.end };
  };

  return Object.freeze({
    async check(incoming: IncomingRequest<Request>, inner?: () => readonly KeyRequirement<Request>[]) {
      const { request } = incoming;
      try {
        const read = present(incoming);
        const { presented, skipped }: { presented: Presented; skipped: boolean } =
          read instanceof Promise ? await read : read;
        if (presented === undefined && skipped) return { outcome: "skip" } as const;
        if (presented == null)
          return refuse(createRefusal(presented === null ? "KEY_INVALID" : "KEY_MISSING", options), request);
        const more = inner?.().map((given) => checkRequirement(given, "requirement")) ?? NONE;
        const requirement =
          more.length === 0 && fixed !== undefined ? fixed : await resolveRequirements([options, ...more], request);
        const clientAddress =
          options.clientAddress === undefined
            ? incoming.clientAddress
            : settled(options.clientAddress(request), "options.clientAddress");
        const body = remainingRequest(incoming.memory, verifier, presented, requirement, migrationId);
        return await verify(incoming, clientAddress, requirement, body);
      } catch (error) {
        report(error, request);
        return refuse(createRefusal("INTERNAL", options), request);
      }
    },
  });
}

/** A copy of what the program rendered, whose parts may be promises by mistake as well as the whole. */
function readRendered(given: RefusalBody): RefusalBody {
  const { type, body } = settled(given, "options.render");
  if (typeof type === "string" && typeof body === "string") return { type, body };
  drop(type);
  drop(body);
  throw new TypeError("options.render must return type and body, both strings");
}

function isVerified(result: VerificationResult<unknown>): result is ValidResult {
  return result.valid && result.code === "VALID" && typeof result.keyId === "string";
}

/** A copy, since the result is the verifier's. */
function withMethods(result: ValidResult, can: PermissionCheck, reserved: Reserved | undefined): VerifiedKey {
  if (reserved === undefined) return hiding({ ...result }, can, nothingReserved);
  const { id: _, release: __, commit: ___, ...key } = result as ValidResult & Partial<Reservation>;
  return hiding(key, can, reserved.commit);
}

/** Adds methods that copies, JSON and comparisons do not see. */
function hiding(key: ValidResult, can: PermissionCheck, commit: Reserved["commit"]): VerifiedKey {
  Object.defineProperty(key, "can", { value: can, enumerable: false });
  return Object.defineProperty(key, "commit", { value: commit, enumerable: false }) as VerifiedKey;
}

const nothingReserved = (): Promise<never> =>
  Promise.reject(new TypeError("the guard reserves no credits: give it the option reserve"));

/** For results of a verifier that did not tell the key's permissions. */
function checkOfList({ permissions }: ValidResult<unknown>): PermissionCheck {
  if (permissions !== undefined) return createPermissionCheck(compileQuery, createGrants(permissions));
  return () => {
    throw new TypeError("the verifier of this guard must pass on its context, or list the key's permissions");
  };
}

/**
 * The header reader of an object such as Node's `request.headers`. Own properties only.
 * @param rawHeaders Node's `request.rawHeaders`: names and values by turns. Without them a second `Authorization` goes
 *   unnoticed, since Node drops it, and a proxy may have read that one; with them neither is taken for a key
 */
export function headersOf(headers: HeaderMap, rawHeaders?: readonly string[]): IncomingRequest<unknown>["header"] {
  return (name) => {
    const value = Object.hasOwn(headers, name) ? headers[name] : undefined;
    return typeof value === "string" && Array.isArray(rawHeaders) ? allOf(name, value, rawHeaders) : value;
  };
}

/** All values of a header that has several; otherwise the one that is known, which a program may have set. */
function allOf(name: string, known: string, rawHeaders: readonly string[]): string | readonly string[] {
  const values: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const given = rawHeaders[i] as string;
    if (given.length === name.length && given.toLowerCase() === name) values.push(rawHeaders[i + 1] as string);
  }
  return values.length > 1 ? values : known;
}

const PRIVATE = "private";

/**
 * Sets the headers of a decision on a response: `Vary` besides what it has, and `Cache-Control: private` only where it
 * has none.
 * @param get the value of a header that was set before; none: `null`, `undefined` or an empty text
 * @param set replaces a header
 */
export function setHeaders(
  headers: HeaderFields,
  get: (name: string) => unknown,
  set: (name: string, value: string) => unknown,
): void {
  for (const [name, value] of Object.entries(headers)) {
    const there = name === "Vary" || value === PRIVATE ? get(name) : undefined;
    if (there == null || there === "") set(name, value);
    else if (name === "Vary") set(name, varyingToo((there as string | string[]).toString(), value));
  }
}

/** Names of headers, each once. */
function varyingToo(there: string, more: string): string {
  const names = there.split(",").map((name) => name.trim());
  const known = new Set(names.map((name) => name.toLowerCase()));
  return [...names, ...more.split(", ").filter((name) => !known.has(name))].join(", ");
}

function joined(value: string | readonly string[] | null | undefined): string | undefined {
  return typeof value === "string" ? value : value?.join(", ");
}

function logError(error: unknown): void {
  // An outage brings one for each request: a line each, without the stack.
  const isOutage = isKeystileError(error) && error.status === 503;
  // oxlint-disable-next-line no-console -- the only log that every runtime has
  console.error(isOutage ? `${error.code}: ${error.detail}` : error);
}
