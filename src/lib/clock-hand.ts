/** Clock eviction: a hand passes over the entries of a table in a circle, and evicts the first that may go. */

export class ClockHand {
  #entry = -1;

  /** The next entry in turn. @param entries how many there are, ≥ 1: the hand goes from 0 to entries − 1, and round */
  next(entries: number): number {
    this.#entry = this.#entry + 1 < entries ? this.#entry + 1 : 0;
    return this.#entry;
  }

  /**
   * The first entry in turn that need not stay: a second chance for the others.
   * @param mayStay whether the entry is free, or was used since its last turn. It clears the mark of use, so that two
   * rounds are enough; after these, at least one entry must not stay
   */
  nextUnused(entries: number, mayStay: (entry: number) => boolean): number {
    for (;;) {
      const entry = this.next(entries);
      if (!mayStay(entry)) return entry;
    }
  }

  /** Starts again at the first entry. */
  reset(): void {
    this.#entry = -1;
  }
}
