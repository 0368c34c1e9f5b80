/** Counts by holder, and which of them holds most, in constant time. */

/*
 * Why: the largest holder is asked for at each new bucket of a full table, and there may be as many holders as buckets.
 * A count changes by one, so those of one count are in a set, and the largest are in the last set.
 */
export class Ranking<T> {
  readonly #counts = new Map<T, number>();
  /** By count: those who hold so many. The last one is never empty. */
  readonly #ranks: (Set<T> | undefined)[] = [];
  #total = 0;

  /** All that is held. */
  get total(): number {
    return this.#total;
  }

  /** Those who hold something. */
  get holders(): number {
    return this.#counts.size;
  }

  /** How many this one holds. */
  countOf(holder: T): number {
    return this.#counts.get(holder) ?? 0;
  }

  /** One of those who hold most; undefined: nobody holds anything. */
  largest(): T | undefined {
    return this.#ranks.at(-1)?.values().next().value;
  }

  add(holder: T): void {
    this.#move(holder, 1);
  }

  /** @param holder one that holds something */
  remove(holder: T): void {
    this.#move(holder, -1);
  }

  #move(holder: T, by: 1 | -1): void {
    const before = this.countOf(holder);
    const count = before + by;
    this.#total += by;
    if (count === 0) this.#counts.delete(holder);
    else {
      this.#counts.set(holder, count);
      (this.#ranks[count] ??= new Set()).add(holder);
    }
    this.#leave(holder, before);
  }

  #leave(holder: T, count: number): void {
    const rank = this.#ranks[count];
    if (rank === undefined) return;
    rank.delete(holder);
    if (rank.size > 0) return;
    this.#ranks[count] = undefined;
    // The one below is not empty, unless nothing is held.
    while (this.#ranks.length > 0 && this.#ranks.at(-1) === undefined) this.#ranks.pop();
  }
}
