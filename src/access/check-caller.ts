/** A caller as a program gives it, whose answers no compiler has judged. Spec §4.1-3, §4.1-4. Knows no header and no token. */
import type { Caller, Resource } from "../contracts/caller.js";
import { methods, word } from "../lib/check-options.js";

/**
 * The same caller, but nothing except `true` lets it do anything: a promise of `false` does not.
 * @throws TypeError naming what is missing
 */
export function strictCaller(value: unknown, path: string): Caller {
  isCaller(value, path);
  const caller = value as Caller;
  const { workspaceId } = caller;
  word(workspaceId, `${path}.workspaceId`);
  return {
    workspaceId,
    may: (action, resource) => isTrue(caller.may(action, resource)),
    mayAny: (action: string, type: Resource["type"]) => isTrue(caller.mayAny(action, type)),
  };
}

const isCaller = methods("may", "mayAny");
const isTrue = (answer: unknown): boolean => answer === true;
