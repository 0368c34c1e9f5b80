/** `findKeys` made of `findKey`: as late as the finds are, and no later. */
import { expect, it } from "vitest";
import { findEach } from "../../src/stores/find-each.js";
import { memoryStore } from "../../src/stores/memory.js";

it("findEach: synchronous where the find is, a promise where one find is", async () => {
  const { findKey } = memoryStore();
  expect(findEach(findKey)(["a", "b"])).toEqual([undefined, undefined]);
  expect(findEach(findKey)([])).toEqual([]);
  const late = findEach((digest) => (digest === "b" ? Promise.resolve(undefined) : findKey(digest)))(["a", "b"]);
  expect(late).toBeInstanceOf(Promise);
  expect(await late).toEqual([undefined, undefined]);
  const failed = new Error("failed");
  await expect(findEach(() => Promise.reject(failed))(["a"])).rejects.toBe(failed);
});
