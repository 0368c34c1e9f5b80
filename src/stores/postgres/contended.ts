/**
 * Calls on accounts, in groups of which a locked account stops no other. A group that met a lock is sent again without
 * waiting for any; what is locked then waits apart, in a group of its account, and one such statement is in flight.
 */
import { isLockTimeout, toStoreError } from "./errors.js";
import { createGroups, type Grouped } from "./groups.js";

/** Instead of a result: another session holds what the call needs. Nothing was changed. */
export const LOCKED = "locked";

export interface ContendedOptions {
  /** Most calls in one statement. */
  readonly maxSize: number;
  /** Milliseconds after which a call rejects, its wait included. */
  readonly timeout: number;
}

/** A group of one account, and the calls that are in it or wait for it. */
interface Lane<I, O> {
  readonly add: Grouped<Patient<I>, O | typeof LOCKED>;
  calls: number;
}

/** The longest pause before calls on a locked account are sent again, milliseconds. */
const PAUSE_MS = 20;
/** Part of the time of a call for which it waits for a lock; what is left is for the statement that is tried last. */
const PATIENCE = 1 / 2;

/** A call, and until when it is sent again. */
interface Patient<I> {
  readonly item: I;
  readonly until: number;
}

/**
 * @param send returns one result per item, in order, and rejects if a lock was not free in time; with `skips` it waits
 *   for no lock
 * @param accountOf what else the calls wait apart by
 * @returns what rejects with STORE_BUSY once an account was locked for too long
 */
export function createContended<I, O>(
  send: (items: readonly I[], skips: boolean) => Promise<readonly (O | typeof LOCKED)[]>,
  accountOf: (item: I) => number | string,
  { maxSize, timeout }: ContendedOptions,
): Grouped<I, O> {
  const late = (isSent: boolean) => toStoreError({ kind: isSent ? "timeout" : "stalled" }, false);
  const options = { maxSize, oneAtATime: { timeout, late } };
  const lanes = new Map<number | string, Lane<I, O>>();
  let turn: Promise<unknown> = Promise.resolve();

  const sendOrSkip = async (items: readonly I[], skips: boolean): Promise<readonly (O | typeof LOCKED)[]> => {
    try {
      return await send(items, skips);
    } catch (error) {
      if (skips || !isLockTimeout(error)) throw error;
      return items.length === 1 ? [LOCKED] : send(items, true);
    }
  };
  const shared = createGroups((items: readonly I[]) => sendOrSkip(items, false), options);
  /** One account after the other. While several are locked no statement waits for one. */
  const inTurn = (items: readonly I[]): Promise<readonly (O | typeof LOCKED)[]> => {
    const sent = turn.then(() => sendOrSkip(items, lanes.size > 1));
    turn = sent.catch(() => undefined);
    return sent;
  };
  const patiently = async (calls: readonly Patient<I>[]): Promise<readonly (O | typeof LOCKED)[]> => {
    const results: (O | typeof LOCKED)[] = calls.map(() => LOCKED);
    for (let open = [...calls.keys()]; ;) {
      const again = await inTurn(open.map((i) => (calls[i] as Patient<I>).item));
      for (const [at, i] of open.entries()) results[i] = again[at] as O;
      const now = performance.now();
      open = open.filter((i) => results[i] === LOCKED && (calls[i] as Patient<I>).until > now);
      if (open.length === 0) return results;
      await new Promise((resolve) => setTimeout(resolve, Math.random() * PAUSE_MS));
    }
  };
  return async (item) => {
    const began = performance.now();
    const account = accountOf(item);
    let lane = lanes.get(account);
    if (lane === undefined) {
      const result = await shared(item);
      if (result !== LOCKED) return result;
      lane = lanes.get(account) ?? { add: createGroups(patiently, options), calls: 0 };
      lanes.set(account, lane);
    }
    lane.calls++;
    try {
      const result = await lane.add({ item, until: began + timeout * PATIENCE }, timeout - (performance.now() - began));
      if (result === LOCKED) throw toStoreError({ kind: "server", state: "55P03" }, false);
      return result;
    } finally {
      if (--lane.calls === 0) lanes.delete(account);
    }
  };
}
