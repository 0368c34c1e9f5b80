/** Those who are notified of the changes of a store. */
import { queueMicrotask } from "../lib/timers.js";

/** Listeners, each notified in the order in which they were added. */
export function createListeners<C>() {
  const listeners = new Set<(change: C) => void>();
  return {
    /** Adds one; returns what removes it. */
    add(listener: (change: C) => void): () => void {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    /** Notifies all of each change. A fault of a listener is thrown in a microtask: the change is made, all see it. */
    notify(changes: Iterable<C>): void {
      for (const change of changes) for (const listener of listeners) notifyOne(listener, change);
    },
    clear: (): void => listeners.clear(),
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
