/** The operations in groups, as people look for them: in the documentation. */
import { OPERATIONS } from "./index.js";
import type { Operation } from "./operation.js";

/** Beginnings of names by group; an operation is in the first that fits. */
const BEGINNINGS: Readonly<Record<string, readonly string[]>> = {
  Verifying: ["keys.verifyKey", "keys.explainKey", "keys.whoami", "ratelimit.limit", "ratelimit.multiLimit"],
  Keys: ["keys."],
  "APIs and owners": ["apis.", "identities."],
  "Permissions and roles": ["permissions."],
  "Rate limits": ["ratelimit."],
  "Usage, audit and callers": ["analytics.", "audit.", "rootKeys.", "callers.", "workspace."],
};

/** Each operation once, by the title of its group. */
export function groupOperations(): ReadonlyMap<string, readonly Operation[]> {
  const groups = new Map<string, Operation[]>();
  const left = new Set(Object.values(OPERATIONS));
  for (const [title, beginnings] of Object.entries(BEGINNINGS)) {
    const members = [...left].filter(({ name }) => beginnings.some((beginning) => name.startsWith(beginning)));
    groups.set(title, members);
    for (const member of members) left.delete(member);
  }
  return groups;
}
