/** Turns of calls with many limits, without a server: what is in flight, what waits, and what comes too late. */
import { expect, it } from "vitest";
import { createLargeCalls } from "../../../src/ratelimit/redis/large-calls.js";

const held = () => {
  let release = (): void => undefined;
  const promise = new Promise<void>((resolve) => (release = resolve));
  return { promise, release: () => release() };
};

it("calls of up to 1,000 limits together are in flight, and the next ones start in their order", async () => {
  const { inTurn, isIdle } = createLargeCalls(60_000);
  expect(isIdle()).toBe(true);
  const started: string[] = [];
  const [first, second] = [held(), held()];
  const call = (name: string, limits: number, until?: Promise<void>) =>
    inTurn(limits, async () => {
      started.push(name);
      await until;
      return name;
    });
  const calls = [call("a", 600, first.promise), call("b", 400, second.promise), call("c", 17), call("d", 900)];
  expect(started).toEqual(["a", "b"]);
  expect(isIdle()).toBe(false);
  second.release();
  expect(await calls[1]).toBe("b");
  await expect.poll(() => started).toEqual(["a", "b", "c"]);
  first.release();
  expect(await Promise.all(calls)).toEqual(["a", "b", "c", "d"]);
  expect(isIdle()).toBe(true);
});

it("a call of more than 1,000 limits is made alone", async () => {
  const { inTurn } = createLargeCalls(60_000);
  const large = held();
  const started: string[] = [];
  const calls = [
    inTurn(1_500, async () => (started.push("large"), large.promise)),
    inTurn(17, async () => void started.push("next")),
  ];
  expect(started).toEqual(["large"]);
  large.release();
  await Promise.all(calls);
  expect(started).toEqual(["large", "next"]);
});

it("one that fails makes place for the next; one whose turn does not come in time is never made", async () => {
  const { inTurn, isIdle } = createLargeCalls(1);
  await expect(inTurn(900, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  const forever = held();
  const started: string[] = [];
  const stuck = inTurn(1_000, async () => (started.push("stuck"), forever.promise));
  const late = inTurn(900, async () => void started.push("late"));
  const told = "Redis did not answer a call of many limits within 451 ms.";
  expect(await Promise.allSettled([stuck, late])).toMatchObject([
    { status: "rejected", reason: { message: told } },
    { status: "rejected", reason: { message: told } },
  ]);
  expect(started).toEqual(["stuck"]);
  expect(isIdle()).toBe(true);
});
