/**
 * A store whose writes run in a worker thread: option `writer`. Reads stay on this thread, on a connection that never
 * writes.
 *
 * Spends of one turn are sent in one message, and resolve after COMMIT has returned in the thread. With 1,024 in flight
 * and durability "power", other work then waited 3.1 ms (p99) instead of 9.7, at 178,000 per second instead of 202,000.
 * Why not always: a message must wake a thread twice per call. A single call took 310 µs instead of 147, with 64 in
 * flight 9.8 each instead of 6.8.
 *
 * An import reads and validates the next keys here while the thread writes: 17.3 µs per key instead of 23.1 inline, for
 * 1,000,000 keys on two otherwise idle cores.
 */
import { resolve } from "node:path";
import { Worker } from "node:worker_threads";
import type { AuditEntry } from "../../../contracts/audit.js";
import { KeystileError } from "../../../contracts/errors.js";
import type { NewKey, Spend, Store } from "../../../contracts/store.js";
import type { MaybePromise } from "../../../contracts/types.js";
import { assertSpend } from "../../../credits/account.js";
import { type CounterSet, keepCounts } from "../connection/counters.js";
import { afterDelay, afterTurn } from "../connection/waiting.js";
import { encodeKeys } from "../../codec/encoded-keys.js";
import { packKeys } from "../keys/keys-in-transfer.js";
import type { SqliteStoreOptions } from "../options.js";
import {
  HANDED_ON,
  type HandedOn,
  RESPONSE_WIDTH,
  unpackError,
  unpackSpend,
  type WriterArguments,
  type WriterData,
  type WriterMethod,
  type WriterRequest,
  type WriterResponse,
} from "./messages.js";
import { programOf } from "./program.js";

/** A call that waits for its response. */
interface PendingCall<T> {
  readonly resolve: (answer: T) => void;
  readonly reject: (error: Error) => void;
}

/** Keys per transaction: about 14 ms, for which spends wait, and 40 to 50 when the WAL is checkpointed. */
const BATCH = 1_000;

/**
 * Milliseconds until a thread that ended, or could not open the file, is started again: doubled each time until one
 * runs. A shortage of file descriptors, or a read that failed, passes; it must not leave the store unable to write.
 */
const MIN_RESTART_MS = 100;
const MAX_RESTART_MS = 5_000;

type Answer<M extends WriterMethod> = Awaited<ReturnType<Required<Store>[M]>>;

/**
 * Starts a writer thread for `reader`.
 * @param reader a store open on the same file
 * @param opened what `reader` was opened with
 * @param counters where its `health()` finds what the thread counts
 * @throws KeystileError STORE_FAILED: the thread's program is not found
 */
export function withWriter<S extends Store>(
  reader: S,
  opened: WriterData & { readonly options: Required<SqliteStoreOptions> },
  counters: CounterSet,
): S {
  const { path, options, driver } = opened;
  const program = programOf(options.writer);
  // Absolute, since the thread opens it a little later, and the process may have changed its working directory by then.
  const data: WriterData = { path: resolve(path), options: { ...options, mustExist: true, writer: "inline" }, driver };
  const writer = startWriter(program, data, counters);
  let closing: Promise<void> | undefined;
  const assertOpen = () => {
    if (closing !== undefined) throw new KeystileError("STORE_CLOSED", "the store was closed; open it again to use it");
  };
  const callWriter: Writer["call"] = (method, ...given) => {
    assertOpen();
    return writer.call(method, ...given);
  };
  /** Polls without waiting if the file is locked for readers: the next call polls first, and waits or fails. */
  const notify = () => {
    try {
      Promise.resolve(reader.pollChanges("anew")).catch(() => undefined);
    } catch {
      // The write is durable. The next call polls again, and fails if that fails.
    }
  };
  /** Listeners here are notified of the thread's changes before the call resolves. */
  const change: Writer["call"] = (method, ...given) => callWriter(method, ...given).finally(notify);
  const handedOn = Object.fromEntries(
    HANDED_ON.map((name) => [name, (...given: WriterArguments<HandedOn>) => callWriter(name, ...given)]),
  ) as unknown as Pick<Required<Store>, HandedOn>;
  // By name, so that a new method of the port does not write on the connection of this thread unnoticed.
  const methods: Required<Store> = {
    powers: reader.powers,
    findKey: reader.findKey,
    findKeys: reader.findKeys,
    findForeignKey: reader.findForeignKey,
    findRootKey: reader.findRootKey,
    findOnce: reader.findOnce,
    readSecret: reader.readSecret,
    readBalances: reader.readBalances,
    readMany: reader.readMany,
    readNames: reader.readNames,
    list: reader.list,
    searchKeys: reader.searchKeys!,
    countKeys: reader.countKeys!,
    findKeyIds: reader.findKeyIds!,
    listAlerts: reader.listAlerts!,
    findWallet: reader.findWallet!,
    subscribe: reader.subscribe,
    pollChanges: reader.pollChanges,
    spendCredits(ref, cost, period, now): MaybePromise<Spend | undefined> {
      assertOpen();
      // Without the thread: a cost of 0 only reads, and an invalid cost is refused.
      if (typeof ref !== "number" || !(cost > 0)) return reader.spendCredits(ref, cost, period, now);
      assertSpend(cost, period, now);
      return writer.spend(ref, cost, period, now);
    },
    spendWallets(wallets, request) {
      assertOpen();
      // Without the thread, as above.
      if (!(request.cost > 0) && request.once === undefined) return reader.spendWallets!(wallets, request);
      return writer.call("spendWallets", wallets, request);
    },
    readOutcomes: reader.readOutcomes,
    readRefusals: reader.readRefusals!,
    readCreditDays: reader.readCreditDays,
    readAudit: reader.readAudit,
    ...handedOn,
    adoptDigest: (ref, digest) => change("adoptDigest", ref, digest),
    async insertKeys(keys, entry) {
      assertOpen();
      const parts: Promise<boolean[]>[] = [];
      // All are sent at once, so that the next batch is ready when the thread is.
      for (let start = 0; start < keys.length; start += BATCH)
        parts.push(writer.insert(keys.slice(start, start + BATCH), entry));
      return (await Promise.all(parts).finally(notify)).flat();
    },
    write: (writes, entries, once) => change("write", writes, entries, once),
    close() {
      closing ??= Promise.all([writer.close(), reader.close()]).then(() => undefined);
      return closing;
    },
  };
  return { ...reader, ...methods };
}

function startWriter(program: URL | string, data: WriterData, counters: CounterSet) {
  let worker: Worker;
  let ended: Promise<void>;
  /** By request id: one call, or the spends of a turn. */
  const pending = new Map<number, PendingCall<never> | readonly PendingCall<Spend | undefined>[]>();
  let spends: PendingCall<Spend | undefined>[] = [];
  let numbers: number[] = [];
  let lastId = 0;
  let isClosing = false;
  let failure: Error | undefined;
  let restartMs = MIN_RESTART_MS;

  const post = (request: WriterRequest, waits: PendingCall<never> | readonly PendingCall<Spend | undefined>[]) => {
    // First, since it throws for values that cannot be cloned.
    worker.postMessage(request);
    // The thread keeps the process alive only while calls are pending.
    if (pending.size === 0) worker.ref();
    pending.set(lastId, waits);
  };
  const ask = <T>(toRequest: (id: number) => WriterRequest): Promise<T> =>
    new Promise((resolve, reject) => {
      if (failure !== undefined) throw failure;
      post(toRequest(++lastId), { resolve, reject });
    });
  const send = () => {
    if (spends.length === 0) return;
    const [group, requests] = [spends, Float64Array.from(numbers)];
    [spends, numbers] = [[], []];
    post({ id: ++lastId, spends: requests }, group);
  };
  /** Calls pending when the thread ends may or may not have been done, so they are rejected. */
  const end = (error: Error) => {
    if (failure === undefined && !isClosing) {
      afterDelay(restart, restartMs).unref();
      restartMs = Math.min(restartMs * 2, MAX_RESTART_MS);
    }
    failure ??= error;
    counters.threadFailure = failure.message;
    const all = [...[...pending.values()].flat(), ...spends];
    pending.clear();
    [spends, numbers] = [[], []];
    for (const { reject } of all) reject(failure);
  };
  const receive = (message: WriterResponse) => {
    if ("unable" in message) {
      end(unpackError(message.unable));
      return;
    }
    // Whatever else it says, it has opened the file.
    restartMs = MIN_RESTART_MS;
    counters.threadFailure = undefined;
    if ("counters" in message) {
      counters.thread = message.counters;
      return;
    }
    const waits = pending.get(message.id);
    // A response may arrive after the thread failed and its call was rejected.
    if (waits === undefined) return;
    pending.delete(message.id);
    if (pending.size === 0 && !isClosing) worker.unref();
    if ("spends" in message) deliver(waits as readonly PendingCall<Spend | undefined>[], message);
    else if ("fault" in message) (waits as PendingCall<never>).reject(unpackError(message.fault));
    else (waits as PendingCall<unknown>).resolve(message.answer);
  };
  const start = () => {
    const thread = new Worker(program, { workerData: data, name: "keystile writer" });
    worker = thread;
    ended = new Promise((resolve) => thread.once("exit", () => resolve()));
    // What a thread says after another took its place concerns nobody.
    const whileCurrent =
      <A extends unknown[]>(listener: (...given: A) => void) =>
      (...given: A) => {
        if (thread === worker) listener(...given);
      };
    const fail = whileCurrent((cause: unknown) => end(new KeystileError("STORE_FAILED", ENDED, { cause })));
    thread.on("message", whileCurrent(receive));
    thread.on("error", fail);
    thread.on("messageerror", (cause) => {
      fail(cause);
      void thread.terminate();
    });
    thread.once(
      "exit",
      whileCurrent(() => end(new KeystileError("STORE_FAILED", ENDED))),
    );
    thread.unref();
  };
  const restart = () => {
    if (isClosing) return;
    failure = undefined;
    keepCounts(counters);
    try {
      start();
    } catch (cause) {
      end(new KeystileError("STORE_FAILED", ENDED, { cause }));
    }
  };
  start();
  return {
    spend(ref: number, cost: number, period: number, now: number): Promise<Spend | undefined> {
      return new Promise((resolve, reject) => {
        if (failure !== undefined) throw failure;
        numbers.push(ref, cost, period, now);
        if (spends.push({ resolve, reject }) === 1) afterTurn(send);
      });
    },
    call: <M extends WriterMethod>(method: M, ...given: WriterArguments<M>): Promise<Answer<M>> =>
      ask((id) => ({ id, method, given })),
    /** Inserts keys in one transaction. */
    insert: (keys: readonly NewKey[], entry: AuditEntry | undefined): Promise<boolean[]> =>
      ask((id) => ({ id, keys: packKeys(encodeKeys(keys)), entry })),
    /** Resolves when all calls are settled and the thread has ended. */
    close(): Promise<void> {
      isClosing = true;
      if (failure === undefined) {
        worker.ref();
        send();
        worker.postMessage({ close: true } satisfies WriterRequest);
      }
      return ended;
    },
  };
}

/** The thread as the store sees it. */
type Writer = ReturnType<typeof startWriter>;

const ENDED = "the writer thread ended; what was in flight may have been written or not; it is started again";

function deliver(
  waits: readonly PendingCall<Spend | undefined>[],
  { spends, faults }: Extract<WriterResponse, { spends: unknown }>,
): void {
  for (const [fault, indexes] of faults) {
    const error = unpackError(fault);
    for (const at of indexes) waits[at]?.reject(error);
  }
  // Resolving a rejected promise has no effect.
  for (let i = 0; i * RESPONSE_WIDTH < spends.length; i++) waits[i]?.resolve(unpackSpend(spends, i));
}
