/** Size at which the write-ahead log (WAL) is checkpointed: one for single commits, one for imports. */
import type { Connection } from "./open.js";
import type { Transact } from "./transaction.js";

/**
 * Pages, for single commits. A commit that extends the WAL file takes 340 µs, one that overwrites earlier pages 180
 * (durability "power"; a bare update 130), and a short WAL soon stops growing.
 */
const SHORT = 1_000;
/** Pages, for imports: at 1,000 every batch triggered a checkpoint and took 1.3 times as long. */
const LONG = 4_000;

/** The same transactions with a short and with a long WAL. The caller's own handle keeps its setting. */
export function sizeLog({ handle, isShared, transact }: Connection): {
  readonly short: Transact;
  readonly long: Transact;
} {
  if (isShared) return { short: transact, long: transact };
  let current = 0;
  const withPages =
    (pages: number): Transact =>
    (work, onUndone) => {
      if (current !== pages) handle.exec(`PRAGMA wal_autocheckpoint = ${(current = pages)}`);
      return transact(work, onUndone);
    };
  return { short: withPages(SHORT), long: withPages(LONG) };
}
