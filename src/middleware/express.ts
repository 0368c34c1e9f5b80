/**
 * The entry point `keystile/express`: middleware for Express 4 and 5, and for anything with their `(req, res, next)`.
 * @module keystile/express
 */
import { type ApiKeyOptions, createGuard, type HeaderMap, type KeyVerifier, type VerifiedKey } from "./guard.js";
import { decide } from "./node.js";

export type { HeaderMap } from "./guard.js";
export { verifiedKey } from "./guard.js";
export type * from "./public-types.js";

declare global {
  // oxlint-disable-next-line typescript/no-namespace -- Express declares its request in it, to be extended
  namespace Express {
    /** Extended by keystile. */
    interface Request {
      /** The verified key, behind {@link apiKey}. */
      apiKey?: VerifiedKey;
    }
  }
}

/** What is used of a request. */
export interface ExpressRequest {
  /** As Node has them. */
  readonly headers: HeaderMap;
  /** The client's address, as Express finds it by its setting `trust proxy`. */
  readonly ip?: string | undefined;
  /** Set when a key passed. */
  apiKey?: VerifiedKey;
}

/** What is used of a response. */
export interface ExpressResponse {
  /** HTTP status. */
  statusCode: number;
  /** A header that was set before. */
  getHeader(name: string): unknown;
  /** Sets a header. */
  setHeader(name: string, value: string): unknown;
  /** Sends the body. */
  end(body: string): unknown;
  /** Whether they were. Used where a guard reserves, like the next. */
  readonly headersSent: boolean;
  /** Its end. */
  once(event: "finish" | "close", listener: () => void): unknown;
}

/**
 * Guards a route, a router or an application: `req.apiKey` is the verified key in the handlers that follow.
 *
 * A second guard of a request takes only what the first has not: its own limits, and the difference of cost. The first
 * has charged before the second may refuse.
 * @param verifier made by `createVerifier(store)`
 * @throws TypeError or RangeError that names the option, when the route is built
 * @example
 * app.get("/documents", apiKey(verifier, { apiId, permissions: "documents.read" }), (req, res) => {
 *   res.json(verifiedKey(req).keyId);
 * });
 */
export function apiKey<Request extends ExpressRequest>(
  verifier: KeyVerifier,
  options?: ApiKeyOptions<Request>,
): (req: Request, res: ExpressResponse, next: (error?: unknown) => void) => void {
  const guard = createGuard(verifier, options);
  const handle = async (req: Request, res: ExpressResponse): Promise<boolean> => {
    const set = (name: string, value: string): unknown => res.setHeader(name, value);
    const refused = await decide(guard, req, { get: (name) => res.getHeader(name), set, raw: res });
    if (refused === undefined) return true;
    res.statusCode = refused.refusal.status;
    res.setHeader("Content-Type", refused.rendered.type);
    return (res.end(refused.rendered.body), false);
  };
  return (req, res, next) => {
    handle(req, res).then((passes) => passes && next(), next);
  };
}
