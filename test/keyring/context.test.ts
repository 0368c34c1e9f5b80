import { describe, expect, it } from "vitest";
import { createTurns } from "../../src/keyring/context.js";

/** As long as the event loop may be held by one slice of a request. */
const SLICE_MS = 5;

async function slice(): Promise<void> {
  // As after a store that has its answer at once: others that wait begin to wait for their turn meanwhile.
  for (let i = 0; i < 5; i++) await Promise.resolve();
  for (const until = performance.now() + SLICE_MS; performance.now() < until;);
}

describe("turns", () => {
  it("of several long requests each has one of its own, however long the one before it took", async () => {
    // Of two workspaces, whose turns fall due together.
    const [turns, others] = [createTurns(), createTurns()];
    let now = 0;
    let isOver = false;
    const counting = (async () => {
      for (; !isOver; now++) await new Promise((resolve) => setImmediate(resolve));
    })();
    const taken: number[] = [];
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        await Promise.all([
          turns
            .next()
            .then(() => taken.push(now))
            .then(slice),
          others.next().then(slice),
        ]);
      }),
    );
    isOver = true;
    await counting;
    expect(new Set(taken).size).toBe(8);
  });
});
