/**
 * The log of spends: balances after a spend are written here first, and later checkpointed into their rows.
 *
 * A key's balance is in the newest entry that has it, else in its row. An empty entry marks a checkpoint: all entries
 * before it are in the rows. Entry `seq` overwrites slot `seq % 256`, so the slot of the next number shows whether
 * there is an entry newer than the newest one known.
 *
 * Why: the rows of 64 keys lie on many pages, each of which a commit writes and syncs in full; one entry on one page
 * holds all of them. Why slots of a fixed size: overwriting changes one page, appending 2.5 on average. A commit of 64
 * spends takes 4 µs more than that of a single update; with appended entries it took 16 more.
 */
import { KeystileError } from "../../../contracts/errors.js";
import type { Balance } from "../../../credits/balance.js";
import { changed, type Handle, select } from "../connection/handle.js";
import type { BalanceOf } from "./update-balances.js";

/** The part of a balance that a spend changes. */
export type LoggedBalance = Pick<Balance, "remaining" | "period">;

export interface SpendLog {
  /** `seq` of the newest entry read; NaN: none was read yet. */
  newest(): number;
  /** The logged balance of a key; `undefined`: its row is current. */
  get(n: number): LoggedBalance | undefined;
  /**
   * Call first in a transaction: reads what other connections added.
   * @param mayBeStale whether they may have written since the last transaction
   */
  begin(mayBeStale: boolean): void;
  /** The same outside a transaction. */
  poll(): void;
  /** Whether this many balances can be added; otherwise checkpoint first. */
  hasRoom(count: number): boolean;
  /**
   * Adds balances, after {@link SpendLog.hasRoom}. In a transaction.
   * @throws KeystileError STORE_FAILED: the log changed inside this transaction
   */
  append(balances: readonly BalanceOf[]): void;
  /** Adds an empty entry, which ends the log. In a transaction. @returns the logged balances, to write to the rows */
  end(): ReadonlyMap<number, LoggedBalance>;
  /** Call after a rollback: cached entries may never have been committed. */
  forget(): void;
}

/** SQL condition: whether there is a newer entry. Parameters: slot of the next entry, `seq` of the newest known. */
export const IS_NEWER = "EXISTS (SELECT 1 FROM keystile_spends WHERE slot = ? AND seq > ?)";

/** Numbers per balance in an entry: key, remaining, period. Key 0 does not exist: it ends an entry that is not full. */
const WIDTH = 3;
const BYTES = 8;
const SIZE = WIDTH * BYTES;
/** Balances per entry. Two entries fill a page. */
const BALANCES = 64;
const LENGTH = BALANCES * SIZE;
/** With 64 spends at a time over 1,000 keys, each key is checkpointed once in 16 spends. The file grows by 516 KB. */
const SLOTS = 256;
/**
 * With this many keys it is checkpointed: 8 to 14 ms if each row is on another page. The last entries may exceed it.
 */
const MAX_LOGGED_KEYS = 1_536;

/** Part of the file format. */
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
  /** Entries since the last empty one. */
  let entries = 0;
  /** Whether this transaction added entries. */
  let isChanged = false;

  /** @returns its number */
  const read = ({ seq, balances }: Entry): number => {
    // Decoded completely before any of it is used: a partly invalid entry is rejected as a whole.
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
    const live = end < 0 ? all : all.slice(0, end + 1);
    clear();
    // Set only once all entries are read, so that an invalid entry fails every time.
    newest = NaN;
    let last = 0;
    for (const entry of live.reverse()) last = read(entry);
    newest = last;
  };
  /** @returns false: the known entries are not in this file, or the next ones have been overwritten */
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
    begin(mayBeStale) {
      isChanged = false;
      if (mayBeStale || Number.isNaN(newest)) poll();
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
      // Entries that were only read were committed by others and stay valid.
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

/** Whether an entry is empty, which ends the log. */
function isEnd({ buffer, byteOffset, length }: Uint8Array): boolean {
  return length === LENGTH && new DataView(buffer, byteOffset, length).getFloat64(0) === 0;
}

/** @throws KeystileError STORE_INVALID: it has an invalid balance, which is never rounded */
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
    "the file has a log of spends that does not hold whole numbers; restore it from a backup",
  );
}
