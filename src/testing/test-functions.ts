/** What the suites need of a test runner. */

/**
 * The two functions of a test runner that the suites call: those of node:test, vitest, jest, mocha, bun:test and
 * jasmine fit. Nothing else of the runner is used: the suites have their own comparisons, and clean up inside each
 * test.
 */
export interface TestFunctions {
  /** Names a group of tests; `body` is called at once, or before the tests run. */
  describe(title: string, body: () => void): unknown;
  /** Adds a test: it fails when the promise that `body` returns rejects. */
  it(title: string, body: () => Promise<void>): unknown;
}
