/** How long the write-ahead log grows before it is carried over into the file. Knows two kinds of work, nothing of keys. */
import type { Connection } from "./open.js";
import type { Transact } from "./transaction.js";

/**
 * Pages, for single commits. A commit that makes the log longer than it ever was takes 340 µs where one that writes over it takes
 * 180 (power-durable; a bare update 130): a short log soon stops growing.
 */
const SHORT = 1_000;
/** Pages, for imports: at 1,000 every batch carried it over, and took 1.3 times as long. */
const LONG = 4_000;

/** The same transactions, with the log kept short, or allowed to grow. A handle of its owner keeps the setting that it has. */
export function sizeLog({ handle, isShared, transact }: Connection): {
  readonly short: Transact;
  readonly long: Transact;
} {
  if (isShared) return { short: transact, long: transact };
  let set = 0;
  const within =
    (pages: number): Transact =>
    (work, onUndone) => {
      if (set !== pages) handle.exec(`PRAGMA wal_autocheckpoint = ${(set = pages)}`);
      return transact(work, onUndone);
    };
  return { short: within(SHORT), long: within(LONG) };
}
