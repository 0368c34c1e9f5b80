/** What a store tells of its own state: for readiness checks and metrics. */

/** Numbers since the store was opened, unless said otherwise. None of them names a key. */
export interface StoreCounters {
  /** Bytes of the write-ahead log at the moment. It grows while a reader of any process stays at an old state. */
  readonly walBytes: number;
  /** Times that the log was carried over as a whole and begun anew, by any process. */
  readonly checkpoints: number;
  /** Times that a call found the file locked and had to wait; a group of spends counts once. */
  readonly lockWaits: number;
  /** Milliseconds for which the file was found locked. */
  readonly lockWaitMs: number;
  /** Calls that failed with STORE_BUSY. */
  readonly busyErrors: number;
  /** Transactions that failed on the disk: I/O errors and full disks. */
  readonly failedWrites: number;
  /** Those of them that failed in fsync. */
  readonly failedSyncs: number;
  /** Returns of leased credits that failed; the verifier tries them again. */
  readonly failedReturns: number;
  /** Refills that were forfeited because a clock jumped ahead, or a key was idle for long. */
  readonly forfeitedRefills: number;
}

/** Result of a health check of a store. */
export interface StoreHealth {
  /** No problem was found: the store may be relied on. */
  readonly ok: boolean;
  /** What is wrong, a sentence each, without names of files or keys. */
  readonly problems: readonly string[];
  /** What deserves attention and does not stand in the way of requests, a sentence each. */
  readonly warnings: readonly string[];
  readonly counters: StoreCounters;
}
