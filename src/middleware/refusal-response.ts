/** A refusal as a fetch `Response`, for the frameworks that return one. */
import type { Refused } from "./guard.js";

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
