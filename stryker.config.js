import { faultedFiles, mutatedFolder } from "./test/mutation/folders.js";

const folder = mutatedFolder();

/** `MUTATE=credits npm run mutation`. @type {import("@stryker-mutator/api/core").PartialStrykerOptions} */
export default {
  mutate: faultedFiles(),
  plugins: ["./test/mutation/runner.js", "./test/mutation/survivors.js"],
  testRunner: "in-process",
  // Runs for each fault only the tests that reach it.
  coverageAnalysis: "perTest",
  ignoreStatic: true,
  concurrency: 1,
  dryRunTimeoutMinutes: 10,
  timeoutMS: 5_000,
  timeoutFactor: 1.5,
  incremental: true,
  incrementalFile: `.cache/stryker/${folder}.json`,
  tempDirName: ".cache/stryker/sandbox",
  reporters: ["progress-append-only", "survivors", "clear-text", "html"],
  clearTextReporter: { allowColor: false, allowEmojis: false, logTests: false, reportTests: false },
  htmlReporter: { fileName: `.cache/stryker/${folder}.html` },
  ignorePatterns: ["dist", "coverage", "bench/peers", ".cache"],
  thresholds: { high: 95, low: 90, break: 90 },
};
