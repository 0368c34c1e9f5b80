/**
 * A store that fails: one call in so many throws or rejects, before or after the real call took effect. Half of those
 * before say with STORE_BUSY that nothing was changed. For tests of any store's users.
 */
import { KeystileError, type KeystileErrorCode } from "../../src/contracts/errors.js";
import type { Spend, Store } from "../../src/contracts/store.js";
import type { Dice } from "../model/dice.js";

export interface FailingStore {
  readonly store: Store;
  /** What the planted failures swallowed. */
  readonly losses: Losses;
  /** From now on nothing fails any more. */
  calm(): void;
}

export interface Losses {
  /** Calls that failed, whether or not they took effect. */
  calls: number;
  /** Credits that a spend took before its answer was lost. */
  spent: number;
}

type Method = (...given: unknown[]) => unknown;

/** Calls that never fail here: they take no data from the store. */
const RELIABLE = new Set(["subscribe", "close"]);

/** @param rate how many calls fail, 0…1 */
export function failingStore({ powers, ...real }: Store, dice: Dice, rate = 0.2): FailingStore {
  const losses: Losses = { calls: 0, spent: 0 };
  let isCalm = false;

  const fail = (code: KeystileErrorCode = "STORE_FAILED"): KeystileError => {
    losses.calls++;
    return new KeystileError(code, "planted failure");
  };
  const failing =
    (name: string, method: Method): Method =>
    (...given) => {
      if (isCalm || !dice.chance(rate)) return method(...given);
      const isLate = dice.chance(0.5);
      const throws = dice.chance(0.5);
      if (!isLate) {
        const code = dice.chance(0.5) ? "STORE_BUSY" : "STORE_FAILED";
        const error = fail(code);
        if (throws) throw error;
        return Promise.reject(error);
      }
      const answer = method(...given);
      const lose = (lost: unknown): never => {
        note(losses, name, given, lost);
        throw fail();
      };
      if (answer instanceof Promise) return answer.then(lose);
      return throws ? lose(answer) : Promise.resolve(answer).then(lose);
    };
  const methods = Object.entries(real as unknown as Record<string, Method>).map(([name, method]) => [
    name,
    RELIABLE.has(name) ? method : failing(name, method),
  ]);
  return {
    store: { powers, ...(Object.fromEntries(methods) as typeof real) },
    losses,
    calm: () => void (isCalm = true),
  };
}

function note(losses: Losses, name: string, [, request]: readonly unknown[], lost: unknown): void {
  if (name === "spendCredits" && (lost as Spend | undefined)?.ok === true) losses.spent += request as number;
}
