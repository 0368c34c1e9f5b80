/** How long does a verification take when its key is one of 4,096 in use, with 1,000,000 remembered? */
import { createVerifier } from "../src/verify/verifier.js";
import { measure, report, scaled } from "./harness.js";
import { requestFor } from "./keys.js";
import { assertSpent, openCopy } from "./stores.js";
import { H, hashSide, LARGE_LEASES, remember, settle, verifySide } from "./work.js";

const REMEMBERED = scaled(1_000_000, 2_000);
const IN_USE = scaled(4_096, 64);

const { store } = await openCopy({ keys: REMEMBERED, limited: true }, { durability: "process" });
const verifier = createVerifier(store, { cache: { size: REMEMBERED }, credits: LARGE_LEASES });
await remember(verifier, REMEMBERED, { cost: 0 });
await remember(verifier, IN_USE);
await settle();

const { key: _, ...plan } = requestFor(0);
const prepared = verifier.prepare(plan);
let spent = IN_USE;
const side = { floor: H, check: (operations: number) => void (spent += operations) };
const rows = await measure([
  hashSide(),
  verifySide(verifier, IN_USE, {
    ...side,
    name: "verify: 4,096 keys of 1,000,000 remembered; query of three names, automatic limit, a credit from memory",
    goal: "≤ 2.0",
  }),
  verifySide({ verify: ({ key }) => prepared(key) }, IN_USE, { ...side, name: "the same, prepared", goal: "≤ 2.2" }),
]);
await verifier.close();
await assertSpent(store, IN_USE, spent);
await store.close();
report({
  question: "How long does a verification take when its key is one of 4,096 in use, with 1,000,000 remembered?",
  rows,
});
