/** Fetch responses, for the frameworks that return one: a refusal, and what a decision adds to a handler's. */
import { type Refused, setHeaders } from "./guard.js";
import type { HeaderFields } from "./ratelimit-fields.js";

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

/**
 * Sets them on the response itself, since a copy makes a stream of its body, which takes 90 µs with @hono/node-server.
 * A response that came from `fetch` can't be changed: of that one a copy has them. Of an upgrade there is no copy.
 */
export function withHeaders(response: Response, headers: HeaderFields): Response {
  if (response.status < 200) return response;
  try {
    return onto(response, headers);
  } catch {
    return onto(new Response(response.body, response), headers);
  }
}

function onto(response: Response, headers: HeaderFields): Response {
  setHeaders(
    headers,
    (name) => response.headers.get(name),
    (name, value) => response.headers.set(name, value),
  );
  return response;
}
