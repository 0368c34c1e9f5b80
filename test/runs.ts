/**
 * How many runs of a property this run of the tests takes. Tests name the whole number, which `npm run test:all` and
 * `npm run coverage` take; `npm test` and `.ci/run` take the part that vitest.config.ts sets, and at least five runs.
 */
export function runs(whole: number): number {
  const part = Number(process.env["TEST_RUNS"] ?? 1);
  return Math.min(whole, Math.max(5, Math.ceil(whole * part)));
}
