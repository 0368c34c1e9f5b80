/** What the tables run on: an open database, and what its engine does around each call. Needs no Node module. */
import type { StorePowers } from "../../../contracts/store.js";
import type { Handle } from "./handle.js";

/** Watches the file of an open connection. */
export interface FileWatch {
  /** Without symbolic links; empty for a database in memory. */
  readonly path: string;
  /**
   * Looks at the file: 2 µs. Once it was found changed, every later call throws.
   * @throws KeystileError STORE_FILE_CHANGED: it was deleted, replaced or truncated
   */
  assertSame(): void;
  /** The same, unless it was looked at within the last millisecond. */
  assertRecent(): void;
  /** Whether the disk or the quota has no space, found by writing a file beside the database; once a second at most. */
  isFull(): boolean;
}

/**
 * Runs `work` as one transaction: committed if it returns a value, rolled back if it throws or returns `undefined`.
 * Returns only after COMMIT has.
 * @param onUndone called after a rollback: nothing that `work` read or wrote holds. A lock is met before `work`, or at
 * COMMIT
 */
export type Transact = <T>(work: () => T | undefined, onUndone?: () => void) => T | undefined;

/** A configured connection, with its tables in place. */
export interface Connection {
  readonly handle: Handle;
  readonly file: FileWatch;
  readonly transact: Transact;
  /** The same for imports, which let the log grow longer. */
  readonly transactLong: Transact;
  /** Runs one attempt to get a lock, for which the driver itself may wait briefly. */
  probe(attempt: () => void): void;
  /** Other code may write through the same handle. */
  readonly isShared: boolean;
  /** The finds of a turn may share a transaction. */
  readonly sharesReads: boolean;
  /** A number that differs once another connection has committed. */
  dataVersion(): number | undefined;
  /** @throws KeystileError STORE_SCHEMA_NEWER or STORE_INVALID: another connection has changed the tables */
  assertSchema(): void;
  readonly powers: Pick<StorePowers, "changes" | "durability">;
  /** Closes a handle that was opened here; one passed by the caller stays open. */
  close(): void;
}

/** Of a database that has no file: nobody can delete or replace it. */
export const NO_FILE: FileWatch = Object.freeze({
  path: "",
  assertSame: () => undefined,
  assertRecent: () => undefined,
  isFull: () => false,
});
