/**
 * Calls on accounts, in groups of which a locked account stops no other: a group that met a lock is sent again without
 * waiting for any. Calls on an account that was locked go apart, in a group of their own, until it is free.
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

/** The longest pause before calls on a locked account are sent again, milliseconds. */
const PAUSE_MS = 20;
/** Part of the time of a call for which it waits for a lock; what is left is for the statement that is tried last. */
const PATIENCE = 1 / 2;

/**
 * @param send returns one result per item, in order, and rejects if a lock was not free in time; with `skips` it waits
 *   for no lock
 * @param accountOf what calls have in common that wait for one lock
 * @returns what rejects with STORE_BUSY once an account was locked for too long
 */
export function createContended<I, O>(
  send: (items: readonly I[], skips: boolean) => Promise<readonly (O | typeof LOCKED)[]>,
  accountOf: (item: I) => number | string,
  { maxSize, timeout }: ContendedOptions,
): Grouped<I, O> {
  const late = (isSent: boolean) => toStoreError({ kind: isSent ? "timeout" : "stalled" }, false);
  const newGroups = () =>
    createGroups(
      (items: readonly I[]) =>
        send(items, false).catch((error: unknown) => {
          if (!isLockTimeout(error)) throw error;
          return send(items, true);
        }),
      { maxSize, oneAtATime: { timeout, late } },
    );
  const [shared, apart] = [newGroups(), newGroups()];
  /** Accounts that were locked, and the calls that wait for them. */
  const locked = new Map<number | string, number>();
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
    locked.set(account, (locked.get(account) ?? 0) + 1);
    try {
      return await waitApart(item, deadline);
    } finally {
      const left = (locked.get(account) ?? 1) - 1;
      if (left > 0) locked.set(account, left);
      else locked.delete(account);
    }
  };
}
