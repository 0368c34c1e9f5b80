/**
 * Real processes for the rigs: each worker is bundled to plain JavaScript once, so that a process starts in a twentieth
 * of a second.
 */
import { type ChildProcess, fork, type Serializable } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, renameSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build, type Plugin } from "esbuild";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
// Below the repository, so that the bundle finds the driver where the sources do.
const FOLDER = join(ROOT, ".cache", "rigs");

/** What a worker tells its parent. */
export type Message = Readonly<Record<string, unknown>>;

/** Modules of `src`, by the one in `neighbours/without` that does without what they are for. */
const REPLACED = {
  "paced-reads": "http/node/paced-reads",
  "fair-turns": "http/admission/fair-turns",
  "long-json": "http/long-json",
  "body-memory": "http/body-memory",
  "bytes-of-counts": "verify/outcome-meter",
  "shares-of-counts": "verify/outcome-meter",
  "shares-of-audit": "stores/sqlite/tables/audit-table",
  "comparison-of-writes": "keyring/write",
  slices: "lib/slices",
} as const;
export type Without = keyof typeof REPLACED;

/** How a worker is built. */
export interface Build {
  /** Where: what is not below the repository finds no driver. */
  readonly folder?: string;
  /** A module in `neighbours/without`, for a control, in place of the one of `src` that {@link REPLACED} says. */
  readonly without?: Without | undefined;
}

/** @returns the path of the bundle, one for each call: rigs may run at the same time */
export function buildWorker(name: string, { folder, without }: Build = {}): Promise<string> {
  return bundle(name, join(ROOT, "test", "rigs", "workers", `${name}.ts`), folder, without);
}

/**
 * The program of the writer thread as it stands in `src`, for the option `writer` of a store: a file for each text that
 * it ever had.
 */
export async function buildWriter(): Promise<URL> {
  const built = await bundle("writer", join(ROOT, "src", "stores", "sqlite", "writer", "worker.ts"));
  const digest = createHash("sha256").update(readFileSync(built)).digest("hex");
  const path = join(FOLDER, `writer-${digest}.mjs`);
  // Whoever builds the same meanwhile puts the same in its place.
  renameSync(built, path);
  return pathToFileURL(path);
}

async function bundle(name: string, source: string, folder = FOLDER, without?: Without): Promise<string> {
  mkdirSync(folder, { recursive: true });
  const replacing = (by: Without): Plugin => ({
    name: "without",
    setup({ onResolve }) {
      onResolve({ filter: /^\.+\/.*\.js$/ }, ({ path, resolveDir }) =>
        // What replaces it may use it.
        resolveDir.startsWith(join(ROOT, "src")) &&
        resolve(resolveDir, path) === join(ROOT, "src", `${REPLACED[by]}.js`)
          ? { path: join(ROOT, "test", "rigs", "neighbours", "without", `${by}.ts`) }
          : undefined,
      );
    },
  });
  const outfile = join(folder, `${name}-${randomUUID()}.mjs`);
  await build({
    entryPoints: [source],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    external: ["better-sqlite3", "commander", "ioredis", "pg"],
    logLevel: "error",
    plugins: without === undefined ? [] : [replacing(without)],
  });
  return outfile;
}

/**
 * Starts a worker with its orders. Its own errors go to this process's standard error.
 * @param execArgv options of Node
 * @param execPath another Node than this one
 */
export function startWorker(
  path: string,
  orders: object,
  env: Readonly<Record<string, string>> = {},
  execArgv: readonly string[] = [],
  execPath = process.execPath,
): ChildProcess {
  const child = fork(path, [JSON.stringify(orders)], {
    execArgv: [...execArgv],
    execPath,
    stdio: ["ignore", "inherit", "inherit", "ipc"],
    env: { ...process.env, ...env },
  });
  running.add(child);
  child.once("exit", () => running.delete(child));
  return child;
}

/** None of them may outlive the rig. */
const running = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** Says a word to a worker. One that has just ended hears nothing: that shows in its exit, or in what it said. */
export function tell(child: ChildProcess, word: Serializable): void {
  if (child.connected) child.send(word, () => undefined);
}

/** The next message of a worker; rejects when it ends without one. */
export function nextMessage(child: ChildProcess): Promise<Message> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number | null, signal: string | null) =>
      reject(new Error(`a worker ended with ${code ?? signal} and said nothing`));
    child.once("exit", onExit);
    child.once("message", (message) => {
      child.off("exit", onExit);
      resolve(message as Message);
    });
  });
}

export function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => child.once("exit", () => resolve()));
}

/** A folder of the rig's own on a real disk. */
export function rigFolder(): string {
  return mkdtempSync(join(process.env["TEST_DISK"] ?? tmpdir(), "keystile-rig-"));
}
