/**
 * How a walk over many keys shares the event loop: the slice that it asks for grows and shrinks with what the store
 * takes of a turn, and others get their turn after a few milliseconds.
 */
import type { MaybePromise } from "../../contracts/types.js";
import { badRequest } from "../../contracts/errors.js";
import type { Context } from "../context.js";

/** Keys of the first slice, and of the largest. */
const FIRST = 256;
const MAX = 8_192;
/** A slice of more keys grows only while the answer comes within so many milliseconds: a page waits for the last. */
const LONG = 1_024;
const LONG_MS = 15;
/** Milliseconds of a turn after which others get theirs; a slice has at most half of it. */
const TURN_MS = 3;

export function createSlicing({ turns, isGone }: Pick<Context, "turns" | "isGone">) {
  let among = FIRST;
  let began = performance.now();
  return {
    /** Keys that the next slice may look at. */
    among: (): number => among,
    /** Runs a call of the store. */
    async timed<T>(call: () => MaybePromise<T>): Promise<T> {
      const asked = performance.now();
      const answer = call();
      // What a store takes before it returns, it takes of this turn.
      const took = performance.now() - asked;
      const found = await answer;
      if (took > TURN_MS / 2) among = Math.max(1, among >> 1);
      else if (took < TURN_MS / 4 && (among < LONG || performance.now() - asked < LONG_MS))
        among = Math.min(MAX, among * 2);
      return found;
    },
    /**
     * Lets others have their turn, if this one has taken long enough.
     * @throws (rejects) KeystileError BAD_REQUEST: nobody waits for the answer any more
     */
    async yield(): Promise<void> {
      if (isGone?.() === true) throw badRequest([{ location: "request", message: "was given up by its client" }]);
      if (performance.now() - began < TURN_MS / 2) return;
      await turns.next();
      began = performance.now();
    },
  };
}
