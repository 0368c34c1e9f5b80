/** Runs a suite without a runner, to see which of its tests fail. */
import type { TestFunctions } from "../../src/testing/index.js";

/** @returns the titles of the tests that failed, in order, and how many there are */
export async function failuresOf(
  suite: (functions: TestFunctions) => void,
): Promise<{ readonly failed: string[]; readonly tests: number }> {
  const tests: (readonly [title: string, body: () => Promise<void>])[] = [];
  suite({ describe: (_, body) => body(), it: (title, body) => tests.push([title, body]) });
  const failed: string[] = [];
  for (const [title, body] of tests) await body().catch(() => failed.push(title));
  return { failed, tests: tests.length };
}
