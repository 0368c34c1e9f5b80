/** In place of fair turns: every call goes on at the end of the tick in which it came. */
import type { FairTurns } from "../../../../src/http/admission/fair-turns.js";

export const WEIGHT = Object.freeze({ short: 1, long: 8 });

export const createFairTurns = (): FairTurns => ({
  wait: (_account, _weight, act) => void setImmediate(act),
  hurry: () => undefined,
});
