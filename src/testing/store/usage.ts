/** When keys were last used: clause 24. */
import type { Change, Store } from "../../contracts/store.js";
import { expect } from "../expect.js";
import type { Clause } from "./bed.js";
import { withPower } from "./powers.js";
import { insert, keyRow, readRow, WS } from "./rows.js";

const lastUsed = async (store: Store, n: number) => (await readRow(store, "keys", keyRow(n).id))?.lastUsedAt;

export function usageClauses(all: Clause): void {
  const clause = withPower(all, "usage", (store: Store) => store);

  clause("clause 24: the latest use of a key stays, and nothing else of it changes", async (store) => {
    for (const n of [1, 2]) await insert(store, keyRow(n));
    const changes: Change[] = [];
    store.subscribe((change) => changes.push(change));
    const use = (n: number, usedAt: number) => ({ keyId: keyRow(n).id, usedAt });
    expect(await lastUsed(store, 1)).toBeUndefined();
    await store.recordUses([use(1, 120_000), use(99, 1)]);
    await store.recordUses([use(1, 60_000), use(2, 5)]);
    await store.recordUses([]);
    expect(await readRow(store, "keys", keyRow(1).id)).toEqual({ ...keyRow(1), version: 1, lastUsedAt: 120_000 });
    const listed = await store.list("keys", { workspaceId: WS, limit: 9 });
    expect(listed.map((row) => row.lastUsedAt)).toEqual([120_000, 5]);
    expect(changes).toEqual([]);
  });

  clause("clause 24: no write sets it or takes it away", async (store) => {
    await store.insertKeys([{ row: keyRow(1, { lastUsedAt: 7 }) }]);
    await store.write([{ table: "keys", row: keyRow(2, { lastUsedAt: 7 }) }]);
    for (const n of [1, 2]) expect(await lastUsed(store, n)).toBeUndefined();
    await store.recordUses([{ keyId: keyRow(1).id, usedAt: 60_000 }]);
    await store.write([{ table: "keys", row: keyRow(1, { version: 1, name: "new" }) }]);
    const written = keyRow(1, { name: "new", version: 2, lastUsedAt: 60_000 });
    expect(await readRow(store, "keys", keyRow(1).id)).toEqual(written);
    await store.write([{ table: "keys", remove: keyRow(1).id, version: 2 }]);
    await insert(store, keyRow(1));
    expect(await lastUsed(store, 1)).toBeUndefined();
  });
}
