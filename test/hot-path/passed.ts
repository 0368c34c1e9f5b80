/**
 * Counts the files and functions of src that one call of each kind passes, all but one of them verifications:
 * `npx tsx test/hot-path/passed.ts`, with `--list` to name them.
 */
import { execFile } from "node:child_process";
import { cpSync, readdirSync, rmSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs, promisify } from "node:util";
import { build } from "esbuild";

const ROOT = join(import.meta.dirname, "../..");
/** The tree compiled file by file, since a bundle would be one script to the engine. */
const COMPILED = join(ROOT, ".cache/passed");
const RUN = promisify(execFile);

/** By file below src, the functions called, as `name:offset` in the compiled file. */
export type Passed = ReadonlyMap<string, readonly string[]>;

/** What each kind of verification passes, by its name. */
export async function countPassed(): Promise<ReadonlyMap<string, Passed>> {
  rmSync(COMPILED, { recursive: true, force: true });
  const sources = readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .map((path) => join(ROOT, "src", path));
  const worker = join(import.meta.dirname, "passed-worker.ts");
  await build({ entryPoints: [...sources, worker], outdir: COMPILED, outbase: ROOT, format: "esm", target: "node20" });
  cpSync(join(ROOT, "grammar"), join(COMPILED, "grammar"), { recursive: true });
  cpSync(join(ROOT, "package.json"), join(COMPILED, "package.json"));
  const { stdout } = await RUN(process.execPath, [join(COMPILED, "test/hot-path/passed-worker.js")]);
  const kinds = JSON.parse(stdout) as Record<string, Record<string, string[]>>;
  return new Map(Object.entries(kinds).map(([kind, scripts]) => [kind, ofSrc(scripts)]));
}

function ofSrc(scripts: Record<string, string[]>): Passed {
  const src = pathToFileURL(join(COMPILED, "src")).href;
  const passed = new Map<string, string[]>();
  for (const [url, calls] of Object.entries(scripts)) {
    if (!url.startsWith(`${src}/`) || calls.length === 0) continue;
    passed.set(relative(COMPILED, fileURLToPath(url)).replace(/\.js$/, ".ts"), calls);
  }
  return passed;
}

/** @returns how many files and functions */
export function sizeOf(passed: Passed): { readonly files: number; readonly functions: number } {
  return { files: passed.size, functions: [...passed.values()].flat().length };
}

if (process.argv[1] === import.meta.filename) {
  const { list } = parseArgs({ options: { list: { type: "boolean" } } }).values;
  for (const [kind, passed] of await countPassed()) {
    const { files, functions } = sizeOf(passed);
    console.log(`${kind}: ${files} files, ${functions} functions`);
    if (list !== true) continue;
    for (const [path, calls] of [...passed].sort())
      console.log(`  ${path}: ${calls.map((call) => call.replace(/:\d+$/, "")).join(", ")}`);
  }
}
