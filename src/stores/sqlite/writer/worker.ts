/**
 * The thread that writes for a store, so that the store's own never waits for a disk. Trap 2. A file of its own in the package:
 * a store on the same file, asked by messages. Decides nothing.
 */
import { parentPort, workerData } from "node:worker_threads";
import type { Store } from "../../../contracts/store.js";
import { type PackedKeys, unpackKeys } from "../keys/encoded-keys.js";
import { writerStore, type WriterStore } from "../store.js";
import { type Order, ORDER_WIDTH, packError, packSpend, type Reply, REPLY_WIDTH, type WriterData } from "./messages.js";

const reply = (message: Reply): void => parentPort?.postMessage(message);

function open({ path, options }: WriterData): WriterStore | undefined {
  try {
    return writerStore(path, options);
  } catch (error) {
    reply({ unable: packError(error) });
    return undefined;
  }
}

type Method = (...given: readonly unknown[]) => unknown;

/** Each spend joins the store's next transaction; what came in while it committed the last one shares one. */
function spend(store: Store, id: number, orders: Float64Array<ArrayBuffer>): void {
  const count = orders.length / ORDER_WIDTH;
  const spends = new Float64Array(count * REPLY_WIDTH);
  const failed = new Map<unknown, number[]>();
  let left = count;
  const done = (): void => {
    if (--left > 0) return;
    const faults = Array.from(failed, ([error, at]) => [packError(error), at] as const);
    reply({ id, spends, faults });
  };
  const spendOne = async (i: number): Promise<void> => {
    const at = i * ORDER_WIDTH;
    try {
      const [ref, cost, period, now] = orders.subarray(at, at + ORDER_WIDTH) as unknown as [number, number, number, number];
      packSpend(spends, i, await store.spendCredits(ref, cost, period, now));
    } catch (error) {
      const places = failed.get(error);
      if (places === undefined) failed.set(error, [i]);
      else places.push(i);
    }
    done();
  };
  for (let i = 0; i < count; i++) void spendOne(i);
}

async function answer(id: number, work: () => unknown): Promise<void> {
  try {
    reply({ id, answer: await work() });
  } catch (error) {
    reply({ id, fault: packError(error) });
  }
}

/** Answers what was asked before: the store waits for its spends, and this function for the calls. */
async function close(store: Store, calls: Iterable<Promise<void>>): Promise<void> {
  await Promise.all(calls);
  await store.close();
}

const opened = open(workerData as WriterData);
if (opened !== undefined) {
  const { store, insertEncoded, deadline } = opened;
  const calls = new Set<Promise<void>>();
  const call = (id: number, work: () => unknown): void => {
    const answered: Promise<void> = answer(id, work).then(() => void calls.delete(answered));
    calls.add(answered);
  };
  /** Parts of one insertion go in one after another, also when the file is locked: of two keys with one hash the first goes in. */
  let last: Promise<unknown> = Promise.resolve();
  const insert = (keys: PackedKeys): Promise<boolean[]> => {
    // Counted from here: parts that wait for one another wait for one lock.
    const until = deadline();
    const inserted = last.then(() => insertEncoded(unpackKeys(keys), until));
    last = inserted.catch(() => undefined);
    return inserted;
  };
  const obey = (order: Order): void => {
    if ("spends" in order) spend(store, order.id, order.spends);
    else if ("keys" in order) call(order.id, () => insert(order.keys));
    else if ("method" in order) call(order.id, () => (store[order.method] as Method)(...order.given));
    // A thread that listens to nobody ends. Not by closing the port: Deno has no such method.
    else void close(store, calls).finally(() => parentPort?.off("message", obey));
  };
  parentPort?.on("message", obey);
}
