/**
 * The entry point `keystile/web`: a wrapper around `(Request) => Response`, as route handlers of Next, Bun, Deno,
 * workers, SvelteKit and Astro are, and the guard itself, for frameworks that have no entry point of their own.
 * @module keystile/web
 */
import type { JsonObject } from "../contracts/types.js";
import { callable } from "../lib/check-options.js";
import { type ApiKeyOptions, createGuard, type KeyVerifier, type VerifiedKey } from "./guard.js";
import { toResponse, withHeaders } from "./fetch-response.js";
import { endingWith } from "./reserved.js";
import { forget, isRemembered } from "./session.js";

export { createGuard, headersOf, setHeaders } from "./guard.js";
export type { Decision, Guard, HeaderMap, IncomingRequest, Refused } from "./guard.js";
export type * from "./public-types.js";
export type { HeaderFields } from "./ratelimit-fields.js";
export { toResponse } from "./fetch-response.js";

/**
 * A handler behind a guard.
 * @param key the verified key; undefined only if `skipJwt` let the request go on without one
 * @param rest what the host passes besides the request, such as Next's `{ params }`
 */
export type GuardedHandler<Rest extends readonly unknown[], Key = VerifiedKey> = (
  request: Request,
  key: Key,
  ...rest: Rest
) => Response | Promise<Response>;

/**
 * Guards a handler. What the handler throws rises as it is. For allow-lists give `clientAddress`: a Request does not
 * say it.
 *
 * Guards in one another, on the same Request, take only what the outer one has not: their own limits, and the
 * difference of cost. The outer one has charged before the inner one may refuse.
 * @param verifier made by `createVerifier(store)`
 * @throws TypeError or RangeError that names the option, when the route is built
 * @example
 * export const GET = apiKey(verifier, { apiId, permissions: "a.read" }, (request, key) => Response.json(key.keyId));
 */
export function apiKey<Rest extends readonly unknown[], Meta = JsonObject>(
  verifier: KeyVerifier<Meta>,
  options: ApiKeyOptions<Request> & { readonly skipJwt?: false | undefined },
  handler: GuardedHandler<Rest, VerifiedKey<Meta>>,
): (request: Request, ...rest: Rest) => Promise<Response>;
/** With `skipJwt` the key may be missing. */
export function apiKey<Rest extends readonly unknown[], Meta = JsonObject>(
  verifier: KeyVerifier<Meta>,
  options: ApiKeyOptions<Request>,
  handler: GuardedHandler<Rest, VerifiedKey<Meta> | undefined>,
): (request: Request, ...rest: Rest) => Promise<Response>;
export function apiKey<Rest extends readonly unknown[]>(
  verifier: KeyVerifier,
  options: ApiKeyOptions<Request>,
  handler: GuardedHandler<Rest, never>,
): (request: Request, ...rest: Rest) => Promise<Response> {
  const guard = createGuard<Request>(verifier, options);
  callable(handler, "handler");
  const handle = handler as GuardedHandler<Rest, unknown>;
  return async (request, ...rest) => {
    // The outermost guard forgets the request, so that one handled twice is charged twice.
    const isOutermost = !isRemembered(request);
    const header = (name: string) => request.headers.get(name);
    const decision = await guard.check({ request, memory: request, header });
    if (decision.outcome === "skip") return handle(request, undefined, ...rest);
    if (decision.outcome === "refuse") return toResponse(decision);
    try {
      const response = withHeaders(await handle(request, decision.apiKey, ...rest), decision.headers, request);
      return decision.end === undefined ? response : await endingWith(response, decision.end);
    } catch (error) {
      await decision.end?.(500);
      throw error;
    } finally {
      if (isOutermost) forget(request);
    }
  };
}
