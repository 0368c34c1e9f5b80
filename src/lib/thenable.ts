/**
 * Promises of any kind: another realm's, or a library's own. Stores, limiters and callbacks of the program may return
 * one.
 */
import type { MaybePromise } from "../contracts/types.js";

/** Whether a value is a promise. `instanceof Promise` is faster, and enough for what this package creates itself. */
export function isThenable<T>(value: MaybePromise<T>): value is Promise<T> {
  return typeof (value as Partial<Promise<T>> | null | undefined)?.then === "function";
}
