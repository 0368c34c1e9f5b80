/** What a leased spender does when it is told nothing: sizes and times of LeaseOptions. */
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Store } from "../../src/contracts/store.js";
import { leasedSpender } from "../../src/credits/leased-spender.js";
import { memoryStore } from "../../src/stores/memory.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { account, eagerSpender, opened, slow } from "./support.js";

describe("leasedSpender: defaults", () => {
  afterEach(() => void vi.useRealTimers());

  it("size: a lease takes 1,000 credits from the balance; step: a quarter of the size is drawn at once", async () => {
    for (const [options, size, step] of [
      [{}, 1_000, 250],
      [{ size: 400 }, 400, 100],
    ] as const) {
      const { store, record, balance } = await opened(10_000);
      const watched = slow(store);
      const spender = eagerSpender(watched.store, options);
      const one = account(record);
      const spare = Math.floor(step / 4);
      for (let i = 0; i < step - spare; i++) await spender.spend(one, 1, 0);
      expect([await balance(), watched.draws()]).toEqual([10_000 - size, 1]);
      await spender.spend(one, 1, 0);
      expect(watched.draws()).toBe(2);
      await spender.close();
      expect(await balance()).toBe(10_000 - (step - spare + 1));
    }
  });

  it("firstStep: the first call takes its cost and nothing more", async () => {
    const { store, record, balance } = await opened(10_000);
    const watched = slow(store);
    const spender = leasedSpender(watched.store);
    await spender.spend(account(record), 7, 0);
    expect([await balance(), watched.draws()]).toEqual([9_993, 0]);
    await spender.close();
  });

  it.each([
    [{ firstStep: 251 }, "options.credits.firstStep must be at most options.credits.step"],
    [{ step: 10, firstStep: 11 }, "options.credits.firstStep must be at most options.credits.step"],
    [{ firstStep: 0 }, "options.credits.firstStep must be from 1 to 1000000000"],
  ])("firstStep: %j is refused", (sizes, message) => {
    const make = (given: object) => () => createVerifier(memoryStore(), { credits: { mode: "leased", ...given } });
    expect(make(sizes)).toThrow(message);
    expect(make({ ...sizes, firstStep: sizes.firstStep === 0 ? 1 : sizes.firstStep - 1 })).not.toThrow();
  });

  it("size: a step is judged by it", () => {
    const make = (step: number) => () => createVerifier(memoryStore(), { credits: { mode: "leased", step } });
    expect(make(1_000)).not.toThrow();
    expect(make(1_001)).toThrow("options.credits.step must be at most options.credits.size");
  });

  it("ttl: a reserve is another's after 10,000 ms, and what is in hand goes back after twice that", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const { store, record, balance } = await opened(1_000);
    const spender = eagerSpender(store);
    await spender.spend(account(record), 1, 0);
    // Of 1,000 a node gets 250 in hand and 187 in reserve: another node asks for more than the 563 that are left.
    const drawnAt = async (now: number) =>
      (
        await store.drawCredits(record.ref, {
          holder: "other",
          spent: 0,
          cost: 600,
          step: 1,
          size: 1,
          period: 0,
          now,
          until: now,
        })
      )?.drawn;
    expect([await drawnAt(9_999), await drawnAt(10_000)]).toEqual([0, 600]);
    const before = await balance();
    vi.advanceTimersByTime(19_999);
    expect(await balance()).toBe(before);
    vi.advanceTimersByTime(1);
    expect(await balance()).toBe(before! + 249);
    await spender.close();
  });

  it("keys: of 100,001 the oldest lease is given back", async () => {
    const returned: unknown[] = [];
    const counting: Store = {
      ...memoryStore(),
      drawCredits: (_ref, { step }) => ({ drawn: step, generation: 0, remaining: 100 }),
      returnCredits: (ref) => void returned.push(ref),
    };
    const spender = eagerSpender(counting);
    for (let ref = 0; ref < 100_000; ref++) await spender.spend(account({ ref, generation: 0 }), 1, 0);
    expect(returned).toEqual([]);
    await spender.spend(account({ ref: 100_000, generation: 0 }), 1, 0);
    expect(returned).toEqual([0]);
    await spender.close();
  });
});
