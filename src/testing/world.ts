/**
 * For the tests of programs that use keystile: a clock to turn in place of sleeping, ids that repeat, and outcomes that
 * explain themselves.
 */
import type { V2KeysVerifyKeyResponseData, VerificationCode } from "../contracts/types.js";
import { countedId } from "../lib/hash.js";
import { expect } from "./expect.js";

/** A clock that stands until it is turned. */
export interface TestClock {
  /** For the option `clock` of `createVerifier`, `createKeyring` and the service: Unix time, milliseconds. */
  readonly now: () => number;
  /** Turns it forward, or back if negative. @param milliseconds an integer */
  advance(milliseconds: number): void;
  /** Sets it. @param time Unix time, milliseconds, or a text of a date */
  set(time: number | string): void;
}

/** 2026-01-01T00:00:00Z, when a test clock starts unless the test says otherwise. */
const START = Date.UTC(2026, 0, 1);

/**
 * Makes a clock that stands until it is turned: tests of expiry, windows and refills need no sleep.
 * @param start Unix time, milliseconds, or a text of a date as `Date.parse` reads it; default 2026-01-01T00:00:00Z
 * @throws RangeError for a time that is not a safe integer, and a text that is no date
 */
export function testClock(start: number | string = START): TestClock {
  let time = checked(start);
  return {
    now: () => time,
    advance: (milliseconds) => void (time = checked(time + milliseconds)),
    set: (moment) => void (time = checked(moment)),
  };
}

function checked(given: number | string): number {
  const time = typeof given === "string" ? Date.parse(given) : given;
  if (!Number.isSafeInteger(time))
    throw new RangeError("time must be an integer, Unix time in milliseconds, or a text of a date");
  return time;
}

/**
 * Makes ids that repeat from run to run, for the option `newId` of `createKeyring` and `createRatelimits`: counted for
 * each prefix, in Base58, whose digit for zero is `1`. The first API is `api_1111111111111111111112`. Share one
 * function between all keyrings of a store: another one would count the same ids again, which the store refuses.
 * @example
 * const keyring = createKeyring(memoryStore(), { clock: testClock().now, newId: testIds() });
 */
export function testIds(): (prefix: string) => string {
  const counts = new Map<string, number>();
  return (prefix) => {
    const count = (counts.get(prefix) ?? 0) + 1;
    counts.set(prefix, count);
    return countedId(prefix, count);
  };
}

/**
 * Throws unless a verification has this outcome; the error shows the whole result.
 * @param result of `verify`, or a promise of it
 * @param outcome the code, or the properties that the result must have, such as `{ code: "VALID", credits: 9 }`
 * @returns the result
 * @throws (rejects) Error named AssertionError, with `actual` and `expected`
 * @example
 * await expectOutcome(verifier.verify({ key }), { code: "VALID", credits: 9 });
 */
export async function expectOutcome<Result extends V2KeysVerifyKeyResponseData<unknown>>(
  result: Result | PromiseLike<Result>,
  outcome: VerificationCode | Partial<V2KeysVerifyKeyResponseData<unknown>>,
): Promise<Result> {
  const actual = await result;
  expect(actual, "the outcome").toMatchObject(typeof outcome === "string" ? { code: outcome } : outcome);
  return actual;
}
