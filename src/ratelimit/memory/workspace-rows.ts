/** Which workspace holds which rows of a table, and whose turn it is to give some up. */
import { widened } from "../../lib/typed-arrays.js";
import { NOBODY, Ranking } from "./ranking.js";

/*
 * Why: the table is shared by all workspaces, and a bucket that refuses does not give way in it. So one workspace could
 * fill it with such buckets, and nobody else's would be let in. Rows of one workspace are linked in a ring, two rings
 * for the two kinds of limits: 12 bytes a row. A ring is walked from where the last walk stopped.
 */

/** No row. */
export const NO_ROW = -1;
/** No workspace: what a ranking of workspaces calls nobody. */
export const NO_WORKSPACE = NOBODY;

export class WorkspaceRows {
  /** By row: the ring that it is in, plus one; 0: none. */
  #rings: Int32Array<ArrayBuffer>;
  #next: Int32Array<ArrayBuffer>;
  #previous: Int32Array<ArrayBuffer>;
  /** By ring: where the next walk starts. */
  readonly #hands: number[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #names: string[] = [];
  readonly #free: number[] = [];
  /** Rows of either kind by workspace. */
  readonly all = new Ranking();
  /** Rows of ad hoc limits by workspace. */
  readonly adHoc = new Ranking();

  constructor(capacity: number) {
    this.#rings = new Int32Array(capacity);
    this.#next = new Int32Array(capacity);
    this.#previous = new Int32Array(capacity);
  }

  /** The number of a workspace that holds rows; {@link NO_WORKSPACE}: it holds none. */
  numberOf(workspaceId: string): number {
    return this.#numbers.get(workspaceId) ?? NO_WORKSPACE;
  }

  isAdHoc(row: number): boolean {
    return ((this.#rings[row] as number) - 1) % 2 === 1;
  }

  /** The row where a walk over a workspace's rows of one kind starts; {@link NO_ROW}: there are none. */
  handOf(workspace: number, isAdHoc: boolean): number {
    return this.#hands[ringOf(workspace, isAdHoc)] ?? NO_ROW;
  }

  /** The row after this one in its ring. */
  after(row: number): number {
    return this.#next[row] as number;
  }

  /** The next walk of this row's ring starts here. */
  stopAt(row: number): void {
    this.#hands[(this.#rings[row] as number) - 1] = row;
  }

  /** Grows to `capacity` rows. */
  widen(capacity: number): void {
    this.#rings = widened(this.#rings, capacity);
    this.#next = widened(this.#next, capacity);
    this.#previous = widened(this.#previous, capacity);
  }

  /** @param row held by nobody */
  add(row: number, workspaceId: string, isAdHoc: boolean): void {
    const workspace = this.#numberFor(workspaceId);
    const ring = ringOf(workspace, isAdHoc);
    const hand = this.#hands[ring] ?? NO_ROW;
    this.#rings[row] = ring + 1;
    if (hand === NO_ROW) this.#hands[ring] = this.#next[row] = this.#previous[row] = row;
    else {
      // Before the hand: a walk comes to it last.
      const previous = this.#previous[hand] as number;
      this.#next[row] = hand;
      this.#previous[row] = previous;
      this.#next[previous] = this.#previous[hand] = row;
    }
    this.all.add(workspace);
    if (isAdHoc) this.adHoc.add(workspace);
  }

  /** @param row held by a workspace */
  remove(row: number): void {
    const ring = (this.#rings[row] as number) - 1;
    const next = this.#next[row] as number;
    const previous = this.#previous[row] as number;
    this.#rings[row] = 0;
    this.#next[previous] = next;
    this.#previous[next] = previous;
    if (this.#hands[ring] === row) this.#hands[ring] = next === row ? NO_ROW : next;
    const workspace = ring >> 1;
    this.all.remove(workspace);
    if (ring % 2 === 1) this.adHoc.remove(workspace);
    if (this.all.countOf(workspace) > 0) return;
    this.#numbers.delete(this.#names[workspace] as string);
    this.#free.push(workspace);
  }

  #numberFor(workspaceId: string): number {
    const known = this.#numbers.get(workspaceId);
    if (known !== undefined) return known;
    const number = this.#free.pop() ?? this.#names.length;
    this.#names[number] = workspaceId;
    this.#numbers.set(workspaceId, number);
    return number;
  }
}

function ringOf(workspace: number, isAdHoc: boolean): number {
  return workspace * 2 + (isAdHoc ? 1 : 0);
}
