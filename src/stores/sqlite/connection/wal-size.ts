/** Size at which the write-ahead log (WAL) is checkpointed: one for single commits, one for imports. */
import type { Handle } from "./handle.js";
import type { Connection } from "./connection.js";
import type { Transact } from "./transaction.js";

/**
 * Pages, for single commits. A commit that extends the WAL file takes 340 µs, one that overwrites earlier pages 180
 * (durability "power"; a bare update 130), and a short WAL soon stops growing.
 */
const SHORT = 1_000;
/** Pages, for imports: at 1,000 every batch triggered a checkpoint and took 1.3 times as long. */
const LONG = 4_000;

/** The same transactions with a short and with a long WAL. */
export function sizeLog(handle: Handle, transact: Transact): Pick<Connection, "transact" | "transactLong"> {
  let current = 0;
  const withPages =
    (pages: number): Transact =>
    (work, onUndone) => {
      if (current !== pages) handle.exec(`PRAGMA wal_autocheckpoint = ${(current = pages)}`);
      return transact(work, onUndone);
    };
  return { transact: withPages(SHORT), transactLong: withPages(LONG) };
}
