/**
 * Runs the examples of a Markdown text. Each ```ts block says what it is: `ts run`, a whole program; `ts servers`, one
 * that needs PostgreSQL and Redis; `ts next`, what goes on from the first `ts run` of its page; or `ts part`, a piece
 * of a program.
 */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { ROOT } from "./source.js";

const run = promisify(execFile);

export interface Block {
  /** Of the fence, from 1. */
  readonly line: number;
  /** Of the text that it stands in, where blocks of several are laid out together. */
  readonly page?: string;
  /** What follows `ts` on the fence: `run`, `servers`, `next`, `part`, or nothing. */
  readonly mark: string;
  readonly code: string;
}

/** The TypeScript blocks of a Markdown text. */
export function blocksOf(markdown: string): Block[] {
  return [...markdown.matchAll(/^```(?:ts|typescript)\b[ \t]*(.*)\n([\s\S]*?)^```$/gm)].map((match) => ({
    line: markdown.slice(0, match.index).split("\n").length,
    mark: (match[1] ?? "").trim(),
    code: match[2] ?? "",
  }));
}

/** The blocks of a page that run: one that goes on from the first program has that program before it. */
export function programsOf(markdown: string): Block[] {
  const blocks = blocksOf(markdown);
  const first = blocks.find(({ mark }) => mark === "run")?.code ?? "";
  return blocks.flatMap((block) => {
    if (block.mark === "next") return { ...block, mark: "run", code: `${first}\n${block.code}` };
    return block.mark === "run" || block.mark === "servers" ? block : [];
  });
}

/** What an example says that it prints: the texts of its `// → …` comments, in order. */
export function promisedOutput(code: string): string[] {
  return [...code.matchAll(/\/\/ → (.*)$/gm)].map((match) => (match[1] ?? "").trim());
}

/** Runs a block with these variables besides; returns the lines that it printed. */
export type RunBlock = (block: Block, env?: NodeJS.ProcessEnv) => Promise<string[]>;

/**
 * Lays examples out as files that import `keystile` from `src`, type-checks them all, and answers how to run one.
 * @param name of the folder in `.cache/`, which is emptied
 */
export async function layOut(name: string, blocks: readonly Block[]): Promise<RunBlock> {
  const folder = join(ROOT, ".cache", name);
  const tsconfig = join(folder, "tsconfig.json");
  const nameOf = ({ page, line }: Block): string =>
    `${page === undefined ? "" : `${page.replace(/\W/g, "-")}-`}line-${line}`;
  const fileOf = (block: Block): string => join(folder, `${nameOf(block)}.ts`);
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const paths = {
    keystile: ["../../src/index.ts"],
    "keystile/sqlite": ["../../src/stores/sqlite/index.ts"],
    "keystile/http": ["../../src/http/index.ts"],
    "keystile/console": ["../../src/console/index.ts"],
    "keystile/portal": ["../../src/portal/index.ts"],
    "keystile/durable-object": ["../../src/edge/index.ts"],
    "keystile/store-kit": ["../../src/stores/kit.ts"],
    "keystile/postgres": ["../../src/stores/postgres/index.ts"],
    "keystile/redis": ["../../src/ratelimit/redis/index.ts"],
    "keystile/testing": ["../../src/testing/index.ts"],
    "keystile/otel": ["../../src/otel/otel.ts"],
    ...Object.fromEntries(
      ["express", "fastify", "hono", "nest", "trpc", "web"].map((name) => [
        `keystile/${name}`,
        [`../../src/middleware/${name}.ts`],
      ]),
    ),
  };
  const compilerOptions = {
    paths,
    noUnusedLocals: false,
    noUnusedParameters: false,
    // `process.env.NAME`, as programs have it.
    noPropertyAccessFromIndexSignature: false,
  };
  await writeFile(tsconfig, JSON.stringify({ extends: "../../tsconfig.json", compilerOptions, include: ["*.ts"] }));
  await Promise.all(blocks.map((block) => writeFile(fileOf(block), `${block.code}\nexport {};\n`)));
  try {
    await run(process.execPath, [join(ROOT, "node_modules", "typescript-7", "bin", "tsc"), "-p", tsconfig]);
  } catch (error) {
    throw new Error(`an example does not type-check:\n${(error as { stdout: string }).stdout}`, { cause: error });
  }

  const builtOf = await bundlePrograms(blocks.map(fileOf), tsconfig, join(folder, "built"));
  // Each in an empty folder of its own.
  return async (block, env = {}) => {
    const cwd = await mkdtemp(join(folder, `${nameOf(block)}-`));
    const { stdout } = await run(process.execPath, [builtOf(fileOf(block))], {
      cwd,
      env: { ...process.env, ...env },
      timeout: 30_000,
    });
    return stdout
      .split("\n")
      .map((line) => line.trim())
      .filter((line) => line !== "");
  };
}

/**
 * Bundles programs that import `keystile` from `src`, all at once: a compiler that starts with each of them takes ten
 * times as long as they do.
 * @param into a folder below the repository, so that programs find what is installed there
 * @returns where the bundle of a program is
 */
export async function bundlePrograms(
  files: readonly string[],
  tsconfig: string,
  into: string,
): Promise<(file: string) => string> {
  await build({
    entryPoints: [...files],
    outdir: into,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    packages: "external",
    platform: "node",
    format: "esm",
    target: "node20",
    tsconfig,
    logLevel: "error",
  });
  return (file) => join(into, `${basename(file, ".ts")}.mjs`);
}
