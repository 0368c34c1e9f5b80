/** Those who are notified of the changes of a store. */
import { queueMicrotask } from "../lib/timers.js";

/** Listeners, each notified in the order in which they were added. */
export interface Listeners<C> {
  /** Adds one; returns what removes it. */
  add(listener: (change: C) => void): () => void;
  /** Notifies all of each change. A fault of a listener is thrown in a microtask: the change is made, all see it. */
  notify(changes: Iterable<C>): void;
  clear(): void;
}

export function createListeners<C>(): Listeners<C> {
  const listeners = new Set<(change: C) => void>();
  return {
    add(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    notify(changes) {
      for (const change of changes) for (const listener of listeners) notifyOne(listener, change);
    },
    clear: () => listeners.clear(),
  };
}

function notifyOne<C>(listener: (change: C) => void, change: C): void {
  try {
    listener(change);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
