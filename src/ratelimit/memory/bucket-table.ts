/** A bounded table of buckets that drops the full ones as it is used. Limiter clause 8. */
import { ClockHand } from "../../lib/clock-hand.js";
import { FingerprintIndex, NONE } from "../../lib/fingerprint-index.js";
import { Fingerprint, MAX_UNITS } from "../../lib/fingerprint.js";
import type { BucketHint, HintedCheck } from "./bucket-hint.js";
import { BucketRows } from "./bucket-rows.js";
import type { Bucket } from "./bucket.js";
import { NO_ROW, NO_WORKSPACE, WorkspaceRows } from "./workspace-rows.js";

/*
 * Eviction. Dropping a full bucket changes no result. A cursor walks the table and drops the full buckets that it
 * visits: a few rows whenever time has moved on by a millisecond, and two for each new bucket, so that idle buckets
 * never outnumber the others for long. There are no timers and no full passes. Only at the bound is a bucket evicted
 * that is not full.
 *
 * Whose. A workspace that holds its equal share of the table, or more, evicts of its own, and never a bucket that
 * refuses: there its newcomer is refused instead. Below its share it evicts of the workspace that holds most, which
 * holds more than its share then; of that one even a bucket that refuses, if none of those looked at does anything
 * else. So no workspace can keep the limits of another from being counted. A single workspace has the whole table.
 *
 * Look-up. A bucket is found by the fingerprint of its name; the name is not kept. Two names share a fingerprint, and
 * so a bucket, with probability at most 2^-51. A hint holds the bucket's last row and two of the three fingerprint
 * numbers, which saves hashing the name (81 ns) and searching. It is valid if the row still has these numbers: another
 * name in that row has them with probability 2^-64, or at most 2^-34 if both names were chosen. Fingerprints of another
 * limiter match with about 2^-64.
 */

/** Rows visited when time has moved on. 32 take about 0.5 µs in a table of 1,000,000. */
const STEPS_PER_MOMENT = 32;
const STEPS_PER_NEWCOMER = 2;
/**
 * Milliseconds without a take after which a full bucket counts as idle. Dropping a bucket that is soon used again costs
 * 1.3 µs: a call over any of 1,000,000 keys, with a limit that refills a token every 2.6 s, took 3.7 µs with 1 s and
 * takes 2.2 µs with 60 s.
 */
const IDLE = 60_000;
/** Rows examined to find one to evict. */
const PROBES = 32;
/** The same where one that refuses would go: where one in ten does not, all of these refuse once in 700,000 times. */
const PROBES_BEFORE_REFUSING = 128;

/** The fingerprint of a bucket's name. */
export type BucketFingerprint = Pick<Fingerprint, "h0" | "h1" | "h2">;

/** A bucket to come: whose it is. */
export interface Newcomer {
  readonly workspaceId: string;
  readonly isAdHoc: boolean;
}

/** The buckets of the current call by row, or by name if new, each with the tokens that the call is about to take. */
export type CallRows = ReadonlyMap<number | string, { readonly pending: number }>;

export class BucketTable {
  /** The buckets, by the row that {@link BucketTable.find} returns. */
  readonly rows = new BucketRows();
  /** Hashes names. After a failed search it holds the fingerprint of the missing name. */
  readonly fingerprint = new Fingerprint();
  readonly #bound: number;
  readonly #index = new FingerprintIndex();
  #workspaceRows = new WorkspaceRows(this.rows.capacity);
  #bucketsDisplaced = 0;
  #newcomersRefused = 0;
  /** Rows that have ever been in use: the cursor walks these. */
  #high = 0;
  readonly #hand = new ClockHand();

  /** @param bound the most buckets held, ≥ 1 */
  constructor(bound: number) {
    this.#bound = bound;
  }

  /** Buckets held. */
  get count(): number {
    return this.#index.count;
  }

  /** Buckets that refused and gave way to another workspace's, since the table was made. */
  get bucketsDisplaced(): number {
    return this.#bucketsDisplaced;
  }

  /** New buckets that found no space, since the table was made. */
  get newcomersRefused(): number {
    return this.#newcomersRefused;
  }

  /**
   * The row of a check's bucket, or {@link NONE}.
   * @throws RangeError if the name is too long for a fingerprint
   */
  find({ bucket, hint }: HintedCheck): number {
    // Object.is compares addresses first; === would compare the texts.
    return hint !== undefined && Object.is(hint.bucket, bucket) ? this.findAt(hint) : this.#search(bucket);
  }

  /** The row of a hint's bucket: where it was found last, or else by its name. */
  findAt(hint: BucketHint): number {
    if (this.rows.hasFingerprint(hint.row, hint.h0, hint.h1)) return hint.row;
    const row = this.#search(hint.bucket);
    if (row !== NONE) hint.foundAt(row, this.fingerprint.h0, this.fingerprint.h1);
    return row;
  }

  #search(bucket: string): number {
    const { fingerprint } = this;
    if (!fingerprint.read(bucket)) throw new RangeError(`bucket must be a text of at most ${MAX_UNITS} UTF-16 units`);
    return this.#index.find(fingerprint.h0, fingerprint.h1, fingerprint.h2);
  }

  /** Visits a few rows and drops full buckets. Call it when time has moved on. */
  sweep(now: number): void {
    this.#visit(STEPS_PER_MOMENT, now);
  }

  /**
   * Makes space for new buckets. Ad hoc limits may use half of the table. At the bound each evicts one: a full bucket,
   * or else the least used of a few; whose, and whether it may be one that refuses, see above.
   * @param call the buckets of the current call: those with pending tokens are never evicted
   * @returns false: not enough buckets can be evicted, and none was
   */
  makeSpace(newcomers: readonly Newcomer[], call: CallRows, now: number): boolean {
    let space = this.#bound - this.count;
    let adHocSpace = Math.ceil(this.#bound / 2) - this.#workspaceRows.adHoc.total;
    const chosen = new Map<number, boolean>();
    for (const [i, newcomer] of newcomers.entries()) {
      const mustBeAdHoc = newcomer.isAdHoc && adHocSpace <= 0;
      if (mustBeAdHoc || space <= 0) {
        const row = this.#choose(newcomer, i, mustBeAdHoc, chosen, call, now);
        if (row === NONE) {
          this.#newcomersRefused += newcomers.length;
          return false;
        }
        space++;
        if (this.#workspaceRows.isAdHoc(row)) adHocSpace++;
      }
      space--;
      if (newcomer.isAdHoc) adHocSpace--;
    }
    for (const [row, refuses] of chosen) {
      this.#drop(row);
      if (refuses) this.#bucketsDisplaced++;
    }
    return true;
  }

  /** Adds a bucket under the fingerprint of its name, which must be new. Only after {@link BucketTable.makeSpace}. */
  add({ h0, h1, h2 }: BucketFingerprint, bucket: Bucket, { workspaceId, isAdHoc }: Newcomer, now: number): void {
    this.#visit(STEPS_PER_NEWCOMER, now);
    // Grow first: this may throw for lack of memory. A new row is only needed when none is free; its number is then the
    // count.
    const { count } = this;
    if (count === this.rows.capacity) {
      const capacity = Math.min(count * 2, Math.max(count + 1, this.#bound));
      this.#workspaceRows.widen(capacity);
      this.rows.widen(capacity);
    }
    const row = this.#index.add(h0, h1, h2);
    if (row === this.#high) this.#high++;
    this.rows.add(row, h0, h1, bucket);
    this.#workspaceRows.add(row, workspaceId, isAdHoc);
  }

  clear(): void {
    this.#index.clear();
    this.rows.clear();
    this.#workspaceRows = new WorkspaceRows(this.rows.capacity);
    this.#high = 0;
    this.#hand.reset();
  }

  #drop(row: number): void {
    this.#index.remove(row);
    this.rows.remove(row);
    this.#workspaceRows.remove(row);
  }

  #visit(steps: number, now: number): void {
    const { rows } = this;
    for (let step = Math.min(steps, this.#high); step > 0; step--) {
      const row = this.#hand.next(this.#high);
      if (rows.has(row) && now - rows.time(row) >= IDLE && rows.utilization(row, now) === 0) this.#drop(row);
    }
  }

  /**
   * The row that a newcomer evicts, or {@link NONE}; it joins `chosen`, with whether it refuses.
   * @param earlier new buckets of this call before it, which are of the same workspace
   */
  #choose(
    { workspaceId }: Newcomer,
    earlier: number,
    mustBeAdHoc: boolean,
    chosen: Map<number, boolean>,
    call: CallRows,
    now: number,
  ): number {
    const workspaceRows = this.#workspaceRows;
    const ranking = mustBeAdHoc ? workspaceRows.adHoc : workspaceRows.all;
    const bound = mustBeAdHoc ? Math.ceil(this.#bound / 2) : this.#bound;
    const workspace = workspaceRows.numberOf(workspaceId);
    const held = ranking.countOf(workspace) + earlier;
    const share = Math.floor(bound / (ranking.holders + (held === earlier ? 1 : 0)));
    const isBelowShare = held < Math.max(share, 1);
    const giver = isBelowShare ? ranking.largest() : workspace;
    if (giver === NO_WORKSPACE) return NONE;
    const probes = isBelowShare ? PROBES_BEFORE_REFUSING : PROBES;
    let best = NONE;
    let lowest = Infinity;
    // Counts only if all refuse.
    let refusing = NONE;
    const probe = (isAdHoc: boolean): void => {
      let row = workspaceRows.handOf(giver, isAdHoc);
      if (row === NO_ROW) return;
      const first = row;
      for (let step = 0; step < probes && lowest > 0; step++) {
        if (!chosen.has(row) && (call.get(row)?.pending ?? 0) === 0) {
          const utilization = this.rows.utilization(row, now);
          if (utilization < lowest) [best, lowest] = [row, utilization];
          else if (refusing === NONE) refusing = row;
        }
        row = workspaceRows.after(row);
        workspaceRows.stopAt(row);
        if (row === first) break;
      }
    };
    if (!mustBeAdHoc) probe(false);
    probe(true);
    const row = best === NONE && isBelowShare ? refusing : best;
    if (row !== NONE) chosen.set(row, best === NONE);
    return row;
  }
}
