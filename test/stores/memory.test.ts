import { describe, expect, it } from "vitest";
import { cachedStore } from "../../src/cache/key-cache.js";
import type { Change, Store } from "../../src/contracts/store.js";
import { memoryStore } from "../../src/stores/memory.js";
import { keyRow, sharedStoreSuite, storeSuite } from "./suite.js";

storeSuite("memory", memoryStore);
storeSuite("memory through the cache", () => cachedStore(memoryStore()));
storeSuite("memory through two caches", () => cachedStore(cachedStore(memoryStore(), { missSize: 0 })));

describe("memoryStore: listeners", () => {
  it("clause 15: one that throws keeps the change from nobody, and its fault rises by itself", async () => {
    const store = memoryStore();
    const notified: Change[] = [];
    const rises = new Promise((resolve) => {
      const before = process.listeners("uncaughtException");
      process.removeAllListeners("uncaughtException");
      process.once("uncaughtException", (error) => {
        for (const listener of before) process.on("uncaughtException", listener);
        resolve(error);
      });
    });
    const fault = new Error("listener");
    store.subscribe(() => {
      throw fault;
    });
    store.subscribe((one) => notified.push(one));
    expect(await store.insertKeys([{ row: keyRow(1) }])).toEqual([true]);
    expect(notified).toEqual([{ digest: "digest-1" }]);
    expect(await rises).toBe(fault);
  });
});

/** Two views of one store, which ends when both are closed. */
function memoryPair(): readonly [Store, Store] {
  const store = memoryStore();
  let open = 2;
  const close = () => (--open === 0 ? store.close() : undefined);
  const powers = { ...store.powers, changes: "pushed" } as const;
  return [
    { ...store, powers, close },
    { ...store, powers, close },
  ];
}
sharedStoreSuite("two views of one memory store", memoryPair);
