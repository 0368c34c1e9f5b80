/** Groups calls: those of one turn of the event loop are one statement. */
import { clearTimeout, inNextTurn, queueMicrotask, setTimeout } from "../../lib/timers.js";
import { isLockTimeout, toStoreError } from "./errors.js";

/** Adds a call to the next group. @param ms until it rejects, if that is less than the time of every call */
export type Grouped<I, O> = (item: I, ms?: number) => Promise<O>;

export interface GroupOptions {
  /** Most calls in one statement. */
  readonly maxSize: number;
  /**
   * A group waits until the one before it has settled, so that calls collect meanwhile: for writes, of which each costs
   * the server a commit. After a group of one, during which nothing came, the next call does not wait for the turn to
   * end. Absent: groups do not wait for each other.
   */
  readonly oneAtATime?: {
    /** Milliseconds after which a call rejects, its wait included. */
    readonly timeout: number;
    /** What it rejects with. */
    readonly late: (isSent: boolean) => Error;
  };
}

interface Member<I, O> {
  readonly item: I;
  readonly resolve: (result: O) => void;
  readonly reject: (error: Error) => void;
  timer?: ReturnType<typeof setTimeout>;
}

/** @param send returns one result per item, in order; what it rejects with rejects the whole group */
export function createGroups<I, O>(
  send: (items: readonly I[]) => Promise<readonly O[]>,
  { maxSize, oneAtATime }: GroupOptions,
): Grouped<I, O> {
  let queue: Member<I, O>[] = [];
  let isScheduled = false;
  let isAlone = oneAtATime !== undefined;
  let inFlight = 0;

  const sendNext = async (): Promise<void> => {
    const group = queue.slice(0, maxSize);
    queue = queue.slice(group.length);
    inFlight++;
    try {
      const results = await send(group.map(({ item }) => item));
      for (const [i, { resolve }] of group.entries()) resolve(results[i] as O);
    } catch (error) {
      for (const { reject } of group) reject(error as Error);
    } finally {
      for (const { timer } of group) clearTimeout(timer);
      inFlight--;
    }
    isAlone = oneAtATime !== undefined && group.length === 1 && queue.length === 0;
    if (oneAtATime && queue.length > 0) schedule();
  };
  const flush = (): void => {
    isScheduled = false;
    if (oneAtATime) {
      if (inFlight === 0 && queue.length > 0) void sendNext();
    } else while (queue.length > 0) void sendNext();
  };
  const schedule = (): void => {
    if (isScheduled) return;
    isScheduled = true;
    // After the promises of this turn have run: they may add calls.
    if (isAlone) queueMicrotask(flush);
    else inNextTurn(flush);
  };
  return (item, ms) =>
    new Promise((resolve, reject) => {
      const member: Member<I, O> = { item, resolve, reject };
      queue.push(member);
      if (oneAtATime) {
        member.timer = setTimeout(() => {
          const at = queue.indexOf(member);
          // One that was not sent never will be.
          if (at >= 0) queue.splice(at, 1);
          reject(oneAtATime.late(at < 0));
        }, ms ?? oneAtATime.timeout);
      }
      if (!oneAtATime || inFlight === 0) schedule();
    });
}

/*
 * Groups calls on accounts so that a locked account delays only its own calls. A group that met a lock is sent again
 * without waiting for locks. Calls on a locked account are then sent in separate groups until it is free.
 */

/** In place of a result: another session holds a lock that the call needs. Nothing was changed. */
const LOCKED = "locked";

interface ContendedOptions {
  /** Most calls in one statement. */
  readonly maxSize: number;
  /** Milliseconds after which a call rejects, its wait included. */
  readonly timeout: number;
}

/** The longest pause before calls on a locked account are sent again, milliseconds. */
const PAUSE_MS = 20;
/** The last part of a call's time, left for the last statement: no new wait for a lock begins in it. */
const PATIENCE = 1 / 3;

/**
 * @param send returns one result per item, in order, and rejects if a lock was not free in time; with `skips` it does
 *   not wait for locks
 * @param accountOf the account whose lock a call needs
 * @returns a function that rejects with STORE_BUSY if an account was locked for too long
 */
export function createContended<I, O>(
  send: (items: readonly I[], skips: boolean) => Promise<readonly (O | typeof LOCKED)[]>,
  accountOf: (item: I) => number | string,
  { maxSize, timeout }: ContendedOptions,
): Grouped<I, O> {
  const late = (isSent: boolean) => toStoreError({ kind: isSent ? "timeout" : "stalled" }, false);
  const options = { maxSize, oneAtATime: { timeout, late } };
  const orIfLocked = async <T>(sent: Promise<T>, instead: () => T | Promise<T>): Promise<T> => {
    try {
      return await sent;
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
      return instead();
    }
  };
  // Even without waiting for accounts a statement may meet a lock, such as that of a workspace's first record.
  const skip = (items: readonly I[]) => orIfLocked(send(items, true), () => items.map(() => LOCKED));
  const shared = createGroups((items: readonly I[]) => orIfLocked(send(items, false), () => skip(items)), options);
  /** Locked accounts: the number of calls that are sent apart, and the turn in which they last waited for the lock. */
  const locked = new Map<number | string, { calls: number; waited: number }>();
  let waits = 0;
  // First runs all calls on free accounts, then waits for one locked account, each in its turn: an account that many
  // sessions use is never seen free, so only a statement in the server's lock queue gets it.
  const apart = createGroups(async (items: readonly I[]) => {
    const results = [...(await skip(items))];
    const waitedOf = (i: number): number => locked.get(accountOf(items[i] as I))?.waited ?? 0;
    const [first, ...left] = [...items.keys()].filter((i) => results[i] === LOCKED);
    if (first === undefined) return results;
    const next = accountOf(items[left.reduce((a, b) => (waitedOf(b) < waitedOf(a) ? b : a), first)] as I);
    const lane = locked.get(next);
    if (lane !== undefined) lane.waited = ++waits;
    const chosen = [first, ...left].filter((i) => accountOf(items[i] as I) === next);
    const waited = send(
      chosen.map((i) => items[i] as I),
      false,
    );
    const got = await orIfLocked(waited, () => chosen.map(() => LOCKED));
    for (const [at, i] of chosen.entries()) results[i] = got[at] as O;
    return results;
  }, options);
  const waitApart = async (item: I, deadline: number): Promise<O> => {
    for (;;) {
      const result = await apart(item, deadline - performance.now());
      if (result !== LOCKED) return result;
      if (performance.now() > deadline - timeout * PATIENCE)
        throw toStoreError({ kind: "server", state: "55P03" }, false);
      await new Promise((resolve) => setTimeout(resolve, Math.random() * PAUSE_MS));
    }
  };
  return async (item) => {
    const deadline = performance.now() + timeout;
    const account = accountOf(item);
    if (!locked.has(account)) {
      const result = await shared(item);
      if (result !== LOCKED) return result;
    }
    const lane = locked.get(account) ?? { calls: 0, waited: 0 };
    locked.set(account, lane);
    lane.calls++;
    try {
      return await waitApart(item, deadline);
    } finally {
      if (--lane.calls === 0) locked.delete(account);
    }
  };
}
