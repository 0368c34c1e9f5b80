/**
 * What a key is granted by name, made of lists that are sorted once for all keys that have them: those of its roles,
 * and its own. A key may have 100 roles of 1,000 permissions, so the lists are merged in steps.
 */
import { mergeRuns } from "../lib/merge-runs.js";
import type { Pause, Steps } from "../lib/slices.js";
import { type GrantedNames, sortUnique } from "./key-record.js";

/** Some permissions. */
export interface NamedPart {
  /** Names of the permissions that exist, sorted, without duplicates. */
  readonly permissions: readonly string[];
  /** Whether all are there. */
  readonly isWhole: boolean;
}
/** A role with its permissions, for all keys that have it. */
export interface NamedRole extends NamedPart {
  readonly name: string;
}

/** What a step costs for each name that is read, where one that is merged costs 1. */
export const READ_COST = 10;
/** Permissions that one step reads. */
const READ_AT_ONCE = 1_000;

/** A key's own permissions, in parts of as many as one step reads. */
export function partsOf(ids: readonly string[]): string[][] {
  const parts: string[][] = [];
  for (let from = 0; from < ids.length; from += READ_AT_ONCE) parts.push(ids.slice(from, from + READ_AT_ONCE));
  return parts;
}

/** @param own the key's own permissions */
export function* grantedNames(
  own: readonly NamedPart[],
  roles: readonly NamedRole[],
  pause: Pause,
): Steps<GrantedNames> {
  const lists = [...own, ...roles].map((part) => part.permissions);
  const names = Object.freeze(sortUnique(roles.map(({ name }) => name)));
  return Object.freeze({ permissions: yield* mergeSorted(lists, pause), roles: names });
}

/** Merges lists that are sorted and have no duplicates into one frozen list that is so too. */
export function* mergeSorted(lists: readonly (readonly string[])[], pause: Pause): Steps<readonly string[]> {
  const merged = Object.freeze(yield* mergeRuns(lists, (a, b) => (a < b ? -1 : Number(a > b)), pause));
  // Whoever gets it looks through it.
  yield pause(READ_COST * merged.length);
  return merged;
}
