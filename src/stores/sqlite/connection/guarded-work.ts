/** Work on a file that another program may delete, replace or truncate: the file is checked, and errors say so. */
import { countFailures, type Counters } from "./counters.js";
import type { FileWatch } from "./connection.js";
import { toCommitError } from "./errors.js";

type Wrap = <A extends unknown[], T>(work: (...given: A) => T) => (...given: A) => T;

export interface GuardedWork {
  /** Checks the file when a read fails: what it meets in one that was deleted or truncated may look like damage. */
  readonly reading: Wrap;
  /** Checks the file before each commit, counts what fails on the disk, and finds out whether the disk is full. */
  readonly committing: Wrap;
}

export function createGuardedWork(file: FileWatch, counters: Counters): GuardedWork {
  return {
    reading:
      (work) =>
      (...given) => {
        try {
          return work(...given);
        } catch (cause) {
          file.assertSame();
          throw cause;
        }
      },
    committing(commit) {
      const counted = countFailures(counters, commit);
      return (...given) => {
        file.assertRecent();
        try {
          return counted(...given);
        } catch (cause) {
          throw toCommitError(cause, file.isFull);
        }
      };
    },
  };
}
