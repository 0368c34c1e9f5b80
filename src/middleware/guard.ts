/**
 * The guard that every framework's middleware is a shell of: from a request to pass, skip or refuse. Fails closed: the
 * only way to pass is a result that says VALID.
 */
import { isKeystileError } from "../contracts/errors.js";
import type {
  JsonObject,
  MaybePromise,
  V2KeysVerifyKeyRequestBody,
  VerificationResult,
  VerifiedKey as ValidResult,
} from "../contracts/types.js";
import { drop, fireAndForget, settled } from "../lib/callbacks.js";
import { callable, type Check, checkOptions, flag, methods, narrowing, text } from "../lib/check-options.js";
import { DEFAULT_HEADERS, type Presented, readHeaders, toKey } from "../verify/credential.js";
import type { Verifier } from "../verify/verifier.js";
import { type Headers, ratelimitFields } from "./ratelimit-fields.js";
import { createRefusal, type Refusal, type RefusalBody, type RefusalOptions, renderProblem } from "./refusal.js";
import {
  headerNamesOrFunction,
  isFixed,
  type KeyRequirement,
  mergeRequirements,
  partOfRequest,
  REQUIREMENT_OPTIONS,
  resolveRequirements,
  type ResolvedRequirement,
} from "./requirement.js";
import { remainingRequest, remember, withoutRemovedLimits } from "./session.js";

declare global {
  /** Types of your program that keystile's middleware shows where a framework declares its request once. */
  // eslint-disable-next-line @typescript-eslint/no-namespace -- the one place that a program can extend for every entry
  namespace Keystile {
    /**
     * Extend it with `meta: Type`: the type of `meta` in `req.apiKey` of Express, Fastify and Nest, and `c.var.apiKey`.
     */
    // eslint-disable-next-line @typescript-eslint/no-empty-object-type -- to be extended
    interface Register {}
  }
}

/** The type of `meta` that the program registered; {@link JsonObject} otherwise. */
export type RegisteredMeta = Keystile.Register extends { meta: infer Meta } ? Meta : JsonObject;

/** What a guard needs of a verifier: `createVerifier(store)` has it. */
export type KeyVerifier<Meta = unknown> = Pick<Verifier<Meta>, "verify">;

/** The result of a verification that passed. */
export type VerifiedKey<Meta = RegisteredMeta> = ValidResult<Meta>;

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
  /** The object that stands for the request: guards that are given the same one take from a key once. */
  readonly memory: object;
  /** A header's value by its name in lower case; several values are joined by commas. */
  readonly header: (name: string) => string | readonly string[] | null | undefined;
  readonly clientAddress?: string | undefined;
}

/** What becomes of a request. */
export type Decision =
  | { readonly outcome: "pass"; readonly apiKey: VerifiedKey; readonly headers: Headers }
  | { readonly outcome: "skip" }
  | Refused;

/** A request that is refused. */
export interface Refused {
  readonly outcome: "refuse";
  readonly refusal: Refusal;
  readonly rendered: RefusalBody;
  readonly headers: Headers;
}

/** A guard; made by {@link createGuard}. */
export interface Guard<Request> {
  /**
   * Decides about a request. Never rejects.
   * @param inner returns the requirements of the route, which are merged with those of the guard before anything is
   *   taken; if it throws, the request is refused with a 500
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
  reveal: flag,
  scope: flag,
  usageExceeded: usageStatus,
  legacyHeaders: flag,
  render: callable,
  onError: callable,
} as const satisfies Record<keyof ApiKeyOptions<unknown>, Check>;

/**
 * Makes a guard.
 * @throws TypeError or RangeError that names the option, also for a permission query that does not parse
 */
export function createGuard<Request>(verifier: KeyVerifier, given: ApiKeyOptions<Request> = {}): Guard<Request> {
  methods("verify")(verifier, "verifier");
  const options = Object.freeze(checkOptions(given, GUARD_OPTIONS));
  const { keyFrom = DEFAULT_HEADERS, render = renderProblem, onError = logError } = options;
  const { apiId, migrationId } = options;
  const scopeOf = (clientAddress: string | undefined) =>
    apiId === undefined ? { clientAddress } : { clientAddress, apiId };
  /** What most routes ask: read once, when the route is built. */
  const fixed = isFixed(options) ? mergeRequirements([options]) : undefined;
  const names = typeof keyFrom === "function" ? undefined : keyFrom.map((name) => name.toLowerCase());

  /** A shared cache must not give one caller's response to another. */
  const varying: Headers = names === undefined ? {} : { Vary: names.join(", ") };

  const report = (error: unknown, request: Request): void => fireAndForget(() => onError(error, request));

  const headersFor = (refusal: Refusal): Headers => ({ ...varying, ...refusal.headers });

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

  const checkKey = (
    incoming: IncomingRequest<Request>,
    key: string,
    requirement: ResolvedRequirement,
  ): Promise<Decision> => {
    const { request, memory, clientAddress } = incoming;
    const address =
      options.clientAddress === undefined
        ? clientAddress
        : settled(options.clientAddress(request), "options.clientAddress");
    const body = remainingRequest(memory, verifier, key, requirement, migrationId);
    return verify(incoming, scopeOf(address), requirement, body);
  };

  const verify = async (
    incoming: IncomingRequest<Request>,
    scope: ReturnType<typeof scopeOf>,
    requirement: ResolvedRequirement,
    body: V2KeysVerifyKeyRequestBody,
  ): Promise<Decision> => {
    const { request, memory } = incoming;
    let result: VerificationResult<unknown>;
    try {
      result = await verifier.verify(body, scope);
    } catch (error) {
      // Each time with fewer limits.
      const less = withoutRemovedLimits(body, requirement, error);
      if (less !== undefined) return verify(incoming, scope, requirement, less);
      report(error, request);
      // The key was validated before, so what is wrong with the request is the program's.
      const isMistake = isKeystileError(error) && error.status < 500;
      return refuse(createRefusal(isMistake ? "INTERNAL" : "UNAVAILABLE", options), request);
    }
    if (!isVerified(result))
      return refuse(createRefusal(result.code, options, result, requirement.permissions), request);
    remember(memory, verifier, body, result);
    const limits = ratelimitFields(result.ratelimits, options.legacyHeaders === true, Date.now);
    return { outcome: "pass", apiKey: result, headers: { ...varying, "Cache-Control": PRIVATE, ...limits } };
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
        const more = inner?.() ?? NONE;
        const requirement =
          more.length === 0 && fixed !== undefined ? fixed : await resolve([options, ...more], request);
        return await checkKey(incoming, presented, requirement);
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

/** At once where none of them asks the request. */
function resolve<Request>(
  requirements: readonly KeyRequirement<Request>[],
  request: Request,
): MaybePromise<ResolvedRequirement> {
  return requirements.every(isFixed) ? mergeRequirements(requirements) : resolveRequirements(requirements, request);
}

function isVerified(result: VerificationResult<unknown>): result is VerifiedKey {
  return result.valid && result.code === "VALID" && typeof result.keyId === "string";
}

/** The header reader of an object such as Node's `request.headers`. Own properties only. */
export function headersOf(headers: HeaderMap): IncomingRequest<unknown>["header"] {
  return (name) => (Object.hasOwn(headers, name) ? headers[name] : undefined);
}

const PRIVATE = "private";

/**
 * Sets the headers of a decision on a response: `Vary` besides what it has, and `Cache-Control: private` only where it
 * has none.
 */
export function setHeaders(
  headers: Headers,
  get: (name: string) => unknown,
  set: (name: string, value: string) => unknown,
): void {
  for (const [name, value] of Object.entries(headers)) {
    const there = name === "Vary" || value === PRIVATE ? get(name) : undefined;
    if (there == null) set(name, value);
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
  // eslint-disable-next-line no-console -- the only log that every runtime has
  console.error(isOutage ? `${error.code}: ${error.detail}` : error);
}
