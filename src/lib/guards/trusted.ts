/** Which stores need no guard: keystile's own, which validate what they read and bound their waiting, and those that are guarded already. */
import type { Store } from "../../contracts/store.js";

/** By identity, so that a copy, a proxy or a store wrapped around one of these is not among them. */
const trusted = new WeakSet<Store>();

/** Counts a store among those that need no guard. */
export function trust<S extends Store>(store: S): S {
  trusted.add(store);
  return store;
}

/** Whether a store's answers may be used as they are. */
export function isTrusted(store: Store): boolean {
  return trusted.has(store);
}
