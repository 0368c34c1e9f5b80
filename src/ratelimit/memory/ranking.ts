/** Counts by holder, and which of them holds most, in constant time. */
import { widened } from "../../lib/typed-arrays.js";

/*
 * Why: the largest holder is asked for at every newcomer of a full table, and there may be as many holders as rows. A
 * count changes by one, so holders of one count are in a list, and one of the largest is the head of the last list. The
 * heads are in an array: with a Map a new bucket took 2 µs more.
 */

/** No holder. */
export const NOBODY = -1;
const FIRST_COUNTS = 32;

/** Holders are small numbers, ≥ 0, which the arrays are as long as. */
export class Ranking {
  readonly #counts: number[] = [];
  readonly #next: number[] = [];
  readonly #previous: number[] = [];
  /** By count: the first holder, plus one; 0: nobody has this count. */
  #heads = new Int32Array(FIRST_COUNTS);
  #most = 0;
  #holders = 0;
  #total = 0;

  /** All that is held. */
  get total(): number {
    return this.#total;
  }

  /** Those who hold something. */
  get holders(): number {
    return this.#holders;
  }

  /** How many this one holds. */
  countOf(holder: number): number {
    return this.#counts[holder] ?? 0;
  }

  /** One of those who hold most; −1: nobody holds anything. */
  largest(): number {
    return (this.#heads[this.#most] as number) - 1;
  }

  add(holder: number): void {
    const count = this.countOf(holder) + 1;
    if (count === this.#heads.length) this.#heads = widened(this.#heads, count * 2);
    this.#move(holder, count);
    if (count > this.#most) this.#most = count;
    if (count === 1) this.#holders++;
    this.#total++;
  }

  remove(holder: number): void {
    const count = this.countOf(holder) - 1;
    this.#move(holder, count);
    // This one is now at the head of the list before it.
    if (this.#heads[this.#most] === 0) this.#most--;
    if (count === 0) this.#holders--;
    this.#total--;
  }

  #move(holder: number, count: number): void {
    const before = this.countOf(holder);
    if (before > 0) this.#unlink(holder, before);
    this.#counts[holder] = count;
    if (count === 0) return;
    const head = (this.#heads[count] as number) - 1;
    this.#next[holder] = head;
    this.#previous[holder] = NOBODY;
    if (head !== NOBODY) this.#previous[head] = holder;
    this.#heads[count] = holder + 1;
  }

  #unlink(holder: number, count: number): void {
    const next = this.#next[holder] as number;
    const previous = this.#previous[holder] as number;
    if (next !== NOBODY) this.#previous[next] = previous;
    if (previous !== NOBODY) this.#next[previous] = next;
    else this.#heads[count] = next + 1;
  }
}
