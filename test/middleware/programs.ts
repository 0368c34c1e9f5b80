/** Programs of examples/, built from `src` all at once, each run as a process of its own. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { bundlePrograms } from "../structure/readme.js";
import { ROOT } from "../structure/source.js";

export const EXAMPLES = join(ROOT, "examples");
/** All but those in folders, which have tests of their own, and what programs share. */
export const PROGRAMS = readdirSync(EXAMPLES).filter((file) => /^(?!keys\.)[^.]+\.ts$/.test(file));
/** Those whose test is recipes.test.ts. */
export const RECIPES = ["graphql", "jobs", "mcp", "secret-scanning", "serverless", "stripe", "websocket"].map(
  (name) => `${name}.ts`,
);
/** As `tell` of examples/keys.ts prints them. */
const LINE = /^(may read|may not): +\S.* -H "Authorization: (Bearer \S+)" (?:.* )?(\S+)$/;
const URL_LINE = /^http:\S+$/;

/** A program that listens. */
export interface Program {
  /** `Authorization` by who has it: `may read`, `may not`. */
  readonly keys: ReadonlyMap<string, string>;
  readonly url: string;
  readonly process: ChildProcess;
  /** Resolves with its exit code. */
  readonly ended: Promise<number | null>;
  stop(): Promise<unknown>;
}

/** Runs programs of examples/. */
export interface Programs {
  /** Starts one, and reads what it prints up to its address. */
  start(file: string, env?: NodeJS.ProcessEnv): Promise<Program>;
  /** Runs one to its end. @returns the lines that it printed */
  run(file: string, env?: NodeJS.ProcessEnv, given?: readonly string[]): Promise<readonly string[]>;
}

/**
 * Builds programs.
 * @param folder in `.cache/`, one for each file of tests
 */
export async function buildPrograms(files: readonly string[], folder: string): Promise<Programs> {
  const paths = files.map((file) => join(EXAMPLES, file));
  const builtOf = await bundlePrograms(paths, join(EXAMPLES, "tsconfig.json"), join(ROOT, ".cache", folder));
  return {
    async start(file, env = {}) {
      const child = spawn(process.execPath, [builtOf(join(EXAMPLES, file))], {
        stdio: ["ignore", "pipe", "inherit"],
        env: { ...process.env, PORT: "0", ...env },
      });
      const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
      const keys = new Map<string, string>();
      let url = "";
      for await (const line of createInterface(child.stdout)) {
        const [, who = "", authorization = "", at = ""] = LINE.exec(line) ?? [];
        if (who !== "") keys.set(who, authorization);
        url = URL_LINE.test(line) ? line : at;
        if (keys.size === 2 || URL_LINE.test(line)) break;
      }
      return { keys, url, process: child, ended, stop: () => (child.kill(), ended) };
    },
    async run(file, env = {}, given = []) {
      const run = promisify(execFile);
      const { stdout } = await run(process.execPath, [builtOf(join(EXAMPLES, file)), ...given], {
        env: { ...process.env, ...env },
        timeout: 60_000,
      });
      return stdout.trim().split("\n");
    },
  };
}
