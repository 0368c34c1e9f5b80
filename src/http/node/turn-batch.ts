/**
 * Lets requests that arrive side by side be answered side by side: what one turn of the event loop asks of the store, or commits to it,
 * serves them all. Knows no request.
 */

/** Runs every act of one turn of the event loop at its end, in order. */
export type TurnBatch = (act: () => void) => void;

/**
 * @param atEnd runs a function when input has been read for now: `setImmediate`
 * @see measured with 32 connections on a SQLite file: 29 µs of processor time a verification, 66 without it
 */
export function createTurnBatch(atEnd: (flush: () => void) => unknown): TurnBatch {
  let waiting: (() => void)[] = [];
  const flush = (): void => {
    const acts = waiting;
    waiting = [];
    for (const act of acts) act();
  };
  return (act) => {
    if (waiting.push(act) === 1) atEnd(flush);
  };
}
