/**
 * Counts calls with tags that all differ, of two workspaces in turns, and tells how much was alive in its heap. Run
 * with `--expose-gc`.
 */
import { createKeyring } from "../../../src/keyring/keyring.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { createVerifier } from "../../../src/verify/verifier.js";

export interface CountLongOrders {
  readonly database: string;
  /** The program of the writer thread; absent: none. */
  readonly writer?: string;
  readonly verifiers: number;
  readonly memory: number;
  readonly calls: number;
}

const { database, writer, verifiers: count, memory, calls } = JSON.parse(process.argv[2]!) as CountLongOrders;
const store = sqliteStore(database, {
  durability: "process",
  ...(writer !== undefined && { writer: new URL(writer) }),
});
const keys: string[] = [];
for (const workspaceId of ["ws_a", "ws_b"]) {
  const keyring = createKeyring(store, { workspaceId });
  const { apiId } = await keyring.createApi({ name: "documents" });
  keys.push((await keyring.createKey({ apiId })).key);
}
const analytics = { memory, interval: 60_000, tagSets: 100_000 };
const verifiers = Array.from({ length: count }, () => createVerifier(store, { analytics }));
let heap = 0;
for (let n = 0; n < calls; n++) {
  // 20 tags of 250 characters of two bytes each: 10 KB.
  const tags = Array.from({ length: 20 }, (_, i) => `${n}.${i}`.padEnd(250, "é"));
  await verifiers[n % count]!.verify({ key: keys[n % 2]!, tags });
  if (n % 20 !== 0) continue;
  if (n % 1_000 === 0) {
    gc!();
    heap = Math.max(heap, process.memoryUsage().heapUsed);
  }
  await new Promise((resolve) => setImmediate(resolve));
}
const sums = verifiers.map((verifier) => verifier.counters());
const counted = sums.reduce((sum, { verifications }) => sum + (verifications?.VALID ?? 0), 0);
process.send!({ heap, counted }, () => process.exit());
