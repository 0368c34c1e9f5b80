/** The audit trail in memory: store clause 25. */
import type { AuditEntry } from "../contracts/audit.js";
import type { Store } from "../contracts/store.js";
import { deepFreeze } from "../lib/deep-freeze.js";

/** Entries that are kept; the oldest go first. */
const MAX_ENTRIES = 10_000;

/** Creates a trail. `record` adds an entry. */
export function createMemoryAudit(): Pick<Store, "readAudit"> & { record(entry: AuditEntry): void } {
  const trail: AuditEntry[] = [];
  let dropped = 0;
  return {
    record(entry) {
      if (trail.push(deepFreeze(structuredClone(entry))) <= MAX_ENTRIES) return;
      trail.shift();
      dropped++;
    },
    readAudit({
      workspaceId,
      ids,
      actor,
      operation,
      from = -Infinity,
      to = Infinity,
      before = Infinity,
      among,
      limit,
    }) {
      const named = ids === undefined ? undefined : new Set(ids);
      const isAsked = (one: AuditEntry): boolean =>
        one.workspaceId === workspaceId &&
        (named === undefined || one.ids.some((id) => named.has(id))) &&
        (actor === undefined || one.actor === actor) &&
        (operation === undefined || one.operation === operation) &&
        one.time >= from &&
        one.time < to;
      const end = Math.min(before, dropped + trail.length + 1);
      const entries: (AuditEntry & { readonly number: number })[] = [];
      let number = end - 1;
      for (; number > dropped && number >= end - among && entries.length < limit; number--) {
        const one = trail[number - dropped - 1]!;
        if (isAsked(one)) entries.push({ ...one, number });
      }
      return number > dropped ? { entries, next: number + 1 } : { entries };
    },
  };
}
