/** What every verb of administration works with: the store, its workspace, the clock, and one way to change a row. Knows no verb. */
import { isKeystileError, KeystileError } from "../contracts/errors.js";
import type { Store } from "../contracts/store.js";
import type { Algorithms } from "../lib/migration-hashes.js";

/** Wired once by `createKeyring`. */
export interface Context {
  readonly store: Store;
  readonly workspaceId: string;
  /** Unix time, milliseconds; asked once a call (ruling A7). */
  readonly clock: () => number;
  readonly algorithms: Algorithms;
  readonly mutex: KeyedMutex;
}

/** Runs the changes of one row one after another, those of other rows beside them. */
export type KeyedMutex = <T>(id: string, act: () => Promise<T>) => Promise<T>;

/** Attempts before giving up: each one that fails means that another writer got through. */
const MAX_ATTEMPTS = 20;
/** From this attempt on there is a pause, so that writers in step get out of it. */
const FIRST_PAUSE = 3;

/**
 * Without it, a hundred changes of one key started at once would keep refusing one another. When one ends in STORE_BUSY, those behind it
 * end with it: they have waited for the store too, and one after another each would wait as long again.
 */
export function createKeyedMutex(): KeyedMutex {
  const tails = new Map<string, Promise<unknown>>();
  return async (id, act) => {
    const before = tails.get(id);
    const mine = before === undefined ? act() : before.then(act);
    const tail = mine.then(nothing, passOnBusy);
    tail.catch(nothing);
    tails.set(id, tail);
    try {
      return await mine;
    } finally {
      if (tails.get(id) === tail) tails.delete(id);
    }
  };
}

/**
 * Reads, changes and writes a row until no other writer came between (port clause 13).
 * @param id names the row within this process
 * @param attempt reads afresh each time; `undefined` says that its write was refused
 * @throws KeystileError STORE_BUSY after 20 refusals; whatever the attempt throws
 */
export function updateWithRetry<T extends object>(
  context: Context,
  id: string,
  attempt: () => Promise<T | undefined>,
): Promise<T> {
  return context.mutex(id, async () => {
    for (let attempts = 1; attempts <= MAX_ATTEMPTS; attempts++) {
      const done = await attempt();
      if (done !== undefined) return done;
      if (attempts >= FIRST_PAUSE) await pause(attempts);
    }
    throw new KeystileError("STORE_BUSY", "other writers kept changing what was to be written; try again");
  });
}

/** Lets timers, input and other writers have their turn. */
export function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function passOnBusy(error: unknown): void {
  if (isKeystileError(error) && error.code === "STORE_BUSY") throw error;
}

function nothing(): void {}
