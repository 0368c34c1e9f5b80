/** What does a credit from a lease cost beside the same call on an unlimited key? */
import { createVerifier } from "../src/verify/verifier.js";
import type { VerifierOptions } from "../src/verify/verifier-options.js";
import { measure, report, scaled, type Side } from "./harness.js";
import { assertSpent, openCopy } from "./stores.js";
import { LARGE_LEASES, remember, verifySide } from "./work.js";

const KEYS = scaled(1_000, 100);
const FLOOR = "verify: the same call on unlimited keys";

const unlimited = await openCopy({ keys: KEYS, limited: false }, {}, "unlimited.db");
const free = createVerifier(unlimited.store);
await remember(free, KEYS);

const closing: (() => Promise<void>)[] = [() => free.close(), async () => unlimited.store.close()];

/** More calls of a key than the default step has credits: after them its draws have grown to the whole step. */
const CALLS_BEFORE = 300;

/** Verifications of limited keys in steady use, on a power-durable store of their own. */
async function leased(name: string, credits: NonNullable<VerifierOptions["credits"]>, goal?: string): Promise<Side> {
  const { store } = await openCopy({ keys: KEYS, limited: true }, {}, `${closing.length}.db`);
  const verifier = createVerifier(store, { credits });
  for (let call = 0; call < CALLS_BEFORE; call++) await remember(verifier, KEYS);
  closing.push(async () => store.close());
  return verifySide(verifier, KEYS, {
    name,
    floor: FLOOR,
    ...(goal !== undefined && { goal }),
    async check(operations) {
      await verifier.close();
      await assertSpent(store, KEYS, operations + KEYS * CALLS_BEFORE);
    },
  });
}

const rows = await measure([
  verifySide(free, KEYS, { name: FLOOR }),
  await leased("verify: leases that last, 1,000 keys", LARGE_LEASES, "≤ 1.2"),
  await leased("verify: leases of 100,000 credits, drawn 25,000 at a time", {
    mode: "leased",
    size: 100_000,
    firstStep: 25_000,
    ttl: 60_000,
  }),
  await leased("verify: leases of the default size, 1,000 credits, at most 250 in memory", { mode: "leased" }, "≤ 1.3"),
]);
for (const close of closing) await close();
report({ question: "What does a credit from a lease cost beside the same call on an unlimited key?", rows });
