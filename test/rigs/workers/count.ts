/**
 * Verifies for ever and counts, and writes down when each call was answered. A third of its flushes it sends twice, and
 * of some it is told a failure though they were made. Made to be killed.
 */
import { randomUUID } from "node:crypto";
import { openSync, writeSync } from "node:fs";
import pg from "pg";
import type { Store } from "../../../src/contracts/store.js";
import { trust } from "../../../src/lib/guards/trusted.js";
import { postgresStore } from "../../../src/stores/postgres/index.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { createVerifier } from "../../../src/verify/verifier.js";

export interface CountOrders {
  /** A file, or the address of a PostgreSQL. */
  readonly database: string;
  readonly keys: readonly string[];
  /** The time of each answer is appended as eight bytes. */
  readonly acks: string;
  readonly interval: number;
  /** A tag of every call. */
  readonly life: string;
  /** The planted fault: flushes have no ids of their own. */
  readonly forgetsIds?: boolean;
}

const orders = JSON.parse(process.argv[2]!) as CountOrders;

function open(): Store {
  if (!orders.database.startsWith("postgres")) return sqliteStore(orders.database);
  const pool = new pg.Pool({ connectionString: orders.database, max: 4 });
  pool.on("error", () => undefined);
  return postgresStore(pool);
}

const store = open();
let flushes = 0;
const countOutcomes: Store["countOutcomes"] = async (flush) => {
  const count = () =>
    store.countOutcomes(orders.forgetsIds === true ? { ...flush, source: randomUUID(), seq: 1 } : flush);
  const outcome = await count();
  if (++flushes % 3 === 0) return count();
  if (flushes % 10 === 0) throw new Error("the connection was lost");
  return outcome;
};
const verifier = createVerifier(trust({ ...store, countOutcomes }), { analytics: { interval: orders.interval } });
const acks = openSync(orders.acks, "a");

let isEnding = false;
async function work(first: number): Promise<void> {
  for (let i = first; !isEnding; i++) {
    const { code } = await verifier.verify({
      key: orders.keys[i % orders.keys.length]!,
      tags: [orders.life, `t=${i % 5}`],
    });
    if (code !== "VALID") throw new Error(code);
    writeSync(acks, Buffer.from(Float64Array.of(Date.now()).buffer));
    // Answers of a store that does not wait must not keep timers from running.
    if (i % 16 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  }
}
const working = Array.from({ length: 8 }, (_, i) => work(i));
// Told to end, it writes what it has counted.
process.once("SIGTERM", () => {
  isEnding = true;
  void Promise.all(working)
    .then(() => verifier.close())
    .then(() => process.exit());
});
