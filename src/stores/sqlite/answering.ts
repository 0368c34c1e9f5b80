/** Answers at once, and later where another process holds the file. Trap 4. Knows no table. */
import type { MaybePromise } from "../../types.js";
import { isBusy, toStoreError } from "./errors.js";
import { afterPause, patiently } from "./transaction.js";

export interface Answering {
  /** Makes work answer at once, unless the file is locked: then later. */
  atOnce<A extends unknown[], T>(work: (...given: A) => T): (...given: A) => MaybePromise<Awaited<T>>;
  /** After a failure: does the work again, after a pause, if the file was locked. @throws VerifierError for any other fault */
  again<T>(cause: unknown, work: () => T): Promise<T>;
  /** Does the work as soon as the file lets it, within the busy timeout. @throws (rejects) VerifierError STORE_… */
  later<T>(work: () => T): Promise<T>;
}

/**
 * @param assertOpen throws once the store is closed; asked before every attempt
 * @param busyTimeout milliseconds for which a locked file is waited for
 */
export function createAnswering(assertOpen: () => void, busyTimeout: number): Answering {
  const later = async <T>(work: () => T): Promise<T> => {
    const attempt = () => {
      assertOpen();
      return work();
    };
    return patiently(attempt, busyTimeout).catch((cause: unknown) => {
      throw toStoreError(cause);
    });
  };
  const again = <T>(cause: unknown, work: () => T): Promise<T> => {
    if (!isBusy(cause)) throw toStoreError(cause);
    return new Promise<void>(afterPause).then(() => later(work));
  };
  return {
    atOnce:
      <A extends unknown[], T>(work: (...given: A) => T) =>
      (...given: A): MaybePromise<Awaited<T>> => {
        assertOpen();
        try {
          return work(...given) as Awaited<T>;
        } catch (cause) {
          return again(cause, () => work(...given) as Awaited<T>);
        }
      },
    again,
    later,
  };
}
