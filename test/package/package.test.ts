/**
 * The packed tarball as a stranger gets it: installed into an empty folder, loaded from ESM, CommonJS and a bare
 * runtime, type-checked.
 */
import { existsSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runInNewContext } from "node:vm";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createStranger, type Stranger, tool } from "./packed.js";

const ENTRIES = [
  "index",
  "sqlite",
  "sqlite-writer",
  "durable-object",
  "postgres",
  "redis",
  "http",
  "console",
  "portal",
  "testing",
  "store-kit",
  "otel",
];
const FRAMEWORKS = ["express", "hono", "fastify", "web", "nest", "trpc"];

const HAS_SQLITE =
  (process as { getBuiltinModule?: (name: string) => unknown }).getBuiltinModule?.("node:sqlite") !== undefined;

let stranger: Stranger;
let folder: string;

const node = (...args: string[]) => stranger.run(process.execPath, args);
const happenedIn = async (program: string, file: string) =>
  JSON.parse(await node(program, join(folder, file))) as Record<string, unknown>;

beforeAll(async () => {
  // Without the driver at first: keystile itself must not need it.
  stranger = await createStranger();
  ({ folder } = stranger);
});

afterAll(() => stranger.remove());

describe("package: contents", () => {
  it("the tarball holds the builds, their declarations and the papers, and nothing else", async () => {
    const top = await readdir(join(folder, "node_modules", "keystile"));
    expect(top.filter((name) => name !== "README.md").sort()).toEqual([
      "CHANGELOG.md",
      "LICENSE",
      "SECURITY.md",
      "bench",
      "dist",
      "docs",
      "examples",
      "package.json",
    ]);
    const dist = await readdir(join(folder, "node_modules", "keystile", "dist"));
    expect(dist).toContain("cli.js");
    for (const entry of [...ENTRIES, ...FRAMEWORKS]) {
      expect(dist).toEqual(expect.arrayContaining([`${entry}.js`, `${entry}.cjs`, `${entry}.d.ts`, `${entry}.d.cts`]));
    }
  });

  it("the tarball has at most 1,200 kB", async () => {
    expect((await stat(stranger.tarball)).size).toBeLessThanOrEqual(1_200_000);
  });

  it("publint finds nothing to say", async () => {
    expect(
      await stranger.run(process.execPath, [tool("publint", "src", "cli.js"), "run", stranger.tarball, "--strict"]),
    ).toContain("All good!");
  });

  it("the declarations fit the builds in every way that TypeScript resolves them", async () => {
    const attw = tool("@arethetypeswrong", "cli", "dist", "index.js");
    // Ends with 1 when anything is wrong, which `run` turns into an error that shows it.
    expect(await stranger.run(process.execPath, [attw, stranger.tarball, "--no-color", "--format", "ascii"])).toContain(
      "No problems found",
    );
  });
});

describe("package: examples", () => {
  it("compile inside it, beside the frameworks", async () => {
    const modules = join(folder, "node_modules");
    const frameworks = [
      "@fastify",
      "@hono",
      "@modelcontextprotocol",
      "@nestjs",
      "@trpc",
      "@types",
      "bullmq",
      "elysia",
      "express",
      "fastify",
      "graphql",
      "graphql-query-complexity",
      "graphql-yoga",
      "h3",
      "hono",
      "ioredis",
      "koa",
      "pg",
      "reflect-metadata",
      "rxjs",
      "ws",
      "zod",
    ];
    for (const name of frameworks.filter((one) => !existsSync(join(modules, one))))
      await symlink(tool(name), join(modules, name));
    // By the later compiler; the program below is by the one before it, as programs have either.
    await stranger.run(process.execPath, [
      tool("typescript-7", "bin", "tsc"),
      "-p",
      join(modules, "keystile", "examples"),
    ]);
  });
});

describe("package: without a SQLite driver", () => {
  const valid = { code: "VALID", credits: 0 };
  // Since Node 22.13 there is node:sqlite, which takes its place.
  const noDriver = HAS_SQLITE
    ? valid
    : {
        code: "DRIVER_MISSING",
        message: expect.stringContaining("npm install better-sqlite3@12, or use Node 22.14 or later"),
        isKeystileError: true,
      };
  const expected = {
    memory: valid,
    badRequest: { code: "BAD_REQUEST", message: expect.stringContaining("body.key"), isKeystileError: true },
    // The two entries share one KeystileError, so `instanceof` holds across them.
    sqlite: noDriver,
    thread: noDriver,
  };

  it("an ESM program verifies in memory, and is told how to get the driver", async () => {
    expect(await happenedIn("esm.mjs", "esm-without.db")).toEqual(expected);
  });

  it("a CommonJS program does too", async () => {
    expect(await happenedIn("cjs.cjs", "cjs-without.db")).toEqual(expected);
  });

  it.each(["serve.mjs", "serve.cjs"])("%s serves keys over HTTP", async (program) => {
    expect((await node(program)).trim()).toBe("VALID");
  });

  it.each(["suites.mjs", "suites.cjs"])("%s runs the suites of stores and limiters with node:test", async (program) => {
    const report = await node("--test", "--test-reporter=tap", program);
    expect(report).toMatch(/# Subtest: .*clause 19/);
    expect(report).toMatch(/# fail 0\b/);
  });

  it.each([...FRAMEWORKS, "otel"])("keystile/%s loads in ESM and CommonJS without its peer", async (name) => {
    expect(
      (
        await node("--input-type=module", "-e", `console.log(Object.keys(await import("keystile/${name}")).length > 0)`)
      ).trim(),
    ).toBe("true");
    expect((await node("-e", `console.log(Object.keys(require("keystile/${name}")).length > 0)`)).trim()).toBe("true");
  });

  it("the command line answers --help", async () => {
    expect(await stranger.run(join(folder, "node_modules", ".bin", "keystile"), ["--help"])).toContain("keystile");
  });

  it("the ESM and the CommonJS build recognise each other's errors", async () => {
    const happened = JSON.parse(await node("both.mjs")) as unknown;
    expect(happened).toEqual({ sameClass: false, recognised: [true, true], others: [false, false] });
  });
});

/** The driver that this repository has, so that nothing is compiled twice. */
async function linkDriver(root: string): Promise<void> {
  await mkdir(join(root, "node_modules"), { recursive: true });
  for (const name of ["better-sqlite3", "bindings", "file-uri-to-path"])
    await symlink(tool(name), join(root, "node_modules", name), "dir");
}

describe("package: with the driver", () => {
  beforeAll(async () => {
    await linkDriver(folder);
  });

  it("`npx keystile demo` shows every outcome, and run again what persisted", async () => {
    const demo = () => stranger.run(join(folder, "node_modules", ".bin", "keystile"), ["demo", join(folder, "demo")]);
    expect(await demo()).toMatch(/USAGE_EXCEEDED +1,250 +1,250[^]*All as expected/);
    expect(await demo()).toMatch(/What the first run left[^]*All as expected/);
  });

  it.each(["esm.mjs", "cjs.cjs"])("%s verifies on a SQLite file, and with a writer thread", async (program) => {
    const valid = { code: "VALID", credits: 0 };
    expect(await happenedIn(program, `${program}.db`)).toMatchObject({ sqlite: valid, thread: valid });
  });

  it.each(["cjs", "esm"] as const)(
    "a program in one file of %s opens a file; a writer thread takes keystile beside it",
    async (format) => {
      const valid = { code: "VALID", credits: 0 };
      const program = format === "cjs" ? "app.cjs" : "app.mjs";
      await build({
        entryPoints: [join(folder, "bundled.mjs")],
        outfile: join(folder, program),
        bundle: true,
        platform: "node",
        format,
        // It says that CommonJS has no import.meta, which is what is tried here.
        logLevel: "error",
      });
      expect(await happenedIn(program, `${program}.db`)).toMatchObject({ sqlite: valid, thread: valid });
      const elsewhere = await mkdtemp(join(tmpdir(), "keystile-bundle-"));
      try {
        await linkDriver(elsewhere);
        await copyFile(join(folder, program), join(elsewhere, program));
        expect(await happenedIn(join(elsewhere, program), `${program}-elsewhere.db`)).toMatchObject({
          sqlite: valid,
          thread: {
            code: "STORE_FAILED",
            message: expect.stringContaining("give its place as options.writer") as string,
          },
        });
      } finally {
        await rm(elsewhere, { recursive: true });
      }
    },
  );
});

/** What every runtime of today has, besides the language. */
const WEB_NAMES = [
  "Headers",
  "Request",
  "Response",
  "URL",
  "atob",
  "btoa",
  "clearTimeout",
  "crypto",
  "performance",
  "queueMicrotask",
  "setTimeout",
  "structuredClone",
  "TextDecoder",
  "TextEncoder",
];

describe("package: in any runtime", () => {
  const bundle = async (minify: boolean, program = "bare.mjs", external: string[] = []) => {
    const { outputFiles } = await build({
      entryPoints: [join(folder, program)],
      external,
      absWorkingDir: folder,
      bundle: true,
      write: false,
      minify,
      platform: "neutral",
      mainFields: ["module", "main"],
      // A module of Node would stop the build here.
      format: "esm",
    });
    return outputFiles[0]!;
  };

  it("keystile bundles without a module of Node, and verifies where Node is absent", async () => {
    const { text } = await bundle(false);
    const body = text.replace(/export \{\s*code\s*\};/, "return code;");
    const bare = Object.fromEntries(WEB_NAMES.map((name) => [name, (globalThis as Record<string, unknown>)[name]]));
    expect(await runInNewContext(`(async () => { ${body} })()`, bare)).toBe("VALID");
  });

  it("keystile/http answers a Request where Node is absent; its modules of Node are loaded only to listen", async () => {
    const { text } = await bundle(false, "bare-http.mjs", ["node:http", "node:net"]);
    const body = text.replace(/export \{\s*code\s*\};/, "return code;");
    const bare = Object.fromEntries(WEB_NAMES.map((name) => [name, (globalThis as Record<string, unknown>)[name]]));
    expect(await runInNewContext(`(async () => { ${body} })()`, bare)).toBe("VALID");
  });

  it("with all that it exports and imports it stays below 102 kB minified and gzipped", async () => {
    const { contents } = await bundle(true);
    expect(gzipSync(contents).length).toBeLessThan(102_000);
  });

  it("a program that makes no keys is bundled without what makes them: below 54 kB", async () => {
    const { contents } = await bundle(true, "verify-only.mjs");
    expect(gzipSync(contents).length).toBeLessThan(54_000);
  });
});

describe("package: types", () => {
  const PROGRAM = `
    import { createKeyring, createVerifier, memoryStore, isKeystileError, type Store, type V2KeysVerifyKeyResponseData } from "keystile";
    import { createHandler, createServer, type Handler } from "keystile/http";
    import { sqliteStore } from "keystile/sqlite";
    import { periodOf, spend, type Account } from "keystile/store-kit";
    import { limiterSuite, sharedStoreSuite, storeSuite, type TestFunctions } from "keystile/testing";
    export const judge = (runner: TestFunctions) => storeSuite(runner, "mine", () => memoryStore());
    export const judges = [limiterSuite, sharedStoreSuite];
    export const spent = (account: Account): boolean =>
      spend(account, () => new Map(), { cost: 1, period: periodOf({ interval: "daily", amount: 1 }, 0), now: 0 }).result.ok;
    export const handler: Handler = createHandler(memoryStore(), { docsBase: "https://docs.example.com" });
    export const listening: Promise<{ url: string }> = createServer(memoryStore(), { requestLimit: { limit: 1, duration: 1_000 } }).listen({ port: 0 });
    // @ts-expect-error there is no option of this name
    export const misspelt = () => createServer(memoryStore(), { docbase: "https://docs.example.com" });
    const stores: Store[] = [memoryStore(), sqliteStore("keys.db")];
    export async function main(): Promise<V2KeysVerifyKeyResponseData[]> {
      const answers: V2KeysVerifyKeyResponseData[] = [];
      for (const store of stores) {
        const { apiId } = await createKeyring(store).createApi({ name: "documents" });
        const { key } = await createKeyring(store).createKey({ apiId, permissions: ["documents.*"] });
        const answer = await createVerifier(store).verify({ key, permissions: "documents.read" }, { clientAddress: "192.0.2.1" });
        if (answer.code === "VALID" && answer.credits !== undefined) answer.credits.toFixed();
        answers.push(answer);
      }
      return answers;
    }
    export const statusOf = (error: unknown): number => (isKeystileError(error) ? error.status : 500);
    // @ts-expect-error a request has no property of this name
    export const wrong = () => createVerifier(memoryStore()).verify({ key: "k", apiId: "api_1" });
  `;

  it("a strict program type-checks in ESM and in CommonJS, without the driver's or Node's types", async () => {
    for (const name of ["types.mts", "types.cts"]) await writeFile(join(folder, name), PROGRAM);
    const compilerOptions = {
      strict: true,
      exactOptionalPropertyTypes: true,
      module: "nodenext",
      target: "es2022",
      types: [],
      noEmit: true,
    };
    await writeFile(
      join(folder, "tsconfig.json"),
      JSON.stringify({ compilerOptions, files: ["types.mts", "types.cts"] }),
    );
    await stranger.run(process.execPath, [tool("typescript", "bin", "tsc"), "-p", folder]);
  });

  it("the declarations name no file of this repository that is not in the package", async () => {
    const dist = join(folder, "node_modules", "keystile", "dist");
    const declarations = (await readdir(dist)).filter((name) => /\.d\.c?ts$/.test(name));
    for (const name of declarations) {
      const text = await readFile(join(dist, name), "utf8");
      expect(text, name).not.toMatch(/from ["'](\.\.|better-sqlite3|valibot|jose|node:)/);
    }
  });
});
