import { defineConfig } from "vitest/config";

/** What needs the packed package: built, packed and installed first. */
export const PACKAGE = ["test/package/**/*.test.ts"];

/** What starts processes, waits for real time, counts what the compiler does or reads the whole tree. */
export const SLOW = [
  "test/rigs/**/*.test.ts",
  "test/service/**/*.test.ts",
  "test/middleware/{examples,registered-meta}.test.ts",
  "test/hot-path/**/*.test.ts",
  "test/cli/commands/{serve,migrate-keys}.test.ts",
  "test/http/early.test.ts",
  "test/http/node/*.test.ts",
  "test/{bench,docs,docstrings,structure,secrets,secrets-sqlite}.test.ts",
];

/** What replaces the globals for timers: it shares no process, in which timers of other files may still run. */
export const SIMULATION = ["test/simulation/**/*.test.ts"];

/**
 * `npm test` runs `fast` and `simulation`, with a part of each property's runs. `npm run test:all` and `npm run coverage` set the mode
 * `all`, in which every property takes all its runs (test/runs.ts); the first of them runs all projects, one after the other.
 */
export default defineConfig(({ mode }) => ({
  test: {
    env: { KEYSTILE_RUNS: mode === "all" ? "1" : "0.2" },
    // Many files share two cores.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    projects: [
      {
        extends: true,
        test: {
          name: "fast",
          include: ["test/**/*.test.ts"],
          exclude: [...SLOW, ...PACKAGE, ...SIMULATION],
          // No module of src keeps state, so files may share a process: half the time goes into starting one for each.
          isolate: false,
          maxWorkers: "100%",
        },
      },
      { extends: true, test: { name: "simulation", include: SIMULATION, maxWorkers: "100%" } },
      {
        extends: true,
        // Rigs start processes of their own: one file at a time.
        test: { name: "slow", include: SLOW, maxWorkers: 1, sequence: { groupOrder: 1 } },
      },
      {
        extends: true,
        test: {
          name: "package",
          include: PACKAGE,
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
          testTimeout: 120_000,
          hookTimeout: 300_000,
        },
      },
    ],
    coverage: {
      provider: "v8",
      include: ["src/**/*.ts"],
      reporter: ["text", "html"],
      // The core, its keyring and its tables: whatever decides. Shells and the SQLite engine are tried by running them.
      thresholds: {
        "src/{contracts,lib,access,ratelimit,credits,cache,verify,keyring}/**/*.ts": { branches: 98.9 },
        "src/http/workspace-limit.ts": { branches: 100 },
        "src/stores/*.ts": { branches: 99.5 },
      },
    },
  },
}));
