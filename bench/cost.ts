/** How does the cost of a verification grow with the number of keys that may come next, all of them remembered? */
import { createVerifier } from "../src/verify/verifier.js";
import { measure, QUICK, report, type Row } from "./harness.js";
import { toPoint, writePlot } from "./plot/write.js";
import { openCopy } from "./stores.js";
import { H, hashSide, LARGE_LEASES, remember, settle, verifySide } from "./work.js";

const SIZES = QUICK ? [64, 500, 2_000] : [64, 1_000, 4_096, 10_000, 100_000, 1_000_000];
const MOST = SIZES.at(-1)!;

const { store } = await openCopy({ keys: MOST, limited: true }, { durability: "process" });
// The first use of a key in a minute, which is written, is what `uniform` asks: here it would depend on the clock.
const verifier = createVerifier(store, { cache: { size: MOST }, credits: LARGE_LEASES, usage: false });

const pairs: { readonly keys: number; readonly floor: Row; readonly verify: Row }[] = [];
for (const keys of SIZES) {
  // What came before stays: a size costs only what it adds. Twice: the second call of a key draws a larger lease.
  await remember(verifier, keys);
  await remember(verifier, keys);
  await settle();
  const name = `verify: any of ${keys.toLocaleString("en-US")} keys, the work of \`hot\``;
  const [floor, verify] = await measure([hashSide(), verifySide(verifier, keys, { name, floor: H })]);
  pairs.push({ keys, floor: floor!, verify: verify! });
}
await verifier.close();
await store.close();

const asNs = (ns: number): number => ns;
writePlot("cost.svg", {
  title: "Cost of a verification: query of three names, rate limit, a credit from memory",
  yLabel: "nanoseconds",
  xLabel: "keys that may come next, all remembered",
  series: [
    { name: "keystile, verify", hue: "first", points: pairs.map(({ keys, verify }) => toPoint(keys, verify, asNs)) },
    {
      name: "H: one SHA-256 of the key",
      hue: "plain",
      dashed: true,
      points: pairs.map(({ keys, floor }) => toPoint(keys, floor, asNs)),
    },
  ],
});
report({
  question:
    "How does the cost of a verification grow with the number of keys that may come next, all of them remembered?",
  rows: pairs.flatMap(({ floor, verify }) => [floor, verify]),
});
