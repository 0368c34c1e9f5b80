/** The packed tarball, installed into an empty folder as a stranger gets it, beside the programs that try it. */
import { execFile } from "node:child_process";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { inject } from "vitest";

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

/** A folder of its own, with what `build.ts` has packed and installed. */
export async function createStranger(): Promise<Stranger> {
  const installed = inject("installed");
  const folder = await mkdtemp(join(tmpdir(), "keystile-package-"));
  // Links as they are: those of programs lead to where they stand.
  await cp(installed.folder, folder, { recursive: true, verbatimSymlinks: true });
  await cp(join(ROOT, "test", "package", "programs"), folder, { recursive: true });
  const run: Stranger["run"] = (command, args, env) => runIn(folder, command, args, env);
  const tarball = join(folder, installed.tarball);
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
