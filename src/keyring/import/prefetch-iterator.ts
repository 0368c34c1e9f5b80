/** One thing after another, of which the next may be read while the last is still worked on. Ruling E6. Knows nothing of keys. */

/** What is read, and at most one of it ahead. */
export interface ReadAhead<T> {
  /** The next one; `undefined`: there are no more. */
  next(): Promise<T | undefined>;
  /** Begins to read the next one, unless that has begun. What it throws, {@link ReadAhead.next} throws in its turn. */
  start(): void;
  /**
   * Ends reading and closes the source, whose faults in closing are told to nobody. Does not wait for a source that is being read:
   * that is closed once it has answered, so that one that never does holds nothing up.
   */
  close(): Promise<void>;
}

/** @param make what becomes of each one as soon as it is read */
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
