import { expect, it } from "vitest";
import { makeFirst } from "../../../src/cli/database/bootstrap.js";
import type { Store } from "../../../src/contracts/store.js";
import { memoryStore } from "../../../src/stores/memory.js";

const STAGE = { prepare: () => undefined, write: () => () => undefined };

it.each([1, 2])("a first start that another finishes before its read %i finds the root key", async (at) => {
  const store = memoryStore();
  let reads = 0;
  const late: Store = {
    ...store,
    async list(...given) {
      if (++reads === at) expect(await makeFirst(store, STAGE)).toHaveProperty("rootKey");
      return store.list(...given);
    },
  };
  expect(await makeFirst(late, STAGE)).toBe("made before");
});
