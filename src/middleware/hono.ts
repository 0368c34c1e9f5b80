/**
 * The entry point `keystile/hono`: middleware for Hono.
 * @module keystile/hono
 */
import type { Context } from "hono";
import { type ApiKeyOptions, createGuard, type KeyVerifier, type VerifiedKey } from "./guard.js";
import { toResponse, withHeaders } from "./fetch-response.js";
import { endingWith } from "./reserved.js";

export { verifiedKey } from "./guard.js";
export type * from "./public-types.js";

declare module "hono" {
  /** Extended by keystile. */
  interface ContextVariableMap {
    /** The verified key, behind `apiKey` of `keystile/hono`. */
    apiKey?: VerifiedKey;
  }
}

/** What is used of a context. */
export interface HonoContext {
  /** The request. */
  readonly req: { header(name: string): string | undefined };
  /** Sets `c.var.apiKey`. */
  set(name: "apiKey", value: VerifiedKey): void;
  /** The response, once a handler has made it; set to undefined first, another one takes its place. */
  get res(): Response;
  set res(response: Response | undefined);
}

/**
 * Guards a route or an application: `c.var.apiKey` is the verified key in the handlers that follow. Functions of the
 * options get the context. For allow-lists give `clientAddress`, such as by `getConnInfo` of your runtime.
 *
 * A second guard of a request takes only what the first has not: its own limits, and the difference of cost. The first
 * has charged before the second may refuse.
 * @param verifier made by `createVerifier(store)`
 * @throws TypeError or RangeError that names the option, when the route is built
 * @example
 * app.get("/documents", apiKey(verifier, { apiId, permissions: "a.read" }), (c) => c.json(verifiedKey(c.var).keyId));
 */
export function apiKey<C extends HonoContext = Context>(
  verifier: KeyVerifier,
  options?: ApiKeyOptions<C>,
): (c: C, next: () => Promise<void>) => Promise<Response | undefined> {
  const guard = createGuard(verifier, options);
  return async (c, next) => {
    const decision = await guard.check({ request: c, memory: c, header: (name) => c.req.header(name) });
    if (decision.outcome === "refuse") return toResponse(decision);
    if (decision.outcome === "skip") {
      await next();
      return undefined;
    }
    c.set("apiKey", decision.apiKey);
    try {
      await next();
    } catch (error) {
      await decision.end?.(500);
      throw error;
    }
    const made = c.res;
    const headed = withHeaders(made, decision.headers, c);
    const res = decision.end === undefined ? headed : await endingWith(headed, decision.end);
    if (res !== made) {
      // Hono would set the headers of the response that it has over those of the one that it is given.
      c.res = undefined;
      c.res = res;
    }
    return undefined;
  };
}
