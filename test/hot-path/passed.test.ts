import { beforeAll, describe, expect, it } from "vitest";
import { countPassed, type Passed, sizeOf } from "./passed.js";

/**
 * Most files and functions of src that one call passes, as counted with Node 20; of functions two more, since
 * engines may differ in what they make one of. `npx tsx test/hot-path/passed.ts --list` names them.
 */
const MOST: readonly (readonly [kind: string, files: number, functions: number])[] = [
  ["hot, without limits", 14, 37],
  ["hot, one limit", 16, 45],
  ["hot, one limit, a credit from a lease", 18, 52],
  ["hot, the same, first of its turn", 23, 68],
  ["exact: one limit, a credit from the file", 28, 94],
  ["cold: the first of its key, one limit", 41, 168],
  ["over HTTP: a key is created", 70, 262],
];

describe("what a call passes", () => {
  let passed: ReadonlyMap<string, Passed>;
  beforeAll(async () => {
    passed = await countPassed();
  });

  it.each(MOST)("%s: at most %i files of src and %i functions", (kind, files, functions) => {
    const size = sizeOf(passed.get(kind) ?? new Map());
    expect(size.files).toBeLessThanOrEqual(files);
    expect(size.functions).toBeLessThanOrEqual(functions);
  });

  it("every kind is counted, and each verification runs the checks", () => {
    expect([...passed.keys()]).toEqual(MOST.map(([kind]) => kind));
    for (const [kind, files] of passed)
      if (!kind.startsWith("over HTTP"))
        expect(files.get("src/verify/verify-key.ts")).toEqual(
          expect.arrayContaining([expect.stringMatching(/^runChecks:/)]),
        );
  });

  it("each is of its kind", () => {
    const of = (kind: string) => [...(passed.get(kind)?.keys() ?? [])];
    expect(of("hot, without limits")).not.toContain("src/ratelimit/memory/limiter.ts");
    expect(of("hot, one limit")).toContain("src/ratelimit/memory/limiter.ts");
    expect(of("hot, one limit, a credit from a lease")).toContain("src/credits/lease.ts");
    const inRows = passed.get("hot, one limit, a credit from a lease")?.get("src/ratelimit/memory/bucket-rows.ts");
    expect(inRows).toContainEqual(expect.stringMatching(/^prefetch:/));
    expect(of("hot, the same, first of its turn")).toContain("src/stores/sqlite/changes/change-log.ts");
    expect(of("exact: one limit, a credit from the file")).toContain("src/stores/sqlite/connection/group-commit.ts");
    expect(of("cold: the first of its key, one limit")).toContain("src/stores/sqlite/keys/find-keys.ts");
    expect(of("over HTTP: a key is created")).toContain("src/keyring/keys/create-key.ts");
  });
});
