import { defineConfig } from "vitest/config";
import { PACKAGE, SLOW } from "./vitest.config.js";

/** What `npm run mutation` (stryker.config.json) runs for each mutant: the fast tests, each file by itself. */
export default defineConfig({
  test: {
    env: { KEYSTILE_RUNS: "0.2" },
    include: ["test/**/*.test.ts"],
    exclude: [...SLOW, ...PACKAGE],
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
