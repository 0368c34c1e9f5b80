/** Counts what goes wrong in a store, for `health()`. */

/** What a store counts itself; the rest of `StoreCounters` is read from the file. */
const ZERO = {
  lockWaits: 0,
  lockWaitMs: 0,
  busyErrors: 0,
  failedWrites: 0,
  failedSyncs: 0,
  failedReturns: 0,
  forfeitedRefills: 0,
  /** Transactions that failed on the disk since the last one that was committed. */
  failedInARow: 0,
};
export type Counters = typeof ZERO;

/** The counters of a store and, once it reported, of its writer thread. */
export interface CounterSet {
  readonly own: Counters;
  thread: Counters | undefined;
  /** Why the writer thread does not write; `undefined`: it does, or there is none. */
  threadFailure: string | undefined;
}

export function createCounters(): CounterSet {
  return { own: { ...ZERO }, thread: undefined, threadFailure: undefined };
}

/** Keeps what a thread counted that has ended: the next one counts from 0. */
export function keepCounts(counters: CounterSet): void {
  Object.assign(counters.own, sumOf(counters), { failedInARow: counters.own.failedInARow });
  counters.thread = undefined;
}

/** Both threads together. */
export function sumOf({ own, thread = ZERO }: CounterSet): Counters {
  const names = Object.keys(ZERO) as (keyof Counters)[];
  return Object.fromEntries(names.map((name) => [name, own[name] + thread[name]])) as unknown as Counters;
}
