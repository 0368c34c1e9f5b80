/** README and docs/: every example runs, every link leads somewhere, every page is listed. */
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";
import { PGlite } from "@electric-sql/pglite";
import Database from "better-sqlite3";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { listProblemTypes } from "../src/contracts/errors.js";
import { createKeyring, createVerifier } from "../src/index.js";
import { postgresStore } from "../src/stores/postgres/index.js";
import { sqliteStore } from "../src/stores/sqlite/index.js";
import { CHECKS } from "../src/verify/verify-key.js";
import { noPostgres, startPostgres, type TestPostgres } from "./servers/postgres.js";
import { noRedis, startRedis, type TestRedis } from "./servers/redis.js";
import { anchorsOf, linksIn } from "./structure/links.js";
import { operationsPage } from "./structure/operations-page.js";
import { type Block, blocksOf, layOut, programsOf, promisedOutput, type RunBlock } from "./structure/readme.js";
import { ROOT } from "./structure/source.js";

const read = (file: string): string => readFileSync(join(ROOT, file), "utf8");
const inDocs = ["", "recipes/"].flatMap((folder) =>
  readdirSync(join(ROOT, "docs", folder))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `${folder}${name}`),
);
const PAGES = ["README.md", ...inDocs.map((name) => `docs/${name}`)];
/** Pieces of programs of examples/, where test/middleware runs them. */
const isExample = (mark: string): boolean => existsSync(join(ROOT, "examples", `${mark}.ts`));

describe("docs: examples", () => {
  it.each(PAGES)("%s: each says what it is", (page) => {
    const marks = blocksOf(read(page)).map(({ mark }) => mark);
    expect(marks.filter((mark) => !["run", "servers", "next", "part"].includes(mark) && !isExample(mark))).toEqual([]);
  });

  const programs = PAGES.flatMap((page) =>
    programsOf(read(page)).map((block) => [page, block.line, { ...block, page }] as const),
  );
  const guarded = blocksOf(read("bench/README.md"))
    .filter(({ mark }) => mark.startsWith("keystile-"))
    .map((block) => ({
      ...block,
      page: "bench/README.md",
      code: block.code + (block.mark.endsWith("hono") ? HONO : EXPRESS),
    }));
  let run: RunBlock;
  let postgres: TestPostgres | undefined;
  let redis: TestRedis | undefined;
  beforeAll(async () => {
    // All at once: types take a compiler many seconds, however few the programs.
    run = await layOut("docs", [...programs.map(([, , block]) => block), ...guarded, FIRST_ROUTE, ...CONTROLS]);
    if (noPostgres === undefined) postgres = await startPostgres();
    if (noRedis === undefined) redis = await startRedis();
  }, 180_000);
  afterAll(async () => {
    await postgres?.close();
    await redis?.close();
  });

  it("docs/sell-a-plan.md: each plan is sold in a few lines", () => {
    const long = blocksOf(read("docs/sell-a-plan.md"))
      .filter(({ mark }) => mark === "next")
      .map(({ code }) => code.split("\n").filter((line) => line !== "" && !line.startsWith("import ")).length)
      .filter((lines) => lines > 10);
    expect(long).toEqual([]);
  });

  it("there are some in every page about the library", () => {
    const pages = programs.map(([page]) => page);
    for (const page of ["permission-queries", "rate-limits", "credits", "callers", "migrating", "writing-a-store"])
      expect(pages).toContain(`docs/${page}.md`);
    for (const page of ["postgres", "many-hosts"]) expect(pages).toContain(`docs/${page}.md`);
  });

  const runsAsItSays = async (block: Block, env?: NodeJS.ProcessEnv): Promise<void> => {
    const printed = await run(block, env);
    const promised = promisedOutput(block.code);
    if (promised.length > 0) expect(printed).toEqual(promised);
  };
  const marked = (mark: string) => programs.filter(([, , block]) => block.mark === mark);

  it.each(marked("run"))("%s: the program at line %i runs and prints what it says", (_page, _line, block) =>
    runsAsItSays(block),
  );

  it.skipIf((noPostgres ?? noRedis) !== undefined).each(marked("servers"))(
    "%s: the program at line %i runs with PostgreSQL and Redis, and prints what it says",
    async (_page, _line, block) =>
      runsAsItSays(block, { DATABASE_URL: await postgres?.newDatabase(), REDIS_URL: redis?.url }),
  );

  it("benchmarks: the lines of each program for a guarded route are as many as the table says", () => {
    const text = read("bench/README.md");
    const counted = new Map(
      blocksOf(text).map(({ mark, code }) => [mark, code.split("\n").filter((line) => line.trim() !== "").length]),
    );
    for (const [mark, program] of [
      ["keystile-express", "keystile, Express"],
      ["keystile-hono", "keystile, Hono"],
      ["unkey-hono", "`@unkey/hono` 2.0"],
      ["better-auth-hono", "better-auth, in Hono"],
    ] as const) {
      const row = text.split("\n").find((line) => line.startsWith(`| ${program} `)) ?? "";
      expect([mark, Number(row.split("|")[2])]).toEqual([mark, counted.get(mark)]);
    }
  });

  it.each(guarded)("benchmarks: our own program $mark for a guarded route type-checks, and guards", async (block) => {
    expect(await run(block)).toEqual(["200", "401", "403"]);
  });

  it("README: A guarded route, on a port of the system's choice, answers 200, 401 and 403", async () => {
    expect(await run(FIRST_ROUTE)).toEqual([
      expect.stringMatching(/^curl .*\/documents$/),
      '200 {"documents":[],"owner":"customer_1"}',
      "401",
      "403",
    ]);
  });

  it("control: they import keystile by its name, run in a folder of their own, and fail if they throw", async () => {
    const [good, bad] = CONTROLS;
    expect(await run(good)).toEqual(["function []"]);
    await expect(run(bad)).rejects.toThrow("Command failed");
  });
});

const KEYS = `
import { createKeyring } from "keystile";
const store = sqliteStore("keys.db");
const keyring = createKeyring(store);
const { apiId } = await keyring.createApi({ name: "documents" });
const may = await keyring.createKey({ apiId, permissions: ["documents.read"] });
const mayNot = await keyring.createKey({ apiId });
const keys = [may.key, "nobody", mayNot.key];
`;
const HONO = `${KEYS}
for (const key of keys) console.log((await app.request("/documents", { headers: { "x-api-key": key } })).status);
process.exit();
`;
const EXPRESS = `${KEYS}
const server = app.listen(0, "127.0.0.1", async () => {
  const { port } = server.address() as import("node:net").AddressInfo;
  for (const key of keys)
    console.log((await fetch(\`http://127.0.0.1:\${port}/documents\`, { headers: { "x-api-key": key } })).status);
  process.exit();
});
`;

/** The route of the README, and calls of it. */
const FIRST_ROUTE: Block = {
  page: "README.md-route",
  line: 1,
  mark: "run",
  code:
    blocksOf(
      read("README.md")
        .split(/^## /m)
        .find((text) => text.startsWith("A guarded route")) ?? "",
    )[0]!.code.replace("app.listen(3000)", "const server = app.listen(0)") +
    `
const mayNot = await keyring.createKey({ apiId });
const { port } = server.address() as import("node:net").AddressInfo;
for (const text of [key, "nobody", mayNot.key]) {
  const response = await fetch(\`http://127.0.0.1:\${port}/documents\`, { headers: { "x-api-key": text } });
  console.log(response.status, response.ok ? JSON.stringify(await response.json()) : "");
}
process.exit();
`,
};

const CONTROLS = [
  `import { readdirSync } from "node:fs";
import { memoryStore } from "keystile";
console.log(typeof memoryStore().findKey, readdirSync("."));`,
  'throw new Error("no");',
].map((code, line) => ({ page: "control", line, mark: "run", code })) as [Block, Block];

/** The columns that the first table of columns in a page names, sorted. */
function columnsIn(text: string): string[] {
  const [table = ""] = /^\| column[\s\S]*?\n\n/m.exec(text) ?? [];
  return [...table.matchAll(/^\|([^|]*)\|/gm)]
    .flatMap(([, cell = ""]) => [...cell.matchAll(/`(\w+)`/g)].map(([, name = ""]) => name))
    .sort();
}

/** The statements of each ```sql block. */
function statementsIn(text: string): string[][] {
  return [...text.matchAll(/^```sql\n([\s\S]*?)^```/gm)].map(([, block = ""]) =>
    block.split(";").filter((statement) => statement.trim() !== ""),
  );
}

/** The cells of a row in the first table below a heading of bench/README.md that has it. */
function benchCells(section: string, row: string): readonly string[] {
  const [, text = ""] = read("bench/README.md").split(`## ${section}\n`);
  const line = text
    .split(/^## /m)[0]!
    .split("\n")
    .find((one) => one.startsWith(`| ${row} |`));
  if (line === undefined) throw new Error(`bench/README.md has no row "${row}" below "${section}"`);
  return line.split("|").map((cell) => cell.trim());
}

/** The numbers in a cell, without the commas between thousands. */
const numbersIn = (cell = ""): number[] =>
  [...cell.replaceAll(",", "").matchAll(/\d+(?:\.\d+)?/g)].map(([number]) => Number(number));

const PEERS = "docs/choosing.md";
const BY_HAND = "by hand: prefixed-api-key, rate-limiter-flexible, a counter in memory";
/** Where a figure is said, its number in a group, and where it was measured: row, column, factor of the unit. */
const FIGURES: readonly [page: string, says: RegExp, section: string, row: string, column: number, per?: number][] = [
  ["README.md", /([\d.]+) µs with 64 in use/, "cost", "verify: any of 64 keys, the work of `hot`", 2, 1_000],
  ["README.md", /([\d.]+) µs with 10,000/, "cost", "verify: any of 10,000 keys, the work of `hot`", 2, 1_000],
  ["README.md", /([\d.]+) µs with a million/, "cost", "verify: any of 1,000,000 keys, the work of `hot`", 2, 1_000],
  ["README.md", /SQLite 11 to ([\d.]+) µs/, "Ten million keys", "cold: any of 10,000,000 keys / of 100,000", 2],
  ["README.md", /reached ([\d,]+) per second/, "throughput", "verify, power-durable, 64 in flight", 4],
  [PEERS, /process, ([\d.]+) to [\d.]+ µs/, "Peers", "keystile, leases on SQLite", 2, 1_000],
  [PEERS, /process, [\d.]+ to ([\d.]+) µs/, "Peers", "keystile, memory store", 2, 1_000],
  [PEERS, /process, ([\d.]+) ms/, "Peers", "better-auth, API-key plugin, memory adapter", 2],
  [PEERS, /process, ([\d.]+) µs \|$/m, "Peers", BY_HAND, 2, 1_000],
];

describe("docs: figures", () => {
  it.each(FIGURES)("%s says %s, as bench/README.md has it", (page, says, section, row, column, per = 1) => {
    const said = says.exec(read(page))?.[1] ?? "";
    const measured = numbersIn(benchCells(section, row)[column])[0]! / per;
    const digits = said
      .replaceAll(",", "")
      .replace(/^0?\.0*|[.]/g, "")
      .replace(/0+$/, "").length;
    expect(Number(said.replaceAll(",", ""))).toBe(Number(measured.toPrecision(digits)));
  });

  it("choosing names the peers in the versions that are installed to be measured", () => {
    const { dependencies } = JSON.parse(read("bench/peers/package.json")) as { dependencies: Record<string, string> };
    for (const page of ["docs/choosing.md", "docs/sell-a-plan.md"])
      expect(read(page)).toMatch(new RegExp(`better-auth\\S* ${dependencies["@better-auth/api-key"]}\\b`));
  });
});

describe("docs: questions in SQL", () => {
  it("PostgreSQL: every statement runs with the columns and the rights that the page names", async () => {
    const server = await PGlite.create();
    try {
      const store = postgresStore(server);
      await store.setUp();
      const text = read("docs/postgres.md");
      const [forApp = [], questions = [], forReporting = []] = statementsIn(text);
      const run = async (statements: readonly string[]) => {
        const counts: number[] = [];
        for (const statement of statements) counts.push((await server.query(statement)).rows.length);
        return counts;
      };
      await server.exec("CREATE ROLE app; CREATE ROLE reporting");
      await run([...forApp, ...forReporting]);

      await server.exec("SET ROLE app");
      const keyring = createKeyring(store);
      const { apiId } = await keyring.createApi({ name: "documents" });
      const day = 86_400_000;
      const { key, keyId } = await keyring.createKey({
        apiId,
        externalId: "customer_1",
        expires: Date.now() + 10 * day,
        permissions: ["billing.view"],
        credits: { remaining: 50, refill: { interval: "daily", amount: 5 } },
      });
      await keyring.createKey({ apiId, expires: Date.now() + 100 * day });
      const rotated = await keyring.createKey({ apiId });
      await keyring.rerollKey({ keyId: rotated.keyId, expiration: day });
      const verifier = createVerifier(store);
      expect((await verifier.verify({ key })).code).toBe("VALID");
      await verifier.close();

      await server.exec("SET ROLE reporting");
      expect(await run(questions.map((statement) => statement.replace("key_…", keyId)))).toEqual([1, 1, 1, 1]);
      await expect(server.query("SELECT digest FROM keystile.keys")).rejects.toThrow("permission denied");
      const { fields } = await server.query("SELECT * FROM keystile.key_overview");
      expect(columnsIn(text)).toEqual(fields.map(({ name }) => name).sort());

      await store.close();
    } finally {
      await server.close();
    }
  });

  it("every statement runs with the columns that the page names, also in the sqlite3 program where there is one", async () => {
    const folder = mkdtempSync(join(tmpdir(), "keystile-sql-"));
    const path = join(folder, "keys.db");
    try {
      const store = sqliteStore(path);
      const keyring = createKeyring(store);
      const { apiId } = await keyring.createApi({ name: "documents" });
      const day = 86_400_000;
      await keyring.createKey({
        apiId,
        externalId: "customer_1",
        name: "first",
        expires: Date.now() + 10 * day,
        permissions: ["billing.view"],
        credits: { remaining: 50 },
      });
      await keyring.createKey({ apiId, expires: Date.now() + 100 * day });
      const rotated = await keyring.createKey({ apiId });
      await keyring.rerollKey({ keyId: rotated.keyId, expiration: day });
      await store.close();

      const text = read("docs/sql.md");
      const handle = new Database(path, { readonly: true });
      const columns = handle
        .prepare("SELECT * FROM keystile_key_overview")
        .columns()
        .map(({ name }) => name);
      expect(columnsIn(text)).toEqual(columns.sort());

      const statements = statementsIn(text)[0] ?? [];
      expect(statements.map((statement) => handle.prepare(statement).all().length)).toEqual([1, 1, 1, 2]);
      handle.close();

      const [, command = ""] = /^```sh\n(sqlite3 .*)\n```/m.exec(text) ?? [];
      const { stdout } = await promisify(execFile)(
        "sh",
        ["-c", `command -v sqlite3 > /dev/null || { echo none; exit; }; ${command}`],
        { cwd: folder },
      );
      if (stdout.trim() !== "none") expect(stdout).toContain("|customer_1|50");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe("docs: pages", () => {
  const all = [...PAGES, "SECURITY.md", "CHANGELOG.md", "bench/README.md", "examples/README.md", "test/README.md"];
  it.each(all)("%s: every link leads to a file and a heading that exist", (page) => {
    const broken = linksIn(read(page)).filter((link) => {
      if (/^[a-z]+:/.test(link)) return false;
      const [path = "", anchor] = link.split("#");
      const file = path === "" ? page : join(dirname(page), path);
      if (!existsSync(join(ROOT, file))) return true;
      return anchor !== undefined && !anchorsOf(read(file)).has(anchor);
    });
    expect(broken).toEqual([]);
  });

  it("finds links, and anchors as GitHub makes them", () => {
    expect(linksIn("[a](b.md#c) ![d](e.svg) `[no](x)` <https://h>\n```\n[no](y)\n```\n")).toEqual(["b.md#c", "e.svg"]);
    expect([...anchorsOf("# A `b`, c\n```\n# no\n```\n## A b c")]).toEqual(["a-b-c", "a-b-c-1"]);
  });

  it("each promise of SECURITY.md has a test, by its file and its title", () => {
    const [, guards = ""] = /## What keystile guards\n([\s\S]*?)\n## /.exec(read("SECURITY.md")) ?? [];
    const [, table = ""] = /## Security\n([\s\S]*?)\n## /.exec(read("test/README.md")) ?? [];
    const rows = [...table.matchAll(/^\| (.*?) *\| `(.*?)`: (.*?) *\|$/gm)];
    expect(rows.filter(([, , file, title = ""]) => !read(`test/${file}`).includes(title))).toEqual([]);
    const promises = rows.flatMap(([, promise = ""]) => (promise === "" ? [] : promise));
    const said = [...guards.matchAll(/\*\*([A-Z].*?)\*\*/g)].map(([, text = ""]) => text);
    expect(said.map((text) => promises.find((promise) => text.startsWith(promise)))).toEqual(promises);
  });

  it("the diagram of the checks has them in their order, and VALID at its end", () => {
    const [, diagram = ""] = /```mermaid\n(.*?)```/s.exec(read("docs/verification.md")) ?? [];
    const refusals = [...diagram.matchAll(/-- no --> ([A-Z_]+)$/gm)].map(([, code]) => code);
    expect(refusals).toEqual(["NOT_FOUND", ...CHECKS.map(({ code }) => code)]);
    expect(diagram.trim()).toMatch(/ VALID$/);
  });

  it("docs/http-operations.md has every operation; `npx vitest run -u` makes it anew", async () => {
    await expect(await operationsPage()).toMatchFileSnapshot(join(ROOT, "docs/http-operations.md"));
  });

  it("docs/errors.md says of every code its status, what it comes from and what to do", () => {
    const rows = [...read("docs/errors.md").matchAll(/^\| `([A-Z_]+)` +\| (\d{3}) +\| (\S.*?) +\| (.*?) *\|$/gm)];
    const said = rows.map(([, code, status]) => [code, Number(status)] as const);
    const known = listProblemTypes().map(({ code, status }) => [code, status] as const);
    expect(said.toSorted()).toEqual(known.toSorted());
    expect(rows.filter(([, code, , , cure]) => cure === "" && code !== "PROTECTED_RESOURCE")).toEqual([]);
  });

  it("docs/README.md and llms.txt list every page", () => {
    for (const index of ["docs/README.md", "docs/llms.txt"]) {
      const listed = linksIn(read(index)).map((link) => relative("docs", join("docs", link)));
      expect([index, inDocs.filter((name) => name !== "README.md" && !listed.includes(name))]).toEqual([index, []]);
    }
  });

  it("the README has at most 250 lines, and the two commands of who works on keystile", () => {
    const text = read("README.md");
    expect(text.split("\n").length).toBeLessThanOrEqual(250);
    for (const command of ["npm ci && npm run quickstart", "npm ci && npm test"])
      expect(text).toContain(`\n\`\`\`sh\n${command}\n\`\`\`\n`);
  });
});
