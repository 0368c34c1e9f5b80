/**
 * Runs the tests for Stryker in its own process. The runner for vitest starts a thread and loads everything for each
 * fault, which takes 20 times as long as the few tests that reach it.
 */
import { join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { declareClassPlugin, PluginKind } from "@stryker-mutator/api/plugin";
import {
  determineHitLimitReached,
  DryRunStatus,
  TestStatus,
  toMutantRunResult,
} from "@stryker-mutator/api/test-runner";
import { startTests } from "@vitest/runner";
import { getFullName, getTests } from "@vitest/runner/utils";
import { register } from "tsx/esm/api";
import { testFiles } from "./folders.js";

/** Milliseconds for one test: without a fault, and at least with one. */
const TIMEOUT = 60_000;
const LEAST_TIMEOUT = 5_000;
/** Milliseconds that a test counts for whose duration is unknown. */
const UNKNOWN = 1_000;

/** What vitest expects to find where it runs tests. */
const config = {
  root: "",
  setupFiles: [],
  sequence: { hooks: "stack", setupFiles: "list" },
  testTimeout: TIMEOUT,
  hookTimeout: TIMEOUT,
  maxConcurrency: 1,
  retry: 0,
  allowOnly: false,
  passWithNoTests: true,
  expect: {},
  snapshotOptions: {},
  tags: [],
};
globalThis["__vitest_worker__"] = {
  config,
  ctx: { pool: "forks" },
  environment: { name: "node" },
  providedContext: {},
  metaEnv: process.env,
};

class InProcessRunner {
  static inject = [];
  /** Milliseconds that each test took without a fault, by id; empty in a process that took over from one that hung. */
  durations = new Map();
  runs = 0;

  capabilities() {
    return { reloadEnvironment: false };
  }

  async init() {
    // By now the folder with the faults.
    config.root = process.cwd();
    process.env["TEST_RUNS"] = "0.2";
    process.env["VITEST"] = "true";
    register();
    this.vi = (await import("vitest")).vi;
    // The same histories for every fault, so that a score can be measured again.
    (await import("fast-check")).default.configureGlobal({ seed: 1 });
    // Of a call that an earlier test has abandoned: no failure of the one that runs now.
    process.on("unhandledRejection", () => undefined);
    process.on("uncaughtException", () => undefined);
    this.stryker = globalThis["__stryker__"] ??= {};
  }

  async dryRun() {
    const tests = await this.run(testFiles().map((filepath) => ({ filepath })));
    for (const { id, timeSpentMs } of tests) this.durations.set(id, timeSpentMs);
    return { status: DryRunStatus.Complete, tests, mutantCoverage: this.stryker.mutantCoverage };
  }

  async mutantRun({ testFilter, activeMutant, hitLimit }) {
    const byFile = new Map();
    for (const id of testFilter) {
      const [filepath, testId] = id.split("#");
      if (!byFile.has(filepath)) byFile.set(filepath, { filepath, testIds: [], duration: 0 });
      const specification = byFile.get(filepath);
      specification.testIds.push(testId);
      specification.duration += this.durations.get(id) ?? UNKNOWN;
    }
    // Most faults are found by any test that reaches them.
    const specifications = [...byFile.values()].sort((a, b) => a.duration - b.duration);
    Object.assign(this.stryker, { activeMutant: activeMutant.id, hitCount: 0, hitLimit });
    const tests = await this.run(specifications, true);
    const timeout = determineHitLimitReached(this.stryker.hitCount, hitLimit);
    Object.assign(this.stryker, { activeMutant: undefined, hitCount: undefined, hitLimit: undefined });
    return toMutantRunResult(timeout ?? { status: DryRunStatus.Complete, tests });
  }

  /** Runs files one after the other; with `bail` until a test has failed. */
  async run(specifications, bail = false) {
    const results = [];
    // Tests are collected anew, because a test can run only once; what they import stays loaded.
    const run = ++this.runs;
    let hasFailed = false;
    const runner = {
      config,
      pool: "forks",
      importFile: (path) => import(`${pathToFileURL(path).href}?run=${run}`),
      onBeforeRunTask: (test) => {
        if (bail && hasFailed) test.mode = "skip";
        if (!bail) this.stryker.currentTestId = idOf(test);
      },
      onAfterRunTask: (test) => {
        hasFailed ||= test.result?.state === "fail";
        this.stryker.currentTestId = undefined;
        this.vi.useRealTimers();
        this.vi.unstubAllEnvs();
      },
    };
    for (const { filepath, testIds, duration } of specifications) {
      // A fault that waits for ever is found sooner where the tests of the file are quick.
      config.testTimeout = bail ? Math.min(TIMEOUT, LEAST_TIMEOUT + 5 * duration) : TIMEOUT;
      const specification = { filepath: join(config.root, filepath), testIds };
      const [file] = await startTests([specification], runner);
      const [error] = (file.result?.state === "fail" && file.result.errors) || [];
      if (error !== undefined) throw new Error(`${filepath}: ${error.message}`);
      results.push(
        ...getTests(file)
          .filter((test) => test.mode !== "skip")
          .map(toResult),
      );
      if (bail && hasFailed) break;
    }
    return results;
  }
}

/** Names its file too, for a process that has not run it before. */
const idOf = (test) => `${relative(config.root, test.file.filepath)}#${test.id}`;

function toResult(test) {
  const { state, duration = 0, errors } = test.result ?? {};
  const common = { id: idOf(test), name: getFullName(test), fileName: test.file.filepath, timeSpentMs: duration };
  return state === "fail"
    ? { ...common, status: TestStatus.Failed, failureMessage: errors?.[0]?.message ?? "failed" }
    : { ...common, status: state === "pass" ? TestStatus.Success : TestStatus.Skipped };
}

export const strykerPlugins = [declareClassPlugin(PluginKind.TestRunner, "in-process", InProcessRunner)];
