/** A request that failed before it could be read. */
import type { Incoming } from "./messages.js";

/** A request that fails with this fault, so that it is logged and counted like any other. */
export function toFailedRequest(fault: Error, method: string): Incoming {
  const none = { authorization: [], header: () => undefined, clientAddress: undefined };
  const rejected = (): Promise<never> => Promise.reject(fault);
  const toRequest = (): never => {
    throw fault;
  };
  return { ...none, method, path: "", query: "", fault, toRequest, readBody: rejected };
}
