/**
 * Comparisons for the suites, with the names known from vitest and jest. Why not the runner's own: node:test has none,
 * and those of jest and vitest accept different arguments.
 */

/** Longest text of a value in a message. */
const MAX_TEXT = 2_000;

/** @param about included in the message of a failure */
export function expect(actual: unknown, about?: string) {
  const compare = (fits: boolean, what: string, expected: unknown): void => {
    if (fits) return;
    const message = `${about === undefined ? "" : `${about}: `}expected ${textOf(actual)} ${what} ${textOf(expected)}`;
    throw Object.assign(new Error(message), { name: "AssertionError", actual, expected });
  };
  return {
    toBe: (expected: unknown): void => compare(Object.is(actual, expected), "to be", expected),
    /** Deeply equal; a property that is `undefined` counts as absent. */
    toEqual: (expected: unknown): void => compare(isMatch(actual, expected, presentKeys), "to equal", expected),
    /** Deeply equal, and the same properties. */
    toStrictEqual: (expected: unknown): void =>
      compare(isMatch(actual, expected, Object.keys), "to equal strictly", expected),
    /** Has at least these properties, deeply; lists have as many items. */
    toMatchObject: (expected: unknown): void => compare(isMatch(actual, expected), "to match", expected),
    toBeUndefined: (): void => compare(actual === undefined, "to be", undefined),
    toBeNull: (): void => compare(actual === null, "to be", null),
    toHaveLength: (expected: number): void =>
      compare(Array.isArray(actual) && actual.length === expected, "to have length", expected),
    toContainEqual: (expected: unknown): void =>
      compare(
        Array.isArray(actual) && actual.some((one) => isMatch(one, expected, presentKeys)),
        "to contain",
        expected,
      ),
    toBeGreaterThan: (least: number): void => compare(Number(actual) > least, "to be above", least),
    toBeLessThan: (most: number): void => compare(Number(actual) < most, "to be below", most),
    toBeLessThanOrEqual: (most: number): void => compare(Number(actual) <= most, "to be at most", most),
  };
}

/** The error that a call throws or rejects with; `undefined` when it does neither. */
export async function faultOf(call: () => unknown): Promise<unknown> {
  try {
    await call();
  } catch (error) {
    return error;
  }
  return undefined;
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null;

const presentKeys = (value: object): string[] =>
  Object.keys(value).filter((name) => (value as Record<string, unknown>)[name] !== undefined);

/** @param keysOf the properties that both must have; absent: those of `expected` are enough */
function isMatch(actual: unknown, expected: unknown, keysOf?: (value: object) => string[]): boolean {
  if (!isObject(actual) || !isObject(expected)) return Object.is(actual, expected);
  if (Array.isArray(actual) !== Array.isArray(expected)) return false;
  if (Array.isArray(actual) && actual.length !== expected["length"]) return false;
  const names = (keysOf ?? Object.keys)(expected);
  if (keysOf !== undefined && names.length !== keysOf(actual).length) return false;
  return names.every(
    (name) => (keysOf === undefined || Object.hasOwn(actual, name)) && isMatch(actual[name], expected[name], keysOf),
  );
}

function textOf(value: unknown): string {
  // JSON cannot represent non-finite numbers, `undefined`, functions or bigints.
  const text = isObject(value) || typeof value === "string" ? JSON.stringify(value) : String(value);
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
}
