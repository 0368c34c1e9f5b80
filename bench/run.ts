/**
 * Runs the benches, each in a fresh process, and writes what they say into bench/README.md. `npm run bench` ·
 * `-- hot cold` for some · `-- plot` draws · `-- peers` · `-- millions --keys 10000000` · `-- --quick` for a smoke run.
 */
import { execFileSync, fork } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { build } from "esbuild";
import type { Result } from "./harness.js";
import { scratch } from "./stores.js";
import { toMarkdown } from "./table.js";

const MEASURED = [
  "hot",
  "uniform",
  "flat",
  "unknown",
  "cold",
  "exact",
  "writers",
  "pool",
  "limiter",
  "redis",
  "leased",
  "analytics",
  "usage",
  "import",
  "memory",
  "catchup",
  "loop",
  "http",
  "middleware",
  "console",
  "startup",
  "postgres",
  "nodes",
];
const PLOTTED = ["cost", "throughput"];
const BENCHES = [...MEASURED, ...PLOTTED];
/** Takes minutes and gigabytes: in a smoke run, or when named. */
const MILLIONS = "millions";
/** What keystile is compared with; to be installed first: `npm ci --prefix bench/peers`. */
const PEERS = [
  "peers/verify",
  "peers/durable",
  "peers/postgres",
  "peers/limits",
  "peers/shared-limits",
  "peers/decisions",
  "peers/together",
];
/** Several by one name. */
const GROUPS: Readonly<Record<string, readonly string[]>> = { plot: PLOTTED, peers: PEERS };
const NAMES = [...BENCHES, MILLIONS, ...Object.keys(GROUPS), ...PEERS];
const USAGE = `usage: npm run bench -- [${NAMES.join(" | ")}]… [--keys N] [--quick] [--output json|text]`;
/** A million records as objects need more than Node's default. */
const NODE_OPTIONS = ["--enable-source-maps", "--max-old-space-size=8192"];

const PACKAGES_OF_PEERS = join("bench", "peers", "node_modules");
const README = join("bench", "README.md");
/** What lies between these two lines is written by this program. */
const BEGIN = "<!-- results -->";
const END = "<!-- /results -->";

interface Arguments {
  readonly benches: readonly string[];
  /** Told to each bench. */
  readonly flags: readonly string[];
  readonly json: boolean;
  readonly writesReadme: boolean;
}

function readArguments(): Arguments {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      quick: { type: "boolean", default: false },
      keys: { type: "string" },
      output: { type: "string", default: "text" },
    },
  });
  const { quick, keys, output } = values;
  if (output !== "json" && output !== "text") throw new Error("--output must be json or text");
  const unknown = positionals.filter((name) => !NAMES.includes(name));
  if (unknown.length > 0) throw new Error(`no such bench: ${unknown.join(", ")}`);
  const all = positionals.length === 0;
  const named = positionals.flatMap((name) => GROUPS[name] ?? [name]);
  const flags = [...(quick ? ["--quick"] : []), ...(keys === undefined ? [] : [`--keys=${keys}`])];
  const benches = all ? [...BENCHES, ...(quick ? [MILLIONS] : [])] : [...new Set(named)];
  return { benches, flags, json: output === "json", writesReadme: all && !quick };
}

/**
 * Compiles as the package is compiled. tsx would wrap each function to keep its name, and a wrap costs more than a
 * hash.
 */
async function compile(benches: readonly string[], folder: string): Promise<void> {
  await build({
    entryPoints: benches.map((bench) => join("bench", `${bench}.ts`)),
    outbase: "bench",
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    packages: "external",
    platform: "node",
    format: "esm",
    target: "node20",
    sourcemap: true,
  });
  if (benches.some((bench) => PEERS.includes(bench))) lendPackages(join(folder, "peers"));
}

/** Lets compiled programs find what is installed in the folder of the peers, and the rest where all find it. */
function lendPackages(folder: string): void {
  if (!existsSync(PACKAGES_OF_PEERS)) throw new Error("the peers are not installed: npm ci --prefix bench/peers");
  mkdirSync(folder, { recursive: true });
  symlinkSync(resolve(PACKAGES_OF_PEERS), join(folder, "node_modules"), "dir");
}

/** @throws Error when the bench fails, whatever it said before */
async function runBench(file: string, bench: string, flags: readonly string[]): Promise<Result> {
  const child = fork(file, flags, { execArgv: NODE_OPTIONS });
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
    (git("status", "--porcelain", "src", "bench", "grammar", ":!bench/README.md", ":!bench/*.svg") === ""
      ? ""
      : " with changes");
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? "unknown"}, ${Math.round(totalmem() / 2 ** 30)} GB, ${process.platform} ${process.arch}`;
  return `${machine} · Node ${process.version} · commit ${commit} · ${new Date().toISOString().slice(0, 10)}`;
}

function writeReadme(tables: readonly string[]): void {
  const text = readFileSync(README, "utf8");
  const [before, after] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (before < 0 || after < before) throw new Error(`${README} must hold ${BEGIN} and, after it, ${END}`);
  writeFileSync(
    README,
    `${text.slice(0, before + BEGIN.length)}\n\n${provenance()}\n\n${tables.join("\n")}\n${text.slice(after)}`,
  );
}

async function main(): Promise<number> {
  let options: Arguments;
  try {
    options = readArguments();
  } catch (error) {
    console.error(`${(error as Error).message}\n${USAGE}`);
    return 2;
  }
  const results: Record<string, Result> = {};
  const tables: string[] = [];
  const folder = scratch("compiled");
  await compile(options.benches, folder);
  for (const bench of options.benches) {
    const result = await runBench(join(folder, `${bench}.mjs`), bench, options.flags);
    results[bench] = result;
    const table = toMarkdown(bench, result);
    tables.push(table);
    if (!options.json) console.log(table);
  }
  if (options.json) console.log(JSON.stringify(results, null, 2));
  if (options.writesReadme) writeReadme(tables);
  return 0;
}

process.exitCode = await main();
