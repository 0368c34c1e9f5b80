import { describe, expect, it } from "vitest";
import { createFairTurns, WEIGHT } from "../../../src/http/admission/fair-turns.js";

/** A host whose turns end by hand. */
function host() {
  let next: (() => void)[] = [];
  return {
    atEnd: (act: () => void) => void next.push(act),
    endTurn() {
      const acts = next;
      next = [];
      for (const act of acts) act();
      return acts.length;
    },
  };
}

describe("createFairTurns", () => {
  it("calls of one turn go on together at its end, in order", () => {
    const { atEnd, endTurn } = host();
    const turns = createFairTurns(1_000, atEnd);
    const done: number[] = [];
    for (let i = 0; i < 40; i++) turns.wait("a", WEIGHT.short, () => done.push(i));
    expect(done).toEqual([]);
    endTurn();
    expect(done).toEqual(Array.from({ length: 40 }, (_, i) => i));
  });

  it("a turn without time runs one callback's calls, of each account in its turn", () => {
    const { atEnd, endTurn } = host();
    const turns = createFairTurns(0, atEnd);
    const done: string[] = [];
    for (let i = 0; i < 100; i++) turns.wait("many", WEIGHT.long, () => done.push("many"));
    turns.wait("few", WEIGHT.short, () => done.push("few"));
    turns.wait("few", WEIGHT.short, () => done.push("few"));
    endTurn();
    expect(done).toEqual(["many"]);
    endTurn();
    expect(done).toEqual(["many", "few", "few", "many"]);
    for (let i = 0; i < 98; i++) endTurn();
    expect(done.filter((name) => name === "many")).toHaveLength(100);
  });

  it("a thousand accounts get a turn each before one gets its second", () => {
    const { atEnd, endTurn } = host();
    const turns = createFairTurns(0, atEnd);
    const counts = new Map<string, number>();
    for (let round = 0; round < 2; round++)
      for (let i = 0; i < 1_000; i++)
        turns.wait(`w${i}`, WEIGHT.long, () => counts.set(`w${i}`, (counts.get(`w${i}`) ?? 0) + 1));
    for (let i = 0; i < 1_000; i++) endTurn();
    expect([counts.size, Math.max(...counts.values())]).toEqual([1_000, 1]);
  });

  it("hurried turns are passed over, but not for longer than 16 ms", () => {
    const { atEnd, endTurn } = host();
    let now = 0;
    const turns = createFairTurns(4, atEnd, () => now);
    const done: number[] = [];
    for (let i = 0; i < 3; i++) turns.wait("a", WEIGHT.long, () => done.push((now += 5)));
    for (let i = 0; i < 200; i++) {
      turns.hurry();
      endTurn();
      now++;
    }
    // Each takes a turn whole.
    expect(done).toEqual([22, 45, 68]);
  });

  it("goes on after a call that adds others", () => {
    const { atEnd, endTurn } = host();
    const turns = createFairTurns(1_000, atEnd);
    let done = 0;
    const again = () => {
      if (++done < 50) turns.wait("a", WEIGHT.long, again);
    };
    turns.wait("a", WEIGHT.long, again);
    for (let i = 0; i < 200 && done < 50; i++) endTurn();
    expect(done).toBe(50);
  });
});
