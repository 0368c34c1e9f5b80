import { describe, expect, it } from "vitest";
import { createPacedReads, type Lane, type Paced } from "../../../src/http/node/paced-reads.js";

/** A host whose turns and time pass by hand, and connections that note what happens to them. */
function host() {
  let [next, now] = [undefined as (() => void) | undefined, 0];
  const reads = createPacedReads(
    256,
    (act) => void (next = act),
    () => now,
  );
  const lane: Lane = { ahead: 0 };
  const opened: string[] = [];
  const stopped: string[] = [];
  return {
    reads,
    lane,
    opened,
    stopped,
    wait(name: string, of = lane): Paced {
      const paced = {
        lane: of,
        read: () => void opened.push(name),
        stop: () => void stopped.push(name),
      };
      reads.wait(paced);
      return paced;
    },
    pass: (ms: number) => void (now += ms),
    /** What is read of from this turn on; undefined: nothing is to come. */
    endTurn(): string[] | undefined {
      const act = next;
      if (act === undefined) return undefined;
      next = undefined;
      opened.length = 0;
      act();
      return [...opened];
    },
  };
}

describe("createPacedReads", () => {
  it("reads of twice as many each short turn, and of all in the end", () => {
    const { wait, endTurn } = host();
    for (let i = 0; i < 10; i++) wait(`${i}`);
    expect([endTurn(), endTurn(), endTurn(), endTurn()]).toEqual([
      ["0", "1"],
      ["2", "3"],
      ["4", "5", "6", "7"],
      ["8", "9"],
    ]);
    expect(endTurn()).toBeUndefined();
  });

  it("once two have taken long, the others are not read of in that turn, and then one at a time", () => {
    const { reads, wait, endTurn, pass, stopped } = host();
    const [first, second, ...others] = [0, 1, 2, 3, 4, 5].map((i) => wait(`${i}`));
    for (let i = 0; i < 4; i++) endTurn();
    reads.done(first!);
    pass(9);
    expect(stopped).toEqual([]);
    reads.done(second!);
    expect(stopped).toEqual(["2", "3", "4", "5"]);
    for (const other of others) {
      expect(endTurn()).toHaveLength(1);
      reads.done(other);
      pass(9);
    }
    // The time of the last one is learnt from, and then nothing is to come.
    endTurn();
    expect(endTurn()).toBeUndefined();
  });

  it("a turn that took neither long nor short leaves the number as it is", () => {
    const { reads, wait, endTurn, pass } = host();
    const first = [wait("0"), wait("1")];
    for (let i = 2; i < 8; i++) wait(`${i}`);
    expect(endTurn()).toEqual(["0", "1"]);
    for (const paced of first) reads.done(paced);
    pass(6);
    expect(endTurn()).toEqual(["2", "3"]);
  });

  it("a lane with one connection does not wait for another with a thousand", () => {
    const { wait, endTurn } = host();
    const many = { ahead: 0 };
    for (let i = 0; i < 1_000; i++) wait(`many${i}`, many);
    wait("one", { ahead: 0 });
    expect(endTurn()).toEqual(["many0", "one"]);
  });

  it("a lane in which too much is ahead waits until it was handled, and no other lane does", () => {
    const { reads, wait, endTurn, pass } = host();
    const full = { ahead: 257 };
    wait("later", full);
    wait("0");
    expect([endTurn(), endTurn()]).toEqual([["0"], undefined]);
    pass(1_000);
    reads.count(full, -1);
    expect([endTurn(), endTurn()]).toEqual([["later"], undefined]);
  });

  it("what waits twice is read of once; what ended is not read of", () => {
    const { reads, wait, endTurn } = host();
    const paced = wait("0");
    reads.wait(paced);
    const gone = wait("1");
    reads.done(gone);
    expect([endTurn(), endTurn()]).toEqual([["0"], undefined]);
  });

  it("hurried turns are passed over, but not for longer than 16 ms", () => {
    const { reads, wait, endTurn, pass } = host();
    wait("0");
    let passed = 0;
    for (; endTurn()?.length === 0; pass(1)) {
      passed++;
      reads.hurry();
    }
    expect(passed).toBe(0);
    wait("1");
    reads.hurry();
    for (; endTurn()?.length === 0; pass(1)) {
      passed++;
      reads.hurry();
    }
    expect(passed).toBe(17);
  });
});
