/** How long does a verification take when its record is not remembered and has to be read from SQLite? */
import { createVerifier } from "../src/verify/verifier.js";
import { openSnapshots } from "./bare.js";
import { measure, report, type Row, scaled, type Side } from "./harness.js";
import { digestOf, endless, requestsFor, sample } from "./keys.js";
import { openCopy } from "./stores.js";
import { verifyEach, verifySide } from "./work.js";

const MANY = scaled(1_000_000, 2_000);
const FEWER = scaled(100_000, 1_000);
const FLOOR = "bare prepared SELECT of a snapshot by digest + JSON.parse";

/** A cache of one record, and keys at random: what is asked for is never there. */
async function overFile(keys: number, label: string): Promise<Row[]> {
  const { store } = await openCopy({ keys, limited: false });
  const verifier = createVerifier(store, { cache: { size: 1 } });
  const bare = await openSnapshots(keys);
  const digests = sample(keys).map(digestOf);
  const [nextOfFloor, nextOfFind] = [endless(digests), endless(digests)];

  const floor: Side = {
    name: FLOOR,
    run(operations) {
      let right = 0;
      for (let i = 0; i < operations; i++) {
        const row = bare.find.get(nextOfFloor());
        if (row !== undefined && isObject(JSON.parse(row.body))) right++;
      }
      return right;
    },
  };
  const find: Side = {
    name: `store.findKey alone: ${label} keys`,
    floor: FLOOR,
    async run(operations) {
      let right = 0;
      for (let i = 0; i < operations; i++) {
        const found = store.findKey(nextOfFind());
        const record = found instanceof Promise ? await found : found;
        if (record?.permissions.length === 3) right++;
      }
      return right;
    },
  };
  const { next } = requestsFor(keys, scaled(100_000, 1_000));
  const alone: Side = {
    name: `verify: ${label} keys, one a turn of the event loop`,
    floor: FLOOR,
    async run(operations) {
      let right = 0;
      for (let i = 0; i < operations; i++) {
        right += await verifyEach(verifier, next, 1);
        await new Promise(setImmediate);
      }
      return right;
    },
  };
  const name = `verify: ${label} keys; query of three names, automatic limit`;
  const rows = await measure([floor, find, verifySide(verifier, keys, { name, floor: FLOOR, goal: "≤ 1.5" }), alone]);
  await verifier.close();
  await store.close();
  bare.close();
  return rows;
}

report({
  question: "How long does a verification take when its record is not remembered and has to be read from SQLite?",
  rows: [...(await overFile(FEWER, "100,000")), ...(await overFile(MANY, "1,000,000"))],
});

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}
