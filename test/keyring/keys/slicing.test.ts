import { afterEach, describe, expect, it, vi } from "vitest";
import { createTurns } from "../../../src/keyring/context.js";
import { createSlicing } from "../../../src/keyring/keys/slicing.js";

afterEach(() => void vi.restoreAllMocks());

describe("createSlicing", () => {
  const world = () => {
    let now = 0;
    vi.spyOn(performance, "now").mockImplementation(() => now);
    const turns = createTurns();
    const next = vi.spyOn(turns, "next");
    const slicing = createSlicing({ turns });
    /** A store that takes so long before it returns. */
    const take = (ms: number) => slicing.timed(() => void (now += ms));
    return { slicing, next, take };
  };

  it("asks for twice as much where the store is fast, for half where it is slow, and for one key at least", async () => {
    const { slicing, take } = world();
    expect(slicing.among()).toBe(256);
    await take(0);
    expect(slicing.among()).toBe(512);
    await take(1);
    expect(slicing.among()).toBe(512);
    for (let i = 0; i < 6; i++) await take(0);
    expect(slicing.among()).toBe(8_192);
    for (let i = 0; i < 14; i++) await take(2);
    expect(slicing.among()).toBe(1);
  });

  it("lets others have their turn once this one took half of its time, and not before", async () => {
    const { slicing, next, take } = world();
    await take(1);
    await slicing.yield();
    expect(next).not.toHaveBeenCalled();
    await take(1);
    await slicing.yield();
    expect(next).toHaveBeenCalledTimes(1);
    await slicing.yield();
    expect(next).toHaveBeenCalledTimes(1);
  });
});
