/**
 * Records of idempotency keys in memory, in the order in which they were added.
 *
 * Only the oldest are looked at for removal. Where verifiers of one store differ in `idempotency.ttl`, a record that
 * lasts long keeps those behind it until it expires: the store is full earlier, and nothing is removed too early.
 */
import type { OnceRecord } from "../contracts/store.js";
import { EXPIRED_PER_WRITE, hasSpace, type OnceTable } from "./spend-once.js";

export function createMemoryOnce(): OnceTable {
  const all = new Map<string, OnceRecord>();
  /** The same by workspace; none is empty. */
  const shares = new Map<string, Map<string, OnceRecord>>();

  const remove = ({ workspaceId, id }: OnceRecord): void => {
    all.delete(id);
    const share = shares.get(workspaceId);
    share?.delete(id);
    if (share?.size === 0) shares.delete(workspaceId);
  };
  const removeExpired = (records: Iterable<OnceRecord>, now: number): void => {
    let left = EXPIRED_PER_WRITE;
    for (const record of records) {
      if (left-- === 0 || record.until > now) return;
      remove(record);
    }
  };
  return {
    find: (id) => all.get(id),
    remove: (id) => remove(all.get(id)!),
    makeSpace(workspaceId, now, bounds) {
      removeExpired(all.values(), now);
      const own = (): number => shares.get(workspaceId)?.size ?? 0;
      const hasIt = (): boolean => hasSpace(bounds, own(), all.size, () => shares.size);
      if (hasIt()) return true;
      // One that has none has space.
      removeExpired(shares.get(workspaceId)!.values(), now);
      return hasIt();
    },
    add({ workspaceId, id, body, until }) {
      const record = { workspaceId, id, body, until };
      all.set(id, record);
      const share = shares.get(workspaceId);
      if (share === undefined) shares.set(workspaceId, new Map([[id, record]]));
      else share.set(id, record);
    },
  };
}
