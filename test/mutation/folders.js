/** The folders of src in which faults are planted, and the tests that must find them. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";

/**
 * What is faulted, and the tests of it: its own and those of its rules. That a test of another folder finds a fault by
 * chance says little, and takes long. `redis` is a part of `ratelimit`: those of its tests that
 * wait for real time, or turn the clock of their whole process, as the breaker's do, are run by hand for what survives.
 */
const FOLDERS = {
  credits: {
    faults: ["src/credits/**/*.ts"],
    tests: ["test/credits", "test/spec/credits.test.ts", "test/verify/reserve.test.ts"],
  },
  ratelimit: {
    faults: ["src/ratelimit/**/*.ts", "!src/ratelimit/redis/**/*.ts"],
    tests: [
      ...["applied-limits.test.ts", "fallback.test.ts", "memory"].map((name) => `test/ratelimit/${name}`),
      "test/spec/limits.test.ts",
      "test/spec/fair-shares.test.ts",
      "test/verify/result-retry-after.test.ts",
    ],
  },
  redis: {
    faults: ["src/ratelimit/redis/**/*.ts"],
    tests: ["client", "large-calls", "limiter", "shard-call"].map((name) => `test/ratelimit/redis/${name}.test.ts`),
  },
  access: {
    faults: ["src/access/**/*.ts"],
    tests: ["test/access", "test/grammar.test.ts", "test/spec/callers.test.ts"],
  },
  verify: { faults: ["src/verify/**/*.ts"], tests: ["test/verify", "test/spec"] },
};
/** Wait for real time, turn the clock of their whole process, or build the sources, into which faults were put. */
const LEFT_OUT = ["locked-file.test.ts", "spender-defaults.test.ts", "new-field.test.ts"];

/** The folder that the environment variable MUTATE names. */
export function mutatedFolder() {
  const folder = process.env["MUTATE"];
  if (!Object.hasOwn(FOLDERS, folder)) throw new RangeError(`MUTATE must be one of ${Object.keys(FOLDERS).join(", ")}`);
  return folder;
}

/** Globs of the files in which faults are planted. */
export function faultedFiles() {
  return FOLDERS[mutatedFolder()].faults;
}

/** The paths of its test files, from the root of the package. */
export function testFiles() {
  return FOLDERS[mutatedFolder()].tests.flatMap((path) =>
    path.endsWith(".ts")
      ? [path]
      : readdirSync(path, { recursive: true })
          .filter((name) => name.endsWith(".test.ts") && !LEFT_OUT.some((one) => name.endsWith(one)))
          .map((name) => join(path, name)),
  );
}
