import { existsSync, rmSync, statfsSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { FILES } from "./test/edge/not-in-workerd.js";

/** What needs the packed package: built, packed and installed first. */
export const PACKAGE = ["test/package/**/*.test.ts"];

/** What compiles, runs or reads much, or asks what the engine made of its process; each file has a process of its own. */
export const LONG = [
  "test/middleware/{examples,recipes,registered-meta}.test.ts",
  "test/cli/database/copy-database.test.ts",
  "test/testing/node-test.test.ts",
  "test/simulation/postgres.test.ts",
  "test/{bench,docs,docstrings,site,structure,secrets,secrets-sqlite}.test.ts",
  "test/hot-path/**/*.test.ts",
];

/**
 * What starts processes and servers, and mostly waits for them. Not what is {@link SLOW}. Where a verdict is a time, it
 * is a time of the processor, the best of some attempts, or far above what a busy machine takes.
 */
export const SERVED = [
  "test/rigs/**/*.test.ts",
  "test/middleware/saas.test.ts",
  "test/edge/workerd.test.ts",
  "test/http/early.test.ts",
  "test/http/node/*.test.ts",
  "test/ratelimit/redis/{suite,cluster}.test.ts",
  "test/service/{console,deploy,docs-page,docs,end-to-end,first-start,pictures,pipes,playground,portal}.test.ts",
  "test/cli/commands/{serve,migrate-keys}.test.ts",
  "test/cli/{serve-redis,postgres}.test.ts",
  "test/credits/locked-file.test.ts",
  "test/stores/many-permissions.test.ts",
  "test/stores/sqlite/writer-thread.test.ts",
  "test/stores/sqlite/connection/foreign-log.test.ts",
  "test/stores/postgres/{changes,load,outage,servers,stalls,strangers,unknown-outcome}.test.ts",
  "test/verify/outcome-memory.test.ts",
];

/** What measures times of tens of milliseconds under a load of its own: one file at a time, and nothing beside it. */
export const SLOW = ["test/rigs/{flood,neighbours,postgres-faults}.test.ts"];

/** What measures such times and mostly waits, a quarter of one processor: two files at a time, nothing else beside. */
export const PAIRED = [
  "test/ratelimit/redis/{failures,remembered}.test.ts",
  "test/rigs/postgres-revocation.test.ts",
  "test/stores/sqlite/waiting.test.ts",
];

/** What also runs in a Durable Object in workerd, but for what test/edge/not-in-workerd.ts names. */
export const WORKERD = ["test/{spec,http}/*.test.ts"];

/** What replaces the globals for timers: it shares no process, in which timers of other files may still run. */
export const SIMULATION = ["test/simulation/{explore,simulation}.test.ts", "test/ratelimit/redis/breaker.test.ts"];

/**
 * Where tests put their files: in memory, where the system has such a folder with space, since they open more than a
 * thousand databases, each with a few syncs. What syncs are for is tried by rigs, on a disk (test/rigs/workers.ts).
 */
export const temporary = (): Record<string, string> => {
  const memory = "/dev/shm";
  if (process.env["TMPDIR"] !== undefined || !existsSync(memory)) return {};
  const { bavail, bsize } = statfsSync(memory);
  return bavail * bsize >= 1024 ** 3 ? { TMPDIR: memory, TEST_DISK: tmpdir() } : {};
};

/** Files at a time that mostly wait, for servers, downloads and timers. */
const WORKERS = availableParallelism() + 2;

/** Files of the longest duration, in the order in which they are started: others run beside them. */
export const LONGEST = [
  ...["package/runtimes", "bench", "simulation/postgres", "stores/postgres/servers", "service/console", "docs"],
  ...["edge/workerd", "rigs/powercut/powercut", "package/package", "package/peers", "ratelimit/redis/suite", "site"],
  ...["stores/sqlite/writer-thread", "package/managers", "rigs/postgres-stalls", "rigs/limits"],
  ...["stores/postgres/strangers", "service/end-to-end", "service/first-start"],
  // Of the quick ones.
  ...["stores/sqlite/store", "testing/suites", "stores/postgres/store", "keyring/credit-grants", "alerts/alerts"],
  ...["simulation/crossings", "verify/outcome-flush", "console/pages", "callbacks", "keyring/audit"],
].map((name) => `test/${name}.test.ts`);

/** On a clean clone no duration is known: files are started by project and size, but the longest first. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => {
      const found = LONGEST.findIndex((file) => moduleId.endsWith(`/${file}`));
      return found < 0 ? LONGEST.length : found;
    };
    return (await super.sort(files)).sort((a, b) => place(a) - place(b));
  }
}

/**
 * The core, its keyring and its tables: whatever decides. Shells and the SQLite engine are tried by running them. Nothing
 * else is counted: counts of what nobody asks for took a minute.
 */
const THRESHOLDS = {
  "src/{contracts,lib,access,ratelimit,credits,cache,verify,keyring}/**/*.ts": { branches: 99 },
  "src/http/workspace-limit.ts": { branches: 100 },
  "src/stores/*.ts": { branches: 100 },
};

/**
 * The part of a property's runs without `--mode all`: with this part `npm run mutation` measures which planted faults
 * are found (test/mutation/runner.js).
 */
const PART = 0.2;

/** Where this run of the tests keeps the files of a new PostgreSQL server; the process that it ends with removes them. */
const INITIALIZED = join(tmpdir(), `keystile-initialized-${process.pid}`);
process.once("exit", () => rmSync(INITIALIZED, { recursive: true, force: true }));

/**
 * `npm test` runs `fast` and `simulation`, with a part of each property's runs. `npm run test:all` and `npm run coverage` set the mode
 * `all`, in which every property takes all its runs (test/runs.ts); the first of them runs all projects, one after the other.
 */
export default defineConfig(({ mode }) => {
  // Many files share two cores; all runs of a property take up to five times as long.
  const timeout = mode === "all" || process.env["CI"] === "true" ? 180_000 : 60_000;
  // Spread, not `extends`: for that the whole configuration is made again, in another mode.
  const every = {
    testTimeout: timeout,
    // Hooks start servers, and PostgreSQL in this process, beside the other files.
    hookTimeout: timeout,
    // By default a second: what a busy machine takes now and then.
    expect: { poll: { timeout: 20_000 } },
  };
  const runs = {
    TEST_RUNS: mode === "all" ? "1" : String(PART),
    // See servers/postgres.ts.
    TEST_INITIALIZED: INITIALIZED,
  };
  return {
    test: {
      sequence: { sequencer: LongestFirst },
      // Several projects and runs transform the same sources.
      experimental: { fsModuleCache: true, fsModuleCachePath: ".cache/vitest" },
      projects: [
        {
          test: {
            ...every,
            name: "fast",
            env: { ...runs, ...temporary() },
            include: ["test/**/*.test.ts"],
            exclude: [...LONG, ...SERVED, ...SLOW, ...PAIRED, ...PACKAGE, ...SIMULATION],
            // No module of src keeps state, so files may share a process: half the time goes into starting one for each.
            isolate: false,
            maxWorkers: "100%",
          },
        },
        {
          test: {
            ...every,
            name: "simulation",
            env: { ...runs, ...temporary() },
            include: SIMULATION,
            maxWorkers: "100%",
          },
        },
        {
          test: {
            ...every,
            name: "long",
            env: { ...runs, ...temporary() },
            include: LONG,
            maxWorkers: WORKERS,
            sequence: { groupOrder: 1 },
          },
        },
        {
          test: {
            ...every,
            name: "served",
            env: { ...runs, ...temporary() },
            include: SERVED,
            exclude: [...SLOW, ...PAIRED],
            // As above: a process that has the sources for each file took a tenth of the time of all.
            isolate: false,
            maxWorkers: WORKERS,
            sequence: { groupOrder: 1 },
          },
        },
        // A host may stop for a second; the report names what was run twice. What is wrong is wrong twice.
        {
          test: {
            ...every,
            ...{ name: "slow", env: runs, include: SLOW, maxWorkers: 1, retry: 1 },
            sequence: { groupOrder: 2 },
          },
        },
        {
          test: {
            ...every,
            ...{ name: "paired", env: runs, include: PAIRED, maxWorkers: 2, retry: 1 },
            sequence: { groupOrder: 4 },
          },
        },
        {
          test: {
            ...every,
            name: "workerd",
            env: { ...runs, TEST_WORLDS: "workerd" },
            include: WORKERD,
            exclude: Object.keys(FILES).map((file) => `test/${file}`),
            globalSetup: "test/edge/start-contract.ts",
            setupFiles: "test/edge/skip-in-workerd.ts",
            isolate: false,
            // Their objects share a clock.
            maxWorkers: 1,
            sequence: { groupOrder: 3 },
          },
        },
        {
          test: {
            ...every,
            name: "package",
            env: runs,
            include: PACKAGE,
            globalSetup: "test/package/build.ts",
            maxWorkers: WORKERS,
            sequence: { groupOrder: 1 },
            testTimeout: 120_000,
            hookTimeout: 300_000,
          },
        },
      ],
      coverage: {
        provider: "v8",
        include: Object.keys(THRESHOLDS),
        reporter: ["text", "html"],
        thresholds: THRESHOLDS,
      },
    },
  };
});
