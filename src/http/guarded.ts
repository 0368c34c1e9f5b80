/** Calls what belongs to the program. What it throws is its own affair: the answer is on its way. Ruling G4. */

/** Runs `act`; whatever it throws is dropped, since nobody is left to be told. */
export function guarded(act: () => unknown): void {
  try {
    act();
  } catch {
    // A log or a listener that fails must not fail a request, nor end the process.
  }
}
