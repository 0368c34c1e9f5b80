/** How long does a verification take when any of 10,000 or of 1,000,000 remembered keys may come next? */
import { createVerifier } from "../src/verify/verifier.js";
import type { VerifierOptions } from "../src/verify/verifier-options.js";
import { measure, report, type Row, scaled, type Side } from "./harness.js";
import { assertSpent, openCopy } from "./stores.js";
import { H, hashSide, LARGE_LEASES, remember, settle, untilMinuteHas, verifySide } from "./work.js";

const MANY = scaled(1_000_000, 2_000);
const SOME = scaled(10_000, 500);

/** Milliseconds: more than it takes to use all keys once, write the notes of it and measure. */
const WHOLE_RUN = 40_000;
const MINUTE = 60_000;

/**
 * The work of `hot.ts` over all keys of a store, each verified once before: in the minute that is measured, or in an
 * earlier one, so that most uses are noted.
 */
async function overAll(
  keys: number,
  side: Omit<Side, "run">,
  credits: VerifierOptions["credits"],
  isNoted = false,
): Promise<Row[]> {
  const limited = credits !== undefined;
  const { store } = await openCopy({ keys, limited }, { durability: "process" });
  const verifier = createVerifier(store, { cache: { size: keys }, ...(limited && { credits }) });
  await remember(verifier, keys);
  await settle();
  await untilMinuteHas(isNoted ? MINUTE : WHOLE_RUN);
  if (!isNoted) {
    await remember(verifier, keys);
    await settle();
  }
  const check = async (operations: number): Promise<void> => {
    await verifier.close();
    if (limited) await assertSpent(store, keys, operations + keys * (isNoted ? 1 : 2));
  };
  const rows = await measure([hashSide(), verifySide(verifier, keys, { floor: H, check, ...side })]);
  await store.close();
  return rows;
}

report({
  question: "How long does a verification take when any of 10,000 or of 1,000,000 remembered keys may come next?",
  rows: [
    ...(await overAll(SOME, { name: "verify: 10,000 keys, the work of `hot`", goal: "≤ 2.5" }, LARGE_LEASES)),
    ...(await overAll(MANY, { name: "verify: 1,000,000 keys, the work of `hot`", goal: "≤ 7" }, LARGE_LEASES)),
    ...(await overAll(MANY, { name: "the same, most uses the first of their key in its minute" }, LARGE_LEASES, true)),
    ...(await overAll(MANY, { name: "verify: 1,000,000 unlimited keys, else the work of `hot`" }, undefined)),
  ],
});
