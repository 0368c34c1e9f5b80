/** Which calls are one statement, without a server. */
import { expect, it } from "vitest";
import { createGroups } from "../../../src/stores/postgres/groups.js";

const oneAtATime = { timeout: 60_000, late: () => new Error("late") };

/** Groups whose answers come in a later turn, as from a server, and how many calls each of them had. */
function counted() {
  const sizes: number[] = [];
  const call = createGroups(
    async (items: readonly number[]) => {
      sizes.push(items.length);
      await new Promise((resolve) => setImmediate(resolve));
      return items;
    },
    { maxSize: 8, oneAtATime },
  );
  return { call, sizes };
}

it("a call by itself is sent before the turn ends, and so are those that follow one another", async () => {
  const { call, sizes } = counted();
  for (let n = 1; n <= 3; n++) {
    const result = call(n);
    await Promise.resolve();
    expect(sizes).toHaveLength(n);
    expect(await result).toBe(n);
  }
});

it("callers that began one after the other share every group but the first", async () => {
  const { call, sizes } = counted();
  const callFourTimes = async () => {
    for (let n = 0; n < 4; n++) {
      await call(n);
      // What a call goes through before its caller can call again.
      for (let hops = 0; hops < 5; hops++) await Promise.resolve();
    }
  };
  const first = callFourTimes();
  await Promise.resolve();
  await Promise.all([first, callFourTimes()]);
  expect(sizes).toEqual([1, 2, 2, 2, 1]);
});
