/**
 * Callbacks of the program. One that throws, rejects, returns a promise where none belongs or never settles must not
 * end the process, and must let nobody in.
 */
import { isThenable } from "./thenable.js";

/** Runs `act` at once; whatever it throws, or rejects with later, is dropped. For callbacks that only listen. */
export function fireAndForget(act: () => unknown): void {
  const settle = async (): Promise<void> => {
    try {
      // Awaited, since an unhandled rejection would end the process.
      await act();
    } catch {
      // A log or a listener that fails must not fail a request.
    }
  };
  void settle();
}

/** Drops what a callback returned: if it is a promise, so is what it rejects with. */
export function drop(returned: unknown): void {
  fireAndForget(() => returned);
}

/**
 * What a callback returned that must not be async.
 * @param name of the callback, for the error
 * @throws TypeError for a promise of any kind, whose outcome is dropped
 */
export function settled<T>(returned: T, name: string): T {
  if (!isThenable(returned)) return returned;
  drop(returned);
  throw new TypeError(`${name} must not return a promise`);
}
