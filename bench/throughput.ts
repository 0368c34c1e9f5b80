/** How many exact, durable spends are answered a second with 1 to 256 calls in flight, over 1,000 keys? */
import { createVerifier } from "../src/verify/verifier.js";
import { openBalances } from "./bare.js";
import { measure, report, type Row, scaled, type Side } from "./harness.js";
import { endless, requestsFor, sample } from "./keys.js";
import type { Series } from "./plot/chart.js";
import { toPoint, writePlot } from "./plot/write.js";
import { assertSpent, openCopy } from "./stores.js";
import { remember, verifyTogether } from "./work.js";

const KEYS = scaled(1_000, 100);
const IN_FLIGHT = [1, 4, 16, 64, 256];

interface Curve {
  readonly floor: Row;
  /** One for each of {@link IN_FLIGHT}. */
  readonly verify: readonly Row[];
}

async function atDurability(durability: "power" | "process"): Promise<Curve> {
  const synchronous = durability === "power" ? "FULL" : "NORMAL";
  const floorName = `bare UPDATE in its own transaction, synchronous=${synchronous}`;
  const { store } = await openCopy({ keys: KEYS, limited: true }, { durability }, `${durability}.db`);
  const verifier = createVerifier(store);
  await remember(verifier, KEYS, { cost: 0 });
  // On a file of its own: a second writer would make the store look for changes that it did not make.
  const bare = openBalances(KEYS, synchronous);
  const nextRow = endless(sample(KEYS));
  let spends = 0;
  const floor: Side = {
    name: floorName,
    run(operations) {
      let right = 0;
      for (let i = 0; i < operations; i++) if (bare.take.run(nextRow()).changes === 1) right++;
      return right;
    },
  };
  const sides = IN_FLIGHT.map((inFlight): Side => {
    const { next, ready } = requestsFor(KEYS);
    return {
      name: `verify, ${durability}-durable, ${inFlight} in flight`,
      floor: floorName,
      ready,
      check: (operations) => void (spends += operations),
      run: (operations) => verifyTogether(verifier, next, operations, inFlight),
    };
  });
  const [first, ...rest] = await measure([floor, ...sides]);
  await assertSpent(store, KEYS, spends);
  await verifier.close();
  await store.close();
  bare.close();
  return { floor: first!, verify: rest };
}

const aSecond = (ns: number): number => 1e9 / ns;

function seriesOf(name: string, floorName: string, hue: "first" | "second", { floor, verify }: Curve): Series[] {
  return [
    { name, hue, points: verify.map((row, i) => toPoint(IN_FLIGHT[i]!, row, aSecond)) },
    { name: floorName, hue, dashed: true, points: IN_FLIGHT.map((inFlight) => toPoint(inFlight, floor, aSecond)) },
  ];
}

const power = await atDurability("power");
const processOnly = await atDurability("process");
writePlot("throughput.svg", {
  title: "Exact, durable verifications a second, 1,000 keys",
  yLabel: "verifications a second",
  xLabel: "calls in flight",
  series: [
    ...seriesOf("power-durable", "bare UPDATE, FULL", "first", power),
    ...seriesOf("process-durable", "bare UPDATE, NORMAL", "second", processOnly),
  ],
});
report({
  question: "How many exact, durable spends are answered a second with 1 to 256 calls in flight, over 1,000 keys?",
  rows: [power, processOnly].flatMap(({ floor, verify }) => [floor, ...verify]),
});
