/** Commits to a file that another program may delete, replace or truncate, on a disk that may fail. */
import type { FileWatch } from "./connection.js";
import type { Counters } from "./counters.js";
import { isBusy, isOfDisk, isSyncFailure, toCommitError } from "./errors.js";

/**
 * Wraps what commits: the file is checked before, and what fails on the disk is counted afterwards. A lock, and an
 * error of the work itself, are not of the disk.
 */
export function guardCommits<A extends unknown[], T>(
  file: FileWatch,
  counters: Counters,
  commit: (...given: A) => T,
): (...given: A) => T {
  return (...given) => {
    file.assertRecent();
    let result: T;
    try {
      result = commit(...given);
    } catch (cause) {
      if (!isBusy(cause) && isOfDisk(cause)) {
        counters.failedWrites++;
        counters.failedInARow++;
        if (isSyncFailure(cause)) counters.failedSyncs++;
      }
      throw toCommitError(cause, file.isFull);
    }
    if (counters.failedInARow > 0 && result !== undefined) counters.failedInARow = 0;
    return result;
  };
}
