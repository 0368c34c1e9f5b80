/** The real thing: the command line as a bundle, run as processes of their own. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { ROOT } from "../structure/source.js";

/** Bundled, since each process would otherwise compile the sources first: half a second of each. */
export async function bundleCommandLine(name: string): Promise<string> {
  const folder = join(ROOT, ".cache", name);
  mkdirSync(folder, { recursive: true });
  const outfile = join(folder, "cli.mjs");
  await build({
    entryPoints: [join(ROOT, "src", "cli", "bin.ts")],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    packages: "external",
    logLevel: "error",
  });
  return outfile;
}

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command line to its end. The root key goes by the environment: a process list shows what is in `argv`. */
export function runCommand(cli: string, argv: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> {
  return new Promise((resolve) => {
    const options = { env: { ...process.env, ...env }, timeout: 60_000, maxBuffer: 67_108_864 };
    const child = execFile(process.execPath, [cli, ...argv], options, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}

export interface ServerProcess {
  readonly url: string;
  readonly banner: string;
  /** All of stderr so far. */
  readonly errors: () => string;
  /** Sends a signal and answers the exit code, once it has ended. */
  stop(signal?: NodeJS.Signals): Promise<number>;
}

/** Starts `keystile serve` and waits until it listens. @param env variables besides those of the tests */
export async function startServer(
  cli: string,
  argv: readonly string[],
  cwd: string,
  env: NodeJS.ProcessEnv = {},
): Promise<ServerProcess> {
  const child = spawn(process.execPath, [cli, "serve", ...argv], {
    cwd,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let errors = "";
  child.stderr.on("data", (bytes: Buffer) => (errors += bytes.toString()));
  const ended = new Promise<number>((resolve) => child.once("exit", (code) => resolve(code ?? -1)));
  const banner = await readBanner(child, ended, () => errors);
  return {
    url: /http:\S+/.exec(banner)?.[0] ?? "",
    banner,
    errors: () => errors,
    stop(signal = "SIGTERM") {
      child.kill(signal);
      return ended;
    },
  };
}

async function readBanner(child: ChildProcess, ended: Promise<number>, errors: () => string): Promise<string> {
  let banner = "";
  const whole = new Promise<void>((resolve) => {
    child.stdout?.on("data", (bytes: Buffer) => {
      banner += bytes.toString();
      if (/^keystile serves .*\n/.test(banner)) resolve();
    });
  });
  await Promise.race([whole, ended.then((code) => Promise.reject(new Error(`serve ended with ${code}: ${errors()}`)))]);
  return banner;
}

export interface Answered {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body as JSON. */
  readonly body: {
    readonly meta: { readonly requestId: string };
    readonly data?: unknown;
    readonly error?: Readonly<Record<string, unknown>>;
  };
}

/** One request by plain `fetch`. */
export async function post(url: string, name: string, rootKey: string, body: unknown): Promise<Answered> {
  const response = await fetch(`${url}/v2/${name}`, {
    method: "POST",
    headers: { authorization: `Bearer ${rootKey}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: JSON.parse(text) as Answered["body"] };
}
