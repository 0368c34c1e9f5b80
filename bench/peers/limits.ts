/** How long does a rate limiter in memory take to take a token from one of 10,000 buckets? */
import { report, scaled, type Side } from "../harness.js";
import { endless, sample } from "../keys.js";
import { lettersOf } from "./contestant.js";
import { measureGates } from "./gates.js";
import { flexible, keystileByName, limiterPackage } from "./limiters.js";

const BUCKETS = scaled(10_000, 100);

const used = new Map(Array.from({ length: BUCKETS }, (_, n) => [lettersOf(n, 26), { at: 0 }]));
const next = endless(sample(BUCKETS).map((n) => lettersOf(n, 26)));
const floor: Side = {
  name: "a look-up by name in a Map + Date.now()",
  run(operations) {
    let right = 0;
    for (let i = 0; i < operations; i++) {
      const bucket = used.get(next());
      if (bucket !== undefined && (bucket.at = Date.now()) > 0) right++;
    }
    return right;
  },
};
const contestants = [keystileByName, flexible, limiterPackage];
report({
  question: "How long does a rate limiter in memory take to take a token from one of 10,000 buckets?",
  rows: await measureGates(
    floor,
    contestants.map((contestant) => ({ contestant, keys: BUCKETS })),
  ),
});
