/** The rules of the house, tried on the tree itself. Each rule is also tried on a planted fault that it must find. */
import { execSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { citationsIn, committedTexts, explainedIn } from "./house/citations.js";
import { type Block, blocksOf, layOut, promisedOutput } from "./house/readme.js";
import { findFaults } from "./house/rules.js";
import { parse, readSources, ROOT } from "./house/source.js";
import { findSurfaceFaults } from "./house/surface.js";

describe("house: citations", () => {
  it("whatever section, ruling or trap is cited stands in test/README.md", () => {
    const explained = explainedIn(readFileSync(join(ROOT, "test", "README.md"), "utf8"));
    const cited = [...citationsIn(committedTexts().join("\n"))];
    expect(cited.length).toBeGreaterThan(60);
    expect(cited.filter((name) => !explained.has(name))).toEqual([]);
  });

  it("finds them in lists and ranges, and what the page lacks", () => {
    expect([...citationsIn("ruling C2; Rulings A1, C3 and E2, trap 13, traps 2, 4; spec §4.1-3, §8")].sort()).toEqual([
      "ruling A1",
      "ruling C2",
      "ruling C3",
      "ruling E2",
      "spec 4.1",
      "trap 13",
      "trap 2",
      "trap 4",
    ]);
    expect([...explainedIn("| ruling | x |\n| --- | --- |\n| B1, B2 | y |\n| 9  | z |\n| §4.1  | v |")]).toEqual([
      "ruling B1",
      "ruling B2",
      "trap 9",
      "spec 4.1",
      "spec 4",
    ]);
  });
});

describe("house: the public surface", () => {
  it("every type that an export names can be imported, and every export says what it is for", () => {
    expect(findSurfaceFaults(["src/index.ts", "src/stores/sqlite/index.ts", "src/http/index.ts"])).toEqual([]);
  });

  it("finds what is missing", () => {
    // The door of sqlite alone exports neither the port nor its nouns.
    expect(findSurfaceFaults(["src/stores/sqlite/index.ts"])).toEqual(["SqliteStore names Store, which cannot be imported"]);
    expect(findSurfaceFaults(["src/stores/sqlite/keys/hash47.ts"])).toEqual([]);
  });
});

describe("house: imports", () => {
  it("every file of src keeps the rules of its room", () => {
    const sources = readSources();
    expect(sources.length).toBeGreaterThan(10);
    expect(findFaults(sources)).toEqual([]);
  });

  const planted: [what: string, path: string, text: string, fault: RegExp][] = [
    ["a file without a room", "src/helpers.ts", "export const a = 1;", /in no room/],
    [
      "a noun that imports a verb",
      "src/contracts/errors.ts",
      'import { verifyKey } from "./verify-key.js";',
      /\(errors\) imports src\/verify-key/,
    ],
    [
      "the core importing an engine",
      "src/verify/verifier.ts",
      'import { sqliteStore } from "./stores/sqlite/store.js";',
      /imports src\/stores\/sqlite/,
    ],
    [
      "a type that is imported all the same",
      "src/contracts/types.ts",
      'import type { Store } from "./store.js";',
      /types\.ts \(types\) imports/,
    ],
    [
      "a verb that takes more than a type",
      "src/verify/verify-key.ts",
      'import { type A, b } from "./limiters/degrading.js";',
      /\(verbs\) imports/,
    ],
    ["an engine importing the core", "src/stores/memory.ts", 'import { verifyKey } from "../verify-key.js";', /\(memory store\) imports/],
    ["a second door to node:crypto", "src/keyring/keys/create-key.ts", 'import { randomBytes } from "node:crypto";', /imports node:crypto/],
    ["node:crypto in an engine", "src/stores/sqlite/keys.ts", 'import "node:crypto";', /imports node:crypto/],
    ["a Node module in the core", "src/verify/request.ts", 'const fs = await import("node:fs");', /imports node:fs/],
    ["a type from a Node module", "src/verify/request.ts", 'type Fs = typeof import("node:fs");', /imports node:fs/],
    ["a package without a door", "src/verify/request.ts", 'import * as v from "valibot";', /imports valibot/],
    [
      "a second door to the grammar",
      "src/verify/request.ts",
      'import { parse } from "../grammar/permission-query.js";',
      /imports the grammar/,
    ],
    ["a name of Node in the core", "src/verify/verify-key.ts", "const now = process.hrtime();", /says process/],
    ["another", "src/keyring/schemas/keys.ts", 'export const size = Buffer.byteLength("a");', /says Buffer/],
    ["a default export", "src/credits/refill-calendar.ts", "export default 1;", /default export/],
    ["a default function", "src/credits/refill-calendar.ts", "export default function f() {}", /default export/],
    ["a default by name", "src/credits/refill-calendar.ts", "const a = 1; export { a as default };", /default export/],
    ["a second barrel", "src/keyring/keyring.ts", 'export * from "./keyring/create-key.js";', /is a barrel/],
    ["a long file", "src/credits/refill-calendar.ts", "const a = 1;\n".repeat(251), /251 lines/],
  ];
  it.each(planted)("finds %s", (_what, path, text, fault) => {
    expect(findFaults([parse(path, text)])).toEqual([expect.stringMatching(fault)]);
  });

  it("finds a cycle", () => {
    const faults = findFaults([
      parse("src/access/permission-query.ts", 'import { a } from "./request.js";'),
      parse("src/verify/request.ts", 'import { b } from "./permissions.js";'),
    ]);
    expect(faults).toEqual(["cycle: src/access/permission-query.ts → src/verify/request.ts → src/access/permission-query.ts"]);
  });

  it("passes what is right: names in comments and texts are not code", () => {
    const text = '// process and Buffer\nimport { VerifierError } from "./errors.js";\nexport const a = "require process";\n';
    expect(findFaults([parse("src/verify/request.ts", text)])).toEqual([]);
  });
});

describe("house: grammar", () => {
  it("the committed parser is what `npm run grammar` makes", () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { scripts: Record<string, string> };
    const generated = ["grammar/permission-query.js", "grammar/permission-query.d.ts"];
    const folder = mkdtempSync(join(tmpdir(), "keystile-grammar-"));
    try {
      const filter = (path: string) => !generated.some((file) => path.endsWith(file));
      cpSync(join(ROOT, "grammar"), join(folder, "grammar"), { recursive: true, filter });
      const PATH = [join(ROOT, "node_modules", ".bin"), process.env["PATH"]].join(delimiter);
      execSync(scripts["grammar"] ?? "", { cwd: folder, env: { ...process.env, PATH } });
      for (const file of generated) expect(readFileSync(join(ROOT, file), "utf8"), file).toBe(readFileSync(join(folder, file), "utf8"));
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe("house: README", () => {
  it("blocks are found with their marks and promised output", () => {
    const blocks = blocksOf("a\n\n```ts run\nconsole.log(1); // → 1\n```\n\n```sh\nnpm ci\n```\n```ts part\nx\n```\n```ts\ny\n```\n");
    expect(blocks.map(({ line, mark }) => [line, mark])).toEqual([
      [3, "run"],
      [10, "part"],
      [13, ""],
    ]);
    expect(promisedOutput(blocks[0]!.code)).toEqual(["1"]);
  });

  it("examples import keystile by its name, run in a folder of their own, and fail if they throw or have wrong types", async () => {
    const block = (line: number, code: string): Block => ({ line, mark: "run", code });
    const good = block(1, 'import { memoryStore } from "keystile";\nconsole.log(typeof memoryStore().findKey);');
    const bad = block(2, 'throw new Error("no");');
    const runBlock = await layOut("readme-control", [good, bad]);
    expect(await runBlock(good)).toEqual(["function"]);
    await expect(runBlock(bad)).rejects.toThrow("Command failed");
    await expect(layOut("readme-control", [block(1, "const a: string = 1;")])).rejects.toThrow("does not type-check");
  });

  const readme = join(ROOT, "README.md");
  const blocks = existsSync(readme) ? blocksOf(readFileSync(readme, "utf8")) : [];
  const programs = blocks.filter((block) => block.mark === "run");

  it.runIf(existsSync(readme))("has examples, and each says whether it is a program or a part of one", () => {
    expect(programs.length).toBeGreaterThan(0);
    expect(blocks.filter((block) => !["run", "part"].includes(block.mark))).toEqual([]);
  });

  describe.runIf(programs.length > 0)("examples", () => {
    let runBlock: (block: Block) => Promise<string[]>;
    beforeAll(async () => {
      runBlock = await layOut("readme", programs);
    });

    it.each(programs.map((block) => [block.line, block] as const))(
      "the program at line %i runs and prints what it says",
      async (_line, block) => {
        const printed = await runBlock(block);
        const promised = promisedOutput(block.code);
        if (promised.length > 0) expect(printed).toEqual(promised);
      },
    );
  });
});
