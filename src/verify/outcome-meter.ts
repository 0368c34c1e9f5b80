/**
 * Counts of one interval, in a table of fixed-size rows: one row for each key, minute and set of tags.
 *
 * Why a key keeps the place of its row: with any of 1,000 keys, a Map by key id took 0.9 times as long as hashing the
 * key, this 0.03 times. The place is a hint, to the row counted last. It is used only if the row there belongs to the
 * key, so a table may be replaced at any time. The key's other rows are found by open addressing.
 *
 * Why a table lives for one interval: the bound of its rows then also bounds the texts that it keeps.
 *
 * Workspaces share the memory. A workspace that is alone may use all of it. Once it is used up, each workspace has an
 * equal part. When a workspace below its part needs space, rows of the others above their part are aggregated as
 * "(other)".
 */
import { OTHER, type OutcomeCell, OUTCOMES } from "../contracts/outcomes.js";
import type { KeyRef } from "../contracts/store.js";
import type { VerificationCode } from "../contracts/types.js";

/** The key whose verifications are counted. */
export interface Counted {
  /** Hint: the place of the row counted last. */
  cell: number;
  readonly workspaceId: string;
  readonly apiId: string;
  readonly keyId: string;
  readonly identity?: { readonly externalId: string } | undefined;
  /** The account that pays for it; absent: none. */
  readonly account?: KeyRef | undefined;
  /** Where that is a cap inside the credits of its owner: the main account of the owner. */
  readonly ownerAccount?: KeyRef | undefined;
}

/** What a call is counted as. */
export interface CountedOutcome {
  /** `undefined`: credits alone, of a call that was counted before. */
  readonly code: VerificationCode | undefined;
  readonly spent: number;
}

/** Layout of a row: minute, first row of the key, set of tags, credits, and a count for each outcome. */
const FIRST = 1;
const TAGS = 2;
const SPENT = 3;
const COUNTS = 4;
const WIDTH = COUNTS + OUTCOMES.length;
const MIN_ROWS = 256;
/** Rows beyond the bound of memory, for calls that do not fit: one for each API and minute. */
const OTHER_ROWS = 1_000;
/** Marks a row as removed, in place of its minute. */
const REMOVED = -1;

/** Sets of tags that always exist: no tags, and `(other)`. */
const NONE = 0;
const OTHERS = 1;

/** The place of each outcome in a row. */
const PLACES = Object.assign(
  Object.create(null) as Record<VerificationCode, number>,
  Object.fromEntries(OUTCOMES.map((code, i) => [code, COUNTS + i])),
);
/** Between the tags of a set: no tag holds a lone surrogate. */
const SEPARATOR = "\ud800";
/** A set of tags as one text. */
export const textOf = (tags: readonly string[]): string =>
  tags.length === 1 ? (tags[0] as string) : tags.join(SEPARATOR);
const MINUTE = 60_000;

/** Bytes that a row takes at most, just after the table has grown: its numbers, its place in the index, its owner. */
export const ROW_BYTES = 256;
/** Bytes that a set of tags takes beside its text. */
const SET_BYTES = 128;
const bytesOf = (text: string): number => SET_BYTES + 2 * text.length;

/** Bounds of a table. */
export interface MeterBounds {
  /** Of rows and sets of tags, without {@link OTHER_ROWS}. */
  readonly bytes: number;
  /** Sets of tags of a workspace; another order of the same tags counts again. */
  readonly tagSets: number;
  /** Whether a set is counted as it is; otherwise as `["(other)"]`. @param set its {@link textOf}, sorted */
  readonly admits?: (workspaceId: string, set: string) => boolean;
}

/** What a workspace holds. */
interface Share {
  bytes: number;
  /** Numbers of sets, by text. */
  readonly sets: Map<string, number>;
}

/** The counts of one interval. */
export class OutcomeMeter {
  /** Rows in use. */
  size = 0;
  /** Bytes in use, without {@link OTHER_ROWS}. */
  bytes = 0;
  /** Calls counted without their key or tags. */
  aggregated = 0;
  readonly #bounds: MeterBounds;
  #owners: Counted[] = [];
  #rows = new Float64Array(MIN_ROWS * WIDTH);
  /** Hash table: places of rows plus 1, by the first row of their key and their set. */
  #index = new Int32Array(MIN_ROWS * 2);
  /** Texts of sets, by number. */
  readonly #texts = ["", OTHER];
  /** By workspace. */
  readonly #shares = new Map<string, Share>();
  /** Whether memory was used up: from then on each workspace has its part only. */
  #isScarce = false;
  /** Places of rows beyond the bound, by minute, workspace and API. */
  readonly #others = new Map<string, number>();
  /** The name of the last of these rows: it takes the calls that have no other. */
  #rest = "";

  constructor(bounds: MeterBounds) {
    this.#bounds = bounds;
  }

  /** @param tags without the key's text */
  count(of: Counted, { code, spent }: CountedOutcome, { now, tags }: { now: number; tags: readonly string[] }): void {
    const set = tags.length === 0 ? NONE : this.#setOf(of.workspaceId, tags);
    const at = this.#placeOf(of, Math.floor(now / MINUTE), set) * WIDTH;
    const rows = this.#rows;
    if (spent > 0) (rows[at + SPENT] as number) += spent;
    if (code === undefined) return;
    (rows[at + PLACES[code]] as number) += 1;
    if (rows[at + TAGS] === OTHERS) this.aggregated++;
  }

  /** What was counted. */
  *cells(): Generator<OutcomeCell> {
    for (let place = 0; place < this.size; place++) {
      const row = this.#rows.subarray(place * WIDTH, (place + 1) * WIDTH);
      const { workspaceId, apiId, keyId, identity, account, ownerAccount } = this.#owners[place] as Counted;
      const set = row[TAGS] as number;
      yield {
        ...{ minute: (row[0] as number) * MINUTE, workspaceId, apiId, keyId, externalId: identity?.externalId ?? "" },
        ...(account !== undefined && { account }),
        ...(ownerAccount !== undefined && { ownerAccount }),
        tags: set === NONE ? [] : (this.#texts[set] as string).split(SEPARATOR),
        ...{ counts: Array.from(row.subarray(COUNTS)), spent: row[SPENT] as number },
      };
    }
  }

  /** The sets of a workspace, as {@link textOf} them, sorted. */
  setsOf(workspaceId: string): string[] {
    const sets = this.#shares.get(workspaceId)?.sets ?? [];
    return [...sets].flatMap(([text, set]) => (this.#texts[set] === text ? [text] : []));
  }

  /** Sums of all rows: calls by outcome, then credits. */
  sums(): number[] {
    const sums = OUTCOMES.map(() => 0).concat(0);
    for (let place = 0; place < this.size; place++) {
      const at = place * WIDTH;
      for (let i = 0; i < OUTCOMES.length; i++) (sums[i] as number) += this.#rows[at + COUNTS + i] as number;
      (sums[OUTCOMES.length] as number) += this.#rows[at + SPENT] as number;
    }
    return sums;
  }

  /** The row of a key and a set: the row counted last, or one found by the key's first row. */
  #placeOf(of: Counted, minute: number, set: number): number {
    const known = of.cell;
    const isKnown = this.#isOf(known, of, minute);
    if (isKnown && this.#rows[known * WIDTH + TAGS] === set) return known;
    if (isKnown) {
      const first = this.#rows[known * WIDTH + FIRST] as number;
      const mask = this.#index.length - 1;
      for (let at = hash(first, set) & mask; this.#index[at] !== 0; at = (at + 1) & mask) {
        const place = (this.#index[at] as number) - 1;
        if (this.#rows[place * WIDTH + FIRST] === first && this.#rows[place * WIDTH + TAGS] === set)
          return (of.cell = place);
      }
    }
    if (!this.#reserve(this.#shareOf(of.workspaceId), ROW_BYTES)) return this.#placeOfOther(of, minute);
    // Rows may have moved to make space.
    const first = this.#isOf(of.cell, of, minute) ? (this.#rows[of.cell * WIDTH + FIRST] as number) : this.size;
    return (of.cell = this.#add(of, { minute, first, set }));
  }

  #isOf(place: number, of: Counted, minute: number): boolean {
    return this.#owners[place] === of && this.#rows[place * WIDTH] === minute;
  }

  /** The row for calls of an API that did not fit; with too many APIs, of its workspace, and then of all workspaces. */
  #placeOfOther(of: Counted, minute: number): number {
    const left = OTHER_ROWS - this.#others.size;
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
      this.#rest = id;
      const other = { cell: this.size, workspaceId, apiId, keyId: OTHER, identity: { externalId: OTHER } };
      return this.#add(other, { minute, first: this.size, set: OTHERS });
    }
    // It may be of another minute.
    return this.#others.get(this.#rest) as number;
  }

  #add(of: Counted, { minute, first, set }: Record<"minute" | "first" | "set", number>): number {
    const place = this.size++;
    if ((place + 1) * WIDTH > this.#rows.length) this.#grow();
    this.#owners.push(of);
    const at = place * WIDTH;
    this.#rows[at] = minute;
    this.#rows[at + FIRST] = first;
    this.#rows[at + TAGS] = set;
    this.#enter(place);
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

  #shareOf(workspaceId: string): Share {
    let share = this.#shares.get(workspaceId);
    if (share === undefined) this.#shares.set(workspaceId, (share = { bytes: 0, sets: new Map<string, number>() }));
    return share;
  }

  /** Reserves bytes for a workspace, if it may hold so many more. */
  #reserve(share: Share, bytes: number): boolean {
    const isFull = this.bytes + bytes > this.#bounds.bytes;
    if (isFull || this.#isScarce) {
      this.#isScarce = true;
      // The number of workspaces is rounded up to a power of two, so that rows are aggregated only a few times.
      const part = this.#bounds.bytes / 2 ** Math.ceil(Math.log2(this.#shares.size));
      if (share.bytes + bytes > part) return false;
      if (isFull) this.#shrink(part);
    }
    share.bytes += bytes;
    this.bytes += bytes;
    return true;
  }

  /** Aggregates the newest rows of workspaces that hold more than their part. */
  #shrink(part: number): void {
    const above = new Set([...this.#shares.values()].filter(({ bytes }) => bytes > part));
    const full = new Set<Share>();
    const dropped = new Set<number>();
    for (const share of above) {
      for (const set of share.sets.values()) dropped.add(set);
      share.sets.clear();
      share.bytes = 0;
    }
    for (let place = 0, end = this.size; place < end; place++) {
      const { keyId, workspaceId } = this.#owners[place] as Counted;
      const share = this.#shares.get(workspaceId) as Share;
      if (keyId === OTHER || !above.has(share)) continue;
      const set = this.#rows[place * WIDTH + TAGS] as number;
      const text = this.#texts[set] as string;
      const bytes = ROW_BYTES + (dropped.has(set) ? bytesOf(text) : 0);
      if (full.has(share) || share.bytes + bytes > part) {
        full.add(share);
        this.#moveToOther(place);
        continue;
      }
      share.bytes += bytes;
      if (dropped.delete(set)) share.sets.set(text, set);
    }
    for (const set of dropped) this.#texts[set] = "";
    this.bytes = 0;
    for (const { bytes } of this.#shares.values()) this.bytes += bytes;
    this.#removeMoved();
  }

  #moveToOther(place: number): void {
    const from = place * WIDTH;
    const to = this.#placeOfOther(this.#owners[place] as Counted, this.#rows[from] as number) * WIDTH;
    const rows = this.#rows;
    const wasOther = rows[from + TAGS] === OTHERS;
    for (let i = SPENT; i < WIDTH; i++) (rows[to + i] as number) += rows[from + i] as number;
    for (let i = COUNTS; i < WIDTH && !wasOther; i++) this.aggregated += rows[from + i] as number;
    rows[from] = REMOVED;
  }

  /** The first row of a key is its oldest, so it is removed no earlier than the key's other rows. */
  #removeMoved(): void {
    const rows = this.#rows;
    const places = new Int32Array(this.size);
    const end = this.size;
    this.size = 0;
    this.#index.fill(0);
    for (let place = 0; place < end; place++) {
      if (rows[place * WIDTH] === REMOVED) continue;
      const to = (places[place] = this.size++);
      rows.copyWithin(to * WIDTH, place * WIDTH, (place + 1) * WIDTH);
      rows[to * WIDTH + FIRST] = places[rows[to * WIDTH + FIRST] as number] as number;
      const owner = (this.#owners[to] = this.#owners[place] as Counted);
      owner.cell = to;
      this.#enter(to);
    }
    rows.fill(0, this.size * WIDTH);
    this.#owners.length = this.size;
    for (const [id, place] of this.#others) this.#others.set(id, places[place] as number);
  }

  #setOf(workspaceId: string, tags: readonly string[]): number {
    const text = textOf(tags);
    return this.#shares.get(workspaceId)?.sets.get(text) ?? this.#addSet(workspaceId, text, tags);
  }

  /** A set has one number, whatever the order of its tags; each order used has an entry of its own. */
  #addSet(workspaceId: string, text: string, tags: readonly string[]): number {
    const share = this.#shareOf(workspaceId);
    const { tagSets, admits } = this.#bounds;
    const sorted = textOf([...new Set(tags)].sort());
    const known = share.sets.get(sorted);
    const mayAdd = (added: string): boolean => share.sets.size < tagSets && this.#reserve(share, bytesOf(added));
    if (known === undefined && (admits?.(workspaceId, sorted) === false || !mayAdd(sorted))) return OTHERS;
    const set = known ?? this.#texts.push(sorted) - 1;
    if (known === undefined) share.sets.set(sorted, set);
    if (text !== sorted && mayAdd(text)) share.sets.set(text, set);
    return set;
  }
}

/** Spreads similar pairs: sets of one key, and one set of many keys. */
function hash(first: number, set: number): number {
  const mixed = Math.imul(first, 0x9e3779b1) ^ Math.imul(set, 0x85ebca6b);
  return mixed ^ (mixed >>> 15);
}
