/**
 * Records of idempotency keys in memory, in the order in which they were added.
 *
 * Only the oldest are looked at for removal. Where verifiers of one store differ in `idempotency.ttl`, a record that
 * lasts long keeps those behind it until it expires: the store is full earlier, and nothing is removed too early.
 */
import type { OnceRecord } from "../contracts/store.js";
import { EXPIRED_PER_WRITE, type OnceTable } from "./spend-once.js";

export function createMemoryOnce(): OnceTable {
  const all = new Map<string, OnceRecord>();
  /** Ids by workspace. */
  const shares = new Map<string, Set<string>>();

  const remove = (id: string): void => {
    const record = all.get(id);
    if (record === undefined) return;
    all.delete(id);
    const share = shares.get(record.workspaceId);
    share?.delete(id);
    if (share?.size === 0) shares.delete(record.workspaceId);
  };
  const removeExpired = (ids: Iterable<string>, now: number): void => {
    let left = EXPIRED_PER_WRITE;
    for (const id of ids) {
      if (left-- === 0 || (all.get(id)?.until ?? 0) > now) return;
      remove(id);
    }
  };
  return {
    find: (id) => all.get(id),
    remove,
    makeSpace(workspaceId, now, { maxRecords, maxPerWorkspace }) {
      const sizeOf = () => shares.get(workspaceId)?.size ?? 0;
      removeExpired(all.keys(), now);
      if (sizeOf() >= maxPerWorkspace) removeExpired(shares.get(workspaceId) ?? [], now);
      return all.size < maxRecords && sizeOf() < maxPerWorkspace;
    },
    add(record) {
      const { workspaceId, id, body, until } = record;
      all.set(id, { workspaceId, id, body, until });
      const share = shares.get(workspaceId);
      if (share === undefined) shares.set(workspaceId, new Set([id]));
      else share.add(id);
    },
  };
}
