/** Promises of any kind: of another realm, or a library's own. What a program brings may answer with one. */
import type { MaybePromise } from "../contracts/types.js";

/** Whether an answer is still to come. `instanceof Promise` is faster, and right for what this package makes itself. */
export function isThenable<T>(answer: MaybePromise<T>): answer is Promise<T> {
  return typeof (answer as Partial<Promise<T>> | null | undefined)?.then === "function";
}
