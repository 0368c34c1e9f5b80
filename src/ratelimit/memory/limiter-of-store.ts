/**
 * The default limiter: one for each store and clock in a process, shared by all verifiers that use them.
 *
 * Why by clock: a limiter's time is the latest that it was given, so a verifier whose clock is ahead would keep the
 * buckets of all others from refilling.
 */
import type { Store } from "../../contracts/store.js";
import { type PlacedLimiter, placedLimiter } from "./limiter.js";

const limiters = new WeakMap<Store, WeakMap<() => number, PlacedLimiter>>();

/** The limiter of a store and clock; it is garbage-collected with the store. */
export function limiterOfStore(store: Store, clock: () => number): PlacedLimiter {
  let ofStore = limiters.get(store);
  if (ofStore === undefined) limiters.set(store, (ofStore = new WeakMap()));
  let limiter = ofStore.get(clock);
  if (limiter === undefined) ofStore.set(clock, (limiter = placedLimiter()));
  return limiter;
}
