/** An iterator whose next item may be read while the current one is still being processed. */

/** Reads items, at most one ahead. */
export interface ReadAhead<T> {
  /** The next item; `undefined`: there are no more. */
  next(): Promise<T | undefined>;
  /** Starts reading the next item, unless that has started. Errors are thrown by {@link ReadAhead.next}. */
  start(): void;
  /**
   * Stops reading and closes the source; errors while closing are ignored. Does not wait for a read in progress: the
   * source is closed once that settles, so a source that never settles blocks nothing.
   */
  close(): Promise<void>;
}

/** @param make maps each item as soon as it is read */
export function createReadAhead<T, U>(source: Iterable<T> | AsyncIterable<T>, make: (one: T) => U): ReadAhead<U> {
  const from = Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
  let isReading = false;
  let ahead: Promise<U | undefined> | undefined;
  const read = async (): Promise<U | undefined> => {
    isReading = true;
    try {
      const read = await from.next();
      return read.done === true ? undefined : make(read.value);
    } finally {
      isReading = false;
    }
  };
  return {
    next() {
      const next = ahead ?? read();
      ahead = undefined;
      return next;
    },
    start() {
      if (ahead !== undefined) return;
      ahead = read();
      ahead.catch(ignore);
    },
    async close() {
      const wasReading = isReading;
      const closed = Promise.resolve(from.return?.()).catch(ignore);
      if (!wasReading) await closed;
    },
  };
}

function ignore(): void {}
