/** Calls the program's callbacks, whose errors must not affect the response. */

/** Runs `act` at once; whatever it throws, or rejects with later, is dropped. */
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
