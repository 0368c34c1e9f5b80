/** The batch find of a store whose single find costs no round trip. */
import type { KeyRecord, Store } from "../contracts/store.js";
import { isThenable } from "../lib/thenable.js";

/**
 * `findKeys` made of `findKey` (store clause 20): for engines in the same process. Over a network, ask once for all.
 * @returns a synchronous function if `findKey` is synchronous
 */
export function findEach(findKey: Store["findKey"]): Store["findKeys"] {
  return (digests) => {
    const found = digests.map((digest) => findKey(digest));
    return found.some(isThenable) ? Promise.all(found) : (found as (KeyRecord | undefined)[]);
  };
}
