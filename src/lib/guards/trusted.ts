/**
 * Stores that need no guard: keystile's own, which validate what they read and bound their waiting, and guarded ones.
 */
import type { Store } from "../../contracts/store.js";

/** By identity, so that a copy, a proxy or a wrapper of one of these is not trusted. */
const trusted = new WeakSet<Store>();

/** Marks a store as one that needs no guard. */
export function trust<S extends Store>(store: S): S {
  trusted.add(store);
  return store;
}

/** Whether a store's results may be used without validation. */
export function isTrusted(store: Store): boolean {
  return trusted.has(store);
}
