/** Takes from rate limits as one of several processes of a host, and says what it was granted. */
import { isKeystileError } from "../../../src/contracts/errors.js";
import type { LimitCheck, LimitVerdict } from "../../../src/contracts/limiter.js";
import { sqliteLimiter, sqliteStore } from "../../../src/stores/sqlite/index.js";
import { PATIENT } from "./patience.js";

export interface TakeOrders {
  readonly file: string;
  readonly inFlight: number;
  /** Taken from by all, a token each from all of them in every call. */
  readonly limits: readonly Pick<LimitCheck, "bucket" | "limit" | "duration">[];
  /** Milliseconds by which this process's clock is off. */
  readonly clockOff: number;
  /** The planted fault: the bucket is read, and what was read decides. */
  readonly readsThenTakes?: boolean;
  /** Tells of each granted call at once, for a process that is killed. */
  readonly tells?: boolean;
  /** Stops after so many refusals in a row. */
  readonly refusals: number;
}

const orders = JSON.parse(process.argv[2]!) as TakeOrders;
const store = sqliteStore(orders.file, PATIENT);
const limiter = sqliteLimiter(store, PATIENT);
const checks = (cost: number): LimitCheck[] => orders.limits.map((limit) => ({ ...limit, cost, workspaceId: "ws_1" }));
const totals = { granted: 0, first: Infinity, last: -Infinity };
const errors: string[] = [];
let refusedInARow = 0;

const now = () => Date.now() + orders.clockOff;

async function takeOnce(): Promise<readonly LimitVerdict[]> {
  if (!orders.readsThenTakes) return limiter.take(checks(1), now());
  const seen = await limiter.take(checks(0), now());
  if (seen.some(({ remaining }) => remaining < 1)) return seen.map((one) => ({ ...one, exceeded: true }));
  // Whoever set what it had read would grant this call whatever happened meanwhile.
  await new Promise(setImmediate);
  await limiter.take(checks(1), now());
  return seen;
}

async function run(): Promise<void> {
  while (refusedInARow < orders.refusals) {
    try {
      const began = now();
      const verdicts = await takeOnce();
      if (verdicts.some(({ exceeded }) => exceeded)) {
        refusedInARow++;
        continue;
      }
      refusedInARow = 0;
      totals.granted++;
      totals.first = Math.min(totals.first, began);
      totals.last = Math.max(totals.last, now());
      if (orders.tells) process.send!(totals);
    } catch (error) {
      errors.push(isKeystileError(error) ? `${error.code}: ${error.message}` : String(error));
      return;
    }
  }
}

process.once("message", () => {
  void (async () => {
    await Promise.all(Array.from({ length: orders.inFlight }, run));
    await limiter.close();
    await store.close();
    process.send!({ ...totals, errors: [...new Set(errors)] }, () => process.disconnect());
  })();
});
process.send!({ ready: true });
