/** Ids in their order, for lists that begin after an id: O(log n) to find the place, and appending is free. */
export class SortedIds {
  readonly #ids: string[] = [];

  /** All of them, ascending. Valid until the next change. */
  get ids(): readonly string[] {
    return this.#ids;
  }

  /** The index of the first id greater than this one. */
  after(id: string): number {
    let [low, high] = [0, this.#ids.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#ids[middle] as string) > id) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** Adds an id that is not there. Ids are ordered by time, so nearly all are appended. */
  add(id: string): void {
    const place = this.after(id);
    if (place === this.#ids.length) this.#ids.push(id);
    else this.#ids.splice(place, 0, id);
  }

  /** Removes an id that is there. */
  delete(id: string): void {
    this.#ids.splice(this.after(id) - 1, 1);
  }
}
