/** How many exact, durable spends can be answered, one at a time and 64 in flight, over 1,000 keys? */
import { createVerifier } from "../src/verify/verifier.js";
import { openBalances } from "./bare.js";
import { measure, report, type Row, scaled, type Side } from "./harness.js";
import { endless, requestsFor, sample } from "./keys.js";
import { assertSpent, openCopy } from "./stores.js";
import { remember, verifySide, verifyTogether } from "./work.js";

const KEYS = scaled(1_000, 100);
const BASE = { keys: KEYS, limited: true };
const IN_FLIGHT = 64;

/** @param one goal with one call at a time, as a multiple of the floor @param many goal with 64 in flight, in words */
async function atDurability(durability: "power" | "process", one: string | undefined, many: string): Promise<Row[]> {
  const synchronous = durability === "power" ? "FULL" : "NORMAL";
  const floorName = `bare UPDATE in its own transaction, synchronous=${synchronous}`;
  const { store } = await openCopy(BASE, { durability });
  const verifier = createVerifier(store);
  await remember(verifier, KEYS, { cost: 0 });
  // On a file of its own: a second writer would make the store look for changes that it did not make.
  const bare = openBalances(KEYS, synchronous);
  const nextRow = endless(sample(KEYS));
  const { next, ready } = requestsFor(KEYS);
  let spends = 0;
  const check = (operations: number): void => void (spends += operations);

  const floor: Side = {
    name: floorName,
    run(operations) {
      let right = 0;
      for (let i = 0; i < operations; i++) if (bare.take.run(nextRow()).changes === 1) right++;
      return right;
    },
  };
  const together: Side = {
    name: `verify, ${durability}-durable, ${IN_FLIGHT} in flight`,
    floor: floorName,
    goal: many,
    check,
    ready,
    run: (operations) => verifyTogether(verifier, next, operations, IN_FLIGHT),
  };
  const single = {
    name: `verify, ${durability}-durable, one at a time`,
    floor: floorName,
    ...(one !== undefined && { goal: one }),
    check,
  };
  const rows = await measure([floor, verifySide(verifier, KEYS, single), together]);
  await assertSpent(store, KEYS, spends);
  await verifier.close();
  await store.close();
  bare.close();
  return rows;
}

report({
  question: "How many exact, durable spends can be answered, one at a time and 64 in flight, over 1,000 keys?",
  rows: [
    ...(await atDurability("power", "≤ 1.1", "≥ 200,000 /s where the floor takes 200 µs (0.025)")),
    ...(await atDurability("process", undefined, "≥ 240,000 /s")),
  ],
});
