/**
 * Spends keys until each is refused, as one of several processes on a file. Tells when it is ready, goes on a word,
 * tells what it got.
 */
import { isKeystileError } from "../../../src/contracts/errors.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { PATIENT } from "./patience.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import type { CreditsOptions } from "../../../src/verify/verifier-options.js";
import { readThenWrite } from "./faults.js";

export interface SpendOrders {
  readonly file: string;
  readonly keys: readonly string[];
  readonly credits: CreditsOptions;
  readonly inFlight: number;
  /** The planted fault: the balance is read, and what was read decides. */
  readonly readsThenWrites?: boolean;
}

const orders = JSON.parse(process.argv[2]!) as SpendOrders;
const store = sqliteStore(orders.file, PATIENT);
const verifier = createVerifier(orders.readsThenWrites ? readThenWrite(store) : store, { credits: orders.credits });
const totals = { granted: 0, refused: 0 };
const errors: string[] = [];

/** One key after the other, from the `first` on, without those that were refused. */
async function spend(first: number): Promise<void> {
  const left = [...orders.keys.slice(first), ...orders.keys.slice(0, first)];
  for (let i = 0; left.length > 0; i = (i + 1) % left.length) {
    try {
      const { code } = await verifier.verify({ key: left[i]! });
      if (code === "VALID") totals.granted++;
      else {
        totals.refused++;
        if (code !== "USAGE_EXCEEDED") errors.push(code);
        left.splice(i--, 1);
      }
    } catch (error) {
      errors.push(isKeystileError(error) ? `${error.code}: ${error.message}` : String(error));
      return;
    }
  }
}

process.once("message", () => {
  void (async () => {
    await Promise.all(Array.from({ length: orders.inFlight }, (_, i) => spend(i % orders.keys.length)));
    await verifier.close();
    await store.close();
    process.send!({ ...totals, errors: [...new Set(errors)] }, () => process.disconnect());
  })();
});
process.send!({ ready: true });
