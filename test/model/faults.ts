/** Planted faults, each a store with one mistake: the model must find every one of them. */
import type { KeyRecord, Store } from "../../src/contracts/store.js";

type Break = (store: Store) => Store;

const later = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export const FAULTS: Readonly<Record<string, Break>> = {
  "tells caches of no change": (store) => ({ ...store, subscribe: () => () => undefined }),
  "tells caches of changes of keys only": (store) => ({
    ...store,
    subscribe: (listener) =>
      store.subscribe((change) => void (typeof change === "object" && "digest" in change && listener(change))),
  }),
  "reads a balance, waits, and then writes it": (store) => ({
    ...store,
    async spendCredits(ref, cost, period, now) {
      const seen = await store.spendCredits(ref, 0, period, now);
      await later();
      if (seen === undefined || cost === 0 || seen.remaining === null) return seen;
      if (seen.remaining < cost) return { ok: false, remaining: seen.remaining };
      await store.spendCredits(ref, cost, period, now);
      return { ok: true, remaining: seen.remaining - cost };
    },
  }),
  "refills when the clock steps back": (store) => {
    const last = new Map<unknown, number>();
    return {
      ...store,
      async spendCredits(ref, cost, period, now) {
        const back = period < (last.get(ref) ?? period);
        last.set(ref, period);
        const spent = await store.spendCredits(ref, cost, period, now);
        return back && spent?.remaining != null ? { ...spent, remaining: spent.remaining + 1 } : spent;
      },
    };
  },
  "misses one boundary of a refill in three": (store) => ({
    ...store,
    spendCredits: (ref, cost, period, now) => store.spendCredits(ref, cost, period - (period % 3 === 0 ? 1 : 0), now),
  }),
  "takes a cost of 0 for 1": (store) => ({
    ...store,
    spendCredits: (ref, cost, period, now) => store.spendCredits(ref, cost || 1, period, now),
  }),
  "forgets the last permission of a role": changed((record) =>
    record.roles.length > 0 ? { ...record, permissions: record.permissions.slice(0, -1) } : record,
  ),
  "ignores the last allow-list": changed((record) => ({ ...record, ipAllowlists: record.ipAllowlists.slice(0, -1) })),
  "finds keys of a disabled API": changed((record) => ({ ...record, parentDisabled: false })),
  "never keeps an adopted digest": (store) => ({ ...store, adoptDigest: () => true }),
  "finds an imported key under any migration": (store) => ({
    ...store,
    async findForeignKey(_id, digest) {
      for (const id of ["mig_sha512", "mig_sha512_too", "mig_prefixed"]) {
        const found = await store.findForeignKey(id, digest);
        if (found !== undefined) return found;
      }
      return undefined;
    },
  }),
};

function changed(edit: (record: KeyRecord) => KeyRecord): Break {
  return (store) => ({
    ...store,
    async findKey(digest) {
      const record = await store.findKey(digest);
      return record && edit(record);
    },
  });
}
