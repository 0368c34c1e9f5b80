/** Which workspace holds which buckets of a table, and which workspace holds most. */
import { ClockHand } from "../../lib/clock-hand.js";
import { Ranking } from "../../lib/ranking.js";

/*
 * Why: workspaces share the table, and refusing buckets are not evicted. Without shares, one workspace could fill the
 * table with refusing buckets and keep out all others.
 */

/** The ring of each row, by number, and the row's index there. */
export interface RowRings {
  ringOf(row: number): number;
  indexOf(row: number): number;
  setRing(row: number, ring: number, index: number): void;
}

/** Rows of one workspace and one kind. A walk continues where the last one stopped. */
export class Ring {
  readonly #number: number;
  readonly #places: RowRings;
  readonly #rows: number[] = [];
  readonly #hand = new ClockHand();

  constructor(number: number, places: RowRings) {
    this.#number = number;
    this.#places = places;
  }

  get size(): number {
    return this.#rows.length;
  }

  /** The next row in turn. Call it only if there are rows. */
  next(): number {
    return this.#rows[this.#hand.next(this.size)] as number;
  }

  add(row: number): void {
    this.#places.setRing(row, this.#number, this.#rows.push(row) - 1);
  }

  /** Removes a row; the last row takes its index. */
  remove(row: number): void {
    const last = this.#rows.pop() as number;
    if (last === row) return;
    const index = this.#places.indexOf(row);
    this.#places.setRing(last, this.#number, index);
    this.#rows[index] = last;
  }
}

/** A workspace that holds buckets. */
export interface Workspace {
  readonly id: string;
  /** The ring `lasting` has twice this number, `adHoc` one more. */
  readonly number: number;
  readonly lasting: Ring;
  readonly adHoc: Ring;
}

export class Workspaces {
  readonly #rows: RowRings;
  readonly #workspaces = new Map<string, Workspace>();
  readonly #byNumber: (Workspace | undefined)[] = [];
  readonly #free: number[] = [];
  /** By buckets of either kind. */
  readonly all = new Ranking<Workspace>();
  /** By buckets of ad hoc limits. */
  readonly adHoc = new Ranking<Workspace>();

  constructor(rows: RowRings) {
    this.#rows = rows;
  }

  /** @returns undefined: it holds no bucket */
  find(id: string): Workspace | undefined {
    return this.#workspaces.get(id);
  }

  /** Whether a row that a workspace holds is of an ad hoc limit. */
  isAdHoc(row: number): boolean {
    return this.#rows.ringOf(row) % 2 === 1;
  }

  /** @param row held by nobody */
  add(row: number, id: string, isAdHoc: boolean): void {
    const workspace = this.#workspaces.get(id) ?? this.#create(id);
    (isAdHoc ? workspace.adHoc : workspace.lasting).add(row);
    this.all.add(workspace);
    if (isAdHoc) this.adHoc.add(workspace);
  }

  /** @param row held by its workspace */
  remove(row: number): void {
    const workspace = this.#byNumber[this.#rows.ringOf(row) >>> 1] as Workspace;
    const isAdHoc = this.isAdHoc(row);
    (isAdHoc ? workspace.adHoc : workspace.lasting).remove(row);
    this.all.remove(workspace);
    if (isAdHoc) this.adHoc.remove(workspace);
    if (this.all.countOf(workspace) === 0) this.#forget(workspace);
  }

  #create(id: string): Workspace {
    const number = this.#free.pop() ?? this.#byNumber.length;
    const [lasting, adHoc] = [new Ring(2 * number, this.#rows), new Ring(2 * number + 1, this.#rows)];
    const workspace = { id, number, lasting, adHoc };
    this.#byNumber[number] = workspace;
    this.#workspaces.set(id, workspace);
    return workspace;
  }

  #forget({ id, number }: Workspace): void {
    this.#workspaces.delete(id);
    this.#byNumber[number] = undefined;
    this.#free.push(number);
  }
}
