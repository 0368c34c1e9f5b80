/**
 * Program of the threads that the SQLite store starts, so that the thread of the store never waits for the disk. A
 * separate file in the package. The writer thread opens its own store on the same file and calls it for each message; a
 * backup thread makes one backup and ends.
 */
import { parentPort, workerData } from "node:worker_threads";
import type { AuditEntry } from "../../../contracts/audit.js";
import type { Store } from "../../../contracts/store.js";
import { makeBackup } from "../backup/make-backup.js";
import { type PackedKeys, unpackKeys } from "../keys/keys-in-transfer.js";
import { writerStore, type WriterStore } from "../store.js";
import {
  type BackupData,
  type BackupResponse,
  packError,
  packSpend,
  REQUEST_WIDTH,
  RESPONSE_WIDTH,
  type WriterData,
  type WriterRequest,
  type WriterResponse,
} from "./messages.js";

const post = (message: WriterResponse | BackupResponse): void => parentPort?.postMessage(message);
const respond = (message: WriterResponse): void => {
  post(message);
  report();
};

let reported = "";
let counters: WriterStore["counters"] | undefined;
/** Sends the counters if they have changed. */
function report(): void {
  if (counters === undefined) return;
  const now = Object.values(counters.own).join();
  if (now === reported) return;
  reported = now;
  post({ counters: counters.own });
}

function open({ path, options, driver }: WriterData): WriterStore | undefined {
  try {
    return writerStore(path, options, driver);
  } catch (error) {
    parentPort?.postMessage({ unable: packError(error) } satisfies WriterResponse);
    return undefined;
  }
}

type Method = (...given: readonly unknown[]) => unknown;

/** Each spend joins the store's next transaction; spends that arrived during the last commit share one. */
function spend(store: Store, id: number, requests: Float64Array<ArrayBuffer>): void {
  const count = requests.length / REQUEST_WIDTH;
  const spends = new Float64Array(count * RESPONSE_WIDTH);
  const failed = new Map<unknown, number[]>();
  let left = count;
  const done = (): void => {
    if (--left > 0) return;
    const faults = Array.from(failed, ([error, at]) => [packError(error), at] as const);
    respond({ id, spends, faults });
  };
  const spendOne = async (i: number): Promise<void> => {
    const at = i * REQUEST_WIDTH;
    try {
      const [ref, cost, period, now] = requests.subarray(at, at + REQUEST_WIDTH) as unknown as [
        number,
        number,
        number,
        number,
      ];
      packSpend(spends, i, await store.spendCredits(ref, cost, period, now));
    } catch (error) {
      const indexes = failed.get(error);
      if (indexes === undefined) failed.set(error, [i]);
      else indexes.push(i);
    }
    done();
  };
  for (let i = 0; i < count; i++) void spendOne(i);
}

async function answer(id: number, work: () => unknown): Promise<void> {
  try {
    respond({ id, answer: await work() });
  } catch (error) {
    respond({ id, fault: packError(error) });
  }
}

/** Settles everything requested before: the store waits for its spends, this function for the calls. */
async function close(store: Store, calls: Iterable<Promise<void>>): Promise<void> {
  await Promise.all(calls);
  await store.close();
}

function backUp({ backup }: BackupData): void {
  try {
    post({ made: makeBackup(backup) });
  } catch (error) {
    post({ fault: packError(error) });
  }
}

function serve({ store, insertEncoded, deadline, counters: counted }: WriterStore): void {
  counters = counted;
  report();
  const calls = new Set<Promise<void>>();
  const call = (id: number, work: () => unknown): void => {
    const answered: Promise<void> = answer(id, work).then(() => void calls.delete(answered));
    calls.add(answered);
  };
  /**
   * Batches of one insert run in order even when the file is locked: of two keys with the same hash the first is
   * inserted.
   */
  let last: Promise<unknown> = Promise.resolve();
  const insert = (keys: PackedKeys, entry: AuditEntry | undefined): Promise<boolean[]> => {
    // Taken here, so that queued batches share one timeout.
    const until = deadline();
    const inserted = last.then(() => insertEncoded(unpackKeys(keys), until, entry));
    last = inserted.catch(() => undefined);
    return inserted;
  };
  const handle = (request: WriterRequest): void => {
    if ("spends" in request) spend(store, request.id, request.spends);
    else if ("keys" in request) call(request.id, () => insert(request.keys, request.entry));
    else if ("method" in request) call(request.id, () => (store[request.method] as Method)(...request.given));
    // Without a listener the thread ends. Not by closing the port: Deno has no such method.
    else void close(store, calls).finally(() => parentPort?.off("message", handle));
  };
  parentPort?.on("message", handle);
}

const data = workerData as WriterData | BackupData;
if ("backup" in data) backUp(data);
else {
  const opened = open(data);
  if (opened !== undefined) serve(opened);
}
