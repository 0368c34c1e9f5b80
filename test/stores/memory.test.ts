import { describe, expect, it } from "vitest";
import { cachedStore } from "../cache/cached-store.js";
import type { Change, Store } from "../../src/contracts/store.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { digestKey } from "../../src/lib/hash.js";
import { memoryStore } from "../../src/stores/memory.js";
import { keyRow, sharedStoreSuite, storeSuite } from "./suite.js";

storeSuite("memory", memoryStore);
storeSuite("memory through the cache", () => cachedStore(memoryStore()));
storeSuite("memory through two caches", () => cachedStore(cachedStore(memoryStore(), { size: 3 })));

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

describe("memoryStore: credits", () => {
  it("T14: a draw or a return with a number that is none is refused, and changes nothing", async () => {
    const store = memoryStore();
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { key } = await keyring.createKey({ apiId, credits: { remaining: 100 } });
    const { ref } = (await store.findKey(await digestKey(key)))!;
    const draw = { holder: "a", spent: 0, cost: 1, step: 5, size: 10, period: 0, now: 0, until: 1_000 };
    for (const field of ["spent", "cost", "step", "size", "period", "now", "until"])
      for (const wrong of [NaN, Infinity, 1.5, 2 ** 53, undefined, "1"])
        expect(() => store.drawCredits(ref, { ...draw, [field]: wrong }), `${field} ${String(wrong)}`).toThrow(
          RangeError,
        );
    expect(() => store.returnCredits(ref, { holder: "a", spent: NaN })).toThrow(RangeError);
    expect(await store.drawCredits(ref, draw)).toMatchObject({ drawn: 5, remaining: 95 });
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
