import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/package/*.test.ts"],
    testTimeout: 120_000,
    // Build, pack and install come first.
    hookTimeout: 300_000,
  },
});
