/**
 * The entry point `keystile/trpc`: middleware for procedures of tRPC 11.
 * @module keystile/trpc
 */
import type { TRPCMiddlewareFunction } from "@trpc/server";
import type { JsonObject } from "../contracts/types.js";
import {
  type ApiKeyOptions,
  createGuard,
  type HeaderMap,
  headersOf,
  type KeyVerifier,
  setHeaders,
  type VerifiedKey,
} from "./guard.js";
import { type Refusal } from "./refusal.js";

export type { HeaderMap } from "./guard.js";
export { verifiedKey } from "./guard.js";
export type * from "./public-types.js";

/**
 * What is used of a context, as `createContext` returns it. Node's adapters have `req` and `res`, fetch `resHeaders`.
 * That of WebSockets has a socket as `res`, which gets no headers; neither does a response whose headers were sent, as
 * that of a batch which streams.
 */
export interface TrpcContext {
  /** The request of the adapter. */
  readonly req: { readonly headers: HeaderMap | Headers; readonly rawHeaders?: readonly string[] };
  /** The response of a Node adapter, for headers. */
  readonly res?: object | undefined;
  /** The response headers of the fetch adapter. */
  readonly resHeaders?: Headers | undefined;
}

/** What stands for one call, in the context of the guards after the first: calls of a batch share their request. */
const CALL = Symbol("keystile.call");

const CODES: Readonly<Record<number, string>> = {
  401: "UNAUTHORIZED",
  402: "PAYMENT_REQUIRED",
  403: "FORBIDDEN",
  429: "TOO_MANY_REQUESTS",
  503: "SERVICE_UNAVAILABLE",
};

/**
 * What the middleware throws. tRPC takes an error of this name for one of its own. Its message, which clients get,
 * begins with the code of the refusal, such as `KEY_INVALID: …`.
 */
export class ApiKeyRefused extends Error {
  /** A code of tRPC: UNAUTHORIZED, FORBIDDEN, TOO_MANY_REQUESTS and the like. */
  readonly code: string;
  /** @param refusal what the client is told; an error formatter may show `cause.retryAfter` */
  constructor(readonly refusal: Refusal) {
    super(`${refusal.code}: ${refusal.detail}`, { cause: refusal });
    this.name = "TRPCError";
    this.code = CODES[refusal.status] ?? "INTERNAL_SERVER_ERROR";
  }
}

interface NodeHeaders {
  getHeader?(name: string): unknown;
  setHeader(name: string, value: string): unknown;
  readonly headersSent?: boolean;
}

/** A call of a procedure, as functions of the options get it. */
export interface TrpcCall<Context extends TrpcContext = TrpcContext> {
  /** As `createContext` returned it, with what middleware before this added. */
  readonly ctx: Context;
  /** The procedure's path, such as `documents.byId`. */
  readonly path: string;
  /** `query`, `mutation` or `subscription`. */
  readonly type: string;
  /** The input, as validators before this middleware left it. */
  readonly input: unknown;
}

/**
 * Guards procedures: `t.procedure.use(apiKey(verifier, …))`; `ctx.apiKey` is the verified key. Each call of a batch is
 * verified and charged by itself. Functions of the options get the call.
 *
 * A second guard of a call takes only what the first has not: its own limits, and the difference of cost. The first has
 * charged before the second may refuse.
 * @param verifier made by `createVerifier(store)`
 * @throws TypeError or RangeError that names the option, when the procedure is built. The middleware rejects with
 *   {@link ApiKeyRefused}
 */
export function apiKey<Context extends TrpcContext = TrpcContext, Meta = JsonObject>(
  verifier: KeyVerifier<Meta>,
  options?: ApiKeyOptions<TrpcCall<Context>> & { readonly skipJwt?: false | undefined },
  // oxlint-disable-next-line typescript/no-explicit-any -- it fits procedures of every context, metadata and input
): TRPCMiddlewareFunction<any, any, any, { apiKey: VerifiedKey<Meta> }, any>;
/** With `skipJwt` the key may be missing. */
export function apiKey<Context extends TrpcContext = TrpcContext, Meta = JsonObject>(
  verifier: KeyVerifier<Meta>,
  options: ApiKeyOptions<TrpcCall<Context>>,
  // oxlint-disable-next-line typescript/no-explicit-any -- as above
): TRPCMiddlewareFunction<any, any, any, { apiKey?: VerifiedKey<Meta> }, any>;
export function apiKey<Context extends TrpcContext = TrpcContext>(
  verifier: KeyVerifier,
  options?: ApiKeyOptions<TrpcCall<Context>>,
  // oxlint-disable-next-line typescript/no-explicit-any -- it fits procedures of every context, metadata and input
): TRPCMiddlewareFunction<any, any, any, { apiKey: VerifiedKey }, any> {
  const guard = createGuard(verifier, options);
  return async (opts) => {
    const context = opts.ctx as Context & { readonly [CALL]?: object };
    const memory = context[CALL] ?? {};
    const decision = await guard.check({
      request: opts,
      memory,
      header: (name) => headerOf(context.req, name),
    });
    if (decision.outcome === "skip") return opts.next({ ctx: {} as { apiKey: VerifiedKey } });
    const { resHeaders } = context;
    const res = answerOf(context.res);
    setHeaders(
      decision.headers,
      (name) => resHeaders?.get(name) ?? res?.getHeader?.(name),
      (name, value) => {
        resHeaders?.set(name, value);
        res?.setHeader(name, value);
      },
    );
    if (decision.outcome === "refuse") throw new ApiKeyRefused(decision.refusal);
    const { apiKey, end } = decision;
    const passing = opts.next({ ctx: { apiKey, [CALL]: memory } });
    if (end === undefined) return passing;
    const result = await passing;
    await end(result.ok ? 200 : 500);
    return result;
  };
}

/** The response, if headers can be set on it. A key was charged by now: the call must not fail for want of a header. */
function answerOf(res: object | undefined): NodeHeaders | undefined {
  const answer = res as NodeHeaders | undefined;
  return typeof answer?.setHeader === "function" && answer.headersSent !== true ? answer : undefined;
}

function headerOf({ headers, rawHeaders }: TrpcContext["req"], name: string) {
  return headers instanceof Headers ? headers.get(name) : headersOf(headers, rawHeaders)(name);
}
