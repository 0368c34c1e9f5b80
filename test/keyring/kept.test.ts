/** Answers that are kept: how old they may be, who shares them, and what is forgotten. */
import { describe, expect, it } from "vitest";
import { createKept } from "../../src/keyring/kept.js";

describe("createKept", () => {
  const counting = () => {
    let made = 0;
    return () => Promise.resolve(++made);
  };

  it("works out anew what is too old, dated ahead, or not wanted old", async () => {
    let now = 1_000;
    const kept = createKept(() => now);
    const make = counting();
    expect(await kept.read("a", 0, make)).toEqual({ asOf: 1_000, value: 1 });
    expect(await kept.read("a", 500, make)).toEqual({ asOf: 1_000, value: 2 });
    now = 1_500;
    expect(await kept.read("a", 500, make)).toEqual({ asOf: 1_000, value: 2 });
    expect(await kept.read("b", 500, make)).toEqual({ asOf: 1_500, value: 3 });
    now = 1_501;
    expect(await kept.read("a", 500, make)).toEqual({ asOf: 1_501, value: 4 });
    now = 1_400;
    expect(await kept.read("a", 500, make)).toEqual({ asOf: 1_400, value: 5 });
  });

  it("answers with what was before while it works out anew, where that will do", async () => {
    let now = 1_000;
    const kept = createKept(() => now);
    await kept.read("a", 500, counting());
    now = 2_000;
    let end = (_: number): void => undefined;
    const making = kept.read("a", 500, () => new Promise<number>((resolve) => (end = resolve)));
    expect(await kept.read("a", 5_000, counting())).toEqual({ asOf: 1_000, value: 1 });
    const shared = kept.read("a", 500, counting());
    end(7);
    expect([await making, await shared]).toEqual([
      { asOf: 2_000, value: 7 },
      { asOf: 2_000, value: 7 },
    ]);
  });

  it("never begins beside itself: who finds it too old waits until it ends, and then begins the next, once", async () => {
    let now = 1_000;
    const kept = createKept(() => now);
    const ends: ((end: number | Error) => void)[] = [];
    const make = () =>
      new Promise<number>((resolve, reject) => {
        ends.push((end) => (typeof end === "number" ? resolve(end) : reject(end)));
      });
    const first = kept.read("a", 500, make);
    now = 2_000;
    const late = [kept.read("a", 500, make), kept.read("a", 600, make)];
    const patient = kept.read("a", 5_000, make);
    await Promise.resolve();
    expect(ends).toHaveLength(1);
    now = 3_000;
    ends[0]!(1);
    const old = { asOf: 1_000, value: 1 };
    expect([await first, await patient]).toEqual([old, old]);
    await expect.poll(() => ends.length).toBe(2);
    now = 4_000;
    const failing = [...late, kept.read("a", 500, make)].map((one) => one.catch(String));
    ends[1]!(new Error("gone"));
    expect(await Promise.all(failing.slice(0, 2))).toEqual(["Error: gone", "Error: gone"]);
    await expect.poll(() => ends.length).toBe(3);
    ends[2]!(3);
    expect(await failing[2]).toEqual({ asOf: 4_000, value: 3 });
  });

  it("forgets what failed", async () => {
    const kept = createKept(() => 0);
    const failing = () => Promise.reject(new Error("gone"));
    await expect(kept.read("a", 9, failing)).rejects.toThrow("gone");
    expect(await kept.read("a", 9, counting())).toMatchObject({ value: 1 });
  });

  it("keeps a bounded number, the latest", async () => {
    const kept = createKept(() => 0);
    const make = counting();
    for (let n = 0; n < 65; n++) await kept.read(`${n}`, 9, make);
    expect(await kept.read("64", 9, make)).toMatchObject({ value: 65 });
    expect(await kept.read("0", 9, make)).toMatchObject({ value: 66 });
  });

  it("keeps what is being worked out, however many others are asked for", async () => {
    const kept = createKept(() => 0);
    const make = counting();
    let end = (_: number): void => undefined;
    const slow = kept.read("slow", 9, () => new Promise<number>((resolve) => (end = resolve)));
    await kept.read("0", 9, make);
    for (let n = 1; n < 65; n++) await kept.read(`${n}`, 9, make);
    const shared = kept.read("slow", 9, make);
    end(7);
    expect([(await slow).value, (await shared).value]).toEqual([7, 7]);
  });
});
