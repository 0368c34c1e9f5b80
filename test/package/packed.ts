/** The packed tarball, installed into an empty folder as a stranger gets it, beside the programs that try it. */
import { execFile } from "node:child_process";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const exec = promisify(execFile);
const ROOT = process.cwd();

export interface Stranger {
  readonly folder: string;
  readonly tarball: string;
  /**
   * Runs a command there.
   * @param env beside what this process has
   * @returns what it wrote to standard output; throws with all that it wrote when it ends with a fault
   */
  run(command: string, args: readonly string[], env?: NodeJS.ProcessEnv): Promise<string>;
  remove(): Promise<void>;
}

/** A file of a tool that this repository has installed. */
export function tool(...path: string[]): string {
  return join(ROOT, "node_modules", ...path);
}

/** Packs and installs what is built, without optional packages. */
export async function createStranger(): Promise<Stranger> {
  const folder = await mkdtemp(join(tmpdir(), "keystile-package-"));
  const packed = await runIn(ROOT, "npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", folder]);
  const tarball = join(folder, (JSON.parse(packed) as { filename: string }[])[0]!.filename);
  await cp(join(ROOT, "test", "package", "programs"), folder, { recursive: true });
  await writeFile(join(folder, "package.json"), JSON.stringify({ name: "stranger", private: true }));
  const run: Stranger["run"] = (command, args, env) => runIn(folder, command, args, env);
  await run("npm", ["install", "--omit=optional", "--prefer-offline", "--no-audit", "--no-fund", tarball]);
  return { folder, tarball, run, remove: () => rm(folder, { recursive: true, force: true }) };
}

async function runIn(
  folder: string,
  command: string,
  args: readonly string[],
  env?: NodeJS.ProcessEnv,
): Promise<string> {
  try {
    return (await exec(command, args, { cwd: folder, maxBuffer: 64 << 20, env: { ...process.env, ...env } })).stdout;
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new Error(`${command} ${args.join(" ")} failed:\n${stdout}${stderr}`, { cause: error });
  }
}
