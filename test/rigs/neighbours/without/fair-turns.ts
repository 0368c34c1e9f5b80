/** In place of fair turns: every call goes on at the end of the tick in which it came. */
import type * as fair from "../../../../src/http/admission/fair-turns.js";

export const WEIGHT = Object.freeze({ short: 1, long: 8 });

export const createFairTurns = (): ReturnType<typeof fair.createFairTurns> => ({
  wait: (_account, _weight, act) => void setImmediate(act),
  hurry: () => undefined,
});
