/**
 * The thread that writes for a store, so that the store's own never waits for a disk. Goals trap 2. A file of its own in the package:
 * a store on the same file, asked by messages. Decides nothing.
 */
import { parentPort, workerData } from "node:worker_threads";
import type { Store } from "../../store.js";
import { sqliteStore } from "./store.js";
import { type Fault, type Order, ORDER_WIDTH, packError, packSpend, type Reply, REPLY_WIDTH, type WriterData } from "./writer-messages.js";

const reply = (message: Reply): void => parentPort?.postMessage(message);

function open({ path, options }: WriterData): Store | undefined {
  try {
    return sqliteStore(path, options);
  } catch (error) {
    reply({ unable: packError(error) });
    return undefined;
  }
}

/** Each spend joins the store's next transaction; what came in while it committed the last one shares one. */
function spend(store: Store, id: number, orders: Float64Array<ArrayBuffer>): void {
  const count = orders.length / ORDER_WIDTH;
  const spends = new Float64Array(count * REPLY_WIDTH);
  const faults: [number, Fault][] = [];
  let left = count;
  const done = (): void => {
    if (--left === 0) reply({ id, spends, faults });
  };
  const spendOne = async (i: number): Promise<void> => {
    const at = i * ORDER_WIDTH;
    try {
      packSpend(spends, i, await store.spendCredits(orders[at] as number, orders[at + 1] as number, orders[at + 2] as number));
    } catch (error) {
      faults.push([i, packError(error)]);
    }
    done();
  };
  for (let i = 0; i < count; i++) void spendOne(i);
}

async function call(store: Store, { id, method, given }: Extract<Order, { method: unknown }>): Promise<void> {
  try {
    reply({ id, answer: await (store[method] as (...given: readonly unknown[]) => unknown)(...given) });
  } catch (error) {
    reply({ id, fault: packError(error) });
  }
}

const store = open(workerData as WriterData);
if (store !== undefined) {
  parentPort?.on("message", (order: Order) => {
    if ("spends" in order) spend(store, order.id, order.spends);
    else if ("method" in order) void call(store, order);
    // All that was asked before is answered first; with its port closed the thread ends.
    else void Promise.resolve(store.close()).finally(() => parentPort?.close());
  });
}
