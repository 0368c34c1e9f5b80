/**
 * Writes counts of verifications to the store, and removes old ones.
 *
 * Counts are written in pieces. Each piece has a sequence number of this process, and the store accepts each number
 * once. If it is unknown whether a piece was written, the same piece is sent again, so that none counts twice. A crash
 * loses the counts since the last piece.
 */
import {
  type FlushResult,
  LEVELS,
  type OutcomeCell,
  type OutcomeFlush,
  type OutcomeLevel,
} from "../contracts/outcomes.js";
import { isKeystileError } from "../contracts/errors.js";
import type { Store } from "../contracts/store.js";
import { fireAndForget } from "../lib/callbacks.js";
import { newSecret } from "../lib/hash.js";
import { startTimer, setTimeout } from "../lib/timers.js";
import { textOf } from "./outcome-meter.js";

/** Most cells of a piece, and most characters of their tags; a piece of one cell may exceed the latter. */
const PIECE = 50;
const PIECE_CHARACTERS = 65_536;
/** What a refusal counts as among them. */
const REFUSAL_CHARACTERS = 512;
/** Milliseconds for which a piece may keep a thread busy: if it took longer, the next piece has half as many cells. */
const MAX_BUSY = 4;
/** The longest pause before a piece is sent again, milliseconds. */
const MAX_PAUSE = 60_000;
/** Milliseconds that `close` waits for the store to take the last pieces. */
const CLOSE_TIMEOUT = 5_000;
/** Milliseconds between two removals of old counts, and most counts removed by one call. */
const PRUNE_EVERY = 600_000;
const PRUNED = 1_000;

/** What the pieces of this process are known by. */
const newSource = (): string => newSecret().slice(0, 32);

/** What a writer takes of the options of analytics, with their defaults. */
export interface WriterOptions {
  /** Milliseconds between two writes. */
  readonly interval: number;
  readonly tagSets: number;
  /** Days for which counts of each length are kept. */
  readonly keep?: Partial<Readonly<Record<OutcomeLevel, number | undefined>>> | undefined;
  readonly onFlush?: ((flush: OutcomeFlush) => unknown) | undefined;
}

/** Writes the counts of one verifier. */
export class OutcomeWriter {
  /** Time of the last call that was counted: background work must not call a clock that may fail. */
  latest = 0;
  /** Calls that the store counted as `(other)`. */
  aggregated = 0;
  /** Calls that were given up and are not in the store. */
  lost = 0;
  readonly #store: Store;
  readonly #options: WriterOptions;
  #source = "";
  #seq = 0;
  /** Most cells of the next piece. */
  #most = PIECE;
  /** Whether the store took the last piece. */
  #isWritten = true;
  #pruneAt = 0;
  #closesAt = Infinity;
  /** Ends the pause before a repeat. */
  #wake: (() => void) | undefined;

  constructor(store: Store, options: WriterOptions) {
    this.#store = store;
    this.#options = options;
  }

  /** Whether {@link OutcomeWriter.close} was called. */
  get isClosing(): boolean {
    return this.#closesAt !== Infinity;
  }

  /** Sends a piece again at once that waits for it. */
  hurry(): void {
    this.#wake?.();
  }

  /** From now on the store has 5 s to take what is left. */
  close(): void {
    this.#closesAt = performance.now() + CLOSE_TIMEOUT;
    this.hurry();
  }

  /**
   * Writes all cells, or gives them up. Never rejects.
   * @returns the sets of tags that the store refused, by workspace
   */
  async write(cells: Iterable<OutcomeCell>): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
    const refused = new Map<string, Set<string>>();
    let isWritten = true;
    for (const piece of this.#piecesOf(cells)) {
      const result: FlushResult | undefined = isWritten ? await this.#send(piece) : undefined;
      this.#isWritten = isWritten = result !== undefined;
      if (result === undefined) this.lost += callsIn(piece);
      else this.#note(piece, result, refused);
    }
    return refused;
  }

  /** Removes old counts, now and then. Never rejects: what fails is tried again ten minutes later. */
  async prune(): Promise<void> {
    // A process that has counted nothing removes nothing.
    const now = this.latest;
    if (!this.#isWritten || now < this.#pruneAt || this.#source === "") return;
    this.#pruneAt = now + PRUNE_EVERY;
    const days = { minute: 1, hour: 14, day: 400, ...this.#options.keep };
    try {
      for (const level of Object.keys(LEVELS) as OutcomeLevel[]) {
        const before = now - (days[level] as number) * LEVELS.day;
        // Once at least: processes that close after each job would leave everything to others.
        while ((await this.#store.pruneOutcomes(level, before, PRUNED)) === PRUNED && !this.isClosing)
          await this.#pause(10);
      }
    } catch {
      // As above.
    }
  }

  /** @returns undefined: the piece was given up and is not in the store */
  async #send(piece: readonly OutcomeCell[]): Promise<FlushResult | undefined> {
    const { interval, tagSets, onFlush } = this.#options;
    this.#source ||= newSource();
    const seq = this.#seq + 1;
    let flush: OutcomeFlush = { source: this.#source, seq, at: this.latest, maxTagSets: tagSets, cells: piece };
    for (let wait = Math.min(1_000, interval); ; wait = Math.min(wait * 2, MAX_PAUSE)) {
      try {
        const result = await this.#store.countOutcomes(flush);
        if (result.outcome !== "gap") {
          this.#seq = flush.seq;
          if (onFlush !== undefined) fireAndForget(() => onFlush(flush));
          return result;
        }
        // The store has forgotten this source, so it did not count the piece.
        this.#source = newSource();
        flush = { ...flush, source: this.#source, seq: 1 };
      } catch (error) {
        if (isKeystileError(error) && error.code === "STORE_CLOSED") return undefined;
        const left = this.#closesAt - performance.now();
        if (left <= 0) return undefined;
        await this.#pause(Math.min(wait, left));
      }
    }
  }

  /** Keeps the process alive for who waits for {@link OutcomeWriter.close}. */
  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      if (this.isClosing) setTimeout(resolve, ms);
      else startTimer(resolve, ms);
    });
  }

  /** Counts calls that the store counted as `(other)`, and adapts the size of the next piece. */
  #note(piece: readonly OutcomeCell[], { busy = 0, folded }: FlushResult, refused: Map<string, Set<string>>): void {
    this.#most = busy > MAX_BUSY ? Math.max(1, Math.floor(piece.length / 2)) : Math.min(PIECE, this.#most * 2);
    const others = folded.flatMap((place) => piece[place] ?? []);
    this.aggregated += callsIn(others);
    for (const { workspaceId, tags } of others) {
      const sets = refused.get(workspaceId) ?? new Set();
      refused.set(workspaceId, sets.add(textOf(tags)));
    }
  }

  *#piecesOf(cells: Iterable<OutcomeCell>): Generator<readonly OutcomeCell[]> {
    let piece: OutcomeCell[] = [];
    let characters = 0;
    for (const cell of cells) {
      const { tags, refusals = [] } = cell;
      const more = tags.reduce((sum, { length }) => sum + length, refusals.length * REFUSAL_CHARACTERS);
      if (piece.length >= this.#most || (piece.length > 0 && characters + more > PIECE_CHARACTERS)) {
        yield piece;
        piece = [];
        characters = 0;
      }
      piece.push(cell);
      characters += more;
    }
    if (piece.length > 0) yield piece;
  }
}

function callsIn(cells: readonly OutcomeCell[]): number {
  return cells.reduce((sum, { counts }) => sum + counts.reduce((all, count) => all + count, 0), 0);
}
