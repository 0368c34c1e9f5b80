import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // The packed tarball has a run of its own: `npm run smoke`.
    exclude: ["test/package/**"],
    // Rigs that start processes share two cores with everything else.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    coverage: {
      provider: "v8",
      include: ["src/**/*.ts"],
      reporter: ["text", "html"],
      // The core, its keyring and its tables: whatever decides. Shells and the SQLite engine are tried by running them.
      thresholds: {
        "src/*.ts": { branches: 100 },
        "src/callers/*.ts": { branches: 100 },
        "src/leases/*.ts": { branches: 100 },
        "src/tags/*.ts": { branches: 100 },
        "src/keyring/**/*.ts": { branches: 100 },
        "src/limiters/**/*.ts": { branches: 100 },
        "src/stores/*.ts": { branches: 100 },
      },
    },
  },
});
