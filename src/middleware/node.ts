/** What the middleware of Express, Fastify and Nest has in common: requests and responses of Node. */
import { type Guard, type HeaderMap, headersOf, type Refused, setHeaders, type VerifiedKey } from "./guard.js";
import type { KeyRequirement } from "./requirement.js";
import { endWith, type NodeResponse } from "./reserved.js";

interface NodeRequest {
  readonly headers: HeaderMap;
  /** Of Express; that of Fastify is in `raw`. */
  readonly rawHeaders?: readonly string[];
  readonly raw?: { readonly rawHeaders?: readonly string[] };
  readonly ip?: string | undefined;
  apiKey?: VerifiedKey;
}

/** The response of a request, as a framework has it. */
interface Answer {
  get(name: string): unknown;
  set(name: string, value: string): unknown;
  /** For its end. */
  readonly raw: NodeResponse;
}

/**
 * Decides about a request: sets the headers of its response and, of one that passes with a key, `apiKey`.
 * @param answer absent: there is no response to set headers on
 * @returns how it is refused; `undefined`: it passes
 */
export async function decide<Request extends NodeRequest>(
  guard: Guard<Request>,
  request: Request,
  answer: Answer | undefined,
  inner?: () => readonly KeyRequirement<Request>[],
): Promise<Refused | undefined> {
  const { headers, ip: clientAddress, rawHeaders = request.raw?.rawHeaders } = request;
  const incoming = { request, memory: request, header: headersOf(headers, rawHeaders), clientAddress };
  const decision = await guard.check(incoming, inner);
  if (decision.outcome === "skip") return undefined;
  if (decision.outcome === "pass" && decision.end !== undefined) {
    if (answer === undefined)
      throw new TypeError("a guard that reserves needs the response: put it into the context of GraphQL as res");
    // Before the headers, which cannot be set on a response that something else has sent meanwhile.
    endWith(answer.raw, decision.end);
  }
  if (answer !== undefined) setHeaders(decision.headers, answer.get, answer.set);
  if (decision.outcome === "refuse") return decision;
  request.apiKey = decision.apiKey;
  return undefined;
}
