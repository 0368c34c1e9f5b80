/**
 * tag → entry: a small number under which a table keeps what belongs to the tag, in typed arrays of its own. Knows no text and no value.
 *
 * Why not a Map: over 1,000,000 texts at random a Map takes 1,100 ns and 100 bytes each, since they lie all over memory. This reads
 * one place, holds 25 to 47 bytes each, and all of it outside the heap that the garbage collector walks.
 * It is open addressing, at most three quarters full, that closes the gaps which removals leave. Slots are 16 bytes, so that none
 * lies on two lines of the processor's cache.
 */

/** Numbers a slot: entry + 1 (0: free), and the three of the tag. */
const WIDTH = 4;
const FIRST_SLOTS = 64;
const FIRST_ENTRIES = 32;
const LOAD = 3 / 4;

/** No entry. */
export const NONE = -1;

export class TagIndex {
  #slots = new Int32Array(FIRST_SLOTS * WIDTH);
  #mask = FIRST_SLOTS - 1;
  /** Entry → its slot; of a free entry −2 − the next free one. */
  #slotOf = new Int32Array(FIRST_ENTRIES);
  #free = NONE;
  /** Entries ever in use. */
  #high = 0;
  #count = 0;

  /** Tags held. */
  get count(): number {
    return this.#count;
  }

  /** Every entry is below this; it grows by doubling. */
  get capacity(): number {
    return this.#slotOf.length;
  }

  /** The entry of a tag, or {@link NONE}. */
  find(one: number, two: number, three: number): number {
    const slots = this.#slots;
    const mask = this.#mask;
    for (let slot = one & mask; ; slot = (slot + 1) & mask) {
      const at = slot * WIDTH;
      const mark = slots[at] as number;
      if (mark === 0) return NONE;
      if (slots[at + 1] === one && slots[at + 2] === two && slots[at + 3] === three) return mark - 1;
    }
  }

  /** Gives an entry to a tag that has none. Entries of removed tags are used again. */
  add(one: number, two: number, three: number): number {
    if (this.#count + 1 > (this.#mask + 1) * LOAD) this.#widen();
    const entry = this.#newEntry();
    this.#count++;
    this.#place(entry, one, two, three);
    return entry;
  }

  /** The first number of the tag of an entry in use. */
  oneOf(entry: number): number {
    return this.#slots[(this.#slotOf[entry] as number) * WIDTH + 1] as number;
  }

  /** The second number of the tag of an entry in use. */
  twoOf(entry: number): number {
    return this.#slots[(this.#slotOf[entry] as number) * WIDTH + 2] as number;
  }

  /** The third number of the tag of an entry in use. */
  threeOf(entry: number): number {
    return this.#slots[(this.#slotOf[entry] as number) * WIDTH + 3] as number;
  }

  /** Whether an entry is in use. */
  has(entry: number): boolean {
    return entry < this.#high && (this.#slotOf[entry] as number) >= 0;
  }

  /** Frees the entry of a tag. */
  remove(entry: number): void {
    const slots = this.#slots;
    const mask = this.#mask;
    let gap = this.#slotOf[entry] as number;
    for (let slot = (gap + 1) & mask; slots[slot * WIDTH] !== 0; slot = (slot + 1) & mask) {
      const at = slot * WIDTH;
      const home = (slots[at + 1] as number) & mask;
      // It may fill the gap unless its home lies behind the gap.
      if (((slot - home) & mask) < ((slot - gap) & mask)) continue;
      slots.copyWithin(gap * WIDTH, at, at + WIDTH);
      this.#slotOf[(slots[at] as number) - 1] = gap;
      gap = slot;
    }
    slots[gap * WIDTH] = 0;
    this.#slotOf[entry] = -2 - this.#free;
    this.#free = entry;
    this.#count--;
  }

  clear(): void {
    this.#slots = new Int32Array(FIRST_SLOTS * WIDTH);
    this.#mask = FIRST_SLOTS - 1;
    this.#slotOf = new Int32Array(FIRST_ENTRIES);
    this.#free = NONE;
    this.#high = 0;
    this.#count = 0;
  }

  #newEntry(): number {
    const free = this.#free;
    if (free !== NONE) {
      this.#free = -2 - (this.#slotOf[free] as number);
      return free;
    }
    if (this.#high === this.#slotOf.length) {
      const wider = new Int32Array(this.#slotOf.length * 2);
      wider.set(this.#slotOf);
      this.#slotOf = wider;
    }
    return this.#high++;
  }

  #place(entry: number, one: number, two: number, three: number): void {
    const slots = this.#slots;
    let slot = one & this.#mask;
    while (slots[slot * WIDTH] !== 0) slot = (slot + 1) & this.#mask;
    const at = slot * WIDTH;
    slots[at] = entry + 1;
    slots[at + 1] = one;
    slots[at + 2] = two;
    slots[at + 3] = three;
    this.#slotOf[entry] = slot;
  }

  #widen(): void {
    const old = this.#slots;
    this.#mask = this.#mask * 2 + 1;
    this.#slots = new Int32Array((this.#mask + 1) * WIDTH);
    for (let at = 0; at < old.length; at += WIDTH) {
      if (old[at] !== 0) this.#place((old[at] as number) - 1, old[at + 1] as number, old[at + 2] as number, old[at + 3] as number);
    }
  }
}
