/**
 * Where balances that were spent from are written before they reach their rows. Promises of `exact`, trap 3.
 *
 * A key's balance is what the newest entry about it says, else its row. An empty entry ends those before it: they were carried over
 * into the rows. Entries are numbered; each overwrites the slot of its number. So the slot of the next number tells whether there is
 * an entry newer than the newest known.
 *
 * Why: the rows of 64 keys lie on many pages, each of which a commit writes and syncs whole; an entry holds all of them on one. Why
 * slots of one size: overwriting changes one page, adding an entry 2.5 on average. A commit of 64 spends takes 4 µs more than that of a
 * single update; with added entries it took 16 more.
 */
import { KeystileError } from "../../../contracts/errors.js";
import type { Balance } from "../../../credits/balance.js";
import { changed, type Handle, select } from "../connection/handle.js";
import type { BalanceOf } from "./update-balances.js";

/** What an entry says of a key: the part of a balance that a spend changes. */
export type LoggedBalance = Pick<Balance, "remaining" | "period">;

export interface SpendLog {
  /** The number of the newest entry that is known; NaN: nothing is known. */
  newest(): number;
  /** What the log says of a key; `undefined`: its row stands. */
  get(n: number): LoggedBalance | undefined;
  /** Reads what other connections added. Call first in a transaction. @param isMoved they may have, since the last one */
  begin(isMoved: boolean): void;
  /** The same outside. */
  poll(): void;
  /** Whether so many balances can be added; otherwise it is to be carried over. */
  hasRoom(count: number): boolean;
  /** Adds balances that it has room for. In a transaction. @throws KeystileError STORE_FAILED: it was changed around this connection */
  append(balances: readonly BalanceOf[]): void;
  /** Ends it with an entry about nothing. In a transaction. @returns what it said, for the rows */
  end(): ReadonlyMap<number, LoggedBalance>;
  /** After a rollback: what is known may never have been committed. */
  forget(): void;
}

/** Whether there is a newer entry, for other statements. Asked with the slot of the next and the newest that is known. */
export const IS_NEWER = "EXISTS (SELECT 1 FROM keystile_spends WHERE slot = ? AND seq > ?)";

/** Numbers of a balance in an entry: key, remaining, period. No key is 0: that ends an entry which is not full. */
const WIDTH = 3;
const BYTES = 8;
const SIZE = WIDTH * BYTES;
/** Balances of an entry. Two entries fill a page. */
const BALANCES = 64;
const LENGTH = BALANCES * SIZE;
/** With 64 spends at a time over 1,000 keys, each is carried over once in 16 spends. The file grows by 516 KB. */
const SLOTS = 256;
/** From this many keys on it is carried over: 8 to 14 ms where each lies on another page. The last entries may pass it. */
const MAX_LOGGED_KEYS = 1_536;

/** Part of the form of the file. */
export function slotOf(seq: number): number {
  return seq % SLOTS;
}

interface Entry {
  readonly seq: number | bigint;
  readonly balances: Uint8Array;
}

export function createSpendLog(handle: Handle): SpendLog {
  const inSlot = select<Entry>(handle, "SELECT seq, balances FROM keystile_spends WHERE slot = ?");
  const newestFirst = select<Entry>(handle, "SELECT seq, balances FROM keystile_spends ORDER BY seq DESC");
  const put = handle.prepare(
    `INSERT INTO keystile_spends (slot, seq, balances) VALUES (?, ?, ?)
     ON CONFLICT (slot) DO UPDATE SET seq = excluded.seq, balances = excluded.balances WHERE seq < excluded.seq`,
  );
  const encode = createEncode();
  const known = new Map<number, LoggedBalance>();
  let newest = NaN;
  /** Entries from the last end on. */
  let entries = 0;
  /** Since the last transaction began. */
  let isChanged = false;

  /** @returns its number */
  const read = ({ seq, balances }: Entry): number => {
    // All of it first: an entry that is half bad says nothing.
    const logged = [...decode(balances)];
    if (logged.length === 0) clear();
    for (const [n, remaining, period] of logged) known.set(n, { remaining, period });
    entries++;
    return Number(seq);
  };
  const clear = () => {
    known.clear();
    entries = 0;
  };
  const readAll = () => {
    const all = newestFirst.all();
    const end = all.findIndex(({ balances }) => isEnd(balances));
    const standing = end < 0 ? all : all.slice(0, end + 1);
    clear();
    // Known once all of it is: a bad entry fails every time.
    newest = NaN;
    let last = 0;
    for (const entry of standing.reverse()) last = read(entry);
    newest = last;
  };
  /** @returns false: what is known is not of this file, or what comes next has been written over */
  const readNewer = (): boolean => {
    if (newest > 0 && !(Number(inSlot.get(slotOf(newest))?.seq) >= newest)) return false;
    for (;;) {
      const entry = inSlot.get(slotOf(newest + 1));
      if (entry === undefined || entry.seq <= newest) return true;
      if (Number(entry.seq) !== newest + 1) return false;
      newest = read(entry);
    }
  };
  const poll = () => {
    if (Number.isNaN(newest) || !readNewer()) readAll();
  };
  const add = (balances: readonly BalanceOf[]): void => {
    isChanged = true;
    const next = newest + 1;
    if (changed(put.run(slotOf(next), next, encode(balances))) !== 1)
      throw new KeystileError("STORE_FAILED", "the log of spends was changed inside a transaction of this store");
    newest = next;
    entries++;
  };
  return {
    newest: () => newest,
    get: (n) => known.get(n),
    begin(isMoved) {
      isChanged = false;
      if (isMoved || Number.isNaN(newest)) poll();
    },
    poll,
    hasRoom: (count) => known.size < MAX_LOGGED_KEYS && entries + Math.ceil(count / BALANCES) <= SLOTS,
    append(balances) {
      for (let start = 0; start < balances.length; start += BALANCES) add(balances.slice(start, start + BALANCES));
      for (const { n, balance } of balances) known.set(n, balance);
    },
    end() {
      const logged = new Map(known);
      clear();
      add([]);
      return logged;
    },
    forget() {
      // What was only read is true all the same.
      if (isChanged) newest = NaN;
      isChanged = false;
    },
  };
}

/** Reuses one buffer, since the driver copies what it binds. */
function createEncode(): (balances: readonly BalanceOf[]) => Uint8Array {
  const bytes = new Uint8Array(LENGTH);
  const view = new DataView(bytes.buffer);
  return (balances) => {
    let at = 0;
    for (const { n, balance } of balances) {
      view.setFloat64(at, n);
      view.setFloat64(at + BYTES, balance.remaining);
      view.setFloat64(at + 2 * BYTES, balance.period);
      at += SIZE;
    }
    return bytes.fill(0, at);
  };
}

/** Whether an entry is about nothing. */
function isEnd({ buffer, byteOffset, length }: Uint8Array): boolean {
  return length === LENGTH && new DataView(buffer, byteOffset, length).getFloat64(0) === 0;
}

/** @throws KeystileError STORE_INVALID: it holds what is no balance, which is never rounded */
function* decode({
  buffer,
  byteOffset,
  length,
}: Uint8Array): Generator<[n: number, remaining: number, period: number]> {
  const view = new DataView(buffer, byteOffset, length);
  if (length !== LENGTH) throw invalid();
  for (let at = 0; at < length; at += SIZE) {
    const [n, remaining, period] = [view.getFloat64(at), view.getFloat64(at + BYTES), view.getFloat64(at + 2 * BYTES)];
    if (n === 0) return;
    if (!Number.isSafeInteger(n) || !Number.isSafeInteger(remaining) || remaining < 0 || !Number.isSafeInteger(period))
      throw invalid();
    yield [n, remaining, period];
  }
}

function invalid(): KeystileError {
  return new KeystileError(
    "STORE_INVALID",
    "the file has a log of spends that does not hold whole numbers; restore it from a copy",
  );
}
