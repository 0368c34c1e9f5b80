/** Validation of a caller that the program supplies. Contract 4.1-3, 4.1-4. */
import type { Caller, Resource } from "../contracts/caller.js";
import { drop } from "../lib/callbacks.js";
import { methods, word } from "../lib/check-options.js";

/**
 * Wraps a caller so that only `true` permits anything: a promise of `false` does not.
 * @throws TypeError naming what is missing
 */
export function strictCaller(value: unknown, path: string): Caller {
  checkIsCaller(value, path);
  const caller = value as Caller;
  const { workspaceId, kind, id } = caller;
  word(workspaceId, `${path}.workspaceId`);
  return {
    workspaceId,
    // Checked where an idempotency key needs them.
    kind,
    id,
    may: (action, resource) => isTrue(caller.may(action, resource)),
    mayAny: (action: string, type: Resource["type"]) => isTrue(caller.mayAny(action, type)),
  };
}

const checkIsCaller = methods("may", "mayAny");

function isTrue(value: unknown): boolean {
  if (typeof value !== "boolean") drop(value);
  return value === true;
}
