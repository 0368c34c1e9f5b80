/**
 * Counts of one interval, in a table of fixed rows: one row for each key, minute and set of tags.
 *
 * Why the place of its row is kept with a key: a Map by the text of its id took 0.9 of a hash of the key, and this
 * 0.03, for any of 1,000 keys. A place is a hint: it counts only if the row there is that of the key, so that a table
 * may be put aside at any time. Rows with tags are found from that of the key by open addressing.
 *
 * Why a table lives for one interval: its rows, and so the texts that it remembers, are bounded without a second bound.
 */
import { OTHER, type OutcomeCell, OUTCOMES } from "../contracts/outcomes.js";
import type { KeyRef } from "../contracts/store.js";
import type { VerificationCode } from "../contracts/types.js";

/** Whose verifications are counted. */
export interface Counted {
  /** Hint: the place of its row. */
  cell: number;
  readonly workspaceId: string;
  readonly apiId: string;
  readonly keyId: string;
  readonly identity?: { readonly externalId: string } | undefined;
  /** The account that it draws on; absent: none. */
  readonly account?: KeyRef | undefined;
}

/** Numbers of a row: minute, first row of the key, set of tags, credits, and a count for each outcome. */
const FIRST = 1;
const TAGS = 2;
const SPENT = 3;
const COUNTS = 4;
const WIDTH = COUNTS + OUTCOMES.length;
const MIN_ROWS = 256;
/** Rows beyond the bound, for what does not fit: one for each API and minute. */
const OTHER_ROWS = 1_000;

/** The place of each outcome in a row. */
const PLACES = Object.assign(
  Object.create(null) as Record<VerificationCode, number>,
  Object.fromEntries(OUTCOMES.map((code, i) => [code, COUNTS + i])),
);
/** Between the tags of a set: no tag holds a lone surrogate. */
const SEPARATOR = "\ud800";
const MINUTE = 60_000;

/** Bounds of a table. */
export interface MeterBounds {
  /** Rows. */
  readonly cells: number;
  /** Sets of tags of a workspace. */
  readonly tagSets: number;
}

/** The counts of one interval. */
export class OutcomeMeter {
  /** Rows in use. */
  size = 0;
  /** Calls counted without their key and tags. */
  folded = 0;
  readonly #bounds: MeterBounds;
  #owners: Counted[] = [];
  #rows = new Float64Array(MIN_ROWS * WIDTH);
  /** Places, plus 1, of rows with tags. */
  #index = new Int32Array(MIN_ROWS * 2);
  readonly #tags: (readonly string[])[] = [[]];
  /** Numbers of sets by their text, by workspace. */
  readonly #sets = new Map<string, Map<string, number>>();
  /** Places of rows beyond the bound, by minute, workspace and API. */
  readonly #others = new Map<string, number>();

  constructor(bounds: MeterBounds) {
    this.#bounds = bounds;
  }

  /** @param tags without the key's text */
  count(of: Counted, code: VerificationCode, spent: number, now: number, tags: readonly string[]): void {
    const minute = Math.floor(now / MINUTE);
    let place = this.#placeOf(of, minute);
    if (place < 0) place = this.#placeOfOther(of, minute);
    else if (tags.length > 0) place = this.#placeOfTags(of, place, this.#setOf(of.workspaceId, tags));
    const rows = this.#rows;
    const at = place * WIDTH;
    (rows[at + PLACES[code]] as number) += 1;
    if (spent > 0) (rows[at + SPENT] as number) += spent;
  }

  /** What was counted, rows without counts left out. */
  *cells(): Generator<OutcomeCell> {
    for (let place = 0; place < this.size; place++) {
      const row = this.#rows.subarray(place * WIDTH, (place + 1) * WIDTH);
      const { workspaceId, apiId, keyId, identity, account } = this.#owners[place] as Counted;
      const counts = Array.from(row.subarray(COUNTS));
      if (counts.every((count) => count === 0)) continue;
      yield {
        ...{ minute: (row[0] as number) * MINUTE, workspaceId, apiId, keyId, externalId: identity?.externalId ?? "" },
        ...(account !== undefined && { account }),
        ...{ tags: this.#tags[row[TAGS] as number] as readonly string[], counts, spent: row[SPENT] as number },
      };
    }
  }

  /** All rows together: calls by outcome, and credits. */
  sums(): number[] {
    const sums = OUTCOMES.map(() => 0).concat(0);
    for (let place = 0; place < this.size; place++) {
      const at = place * WIDTH;
      for (let i = 0; i < OUTCOMES.length; i++) (sums[i] as number) += this.#rows[at + COUNTS + i] as number;
      (sums[OUTCOMES.length] as number) += this.#rows[at + SPENT] as number;
    }
    return sums;
  }

  /** The row of a key without tags; −1: there is no space for one. */
  #placeOf(of: Counted, minute: number): number {
    const known = of.cell;
    if (this.#owners[known] === of && this.#rows[known * WIDTH] === minute) return known;
    if (this.size >= this.#bounds.cells) return -1;
    return (of.cell = this.#add(of, minute, this.size, 0));
  }

  #placeOfTags(of: Counted, first: number, set: number): number {
    const mask = this.#index.length - 1;
    let at = hash(first, set) & mask;
    for (; this.#index[at] !== 0; at = (at + 1) & mask) {
      const place = (this.#index[at] as number) - 1;
      if (this.#rows[place * WIDTH + FIRST] === first && this.#rows[place * WIDTH + TAGS] === set) return place;
    }
    const minute = this.#rows[first * WIDTH] as number;
    if (this.size >= this.#bounds.cells) return this.#placeOfOther(of, minute);
    const place = this.#add(of, minute, first, set);
    this.#enter(place);
    return place;
  }

  /** The row of all that did not fit of one API; of one workspace, and of all, where there are too many of those. */
  #placeOfOther(of: Counted, minute: number): number {
    this.folded++;
    const left = this.#bounds.cells + OTHER_ROWS - this.size;
    for (const [workspaceId, apiId, spare] of [
      [of.workspaceId, of.apiId, OTHER_ROWS / 2],
      [of.workspaceId, OTHER, 1],
      [OTHER, OTHER, 0],
    ] as const) {
      const id = `${minute} ${workspaceId} ${apiId}`;
      const known = this.#others.get(id);
      if (known !== undefined) return known;
      if (left <= spare) continue;
      this.#others.set(id, this.size);
      const other = { cell: this.size, workspaceId, apiId, keyId: OTHER, identity: { externalId: OTHER } };
      return this.#add(other, minute, this.size, this.#tags.push([OTHER]) - 1);
    }
    // The one for all the rest, of another minute.
    return this.size - 1;
  }

  #add(of: Counted, minute: number, first: number, set: number): number {
    const place = this.size++;
    if ((place + 1) * WIDTH > this.#rows.length) this.#grow();
    this.#owners.push(of);
    const at = place * WIDTH;
    this.#rows[at] = minute;
    this.#rows[at + FIRST] = first;
    this.#rows[at + TAGS] = set;
    return place;
  }

  #grow(): void {
    const rows = new Float64Array(this.#rows.length * 2);
    rows.set(this.#rows);
    this.#rows = rows;
    const before = this.#index;
    this.#index = new Int32Array(before.length * 2);
    for (const place of before) if (place !== 0) this.#enter(place - 1);
  }

  #enter(place: number): void {
    const mask = this.#index.length - 1;
    const at = place * WIDTH;
    let slot = hash(this.#rows[at + FIRST] as number, this.#rows[at + TAGS] as number) & mask;
    while (this.#index[slot] !== 0) slot = (slot + 1) & mask;
    this.#index[slot] = place + 1;
  }

  #setOf(workspaceId: string, tags: readonly string[]): number {
    let sets = this.#sets.get(workspaceId);
    if (sets === undefined) this.#sets.set(workspaceId, (sets = new Map<string, number>()));
    const text = tags.length === 1 ? (tags[0] as string) : tags.join(SEPARATOR);
    return sets.get(text) ?? this.#addSet(sets, text, tags);
  }

  /** A set has one number in each order of its tags that was met. */
  #addSet(sets: Map<string, number>, text: string, tags: readonly string[]): number {
    const isFull = sets.size >= this.#bounds.tagSets;
    const sorted = isFull ? [OTHER] : [...new Set(tags)].sort();
    const known = sets.get(sorted.length === 1 ? (sorted[0] as string) : sorted.join(SEPARATOR));
    const set = known ?? this.#tags.push(sorted) - 1;
    if (!isFull) sets.set(text, set);
    if (known === undefined) sets.set(sorted.join(SEPARATOR), set);
    return set;
  }
}

/** Spreads neighbours: rows of one key, and one set of many keys. */
function hash(first: number, set: number): number {
  const mixed = Math.imul(first, 0x9e3779b1) ^ Math.imul(set, 0x85ebca6b);
  return mixed ^ (mixed >>> 15);
}
