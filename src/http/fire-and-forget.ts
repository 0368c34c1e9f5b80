/** Calls what belongs to the program. What it throws is its own affair: the answer is on its way. Ruling G4. */

/** Runs `act` at once; whatever it throws, or rejects with later, is dropped, since nobody is left to be told. */
export function fireAndForget(act: () => unknown): void {
  const settle = async (): Promise<void> => {
    try {
      // An async function serves too, and a rejection that nobody handles would end the process.
      await act();
    } catch {
      // A log or a listener that fails must not fail a request.
    }
  };
  void settle();
}
