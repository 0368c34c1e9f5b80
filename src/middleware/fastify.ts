/**
 * The entry point `keystile/fastify`: a plugin for Fastify 5, with requirements in the `config` of routes.
 * @module keystile/fastify
 */
import type {} from "fastify";
import { type ApiKeyOptions, createGuard, type HeaderMap, type KeyVerifier, type VerifiedKey } from "./guard.js";
import { decide } from "./node.js";
import { checkRequirement, type KeyRequirement } from "./requirement.js";
import type { NodeResponse } from "./reserved.js";

export type { HeaderMap } from "./guard.js";
export { verifiedKey } from "./guard.js";
export type * from "./public-types.js";

declare module "fastify" {
  /** Extended by keystile. */
  interface FastifyRequest {
    /** The verified key, on guarded routes. */
    apiKey?: VerifiedKey;
  }
  /** Extended by keystile. */
  interface FastifyContextConfig {
    /** What this route asks of a key besides what the plugin asks; `false`: the route is open. */
    apiKey?: false | KeyRequirement<FastifyRequest>;
  }
}

/** What is used of a request. */
export interface FastifyRequestLike {
  /** As Node has them. */
  readonly headers: HeaderMap;
  /** The client's address, as Fastify finds it by its option `trustProxy`. */
  readonly ip: string;
  /** The route that was found. */
  readonly routeOptions: { readonly config?: unknown };
  /** Set when a key passed. */
  apiKey?: VerifiedKey;
}

/** What is used of a reply. */
export interface FastifyReplyLike {
  /** Sets the status. */
  code(status: number): unknown;
  /** A header that was set before. */
  getHeader(name: string): unknown;
  /** Sets a header. */
  header(name: string, value: string): unknown;
  /** Sends the body. */
  send(body: string): unknown;
  /** Node's response, for its end. */
  readonly raw: NodeResponse;
}

/** What is used of an application. */
export interface FastifyLike<Request> {
  /** Declares `request.apiKey`. */
  decorateRequest(name: "apiKey"): unknown;
  /** Whether it was declared before. */
  hasRequestDecorator(name: "apiKey"): boolean;
  /** Adds a hook. */
  addHook(name: "onRoute", hook: (route: { readonly config?: unknown }) => void): unknown;
  /** Adds a hook. */
  addHook(name: "onRequest", hook: (request: Request, reply: FastifyReplyLike) => Promise<unknown>): unknown;
}

/**
 * Makes a plugin that guards every route of the instance it is registered on: `request.apiKey` is the verified key. A
 * route's `config: { apiKey: { permissions, cost, tags, ratelimits } }` asks for more, merged with the plugin's
 * requirements before anything is taken; `config: { apiKey: false }` leaves a route open. Await the registration: then
 * mistakes in a route's config throw when the route is built. Keys are verified before bodies are read.
 * @param verifier made by `createVerifier(store)`
 * @throws TypeError or RangeError that names the option
 * @example
 * await app.register(apiKey(verifier, { apiId }));
 * const config = { apiKey: { permissions: "documents.read" } };
 * app.get("/documents", { config }, (request) => verifiedKey(request).keyId);
 */
export function apiKey<Request extends FastifyRequestLike>(
  verifier: KeyVerifier,
  options?: ApiKeyOptions<Request>,
): (app: FastifyLike<Request>) => Promise<void> {
  const guard = createGuard(verifier, options);
  const checked = new WeakMap<object, KeyRequirement<Request>>();
  /** A route that was built before the plugin was loaded is validated at its first request. */
  const requirementsOf = (given: unknown): KeyRequirement<Request>[] => {
    if (given === NOTHING || given === false) return [];
    const known = typeof given === "object" && given !== null ? checked.get(given) : undefined;
    if (known !== undefined) return [known];
    const requirement = checkRequirement(given as KeyRequirement<Request>, "config.apiKey");
    checked.set(given as object, requirement);
    return [requirement];
  };

  const plugin = async (app: FastifyLike<Request>): Promise<void> => {
    if (!app.hasRequestDecorator("apiKey")) app.decorateRequest("apiKey");
    app.addHook("onRoute", ({ config }) => void requirementsOf(givenIn(config)));
    app.addHook("onRequest", async (request, reply) => {
      const given = givenIn(request.routeOptions.config);
      if (given === false) return undefined;
      const set = (name: string, value: string): unknown => reply.header(name, value);
      const answer = { get: (name: string) => reply.getHeader(name), set, raw: reply.raw };
      const refused = await decide(guard, request, answer, () => requirementsOf(given));
      if (refused === undefined) return undefined;
      reply.code(refused.refusal.status);
      reply.header("Content-Type", refused.rendered.type);
      return reply.send(refused.rendered.body);
    });
  };
  // As fastify-plugin does: without it the hooks would guard the plugin's own routes alone.
  return Object.assign(plugin, {
    [Symbol.for("skip-override")]: true,
    [Symbol.for("fastify.display-name")]: "keystile",
  });
}

/** A route whose config says nothing of keys; one that says `undefined` lost its requirement. */
const NOTHING = Symbol("nothing");

function givenIn(config: unknown): unknown {
  const given = (config ?? {}) as { readonly apiKey?: unknown };
  return "apiKey" in given ? given.apiKey : NOTHING;
}
