/** A request that failed before it could be read. */
import type { Incoming } from "./messages.js";

/** A request that fails with this fault, so that it is logged and counted like any other. */
export function toFailedRequest(fault: Error, method: string): Incoming {
  const none = { authorization: [], header: () => undefined, clientAddress: undefined };
  return { ...none, method, path: "", fault, readBody: () => Promise.reject(fault) };
}
