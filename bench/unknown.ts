/** How long does it take to turn away a key that does not exist? */
import { createVerifier } from "../src/verify/verifier.js";
import { openSnapshots } from "./bare.js";
import { measure, report, scaled, type Side } from "./harness.js";
import { digestOf, endless, keyText, sample, unknown } from "./keys.js";
import { openCopy } from "./stores.js";

const KEYS = scaled(1_000_000, 2_000);
const FLOOR = "bare prepared SELECT by digest that finds nothing";

const { store } = await openCopy({ keys: KEYS, limited: false });
const verifier = createVerifier(store);
const bare = await openSnapshots(KEYS);
const garbage = sample(KEYS).map(unknown);
const nextDigest = endless(garbage.map(digestOf));
const nextRequest = endless(garbage.map((n) => ({ key: keyText(n) })));

const floor: Side = {
  name: FLOOR,
  run(operations) {
    let right = 0;
    for (let i = 0; i < operations; i++) if (bare.find.get(nextDigest()) === undefined) right++;
    return right;
  },
};
const verify: Side = {
  name: "verify: no such key among 1,000,000, none asked again soon",
  floor: FLOOR,
  goal: "≤ 1.3",
  async run(operations) {
    let right = 0;
    for (let i = 0; i < operations; i++) if ((await verifier.verify(nextRequest())).code === "NOT_FOUND") right++;
    return right;
  },
};
const rows = await measure([floor, verify]);
await verifier.close();
await store.close();
bare.close();
report({ question: "How long does it take to turn away a key that does not exist?", rows });
