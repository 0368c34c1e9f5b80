/** A store with keys that have credits, and ways to spend and to hinder them. */
import type { Account } from "../../src/leases.js";
import type { KeyRecord, Store } from "../../src/store.js";
import { memoryStore } from "../../src/stores/memory.js";
import { keyRow } from "../stores/suite.js";

const API = { id: "api_1", workspaceId: "ws_1", version: 0, name: "docs", enabled: true, ipAllowlist: [], deleted: false, createdAt: 0 };

const idOf = (n: number) => `key_${String(n).padStart(6, "0")}`;

/** A memory store with keys 1…`keys`. */
export async function opened(remaining = 100, keys = 1) {
  const store = memoryStore();
  await store.write([{ table: "apis", row: API }]);
  const rows = Array.from({ length: keys }, (_, i) => keyRow(i + 1, { limited: true }));
  await store.insertKeys(rows.map((row) => ({ row, balance: { remaining, amount: 0, period: 0 } })));
  const record = (await store.findKey("digest-1"))!;
  return { store, record, balance: async (n = 1) => (await store.readBalance(idOf(n), 0, 0))?.remaining };
}

/** An account as the engine makes it of a record; nothing is remembered in it yet. */
export const account = ({ ref, generation, refill }: Pick<KeyRecord, "ref" | "generation" | "refill">) => ({
  ref,
  generation,
  refill,
  lease: 0,
  leasedAt(lease: number) {
    this.lease = lease;
  },
});

export const accountOf = async (store: Store, n: number): Promise<Account> => account((await store.findKey(`digest-${n}`))!);

/** Sets the balance as an administrator does; null: unlimited. */
export async function setBalance(store: Store, remaining: number | null, n = 1): Promise<KeyRecord> {
  const row = (await store.read("keys", idOf(n)))!;
  await store.write([{ table: "keys", row: { ...row, generation: row.generation + 1 }, credits: { period: 0, remaining } }]);
  return (await store.findKey(`digest-${n}`))!;
}

export async function removeKey(store: Store, n = 1): Promise<void> {
  const row = (await store.read("keys", idOf(n)))!;
  await store.write([{ table: "keys", remove: row.id, version: row.version }]);
}

/** Counts draws, and makes each take a turn. */
export function slow(store: Store): { store: Store; draws: () => number } {
  let draws = 0;
  return {
    draws: () => draws,
    store: {
      ...store,
      async drawCredits(ref, request) {
        draws++;
        await new Promise((resolve) => setImmediate(resolve));
        return store.drawCredits(ref, request);
      },
    },
  };
}

/** The same store under refs that are numbers, as SQLite's are. */
export function numbered(store: Store): Store {
  const nameOf = (ref: unknown) => idOf(ref as number);
  return {
    ...store,
    async findKey(digest) {
      const record = await store.findKey(digest);
      return record && { ...record, ref: Number(String(record.ref).slice(4)) };
    },
    spendCredits: (ref, cost, period, now) => store.spendCredits(nameOf(ref), cost, period, now),
    drawCredits: (ref, request) => store.drawCredits(nameOf(ref), request),
    returnCredits: (ref, holder, generation, unspent) => store.returnCredits(nameOf(ref), holder, generation, unspent),
  };
}
