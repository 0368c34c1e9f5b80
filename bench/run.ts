/**
 * Runs the benches, each in a fresh process, and writes what they say into bench/README.md.
 * `npm run bench` · `-- hot cold` for some of them, which writes nothing · `-- --quick` for a smoke run · `-- --output json` for machines.
 */
import { execFileSync, fork } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { build } from "esbuild";
import type { Result } from "./harness.js";
import { scratch } from "./stores.js";
import { toMarkdown } from "./table.js";

const BENCHES = ["hot", "uniform", "unknown", "cold", "exact", "leased", "import", "memory", "catchup", "loop", "http"] as const;
type Bench = (typeof BENCHES)[number];
const USAGE = `usage: npm run bench -- [${BENCHES.join(" | ")}]… [--quick] [--output json|text]`;
/** A million records as objects need more than Node's default. */
const NODE_OPTIONS = ["--enable-source-maps", "--max-old-space-size=8192"];

const README = join("bench", "README.md");
/** What lies between these two lines is written by this program. */
const BEGIN = "<!-- results -->";
const END = "<!-- /results -->";

interface Arguments {
  readonly benches: readonly Bench[];
  readonly quick: boolean;
  readonly json: boolean;
}

function readArguments(): Arguments {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { quick: { type: "boolean", default: false }, output: { type: "string", default: "text" } },
  });
  if (values.output !== "json" && values.output !== "text") throw new Error("--output must be json or text");
  const unknown = positionals.filter((name) => !BENCHES.some((bench) => bench === name));
  if (unknown.length > 0) throw new Error(`no such bench: ${unknown.join(", ")}`);
  const benches = positionals.length === 0 ? BENCHES : BENCHES.filter((bench) => positionals.includes(bench));
  return { benches, quick: values.quick, json: values.output === "json" };
}

/** Compiles as the package is compiled. tsx would wrap each function to keep its name, and a wrap costs more than a hash. */
async function compile(benches: readonly Bench[], folder: string): Promise<void> {
  await build({
    entryPoints: benches.map((bench) => join("bench", `${bench}.ts`)),
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    packages: "external",
    platform: "node",
    format: "esm",
    target: "node20",
    sourcemap: true,
  });
}

/** @throws Error when the bench fails, whatever it said before */
async function runBench(file: string, bench: Bench, quick: boolean): Promise<Result> {
  const child = fork(file, quick ? ["--quick"] : [], { execArgv: NODE_OPTIONS });
  let result: Result | undefined;
  child.on("message", (message) => (result = message as Result));
  const end = await new Promise((resolve) => child.once("close", (code, signal) => resolve(signal ?? code)));
  if (end !== 0 || result === undefined) throw new Error(`the bench ${bench} ended with ${String(end)}`);
  return result;
}

/** Machine, Node, commit and date: a figure without them says nothing. */
function provenance(): string {
  const git = (...args: string[]): string => execFileSync("git", args, { encoding: "utf8" }).trim();
  const commit =
    git("rev-parse", "--short", "HEAD") +
    (git("status", "--porcelain", "src", "bench", "grammar", ":!bench/README.md") === "" ? "" : " with changes");
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? "unknown"}, ${Math.round(totalmem() / 2 ** 30)} GB, ${process.platform} ${process.arch}`;
  return `${machine} · Node ${process.version} · commit ${commit} · ${new Date().toISOString().slice(0, 10)}`;
}

function writeReadme(tables: readonly string[]): void {
  const text = readFileSync(README, "utf8");
  const [before, after] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (before < 0 || after < before) throw new Error(`${README} must hold ${BEGIN} and, after it, ${END}`);
  writeFileSync(README, `${text.slice(0, before + BEGIN.length)}\n\n${provenance()}\n\n${tables.join("\n")}\n${text.slice(after)}`);
}

async function main(): Promise<number> {
  let options: Arguments;
  try {
    options = readArguments();
  } catch (error) {
    console.error(`${(error as Error).message}\n${USAGE}`);
    return 2;
  }
  const results: Partial<Record<Bench, Result>> = {};
  const tables: string[] = [];
  const folder = scratch("compiled");
  await compile(options.benches, folder);
  for (const bench of options.benches) {
    const result = await runBench(join(folder, `${bench}.mjs`), bench, options.quick);
    results[bench] = result;
    const table = toMarkdown(bench, result);
    tables.push(table);
    if (!options.json) console.log(table);
  }
  if (options.json) console.log(JSON.stringify(results, null, 2));
  if (options.benches.length === BENCHES.length && !options.quick) writeReadme(tables);
  return 0;
}

process.exitCode = await main();
