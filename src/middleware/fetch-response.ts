/** Fetch responses, for the frameworks that return one: a refusal, and what a decision adds to a handler's. */
import { type Refused, setHeaders } from "./guard.js";
import type { HeaderFields } from "./ratelimit-fields.js";
import { isHeadedFor } from "./session.js";

/**
 * A refusal as a fetch Response.
 * @returns a new response with status, headers and body of the refusal
 */
export function toResponse({ refusal, rendered, headers }: Refused): Response {
  return new Response(rendered.body, {
    status: refusal.status,
    headers: { ...headers, "Content-Type": rendered.type },
  });
}

/** Statuses of responses without a body, of which a copy costs little. A program may return one again and again. */
const WITHOUT_BODY: readonly number[] = [204, 205, 304];

/**
 * Sets them on the response itself, since a copy makes a stream of its body, which takes 90 µs with @hono/node-server.
 * A copy has them where the response must not be changed: it came from `fetch`, has no body, or has the headers of
 * another request already. Of an upgrade there is no copy.
 * @param memory the object that stands for the request
 * @throws TypeError if it is no response, of which a copy would be an empty 200
 */
export function withHeaders(response: Response, headers: HeaderFields, memory: object): Response {
  if (typeof (response as Partial<Response> | null | undefined)?.status !== "number")
    throw new TypeError("the guarded handler must return a Response, or a promise of one");
  if (response.status < 200) return response;
  if (WITHOUT_BODY.includes(response.status)) return onto(new Response(null, response), headers);
  try {
    if (isHeadedFor(response, memory)) return onto(response, headers);
  } catch {
    // It cannot be changed.
  }
  return onto(new Response(response.body, response), headers);
}

function onto(response: Response, headers: HeaderFields): Response {
  setHeaders(
    headers,
    (name) => response.headers.get(name),
    (name, value) => response.headers.set(name, value),
  );
  return response;
}
