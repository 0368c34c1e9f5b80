/** The audit trail in memory: store clause 25. */
import type { AuditEntry } from "../contracts/audit.js";
import type { Store } from "../contracts/store.js";
import { deepFreeze } from "../lib/deep-freeze.js";

/** Entries that are kept; beyond it the workspace that has most loses its oldest. */
const MAX_ENTRIES = 10_000;

type KeptEntry = AuditEntry & { readonly number: number };

/** Creates a trail. `record` adds an entry. */
export function createMemoryAudit(): Pick<Store, "readAudit"> & { record(entry: AuditEntry): void } {
  /** By workspace, in the order of their numbers; none is empty. */
  const trails = new Map<string, KeptEntry[]>();
  let [number, total] = [0, 0];
  return {
    record(entry) {
      const one = deepFreeze({ ...structuredClone(entry), number: ++number });
      const own = trails.get(entry.workspaceId);
      if (own === undefined) trails.set(entry.workspaceId, [one]);
      else own.push(one);
      if (++total <= MAX_ENTRIES) return;
      let largest: KeptEntry[] = [];
      for (const trail of trails.values()) if (trail.length > largest.length) largest = trail;
      const { workspaceId } = largest.shift() as KeptEntry;
      if (largest.length === 0) trails.delete(workspaceId);
      total--;
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
        (named === undefined || one.ids.some((id) => named.has(id))) &&
        (actor === undefined || one.actor === actor) &&
        (operation === undefined || one.operation === operation) &&
        one.time >= from &&
        one.time < to;
      const older = (trails.get(workspaceId) ?? []).filter((one) => one.number < before).reverse();
      const entries: KeptEntry[] = [];
      let looked = 0;
      for (; looked < older.length && looked < among && entries.length < limit; looked++)
        if (isAsked(older[looked]!)) entries.push(older[looked]!);
      return looked < older.length ? { entries, next: older[looked]!.number + 1 } : { entries };
    },
  };
}
