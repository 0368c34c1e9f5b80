import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { createPacedReads, type Lane, newLane, type Paced } from "../../../src/http/node/paced-reads.js";

setFlagsFromString("--expose-gc");

/** A host whose turns and time pass by hand, and connections that note what happens to them. */
function host() {
  let [next, now] = [undefined as (() => void) | undefined, 0];
  let resting: { readonly act: () => void; readonly until: number } | undefined;
  const reads = createPacedReads(
    (act) => void (next = act),
    () => now,
    (act, ms) => void (resting = { act, until: now + ms }),
  );
  const lane: Lane = newLane();
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
    pass(ms: number): void {
      now += ms;
      if (resting === undefined || resting.until > now) return;
      const { act } = resting;
      resting = undefined;
      act();
    },
    /** Something was read, and took so long to handle. */
    done(paced: Paced, ms = 0): void {
      reads.done(paced);
      now += ms;
    },
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
  it("keeps nothing of those that came and went while their lane is not read of", () => {
    const { reads, wait, done, endTurn, pass } = host();
    // A read that took long: its lane rests.
    const long = wait("long");
    endTurn();
    done(long, 22);
    endTurn();
    const kept = wait("kept");
    const gone: WeakRef<Paced>[] = [];
    for (let i = 0; i < 10_000; i++) {
      const paced = wait(`${i}`);
      reads.done(paced);
      gone.push(new WeakRef(paced));
    }
    // Let the references of this turn go.
    return new Promise((resolve) => setTimeout(resolve)).then(() => {
      (globalThis as { gc?: () => void }).gc ??= runInNewContext("gc") as () => void;
      (globalThis as { gc?: () => void }).gc!();
      expect(gone.filter((one) => one.deref() !== undefined).length).toBeLessThan(200);
      pass(22);
      expect(endTurn()).toEqual(["kept"]);
      reads.done(kept);
    });
  });

  it("whose lane changes while it waits stands last in the other, and is read of once", () => {
    const { reads, wait, done, endTurn, pass, opened } = host();
    const [blocked, free] = [newLane(), newLane()];
    const long = wait("long", blocked);
    endTurn();
    done(long, 22);
    endTurn();
    const paced = { lane: blocked, read: () => void opened.push("moved"), stop: () => undefined };
    reads.wait(paced);
    expect(endTurn()).toEqual([]);
    wait("first", free);
    paced.lane = free;
    reads.wait(paced);
    reads.wait(paced);
    const names = [endTurn(), endTurn(), endTurn()].flat();
    expect(names.filter((name) => name !== undefined)).toEqual(["first", "moved"]);
    pass(22);
    expect(endTurn() ?? []).toEqual([]);
  });

  it("reads of as many in a turn as take 4 ms, by what reading of them took", () => {
    const { wait, done, endTurn } = host();
    let all = Array.from({ length: 64 }, (_, i) => wait(`${i}`));
    const lengths: number[] = [];
    for (let names = endTurn(); names !== undefined; names = endTurn()) {
      lengths.push(names.length);
      // Nothing takes less than 1/64 ms.
      for (const paced of all.splice(0, names.length)) done(paced);
    }
    expect(lengths).toEqual([4, 60, 0]);
    all = Array.from({ length: 4 }, (_, i) => wait(`${i}`));
    expect(endTurn()).toHaveLength(4);
    for (const paced of all) done(paced, 2);
    for (let i = 0; i < 8; i++) wait(`${i}`);
    expect([endTurn(), endTurn()].map((names) => names?.length)).toEqual([2, 2]);
  });

  it("once two have taken long, the others are not read of in that turn, and then one at a time, with rests", () => {
    const { wait, done, endTurn, pass, stopped } = host();
    const [first, second, ...others] = [0, 1, 2, 3].map((i) => wait(`${i}`));
    expect(endTurn()).toHaveLength(4);
    done(first!, 9);
    expect(stopped).toEqual([]);
    done(second!);
    expect(stopped).toEqual(["2", "3"]);
    for (const other of others) {
      expect([endTurn(), endTurn()]).toEqual([[], undefined]);
      pass(8.9);
      expect(endTurn()).toBeUndefined();
      pass(0.1);
      expect(endTurn()).toHaveLength(1);
      done(other, 9);
    }
    expect([endTurn(), endTurn()]).toEqual([[], undefined]);
  });

  it("one that takes long takes no turn from those that do not, and they none from it", () => {
    const { wait, done, endTurn, pass } = host();
    const long = [newLane(), newLane()];
    for (const [i, of] of long.entries()) {
      const paced = wait(`long${i}`, of);
      endTurn();
      done(paced, 22);
      endTurn();
    }
    for (const [i, of] of long.entries()) for (let n = 1; n < 3; n++) wait(`long${i}.${n}`, of);
    for (let i = 0; i < 6; i++) wait(`${i}`);
    expect([endTurn(), endTurn()]).toEqual([
      ["0", "1", "2", "3"],
      ["4", "5"],
    ]);
    pass(22);
    wait("6");
    expect(endTurn()).toEqual(["long0.1", "6"]);
    wait("7");
    expect(endTurn()).toEqual(["long1.1", "7"]);
    expect([endTurn(), endTurn()]).toEqual([["long0.2"], ["long1.2"]]);
  });

  it("a lane is not charged with what others take after it in the turn", () => {
    const { wait, done, endTurn, lane } = host();
    const paced = wait("0");
    endTurn();
    done(paced, 1);
    done({ lane: newLane(), read: () => undefined, stop: () => undefined }, 30);
    endTurn();
    expect(lane.each).toBe(1);
  });

  it("hundreds of lanes that take long are not in the way of others", () => {
    const { wait, done, endTurn, pass } = host();
    const long = Array.from({ length: 300 }, newLane);
    for (const of of long) {
      const paced = wait("long", of);
      endTurn();
      done(paced, 22);
      endTurn();
    }
    for (const of of long) wait("long", of);
    pass(22);
    wait("0");
    expect(endTurn()).toEqual(["long", "0"]);
  });

  it("what is known to be short waits neither for what may take long, nor for what did; after 32 ms it does", () => {
    const { wait, done, endTurn, stopped } = host();
    const short = newLane();
    const first = wait("first", short);
    endTurn();
    done(first, 0.1);
    const [one, other] = [wait("one"), wait("other")];
    for (let i = 2; i < 4; i++) wait(`${i}`);
    const late = ["late", "later"].map((name) => wait(name, short));
    expect(endTurn()).toEqual(["one", "late", "other", "later", "2", "3"]);
    done(one, 9);
    done(other, 24);
    expect(stopped).toEqual(["2", "3"]);
    done(late[0]!);
    expect(stopped).toEqual(["2", "3", "later"]);
  });

  it("lanes have turns, whatever waits in each", () => {
    const { wait, endTurn } = host();
    const many = newLane();
    const lanes: Record<string, Lane> = { a: newLane(), b: newLane() };
    for (let i = 0; i < 1_000; i++) wait(`many${i}`, many);
    for (const name of ["a", "b"]) for (let i = 0; i < 2; i++) wait(`${name}${i}`, lanes[name]);
    expect([endTurn(), endTurn()]).toEqual([
      ["many0", "a0", "b0", "many1", "a1", "b1"],
      ["many2", "many3", "many4", "many5"],
    ]);
  });

  it("of lanes that brought nothing yet, one of each of 64 is read of in a turn", () => {
    const { wait, endTurn } = host();
    const lanes = Array.from({ length: 100 }, newLane);
    for (let i = 0; i < 100; i++) for (let n = 0; n < 3; n++) wait(`${i}`, lanes[i]);
    expect([endTurn()?.length, endTurn()?.slice(0, 37)]).toEqual([
      64,
      Array.from({ length: 37 }, (_, i) => `${(64 + i) % 100}`),
    ]);
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
