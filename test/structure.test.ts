/**
 * The rules of the structure, tried on the tree itself. Each rule is also tried on a planted fault that it must find.
 */
import { execSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { describe, expect, it } from "vitest";
import { ROWS } from "./callbacks/rows.js";
import { citationsIn, committedTexts, explainedIn, findWideComments } from "./structure/citations.js";
import { findCallbacks } from "./structure/callbacks.js";
import { blocksOf, layOut, promisedOutput } from "./structure/readme.js";
import { findFaults, findLateTimers, findUnusedArrows } from "./structure/rules.js";
import { parse, readSources, ROOT } from "./structure/source.js";
import { ENTRIES, findSurfaceFaults } from "./structure/surface.js";
import { LONG, LONGEST, PACKAGE, PAIRED, SERVED, SIMULATION, SLOW } from "../vitest.config.js";

describe("structure: callbacks", () => {
  it("every callback that a program may give has a row in test/callbacks/rows.ts, and every row a callback", () => {
    const { callbacks, checked } = findCallbacks();
    expect(Object.keys(ROWS).sort()).toEqual(callbacks);
    const members = callbacks.map((callback) => callback.split(".")[1]);
    expect([...checked].filter((name) => !members.includes(name))).toEqual([]);
  });
});

describe("structure: timers", () => {
  it("what a call waits for uses those that were captured at load", () => {
    const sources = [...committedTexts()].filter(
      ([path]) => /^src\/.*\.ts$/.test(path) && path !== "src/lib/timers.ts",
    );
    expect(sources.length).toBeGreaterThan(300);
    expect(sources.flatMap(([path, text]) => findLateTimers(path.slice(4, -3), text))).toEqual([]);
  });

  it("finds one that is looked up at use", () => {
    const wait = "await new Promise((resolve) => setTimeout(resolve, 5));";
    expect(findLateTimers("stores/one", wait)).toEqual(["stores/one: setTimeout"]);
    expect(findLateTimers("stores/one", `import { setTimeout } from "../lib/timers.js";\n${wait}`)).toEqual([]);
    expect(findLateTimers("stores/one", "f(); // not setTimeout(f)")).toEqual([]);
  });
});

/** Guards in a text that people copy, which let keys of every API in. */
function openGuards(text: string): string[] {
  const guards = text.match(/\b(?:apiKey|createGuard|createApiKeyGuard)(?:<[^>]*>)?\(verifier\b[\s\S]{0,80}/g) ?? [];
  const isOpen = (guard: string) =>
    !/^[^;]*\bapiId\b/.test(guard) && !(/^[^;]*\boptions\b/.test(guard) && /\boptions = \{ apiId\b/.test(text));
  return guards.filter(isOpen);
}

describe("structure: guards that people copy", () => {
  it("each has an apiId, on pages, in examples, and in what programs show", () => {
    const ofPeople = ["README.md", "docs/*.md", "examples", "src/console", "src/cli"];
    const listed = execSync(`git ls-files ${ofPeople.join(" ")}`, { cwd: ROOT, encoding: "utf8" })
      .trim()
      .split("\n");
    const paths = listed.filter((path) => /\.(?:md|tsx?)$/.test(path));
    const texts = paths.map((path) => [path, readFileSync(join(ROOT, path), "utf8")] as const);
    const all = texts.flatMap(([, text]) => text.match(/\b(?:apiKey|createGuard)(?:<[^>]*>)?\(verifier\b/g) ?? []);
    expect(all.length).toBeGreaterThan(20);
    expect(texts.flatMap(([path, text]) => openGuards(text).map((guard) => `${path}: ${guard}`))).toEqual([]);
  });

  it("finds one without", () => {
    expect(openGuards("app.use(apiKey(verifier)); const { apiId } = x;")).toHaveLength(1);
    expect(openGuards("const options = { permissions };\napiKey(verifier, options, handler)")).toHaveLength(1);
    expect(openGuards("const options = { apiId };\napiKey(verifier, options, handler)")).toEqual([]);
  });
});

describe("structure: citations", () => {
  it("whatever section is cited stands in docs/contract.md, and whatever ruling or trap in test/README.md", () => {
    const page = (...path: string[]) => readFileSync(join(ROOT, ...path), "utf8");
    const explained = explainedIn(page("test", "README.md"), page("docs", "contract.md"));
    const cited = [...citationsIn([...committedTexts().values()].join("\n"))];
    expect(cited.length).toBeGreaterThan(60);
    expect(cited.filter((name) => !explained.has(name))).toEqual([]);
  });

  it("src cites none of what is explained in test/README.md, which is not in the package", () => {
    const sources = [...committedTexts()].filter(([path]) => path.startsWith("src/")).map(([, text]) => text);
    expect(sources.length).toBeGreaterThan(300);
    expect([...citationsIn(sources.join("\n"))].filter((name) => !name.startsWith("contract "))).toEqual([]);
  });

  it("finds them in lists and ranges, and what the page lacks", () => {
    expect([...citationsIn("ruling C2; Rulings A1, C3 and E2, trap 13, traps 2, 4; contract 4.1-3, 8")].sort()).toEqual(
      ["contract 4.1", "contract 8", "ruling A1", "ruling C2", "ruling C3", "ruling E2", "trap 13", "trap 2", "trap 4"],
    );
    const rows = "| ruling | x |\n| --- | --- |\n| B1, B2 | y |\n| 9  | z |";
    expect([...explainedIn(rows, "## 4. Operations\n### 4.1 Verifying\n1. x\n## 5. Callers\n4. y\n")].sort()).toEqual([
      "contract 4",
      "contract 4.1",
      "contract 5",
      "contract 5.4",
      "ruling B1",
      "ruling B2",
      "trap 9",
    ]);
  });
});

describe("structure: width", () => {
  it("no comment goes beyond column 120", () => {
    const texts = [...committedTexts()].filter(([path]) => path !== "grammar/permission-query.d.ts");
    expect(texts.flatMap(([path, text]) => findWideComments(path, text))).toEqual([]);
  });

  it("finds one, and passes long strings and directives", () => {
    const long = "x ".repeat(70);
    const text = `// short\n  // ${long}\n/** ${long}*/\nconst a = "${long}";\n// oxlint-disable-next-line -- ${long}`;
    expect(findWideComments("a.ts", text)).toEqual(["a.ts:2", "a.ts:3"]);
  });
});

describe("structure: the public surface", () => {
  it("every type that an export names can be imported, and every export says what it is for", () => {
    expect(findSurfaceFaults(ENTRIES)).toEqual([]);
  });

  it("finds what is missing", () => {
    // The entry point of sqlite alone exports neither the port nor its types.
    expect(findSurfaceFaults(["src/stores/sqlite/index.ts"])).toEqual([
      "SqliteStore names Store, which cannot be imported",
    ]);
    expect(findSurfaceFaults(["src/lib/deep-freeze.ts"])).toEqual([]);
  });
});

describe("structure: imports", () => {
  const sources = readSources();

  it("every file of src keeps the rules of its folder", () => {
    expect(sources.length).toBeGreaterThan(10);
    expect(findFaults(sources)).toEqual([]);
  });

  it("no arrow of the table is there for nothing", () => {
    expect(findUnusedArrows(sources)).toEqual([]);
    expect(findUnusedArrows([])).toContain("cache → access");
  });

  const planted: [what: string, path: string, text: string, fault: RegExp][] = [
    ["a file in no folder", "src/helpers.ts", "export const a = 1;", /in no folder/],
    [
      "a target in no folder",
      "src/lib/hash.ts",
      'import { a } from "../helpers.js";',
      /lib\/hash imports helpers, which is in no folder/,
    ],
    [
      "a contract that imports code",
      "src/contracts/errors.ts",
      'import "../verify/verify-key.js";',
      /^contracts\/errors must not import verify/,
    ],
    [
      "neighbours that import one another",
      "src/credits/leased-spender.ts",
      'import "../ratelimit/fallback.js";',
      /must not import ratelimit\/fallback/,
    ],
    [
      "the core importing an engine",
      "src/verify/verifier.ts",
      'import "../stores/sqlite/store.js";',
      /must not import stores\/sqlite\/store/,
    ],
    [
      "a type that is imported all the same",
      "src/contracts/types.ts",
      'import type { A } from "../lib/hash.js";',
      /must not import lib\/hash/,
    ],
    [
      "an engine importing the core",
      "src/stores/memory.ts",
      'import "../verify/verify-key.js";',
      /must not import verify\/verify-key/,
    ],
    [
      "a store importing more of credits than balances",
      "src/stores/memory.ts",
      'import "../credits/leased-spender.js";',
      /import credits\/leased-spender/,
    ],
    [
      "a store importing an engine",
      "src/stores/memory.ts",
      'import "./sqlite/store.js";',
      /must not import stores\/sqlite\/store/,
    ],
    [
      "any host importing Node's",
      "src/http/fetch.ts",
      'import "./node/server.js";',
      /^http\/fetch must not import http\/node\/server/,
    ],
    [
      "administration importing the cache",
      "src/keyring/apis.ts",
      'import "../cache/key-cache.js";',
      /must not import cache\/key-cache/,
    ],
    [
      "a second importer of node:crypto",
      "src/keyring/keys/create-key.ts",
      'import "node:crypto";',
      /must not import node:crypto/,
    ],
    [
      "node:crypto in an engine",
      "src/stores/sqlite/keys/find-keys.ts",
      'import "node:crypto";',
      /must not import node:crypto/,
    ],
    [
      "a Node module in the core",
      "src/verify/request.ts",
      'const fs = await import("node:fs");',
      /must not import node:fs/,
    ],
    [
      "a type from a Node module",
      "src/verify/request.ts",
      'type Fs = typeof import("node:fs");',
      /must not import node:fs/,
    ],
    [
      "a package where it has no place",
      "src/verify/request.ts",
      'import * as v from "valibot";',
      /must not import valibot/,
    ],
    [
      "a second importer of the grammar",
      "src/access/grants.ts",
      'import "../../grammar/permission-query.js";',
      /must not import grammar\/permission-query/,
    ],
    ["a name of Node in the core", "src/verify/verify-key.ts", "const now = process.hrtime();", /says process/],
    ["another", "src/keyring/schemas/page.ts", 'export const size = Buffer.byteLength("a");', /says Buffer/],
    ["a default export", "src/credits/account.ts", "export default 1;", /default export/],
    ["a default function", "src/credits/account.ts", "export default function f() {}", /default export/],
    ["a default by name", "src/credits/account.ts", "const a = 1; export { a as default };", /default export/],
    ["a second barrel", "src/keyring/keyring.ts", 'export * from "./apis.js";', /is no entry point/],
  ];
  it.each(planted)("finds %s", (_what, path, text, fault) => {
    expect(findFaults([parse(path, text)])).toEqual([expect.stringMatching(fault)]);
  });

  it("finds a cycle", () => {
    const faults = findFaults([
      parse("src/access/grants.ts", 'import { a } from "./proxy-keys.js";'),
      parse("src/access/proxy-keys.ts", 'import { b } from "./grants.js";'),
    ]);
    expect(faults).toEqual(["cycle: src/access/grants.ts → src/access/proxy-keys.ts → src/access/grants.ts"]);
  });

  it("passes what is right: names in comments and texts are not code", () => {
    const text =
      '// process and Buffer\nimport { badRequest } from "../contracts/errors.js";\nexport const a = "require process";\n';
    expect(findFaults([parse("src/verify/request.ts", text)])).toEqual([]);
  });
});

describe("structure: time", () => {
  it("a verification has one time: of src/verify only the default clock names Date", () => {
    const naming = readSources().filter(({ path, names }) => path.startsWith("src/verify/") && names.has("Date"));
    expect(naming.map(({ path }) => path)).toEqual(["src/verify/verifier.ts"]);
    const text = readFileSync(join(ROOT, "src/verify/verifier.ts"), "utf8");
    expect(text).not.toMatch(/new Date|Date\.now\(/);
  });
});

describe("structure: architecture", () => {
  it("docs/architecture.md lists the folders of src", () => {
    const text = readFileSync(join(ROOT, "docs/architecture.md"), "utf8");
    const listed = [...text.matchAll(/^- `([a-z]+)\/`: /gm)].map(([, name]) => name);
    const folders = readdirSync(join(ROOT, "src"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
    expect(listed.toSorted()).toEqual(folders.map(({ name }) => name).toSorted());
  });
});

describe("structure: grammar", () => {
  it("the committed parser is what `npm run grammar` makes", () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
      scripts: Record<string, string>;
    };
    const generated = ["grammar/permission-query.js", "grammar/permission-query.d.ts"];
    const folder = mkdtempSync(join(tmpdir(), "keystile-grammar-"));
    try {
      const filter = (path: string) => !generated.some((file) => path.endsWith(file));
      cpSync(join(ROOT, "grammar"), join(folder, "grammar"), { recursive: true, filter });
      const PATH = [join(ROOT, "node_modules", ".bin"), process.env["PATH"]].join(delimiter);
      execSync(scripts["grammar"] ?? "", { cwd: folder, env: { ...process.env, PATH } });
      for (const file of generated)
        expect(readFileSync(join(ROOT, file), "utf8"), file).toBe(readFileSync(join(folder, file), "utf8"));
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe("structure: projects of the tests", () => {
  it("every pattern of a slow test finds files: one that was moved would run among the fast ones", () => {
    const files = execSync("git ls-files test", { cwd: ROOT, encoding: "utf8" }).split("\n");
    for (const pattern of [...LONG, ...LONGEST, ...SERVED, ...SLOW, ...PAIRED, ...PACKAGE, ...SIMULATION]) {
      const alternatives = /^(.*)\{(.+)\}(.*)$/.exec(pattern);
      const [, before = "", names = "", after = ""] = alternatives ?? [];
      for (const one of alternatives === null ? [pattern] : names.split(",").map((name) => before + name + after)) {
        const [start = "", end = ""] = one.split(/\*(?:.*\*)?/);
        expect([one, files.some((file) => file.startsWith(start) && file.endsWith(end))]).toEqual([one, true]);
      }
    }
  });
});

describe("structure: examples of Markdown", () => {
  it("blocks are found with their marks and promised output", () => {
    const blocks = blocksOf(
      "a\n\n```ts run\nconsole.log(1); // → 1\n```\n\n```sh\nnpm ci\n```\n```ts part\nx\n```\n```ts\ny\n```\n",
    );
    expect(blocks.map(({ line, mark }) => [line, mark])).toEqual([
      [3, "run"],
      [10, "part"],
      [13, ""],
    ]);
    expect(promisedOutput(blocks[0]!.code)).toEqual(["1"]);
  });

  it("examples with wrong types are found", async () => {
    const wrong = { line: 1, mark: "run", code: "const a: string = 1;" };
    await expect(layOut("readme-control", [wrong])).rejects.toThrow("does not type-check");
  });
});
