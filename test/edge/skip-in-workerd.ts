/** Of each file of the project `workerd`: skips the tests that cannot run there. */
import { relative } from "node:path";
import { afterAll, beforeEach, expect, type RunnerTestSuite } from "vitest";
import { ROOT } from "../structure/source.js";
import { TESTS } from "./not-in-workerd.js";

const reasonsOf = (file: string): Readonly<Record<string, string>> => TESTS[relative(`${ROOT}/test`, file)] ?? {};

beforeEach(({ task, skip }) => {
  const found = Object.entries(reasonsOf(task.file.filepath)).find(([start]) => task.name.startsWith(start));
  if (found !== undefined) skip(found[1]);
});

afterAll(({}, { file }) => {
  const titles = titlesOf(file);
  const unknown = Object.keys(reasonsOf(file.filepath)).filter(
    (start) => !titles.some((title) => title.startsWith(start)),
  );
  expect(unknown, "not-in-workerd.ts names tests that are not there").toEqual([]);
});

function titlesOf(suite: Readonly<RunnerTestSuite>): string[] {
  return suite.tasks.flatMap((task) => (task.type === "suite" ? titlesOf(task) : [task.name]));
}
