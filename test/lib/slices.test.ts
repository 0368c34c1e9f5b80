import { describe, expect, it } from "vitest";
import { createSlices, type Pause } from "../../src/lib/slices.js";

/** So many steps of one cost; `done` has the name of each that was made. */
async function work(name: string, steps: number, cost: number, done: string[], pause: Pause): Promise<string> {
  for (let n = 0; n < steps; n++) {
    done.push(name);
    const waiting = pause(cost);
    if (waiting !== undefined) await waiting;
  }
  return name;
}
const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("createSlices", () => {
  it("work that a turn has time for is done at once", () => {
    const slices = createSlices();
    const done: string[] = [];
    for (const name of ["a", "b"]) void work(name, 4, 1_000, done, slices());
    expect(done).toHaveLength(8);
  });

  it("of more, each turn does as much; all take steps in turn, and what is small never waits", async () => {
    const slices = createSlices();
    const done: string[] = [];
    const long = ["a", "b", "c"].map((name) => work(name, 60, 1_000, done, slices()));
    expect(done.length).toBeLessThan(15);
    const small: string[] = [];
    void work("small", 2, 500, small, slices());
    expect(small).toHaveLength(2);
    for (let before = done.length, turns = 0; done.length < 180; before = done.length) {
      await nextTurn();
      expect(done.length - before).toBeLessThan(15);
      expect(++turns).toBeLessThan(40);
    }
    expect(await Promise.all(long)).toEqual(["a", "b", "c"]);
    const early = done.slice(0, 90);
    for (const name of ["a", "b", "c"]) expect(early.filter((one) => one === name).length, name).toBeGreaterThan(20);
  });
});
