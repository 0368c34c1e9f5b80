/** The folders of src in which faults are planted, and the tests that must find them. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";

/**
 * The tests of a folder are its own and those of its rules. That a test of another folder finds a fault by chance says
 * little, and takes long.
 */
const TESTS = {
  credits: ["test/credits", "test/spec/credits.test.ts"],
  ratelimit: [
    "test/ratelimit",
    "test/spec/limits.test.ts",
    "test/spec/fair-shares.test.ts",
    "test/verify/retry-after.test.ts",
  ],
  access: ["test/access", "test/grammar.test.ts", "test/spec/callers.test.ts"],
  verify: ["test/verify", "test/spec"],
};
/** Wait for real time, or turn the clock of their whole process. */
const SLOW = [
  "locked-file.test.ts",
  "spender-defaults.test.ts",
  ...["breaker", "cluster", "failures", "remembered", "suite"].map((name) => `redis/${name}.test.ts`),
];

/** The folder that the environment variable MUTATE names. */
export function mutatedFolder() {
  const folder = process.env["MUTATE"];
  if (!Object.hasOwn(TESTS, folder)) throw new RangeError(`MUTATE must be one of ${Object.keys(TESTS).join(", ")}`);
  return folder;
}

/** The paths of its test files, from the root of the package. */
export function testFiles() {
  return TESTS[mutatedFolder()].flatMap((path) =>
    path.endsWith(".ts")
      ? [path]
      : readdirSync(path, { recursive: true })
          .filter((name) => name.endsWith(".test.ts") && !SLOW.some((slow) => name.endsWith(slow)))
          .map((name) => join(path, name)),
  );
}
