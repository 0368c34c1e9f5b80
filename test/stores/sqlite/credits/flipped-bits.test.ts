import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { expect, it } from "vitest";
import { sqliteStore } from "../../../../src/stores/sqlite/index.js";
import { runs } from "../../../runs.js";
import { addKeys, inspect, temporaryPaths, withApi } from "../support.js";

const path = temporaryPaths();
const KEYS = 200;
const LEFT = 950;

/** Minimal standard generator: the same bits in every run. */
function createDice(seed: number): (below: number) => number {
  let state = seed;
  return (below) => (state = (state * 48_271) % 2_147_483_647) % below;
}

it("a bit that flips in the pages of the balances gives nobody another balance: it is refused, or changes nothing", async () => {
  const place = path();
  const store = await withApi(sqliteStore(place));
  const refs = await addKeys(store, KEYS, 1_000, { amount: 7, period: 32_000_020_000 });
  for (const ref of refs) await store.spendCredits(ref, 1_000 - LEFT, 32_000_020_000, 0);
  await store.close();
  const pages = inspect(place, (db) =>
    db.prepare("SELECT pageno FROM dbstat WHERE name = 'keystile_accounts'").pluck().all(),
  ) as number[];
  const dice = createDice(7);
  const damaged = path();
  let refused = 0;
  // One in twenty is in a balance.
  for (let flip = 0; flip < runs(200); flip++) {
    copyFileSync(place, damaged);
    const bytes = readFileSync(damaged);
    const at = (pages[dice(pages.length)]! - 1) * 4_096 + dice(4_096);
    bytes[at]! ^= 1 << dice(8);
    writeFileSync(damaged, bytes);
    const opened = sqliteStore(damaged);
    for (const ref of refs) {
      try {
        const spend = await opened.spendCredits(ref, 0, 32_000_020_000, 0);
        // `undefined` is a key without a balance: it is refused as well.
        if (spend !== undefined) expect(spend.remaining, `byte ${at}`).toBe(LEFT);
      } catch (error) {
        expect(error, `byte ${at}`).toMatchObject({ name: "KeystileError" });
        refused++;
      }
    }
    await opened.close();
  }
  expect(refused).toBeGreaterThan(0);
});
