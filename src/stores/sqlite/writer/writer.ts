/**
 * A store whose writes are done by a thread of their own: option `writer`. README "Promises" (SQLite exact). Reads stay here,
 * on a connection that never writes.
 *
 * What is asked in one turn crosses over in one message, and is answered after the thread's COMMIT returned. With 1,024 in flight,
 * power-durable, other work then waited 3.1 ms (p99) instead of 9.7, at 178,000 a second instead of 202,000. Why not always: a thread must
 * be woken twice a call. Alone a call took 310 µs instead of 147, with 64 in flight 9.8 each instead of 6.8.
 *
 * An import reads and judges here what comes next while the thread writes: of 1,000,000 keys each took 17.3 µs, and 23.1 inline, on two
 * cores with nothing else to do.
 */
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { Worker } from "node:worker_threads";
import { KeystileError } from "../../../contracts/errors.js";
import type { NewKey, Spend, Store } from "../../../contracts/store.js";
import type { MaybePromise } from "../../../contracts/types.js";
import { modulePath } from "../connection/module-path.js";
import { afterTurn } from "../connection/transaction.js";
import { assertSpend } from "../credits/spending.js";
import { encodeKeys, packKeys } from "../keys/encoded-keys.js";
import type { SqliteStoreOptions } from "../options.js";
import {
  RESPONSE_WIDTH,
  unpackError,
  unpackSpend,
  type WriterArguments,
  type WriterData,
  type WriterMethod,
  type WriterRequest,
  type WriterResponse,
} from "./messages.js";

/** A call that waits for its answer. */
interface PendingCall<T> {
  readonly resolve: (answer: T) => void;
  readonly reject: (error: Error) => void;
}

/** Keys in a transaction: some 14 ms, for which spends wait, and 40 to 50 when the log is carried over. */
const BATCH = 1_000;

/** The thread as the store sees it. */
interface Writer {
  spend(ref: number, cost: number, period: number, now: number): Promise<Spend | undefined>;
  call<M extends WriterMethod>(method: M, ...given: WriterArguments<M>): Promise<Answer<M>>;
  /** Inserts keys in one transaction. */
  insert(keys: readonly NewKey[]): Promise<boolean[]>;
  /** Resolves when all is answered and the thread has ended. */
  close(): Promise<void>;
}
type Answer<M extends WriterMethod> = Awaited<ReturnType<Store[M]>>;

/**
 * Lets a thread write for `reader`.
 * @param reader a store that is open on the same file
 * @throws KeystileError STORE_FAILED: the thread's program is not there
 */
export function withWriter<S extends Store>(reader: S, path: string, options: Required<SqliteStoreOptions>): S {
  const program = options.writer instanceof URL ? options.writer : defaultProgram();
  // Whole, since the thread opens it a little later, and the program may have changed its folder by then.
  const writer = startWriter(program, {
    path: resolve(path),
    options: { ...options, mustExist: true, writer: "inline" },
  });
  let closing: Promise<void> | undefined;
  const assertOpen = () => {
    if (closing !== undefined) throw new KeystileError("STORE_CLOSED", "the store was closed; open it again to use it");
  };
  const callWriter: Writer["call"] = (method, ...given) => {
    assertOpen();
    return writer.call(method, ...given);
  };
  /** Does not wait where the file is locked to readers: the call has waited for the write. The next call asks first, and waits or fails. */
  const notify = () => {
    try {
      Promise.resolve(reader.pollChanges(NaN)).catch(() => undefined);
    } catch {
      // What was written is durable. The next call asks again, and fails if that does.
    }
  };
  /** What the thread changed is told here before it is answered (clauses 8, 15). */
  const change: Writer["call"] = (method, ...given) => callWriter(method, ...given).finally(notify);
  return {
    ...reader,
    spendCredits(ref, cost, period, now): MaybePromise<Spend | undefined> {
      assertOpen();
      // What takes nothing is read, and what is no cost refused, without the thread.
      if (typeof ref !== "number" || !(cost > 0)) return reader.spendCredits(ref, cost, period, now);
      assertSpend(cost, period, now);
      return writer.spend(ref, cost, period, now);
    },
    drawCredits: (ref, request) => callWriter("drawCredits", ref, request),
    returnCredits: (ref, holder, generation, unspent) => callWriter("returnCredits", ref, holder, generation, unspent),
    adoptDigest: (ref, digest) => change("adoptDigest", ref, digest),
    async insertKeys(keys) {
      assertOpen();
      const parts: Promise<boolean[]>[] = [];
      // All are sent at once: what is encoded here is ready when the thread is.
      for (let start = 0; start < keys.length; start += BATCH)
        parts.push(writer.insert(keys.slice(start, start + BATCH)));
      return (await Promise.all(parts).finally(notify)).flat();
    },
    write: (writes) => change("write", writes),
    close() {
      closing ??= Promise.all([writer.close(), reader.close()]).then(() => undefined);
      return closing;
    },
  } satisfies Store;
}

/** The thread's program in this package, found by the package's own name: so also from a program that was bundled into one file. */
function defaultProgram(): string {
  try {
    return createRequire(modulePath()).resolve("keystile/sqlite-writer");
  } catch (cause) {
    throw new KeystileError(
      "STORE_FAILED",
      "keystile/sqlite-writer is not found from here; give its place as options.writer",
      { cause },
    );
  }
}

function startWriter(program: URL | string, data: WriterData): Writer {
  const worker = new Worker(program, { workerData: data, name: "keystile writer" });
  const ended = new Promise<void>((resolve) => worker.once("exit", () => resolve()));
  /** By order: one call, or the spends of a turn. */
  const pending = new Map<number, PendingCall<never> | readonly PendingCall<Spend | undefined>[]>();
  let spends: PendingCall<Spend | undefined>[] = [];
  let numbers: number[] = [];
  let lastId = 0;
  let isClosing = false;
  let failure: Error | undefined;

  const post = (request: WriterRequest, waits: PendingCall<never> | readonly PendingCall<Spend | undefined>[]) => {
    // First, since what cannot be copied throws.
    worker.postMessage(request);
    // A thread keeps the process alive only while somebody waits for it.
    if (pending.size === 0) worker.ref();
    pending.set(lastId, waits);
  };
  const send = () => {
    if (spends.length === 0) return;
    const [group, requests] = [spends, Float64Array.from(numbers)];
    [spends, numbers] = [[], []];
    post({ id: ++lastId, spends: requests }, group);
  };
  /** What waits when the thread ends may have been done or not: it is an error, never an answer. */
  const end = (error: Error) => {
    failure ??= error;
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
    const waits = pending.get(message.id);
    // An answer may come behind the news that the thread failed: who waited for it has been rejected.
    if (waits === undefined) return;
    pending.delete(message.id);
    if (pending.size === 0 && !isClosing) worker.unref();
    if ("spends" in message) deliver(waits as readonly PendingCall<Spend | undefined>[], message);
    else if ("fault" in message) (waits as PendingCall<never>).reject(unpackError(message.fault));
    else (waits as PendingCall<unknown>).resolve(message.answer);
  };
  worker.on("message", receive);
  worker.on("error", (cause) => end(new KeystileError("STORE_FAILED", ENDED, { cause })));
  worker.on("messageerror", (cause) => {
    end(new KeystileError("STORE_FAILED", ENDED, { cause }));
    void worker.terminate();
  });
  worker.once("exit", () => end(new KeystileError("STORE_FAILED", ENDED)));
  worker.unref();
  return {
    spend(ref, cost, period, now) {
      return new Promise((resolve, reject) => {
        if (failure !== undefined) throw failure;
        numbers.push(ref, cost, period, now);
        if (spends.push({ resolve, reject }) === 1) afterTurn(send);
      });
    },
    call(method, ...given) {
      return new Promise((resolve, reject) => {
        if (failure !== undefined) throw failure;
        post({ id: ++lastId, method, given }, { resolve, reject });
      });
    },
    insert(keys) {
      return new Promise((resolve, reject) => {
        if (failure !== undefined) throw failure;
        post({ id: ++lastId, keys: packKeys(encodeKeys(keys)) }, { resolve, reject });
      });
    },
    close() {
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

const ENDED = "the writer thread ended; what was in flight may have been written or not; open the store again";

function deliver(
  waits: readonly PendingCall<Spend | undefined>[],
  { spends, faults }: Extract<WriterResponse, { spends: unknown }>,
): void {
  for (const [fault, places] of faults) {
    const error = unpackError(fault);
    for (const at of places) waits[at]?.reject(error);
  }
  // A promise that was rejected stays so.
  for (let i = 0; i * RESPONSE_WIDTH < spends.length; i++) waits[i]?.resolve(unpackSpend(spends, i));
}
