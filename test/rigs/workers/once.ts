/** Verifies with idempotency keys in a row, many in flight, and writes down each VALID. Made to be killed. */
import { openSync, writeSync } from "node:fs";
import type { Store } from "../../../src/contracts/store.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { PATIENT } from "./patience.js";
import { createVerifier } from "../../../src/verify/verifier.js";

export interface OnceOrders {
  readonly file: string;
  readonly key: string;
  /** One byte is appended for each VALID: what was written survives the process. */
  readonly acks: string;
  /** The idempotency keys are `call-<from>`, and so on upwards. */
  readonly from: number;
  readonly inFlight: number;
  /** Spends in one transaction and records in the next. */
  readonly fault?: "records apart";
}

const orders = JSON.parse(process.argv[2]!) as OnceOrders;
const acks = openSync(orders.acks, "a");
const opened = sqliteStore(orders.file, PATIENT);
const verifier = createVerifier(orders.fault === "records apart" ? recordApart(opened) : opened);
let next = orders.from;

async function verifyOn(): Promise<void> {
  for (;;) {
    const { code } = await verifier.verify({ key: orders.key }, { idempotencyKey: `call-${next++}` });
    if (code !== "VALID") throw new Error(`answered ${code}`);
    writeSync(acks, "+");
  }
}

function recordApart(store: Store): Store {
  return {
    ...store,
    async spendOnce(ref, period, request) {
      const spend = ref === undefined ? undefined : await store.spendCredits(ref, request.cost, period, request.now);
      const { outcome } = await store.spendOnce(ref, period, { ...request, cost: 0 });
      return { outcome, ...(spend && { spend }) };
    },
  };
}

await Promise.all(Array.from({ length: orders.inFlight }, verifyOn));
