/** Takes from rate limits, one call after the other, and writes down each that was granted once it was told. */
import { openSync, writeSync } from "node:fs";
import { sqliteLimiter, sqliteStore } from "../../../src/stores/sqlite/index.js";

export interface TakeAckedOrders {
  readonly file: string;
  /** A byte for each granted take: which of the limits. */
  readonly acks: string;
  /** Names of the buckets, at most 255. */
  readonly buckets: readonly string[];
  readonly limit: number;
  readonly duration: number;
  /** Unix time of all takes, milliseconds: nothing refills. */
  readonly now: number;
  /** Takes in all. */
  readonly takes: number;
}

const { file, acks, buckets, limit, duration, now, takes } = JSON.parse(process.argv[2]!) as TakeAckedOrders;
const store = sqliteStore(file);
const limiter = sqliteLimiter(store);
const log = openSync(acks, "a");
for (let i = 0; i < takes; i++) {
  const at = (i * 31) % buckets.length;
  const check = { bucket: buckets[at]!, workspaceId: "ws_1", limit, duration, cost: 1 };
  const [verdict] = await limiter.take([check], now);
  if (verdict?.exceeded === false) writeSync(log, Uint8Array.of(at));
}
// No clean end: it would carry the log over.
process.exit(0);
