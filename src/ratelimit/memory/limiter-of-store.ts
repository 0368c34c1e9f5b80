/**
 * The default limiter: one for each store in a process, however many verifiers are made on the store.
 *
 * Why by the clock too: a limiter follows the latest time that it was told, so a verifier whose clock is ahead would
 * keep the buckets of all others from being refilled.
 */
import type { Store } from "../../contracts/store.js";
import { type PlacedLimiter, placedLimiter } from "./limiter.js";

const limiters = new WeakMap<Store, WeakMap<() => number, PlacedLimiter>>();

/** The limiter of a store, for those that tell time by this function; it goes with the store. */
export function limiterOfStore(store: Store, clock: () => number): PlacedLimiter {
  let ofStore = limiters.get(store);
  if (ofStore === undefined) limiters.set(store, (ofStore = new WeakMap()));
  let limiter = ofStore.get(clock);
  if (limiter === undefined) ofStore.set(clock, (limiter = placedLimiter()));
  return limiter;
}
