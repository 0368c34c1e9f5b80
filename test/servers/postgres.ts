/**
 * PostgreSQL servers for tests: started from Debian's binaries on free ports of loopback, ended with the process that
 * started them. Where there are none, `TEST_POSTGRES` may name a server on which tests may make databases;
 * without either they are skipped, and fail where `CI` is set.
 */
import { type ChildProcess, execFile, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";

const shell = promisify(execFile);
const BINARIES = findBinaries();
const ADDRESS = process.env["TEST_POSTGRES"];

/** Why tests that only need a server are skipped; undefined: they are not. */
export const noPostgres =
  BINARIES !== undefined || ADDRESS !== undefined ? undefined : missing("PostgreSQL", "TEST_POSTGRES is not set");
/** Why tests that stop, kill or configure servers of their own are skipped; undefined: they are not. */
export const noPostgresServer =
  BINARIES !== undefined ? undefined : missing("PostgreSQL", "these tests stop and start it");
/** Why tests through a pooler are skipped; undefined: they are not. */
export const noPgbouncer =
  BINARIES !== undefined && spawnSync("pgbouncer", ["--version"]).status === 0
    ? undefined
    : missing("pgbouncer", "these tests go through it");

function findBinaries(): string | undefined {
  const root = "/usr/lib/postgresql";
  try {
    const [newest] = readdirSync(root).sort((a, b) => Number(b) - Number(a));
    const folder = join(root, newest ?? "", "bin");
    return spawnSync(join(folder, "postgres"), ["--version"]).status === 0 ? folder : undefined;
  } catch {
    return undefined;
  }
}

function missing(program: string, why: string): string {
  const reason = `there is no ${program} in Debian's place, and ${why}`;
  if (process.env["CI"] === "true") throw new Error(`${reason}: install it, no test may be skipped here`);
  console.warn(`skipped: ${reason}`);
  return reason;
}

/** A server of a test. */
export interface TestPostgres {
  readonly port: number;
  readonly password: string;
  /** Of the superuser in the first database. */
  readonly url: string;
  /** Makes an empty database. @param how as in CREATE DATABASE @returns its address */
  newDatabase(how?: string): Promise<string>;
  /** Runs SQL as the superuser. */
  sql(text: string, database?: string): Promise<Record<string, unknown>[]>;
  /** `immediate`: as a crash, without writing what is in memory. `fast`: in order, ending all sessions. */
  stop(mode: "immediate" | "fast"): Promise<void>;
  /** Starts it again on its port; resolves once it lets sessions in. */
  start(): Promise<void>;
  /**
   * Starts a standby that follows this server. @param name as in synchronous_standby_names @param from where it follows
   */
  standby(name: string, from?: number): Promise<TestPostgres>;
  /** Makes a standby the primary. */
  promote(): Promise<void>;
  /** Ends it and removes its folder. */
  close(): Promise<void>;
}

const running = new Set<ChildProcess>();
process.once("exit", () => {
  // Its processes end with it: killed, they would outlive it for a while.
  for (const child of running) child.kill("SIGQUIT");
});

/** PostgreSQL refuses to run as root: there its own user runs it. */
function serverUser(): { readonly uid?: number; readonly gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const idOf = (flag: string) => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }));
  return { uid: idOf("-u"), gid: idOf("-g") };
}

function serverFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `keystile-${name}-`));
  const { uid, gid } = serverUser();
  if (uid !== undefined && gid !== undefined) chownSync(folder, uid, gid);
  return folder;
}

/**
 * Starts a server, or uses the one that is named.
 * @param settings lines of `postgresql.conf`, such as `max_connections = 20`
 */
export async function startPostgres(settings: readonly string[] = []): Promise<TestPostgres> {
  if (BINARIES === undefined) return named(ADDRESS!);
  const folder = serverFolder("postgres");
  await initialize(BINARIES, folder);
  return serve(BINARIES, folder, readFileSync(join(folder, "password"), "utf8"), [
    "max_connections = 80",
    "shared_buffers = 64MB",
    "max_wal_senders = 4",
    "wal_level = replica",
    "hot_standby = on",
    // No test cuts the power: what a server has written outlives it.
    "fsync = off",
    ...settings,
  ]);
}

/**
 * Fills a folder with the files of a new server, and its password. Those that the first of a run of the tests made are
 * there for the others to copy: making them takes ten times as long.
 */
async function initialize(binaries: string, folder: string): Promise<void> {
  const as = { ...serverUser(), cwd: folder };
  const made = process.env["TEST_INITIALIZED"];
  if (made !== undefined && existsSync(made)) {
    await shell("cp", ["-a", `${made}/.`, folder], as);
    return;
  }
  const password = join(folder, "password");
  writeFileSync(password, `pw-${Math.random().toString(36).slice(2)}`);
  chmodSync(password, 0o644);
  const options = `-U keystile -A scram-sha-256 -E UTF8 --no-sync --locale=C --pwfile ${password}`;
  await shell(join(binaries, "initdb"), ["-D", join(folder, "data"), ...options.split(" ")], as);
  if (made === undefined) return;
  const copy = `${made}-${process.pid}`;
  await shell("cp", ["-a", folder, copy], as);
  try {
    renameSync(copy, made);
  } catch {
    // Another one was first.
    rmSync(copy, { recursive: true, force: true });
  }
}

async function serve(
  binaries: string,
  folder: string,
  password: string,
  settings: readonly string[],
): Promise<TestPostgres> {
  const port = await freePort();
  const data = join(folder, "data");
  const conf = join(data, "postgresql.auto.conf");
  const own = [`port = ${port}`, "listen_addresses = '127.0.0.1'", `unix_socket_directories = '${folder}'`];
  writeFileSync(conf, `${readFileSync(conf, "utf8")}\n${[...own, ...settings].join("\n")}\n`);
  const url = `postgres://keystile:${password}@127.0.0.1:${port}/postgres`;
  let child: ChildProcess | undefined;
  let databases = 0;
  const sql: TestPostgres["sql"] = async (text, database = "postgres") => {
    const client = new pg.Client({
      connectionString: url.replace(/postgres$/, database),
      connectionTimeoutMillis: 5_000,
    });
    client.on("error", () => undefined);
    try {
      await client.connect();
      return ((await client.query(text)) as { rows: Record<string, unknown>[] }).rows;
    } finally {
      await client.end().catch(() => undefined);
    }
  };
  const start = async (): Promise<void> => {
    const started = spawn(join(binaries, "postgres"), ["-D", data], { ...serverUser(), cwd: folder, stdio: "ignore" });
    child = started;
    running.add(started);
    started.once("exit", () => running.delete(started));
    for (const deadline = performance.now() + 60_000; ;) {
      try {
        await sql("SELECT 1");
        return;
      } catch (error) {
        if (started.exitCode !== null) throw new Error(`postgres ended with ${started.exitCode}`, { cause: error });
        if (performance.now() > deadline) throw error;
        await wait(10);
      }
    }
  };
  const stop = async (mode: "immediate" | "fast"): Promise<void> => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill(mode === "immediate" ? "SIGQUIT" : "SIGINT");
    await exited;
  };
  await start();
  return {
    port,
    password,
    url,
    sql,
    start,
    stop,
    async newDatabase(how = "") {
      const name = `test_${process.pid}_${++databases}`;
      await sql(`CREATE DATABASE ${name} ${how}`);
      return url.replace(/postgres$/, name);
    },
    async standby(name, from = port) {
      const copy = serverFolder("standby");
      const source = `postgres://keystile:${password}@127.0.0.1:${from}/postgres?application_name=${name}`;
      const flags = ["-D", join(copy, "data"), "-R", "-X", "stream", "-c", "fast", "--no-sync"];
      await shell(join(binaries, "pg_basebackup"), ["-d", source, ...flags], { ...serverUser(), cwd: copy });
      // What the backup brought is followed by the standby's own port.
      return serve(binaries, copy, password, ["synchronous_standby_names = ''"]);
    },
    async promote() {
      await sql("SELECT pg_promote(true, 30)");
    },
    async close() {
      await stop("immediate");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function named(address: string): TestPostgres {
  const unsupported = (): never => {
    throw new Error("a server that is named by its address is not stopped or started");
  };
  const { port, password } = new URL(address);
  const at = (database: string) => Object.assign(new URL(address), { pathname: `/${database}` }).href;
  const made: string[] = [];
  const sql: TestPostgres["sql"] = async (text, database) => {
    const client = new pg.Client({ connectionString: database === undefined ? address : at(database) });
    try {
      await client.connect();
      return ((await client.query(text)) as { rows: Record<string, unknown>[] }).rows;
    } finally {
      await client.end().catch(() => undefined);
    }
  };
  return {
    port: Number(port || 5_432),
    password,
    url: address,
    sql,
    async newDatabase(how = "") {
      const name = `keystile_test_${process.pid}_${made.length}`;
      await sql(`CREATE DATABASE ${name} ${how}`);
      made.push(name);
      return at(name);
    },
    stop: unsupported,
    start: unsupported,
    standby: unsupported,
    promote: unsupported,
    async close() {
      for (const name of made) await sql(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    },
  };
}

/** A pooler in front of a server, which gives each transaction another connection. */
export interface TestPooler {
  /** The address of a database through the pooler. */
  through(url: string): string;
  close(): Promise<void>;
}

/** Starts pgbouncer in transaction mode with a few connections to the server, so that they change hands. */
export async function startPgbouncer(server: TestPostgres): Promise<TestPooler> {
  const folder = serverFolder("pgbouncer");
  const port = await freePort();
  const config = join(folder, "pgbouncer.ini");
  const users = join(folder, "users.txt");
  writeFileSync(users, `"keystile" "${server.password}"\n`);
  writeFileSync(
    config,
    [
      "[databases]",
      `* = host=127.0.0.1 port=${server.port}`,
      "[pgbouncer]",
      "listen_addr = 127.0.0.1",
      `listen_port = ${port}`,
      "auth_type = plain",
      `auth_file = ${users}`,
      "pool_mode = transaction",
      "default_pool_size = 4",
      "max_client_conn = 200",
      "unix_socket_dir =",
      "ignore_startup_parameters = extra_float_digits",
    ].join("\n"),
  );
  for (const file of [users, config]) chmodSync(file, 0o644);
  const child = spawn("pgbouncer", [config], { ...serverUser(), cwd: folder, stdio: "ignore" });
  running.add(child);
  child.once("exit", () => running.delete(child));
  const through = (url: string) => Object.assign(new URL(url), { port: String(port) }).href;
  for (const deadline = performance.now() + 20_000; ;) {
    const client = new pg.Client({ connectionString: through(server.url), connectionTimeoutMillis: 2_000 });
    client.on("error", () => undefined);
    try {
      await client.connect();
      await client.query("SELECT 1");
      await client.end();
      break;
    } catch (error) {
      if (child.exitCode !== null) throw new Error(`pgbouncer ended with ${child.exitCode}`, { cause: error });
      if (performance.now() > deadline) throw error;
      await wait(20);
    }
  }
  return {
    through,
    async close() {
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  return port;
}

/** @param ms milliseconds */
export const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
