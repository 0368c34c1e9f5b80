/**
 * Changing all keys that a list has, those that are made meanwhile too. A key that was rotated after its page was read
 * has a replacement on a page that was read before, or on none: only another pass finds it.
 */
import { KeystileError } from "../contracts/errors.js";

/** Each but the last found keys that were made during the one before. */
const MAX_PASSES = 20;

/**
 * Goes through a list again until a pass finds nothing to do.
 * @param pass the pages of a pass, which the caller changes as they come; passes count from 0
 * @param hasWork whether a page of pass `n` had anything to change
 * @throws (rejects) KeystileError STORE_BUSY: 20 passes all found some, and some may be left
 */
export async function* repeatPasses<P>(
  pass: (n: number) => AsyncIterable<P>,
  hasWork: (page: P, n: number) => boolean,
): AsyncGenerator<P> {
  for (let n = 0; n < MAX_PASSES; n++) {
    let found = false;
    for await (const page of pass(n)) {
      found ||= hasWork(page, n);
      yield page;
    }
    if (!found) return;
  }
  throw new KeystileError("STORE_BUSY", "others kept making keys that are to be changed; change all again");
}
