/** Reserves credits, says the ids of its handles, and settles none. Made to be killed. */
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import { PATIENT } from "./patience.js";

export interface ReserveOrders {
  readonly file: string;
  readonly key: string;
  readonly cost: number;
  /** How many. */
  readonly calls: number;
  /** Milliseconds until each returns. */
  readonly timeout: number;
}

const { file, key, cost, calls, timeout } = JSON.parse(process.argv[2]!) as ReserveOrders;
const verifier = createVerifier(sqliteStore(file, PATIENT));
const ids: string[] = [];
for (let i = 0; i < calls; i++) {
  const call = await verifier.reserve({ key, credits: { cost } }, { timeout });
  if (!call.valid) throw new Error(`answered ${call.code}`);
  ids.push(call.id);
}
process.send!({ ids }, () => undefined);
setInterval(() => undefined, 1_000);
