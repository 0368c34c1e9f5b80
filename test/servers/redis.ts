/**
 * Redis servers for tests: started on free ports of loopback, ended with the process that started them. Where there is
 * no `redis-server`, `TEST_REDIS` may name one that tests may fill and flush; without either they are skipped,
 * and fail where `CI` is set.
 */
import { type ChildProcess, execFile, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const shell = promisify(execFile);
const HAS_BINARY = spawnSync("redis-server", ["--version"]).status === 0;
const ADDRESS = process.env["TEST_REDIS"];

/** Why tests that only need a server are skipped; undefined: they are not. */
export const noRedis = HAS_BINARY || ADDRESS !== undefined ? undefined : missing("and TEST_REDIS is not set");
/** Why tests that stop, kill or configure servers of their own are skipped; undefined: they are not. */
export const noRedisServer = HAS_BINARY ? undefined : missing("which can be stopped and started again");

function missing(what: string): string {
  const reason = `there is no redis-server, ${what}`;
  if (process.env["CI"] === "true") throw new Error(`${reason}: install it, no test may be skipped here`);
  console.warn(`skipped: ${reason}`);
  return reason;
}

/** A server of a test. */
export interface TestRedis {
  readonly port: number;
  readonly url: string;
  /** What `redis-cli` prints for a command. */
  cli(...args: string[]): Promise<string>;
  /** Its process, to be stopped and continued. */
  signal(signal: NodeJS.Signals): void;
  /** Ends it as `kill -9` does. */
  kill(): Promise<void>;
  /** Starts it again on its port, without what it held. */
  restart(): Promise<void>;
  /** Ends it and removes its folder. */
  close(): Promise<void>;
}

const running = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/**
 * Starts a server, or uses the one that is named.
 * @param config lines of its configuration as arguments, `["--requirepass", "…"]`
 */
export async function startRedis(config: readonly string[] = []): Promise<TestRedis> {
  return HAS_BINARY ? startServer(config) : named(ADDRESS!);
}

async function startServer(config: readonly string[]): Promise<TestRedis> {
  const folder = mkdtempSync(join(tmpdir(), "keystile-redis-"));
  const port = await freePort();
  const args = ["--port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--dir", folder, ...config];
  let child: ChildProcess;
  const start = async (): Promise<void> => {
    child = spawn("redis-server", args, { stdio: "ignore" });
    running.add(child);
    child.once("exit", () => running.delete(child));
    for (;;) {
      if (await isListening(port)) return;
      if (child.exitCode !== null) throw new Error(`redis-server ended with ${child.exitCode}`);
      await wait(10);
    }
  };
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  };
  await start();
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    cli: async (...command) => (await shell("redis-cli", ["-p", `${port}`, ...command])).stdout,
    signal: (signal) => void child.kill(signal),
    kill,
    restart: start,
    async close() {
      await kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function named(url: string): TestRedis {
  const unsupported = (): never => {
    throw new Error("a server that is named by its address is not stopped or started");
  };
  return {
    port: Number(new URL(url).port || 6_379),
    url,
    cli: async (...command) => (await shell("redis-cli", ["-u", url, ...command])).stdout,
    signal: unsupported,
    kill: unsupported,
    restart: unsupported,
    close: async () => undefined,
  };
}

/** Starts a cluster of three masters, each with a third of the slots. */
export async function startCluster(): Promise<readonly TestRedis[]> {
  const config = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
  const nodes = await Promise.all([0, 1, 2].map(() => startServer(config)));
  const addresses = nodes.map(({ port }) => `127.0.0.1:${port}`);
  await shell("redis-cli", ["--cluster", "create", ...addresses, "--cluster-yes"]);
  for (const node of nodes) while (!(await node.cli("cluster", "info")).includes("cluster_state:ok")) await wait(20);
  return nodes;
}

export const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  // A node of a cluster listens on the port 10,000 above as well.
  return port <= 55_000 ? port : freePort();
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => (socket.destroy(), resolve(true)));
    socket.once("error", () => resolve(false));
  });
}
