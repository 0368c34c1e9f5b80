/**
 * The suites with the functions of node:test, on the memory store and limiter; TEST_FAULT makes the store wrong.
 */
import { describe, it } from "node:test";
import type { Store } from "../../../src/contracts/store.js";
import { memoryLimiter } from "../../../src/ratelimit/memory/limiter.js";
import { memoryStore } from "../../../src/stores/memory.js";
import { limiterSuite, sharedStoreSuite, storeSuite } from "../../../src/testing/index.js";

const open = (): Store => {
  const store = memoryStore();
  return process.env["TEST_FAULT"] === "overwrites"
    ? { ...store, write: (writes) => (void store.write(writes), "written") }
    : store;
};
storeSuite({ describe, it }, "memory", open);
sharedStoreSuite({ describe, it }, "memory", () => {
  const store = open();
  const powers = { ...store.powers, changes: "pushed" } as const;
  return [
    { ...store, powers, close: () => undefined },
    { ...store, powers, close: () => undefined },
  ];
});
limiterSuite({ describe, it }, "memory", () => memoryLimiter());
