/** Counts by holder, and the holder of most, in constant time. */

/*
 * Why: each new bucket of a full table asks for the largest holder, and there may be as many holders as buckets. Counts
 * change by one, so holders of one count are kept in a set, and the largest are in the last set.
 */
export class Ranking<T> {
  readonly #counts = new Map<T, number>();
  /** Holders by count. The last set is never empty. */
  readonly #ranks: (Set<T> | undefined)[] = [];
  /** Sum of all counts. */
  total = 0;

  /** Number of holders with a count above 0. */
  get holders(): number {
    return this.#counts.size;
  }

  /** The count of a holder. */
  countOf(holder: T): number {
    return this.#counts.get(holder) ?? 0;
  }

  /** A holder of the largest count; undefined: there are no holders. */
  largest(): T | undefined {
    return this.#ranks.at(-1)?.values().next().value;
  }

  add(holder: T): void {
    this.#move(holder, 1);
  }

  /** @param holder one with a count above 0 */
  remove(holder: T): void {
    this.#move(holder, -1);
  }

  #move(holder: T, by: 1 | -1): void {
    const before = this.countOf(holder);
    const count = before + by;
    this.total += by;
    if (count === 0) this.#counts.delete(holder);
    else {
      this.#counts.set(holder, count);
      (this.#ranks[count] ??= new Set()).add(holder);
    }
    const rank = this.#ranks[before];
    if (rank === undefined) return;
    rank.delete(holder);
    if (rank.size > 0) return;
    this.#ranks[before] = undefined;
    // Counts change by one, so the set below is not empty, unless there are no holders.
    while (this.#ranks.length > 0 && this.#ranks.at(-1) === undefined) this.#ranks.pop();
  }
}
