/**
 * Where balances are written that were spent from, before they reach their rows. Promises of `exact`, trap 3.
 *
 * The balance of a key is what the newest entry about it says, and otherwise its row. An entry about nothing ends those before it:
 * they were carried over into the rows. Every change of the log gives its last entry the next number, so that number tells whether what is
 * known of it is still so.
 *
 * Why: the rows of 64 keys lie on many pages, each of which a commit writes whole, and its fsync with it; an entry holds all of them on
 * one. With 64 in flight over 1,000 keys a call took 4.4 µs by rows, power-durable, and 3.7 by the log; process-durable 2.4 and 1.6.
 */
import { VerifierError } from "../../errors.js";
import type { Balance } from "../balance.js";
import { changed, type Handle, select } from "./handle.js";
import type { Numbered } from "./save-balances.js";

/** What an entry says of a key: the part of a balance that a spend changes. */
export type Said = Pick<Balance, "remaining" | "period">;

export interface SpendLog {
  /** The number of the last entry that is known; NaN: nothing is known. */
  newest(): number;
  /** What the log says of a key; `undefined`: its row stands. */
  get(n: number): Said | undefined;
  /** Reads what other connections added. Call first in a transaction. */
  begin(): void;
  /** The same outside. @param to the number of the file's last entry, as it was just read */
  catchUp(to: number): void;
  /** Adds an entry. In a transaction. @throws VerifierError STORE_FAILED: it was changed around this connection */
  append(balances: readonly Numbered[]): void;
  /** Whether it holds so much that it is to be carried over. */
  isFull(): boolean;
  /** Ends it with an entry about nothing. In a transaction. @returns what it said, for the rows */
  end(): ReadonlyMap<number, Said>;
  /** After a rollback: what is known may never have been committed. */
  forget(): void;
}

/** The number of the last entry, for other statements. There always is one. */
export const NEWEST = "(SELECT max(seq) FROM keystile_spends)";
/** That an entry is the last, in half the time of asking which is. Of NaN, which binds as NULL, it is false. */
export const NO_NEWER = "NOT EXISTS (SELECT 1 FROM keystile_spends WHERE seq > coalesce(?, 0))";

/** Numbers of a balance in an entry: key, remaining, period. */
const WIDTH = 3;
const BYTES = 8;
const SIZE = WIDTH * BYTES;
/** Balances in all entries: those of 1,000 keys are carried over once in sixteen spends. */
const MOST = 16_384;
/** Keys that it speaks of before it is carried over, with those of its last entry: 8 to 14 ms where each lies on another page. */
const MOST_KEYS = 1_536;

interface Entry {
  readonly seq: number | bigint;
  readonly balances: Uint8Array;
}

export function createSpendLog(handle: Handle): SpendLog {
  const last = select<{ seq: number | bigint }>(handle, `SELECT ${NEWEST} AS seq`);
  const after = select<Entry>(handle, "SELECT seq, balances FROM keystile_spends WHERE seq > ? ORDER BY seq");
  // Said, not bound: some drivers bind an empty blob as NULL.
  const insertEnd = handle.prepare("INSERT INTO keystile_spends (seq, balances) VALUES (?, x'')");
  // Not told by a number that is taken: the entry that had it may have been ended since.
  const insertNext = handle.prepare(`INSERT INTO keystile_spends (seq, balances) SELECT ?, ? WHERE ${NO_NEWER}`);
  const removeAll = handle.prepare("DELETE FROM keystile_spends");
  const encode = createEncode();
  let known = new Map<number, Said>();
  let newest = NaN;
  let size = 0;
  /** Since the transaction began. */
  let isChanged = false;

  const clear = () => {
    known = new Map();
    size = 0;
  };
  const read = ({ seq, balances }: Entry): void => {
    // All of it first: an entry that is half bad says nothing.
    const said = [...decode(balances)];
    if (said.length === 0) clear();
    for (const [n, remaining, period] of said) known.set(n, { remaining, period });
    size += said.length;
    newest = Number(seq);
  };
  const catchUp = (to: number): void => {
    if (to === newest) return;
    // Nothing is known, or the file is older than what is known, which only its owner can have brought about.
    if (!(to > newest)) {
      clear();
      newest = Number.MIN_SAFE_INTEGER;
    }
    for (const entry of after.all(newest)) read(entry);
    newest = Math.max(newest, to);
  };
  return {
    newest: () => newest,
    get: (n) => known.get(n),
    begin() {
      isChanged = false;
      catchUp(Number(last.get()?.seq));
    },
    catchUp,
    append(balances) {
      isChanged = true;
      if (changed(insertNext.run(newest + 1, encode(balances), newest)) !== 1)
        throw new VerifierError("STORE_FAILED", "the log of spends was changed inside a transaction of this store");
      newest++;
      size += balances.length;
      for (const { n, balance } of balances) known.set(n, balance);
    },
    isFull: () => size >= MOST || known.size >= MOST_KEYS,
    end() {
      const said = known;
      isChanged = true;
      removeAll.run();
      insertEnd.run(++newest);
      clear();
      return said;
    },
    forget() {
      // What was only read is true all the same.
      if (isChanged) newest = NaN;
      isChanged = false;
    },
  };
}

/** Into memory that is used again: the driver copies what it binds, and new memory takes as long as the statement. */
function createEncode(): (balances: readonly Numbered[]) => Uint8Array {
  let view = new DataView(new ArrayBuffer(0));
  /** The first bytes of it, by how many balances they hold. */
  let parts: (Uint8Array | undefined)[] = [];
  return (balances) => {
    const { length } = balances;
    if (length * SIZE > view.byteLength) {
      view = new DataView(new ArrayBuffer(2 * length * SIZE));
      parts = [];
    }
    let at = 0;
    for (const { n, balance } of balances) {
      view.setFloat64(at, n);
      view.setFloat64(at + BYTES, balance.remaining);
      view.setFloat64(at + 2 * BYTES, balance.period);
      at += SIZE;
    }
    return (parts[length] ??= new Uint8Array(view.buffer, 0, at));
  };
}

/** @throws VerifierError STORE_INVALID: it holds what is no balance, which is never rounded */
function* decode({ buffer, byteOffset, length }: Uint8Array): Generator<[n: number, remaining: number, period: number]> {
  const view = new DataView(buffer, byteOffset, length);
  if (length % SIZE !== 0) throw invalid();
  for (let at = 0; at < length; at += SIZE) {
    const [n, remaining, period] = [view.getFloat64(at), view.getFloat64(at + BYTES), view.getFloat64(at + 2 * BYTES)];
    if (!Number.isSafeInteger(n) || !Number.isSafeInteger(remaining) || remaining < 0 || !Number.isSafeInteger(period)) throw invalid();
    yield [n, remaining, period];
  }
}

function invalid(): VerifierError {
  return new VerifierError("STORE_INVALID", "the file has a log of spends that does not hold whole numbers; restore it from a copy");
}
