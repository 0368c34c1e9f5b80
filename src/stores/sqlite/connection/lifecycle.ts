/** Whether a store is open, and how it closes. */
import { KeystileError } from "../../../contracts/errors.js";

export interface Lifecycle {
  /** @throws KeystileError STORE_CLOSED */
  assertOpen(): void;
  /**
   * Refuses later calls at once, and finishes when what is in flight has settled. Again: returns the same promise.
   * @param drain waits for what is in flight; `undefined`: nothing is
   */
  close(drain: () => Promise<void> | undefined, finish: () => void): Promise<void> | undefined;
}

export function createLifecycle(): Lifecycle {
  let closing: Promise<void> | undefined;
  let isClosed = false;
  return {
    assertOpen() {
      if (isClosed) throw new KeystileError("STORE_CLOSED", "the store was closed; open it again to use it");
    },
    close(drain, finish) {
      if (isClosed) return closing;
      isClosed = true;
      const drained = drain();
      if (drained === undefined) finish();
      closing = drained?.then(finish);
      return closing;
    },
  };
}
