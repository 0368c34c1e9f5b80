import { describe, expect, it } from "vitest";
import { runLongTurns, runRevocations } from "./revocation.js";

describe("a revocation in another process", () => {
  it("is known to the first verification after its word: 500 times, 0 stale (A109)", async () => {
    const report = await runRevocations(250);
    expect(report).toMatchObject({ changes: 500, stale: 0 });
    // The memory was warm: an idle reader would prove nothing.
    expect(report.busyCalls).toBeGreaterThan(1_000);
  });

  it("is known within 1 ms inside one turn of the event loop", async () => {
    expect(await runLongTurns(40)).toEqual({ stale: 0 });
  });

  it("is known as soon where nothing is remembered, and the finds of a turn share a transaction", async () => {
    const nothing = { size: 1 };
    expect(await runRevocations(100, "turn", nothing)).toMatchObject({ changes: 200, stale: 0 });
    expect(await runLongTurns(40, "turn", nothing)).toEqual({ stale: 0 });
  });

  it("control: a store that asks only every ten seconds is found out", async () => {
    const { stale } = await runRevocations(10, 10_000);
    expect(stale).toBeGreaterThan(0);
    expect((await runLongTurns(4, 10_000)).stale).toBeGreaterThan(0);
  });
});
