/** Which errors an operation may answer with. */
import type { Operation } from "../operations/operation.js";

/** Of every operation. */
const ANY = [400, 401, 403, 408, 413, 415, 429, 431, 500, 503];

/** The error statuses of an operation, in order. */
export function statusesOf({ statuses }: Pick<Operation, "statuses">): number[] {
  return [...new Set([...ANY, ...statuses])].sort((a, b) => a - b);
}
