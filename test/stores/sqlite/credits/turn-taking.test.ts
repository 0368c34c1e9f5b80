import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { sqliteStore } from "../../../../src/stores/sqlite/index.js";
import { addKeys, temporaryPaths, withApi } from "../support.js";

const path = temporaryPaths();

describe("sqliteStore: spends beside another process that writes", () => {
  it("pause once for each time that it wrote, and never while nobody else writes", { timeout: 60_000 }, async () => {
    const place = path();
    const store = await withApi(sqliteStore(place, { durability: "process" }));
    const [ref] = await addKeys(store, 1, 1_000_000_000);
    const other = new Database(place);
    // Counted in turns of the event loop, which a busy machine does not make more: without a pause each commits a
    // group.
    let turns = 0;
    let lastCommit = 0;
    let pauses = 0;
    let isRunning = true;
    const countTurn = () => {
      turns++;
      if (isRunning) setImmediate(countTurn);
    };
    countTurn();
    let spent = 0;
    const work = async () => {
      while (isRunning) {
        expect(await store.spendCredits(ref!, 1, 0, 0)).toMatchObject({ ok: true });
        spent++;
        if (turns - lastCommit > 10) pauses++;
        lastCommit = turns;
      }
    };
    const working = Promise.all(Array.from({ length: 8 }, work));
    const goOn = async () => {
      const until = spent + 4_000;
      while (spent < until) await new Promise((resolve) => setImmediate(resolve));
      await new Promise((resolve) => setTimeout(resolve, 20));
    };
    await goOn();
    expect(pauses).toBe(0);
    // A pause in which this process does not run at all counts no turns.
    for (let written = 1; pauses < 3; written++) {
      expect(written).toBeLessThanOrEqual(30);
      other.exec("INSERT INTO keystile_changes (what) VALUES ('+')");
      await goOn();
      expect(pauses).toBeLessThanOrEqual(written);
    }
    isRunning = false;
    await working;
    expect((await store.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]?.remaining).toBe(
      1_000_000_000 - spent,
    );
    other.close();
    await store.close();
  });
});
