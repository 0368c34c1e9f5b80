/** `keystile serve`: serves a database file, or a PostgreSQL, over HTTP until SIGINT or SIGTERM. */
import { existsSync, statSync } from "node:fs";
import { type Command, Option } from "commander";
import { createServer, type Server, type ServerOptions } from "../../http/index.js";
import type { Limiter } from "../../contracts/limiter.js";
import type { Store } from "../../contracts/store.js";
import { postgresStore } from "../../stores/postgres/index.js";
import { resultName } from "../../stores/sqlite/connection/errors.js";
import { sqliteLimiter, sqliteStore, type SqliteStore } from "../../stores/sqlite/index.js";
import { DEFAULT_AUDIT_ROWS, MAX_AUDIT_ROWS } from "../../stores/sqlite/options.js";
import { DEFAULT_HOST, DEFAULT_PORT } from "../client/settings.js";
import { type FirstStart, makeFirst, unmakeFirst } from "../database/bootstrap.js";
import { assertNoFolder, type StoreFlags } from "../database/database.js";
import { openPool, schemaOption, withoutCredentials } from "../database/postgres.js";
import {
  assertFree,
  placeRootKey,
  removeDeletedRootKey,
  removeRootKey,
  rootKeyFile,
  settleRootKeys,
  stageRootKey,
} from "../database/root-key-file.js";
import { givenAs, readEnvironment } from "../io/environment.js";
import { EXIT, failure, toFailure, usage } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import {
  collectRange,
  notEmpty,
  toAddress,
  toDocsBase,
  toInteger,
  toLimiter,
  toPath,
  toRequestLimit,
} from "../io/parsers.js";
import { note, warn } from "../io/text.js";
import { openRedisLimiter } from "../redis-limiter.js";

const HELP = `
The first start makes the file or the tables, an API and a root key. A terminal shows the key only this once; otherwise it is
written to a file beside the database, FILE.root-key, or with --store to keystile.root-key in the working folder, and never to
a log. Only the owner can read these files.

Each flag may also be given as an environment variable: KEYSTILE_DB, KEYSTILE_PORT, KEYSTILE_REQUEST_LIMIT and so on; 1
turns a flag on, and KEYSTILE_TRUSTED_PROXY is a list separated by commas. The command line takes precedence.

--store needs the package pg, and --limiter redis://… ioredis or redis, installed beside keystile. Passwords belong in
KEYSTILE_STORE or PGPASSWORD, and KEYSTILE_LIMITER: other users can see those of the command line in the process list.

SIGINT and SIGTERM finish what is in flight and then stop; a second one stops at once.
The service speaks plain HTTP: put a proxy that speaks TLS before it, and let it listen on 127.0.0.1 meanwhile.

Examples:
  $ keystile serve
  $ keystile serve --db /var/lib/keystile/keys.db --port 8080 --log --metrics --request-limit 1000/60
  $ keystile serve --limiter file --port 8081     # one of several processes on keys.db, which share its rate limits
  $ PGPASSWORD=… keystile serve --store postgres://keystile@db.internal/app --limiter redis://redis.internal
  $ KEYSTILE_LIMITER=redis://:PASSWORD@redis.internal keystile serve --nodes 3     # one of three`;

interface ServeFlags extends StoreFlags {
  readonly db: string;
  readonly port: number;
  readonly host: string;
  readonly durability: "power" | "process" | "replicated";
  readonly credits: "exact" | "leased";
  /** `memory`, `file` or the URL of a Redis, which may hold a password. */
  readonly limiter: string;
  readonly nodes: number;
  readonly auditRows: number;
  readonly requestLimit?: { readonly limit: number; readonly duration: number };
  readonly trustedProxy?: readonly string[];
  readonly docsBase?: string;
  readonly log?: true;
  readonly metrics?: true;
  readonly analytics?: true;
}

export function addServeCommand(program: Command, io: Io): Command {
  const command = program
    .command("serve")
    .description("Serve a database file, or a PostgreSQL, over HTTP; the first start makes what is missing.")
    .option("--db <file>", "the database file; :memory: for none", toPath, "keys.db")
    .option("--store <address>", "in place of --db: postgres://USER@HOST/DATABASE, for many hosts", toAddress)
    .addOption(schemaOption("with --store"))
    .option("--port <port>", "0: any that is free", toInteger(0, 65_535), DEFAULT_PORT)
    .option("--host <address>", "the address to listen on", notEmpty, DEFAULT_HOST)
    .option("--log", "a line of JSON for each request on stderr, without any secret")
    .option("--analytics", "count verifications by key, owner, outcome and tags: keystile analytics")
    .option("--metrics", "counts for Prometheus at /metrics, for whoever asks")
    .option(
      "--request-limit <calls/seconds>",
      "calls that a workspace may make, such as 1000/60; default: no limit",
      toRequestLimit,
    )
    .option("--trusted-proxy <range>", "whose X-Forwarded-For is believed; may be repeated", collectRange)
    .option("--docs-base <url>", "where the pages of error types are; default: /docs of this server", toDocsBase)
    .addOption(
      new Option(
        "--durability <what>",
        "what an answer survives: a power cut, or the end of the process; with --store also the loss of the primary",
      )
        .choices(["power", "process", "replicated"])
        .default("power"),
    )
    .addOption(
      new Option("--credits <mode>", "each deduction is stored before its answer, or comes out of a lease in memory")
        .choices(["exact", "leased"])
        .default("exact"),
    )
    .option(
      "--limiter <where>",
      "rate limits in memory, which belong to this process and end with it; in a file that all processes on the database share; " +
        "or in a Redis for many hosts, redis://HOST:PORT",
      toLimiter,
      "memory",
    )
    .option(
      "--nodes <count>",
      "how many processes share the limiter: while it fails, each enforces its share of every limit",
      toInteger(1, 100_000),
      1,
    )
    .option(
      "--audit-rows <count>",
      "how many entries of the audit trail are kept, shared by the workspaces; 0: none",
      toInteger(0, MAX_AUDIT_ROWS),
      DEFAULT_AUDIT_ROWS,
    )
    .addHelpText("after", wrapped(HELP))
    .action(() => {
      assertOneStore(command);
      return serve(io, command.opts<ServeFlags>());
    });
  return readEnvironment(command, io);
}

/** The file that was named would not be served, without a word. */
function assertOneStore(command: Command): void {
  const [db, store] = [givenAs(command, "db"), givenAs(command, "store")];
  if (db !== undefined && store !== undefined)
    throw usage(`${db} and ${store}: leave out ${db} to serve the PostgreSQL, or ${store} to serve the file`);
}

async function serve(io: Io, flags: ServeFlags): Promise<void> {
  if (flags.limiter === "file" && (flags.db === ":memory:" || flags.store !== undefined))
    throw usage("--limiter file: there is no database file beside which limits could be kept");
  const served = await open(flags);
  try {
    const limits = await openLimiter(io, served.file, flags.limiter);
    try {
      await runServer(io, served, limits?.limiter, flags);
    } finally {
      await limits?.close();
    }
  } finally {
    await served.close();
  }
  await note(io, "stopped");
}

/** The store that is served. */
interface Served {
  readonly store: Store;
  /** The store of `--db`. */
  readonly file: SqliteStore | undefined;
  /** For people: the file, or the address without credentials. */
  readonly name: string;
  /** What the file of the first root key is named after. */
  readonly place: string;
  close(): Promise<void>;
}

/** The limiter that several processes share, and what closes it; undefined: each has its own in memory. */
async function openLimiter(
  io: Io,
  file: SqliteStore | undefined,
  where: string,
): Promise<{ readonly limiter: Limiter; close(): unknown } | undefined> {
  if (where === "memory") return undefined;
  if (where === "file" && file !== undefined) {
    const limiter = sqliteLimiter(file);
    return { limiter, close: () => limiter.close() };
  }
  return openRedisLimiter(io, where);
}

async function runServer(io: Io, served: Served, limiter: Limiter | undefined, flags: ServeFlags): Promise<void> {
  const server = createServer(served.store, toOptions(io, flags, limiter));
  try {
    await run(io, served, server, flags);
  } finally {
    await server.close();
  }
}

/** Listens before it creates anything, so that if the port is taken, the next start is still the first. */
async function run(io: Io, served: Served, server: Server, flags: ServeFlags): Promise<void> {
  const { url } = await listen(server, flags);
  const stopped = new Promise<void>((resolve) => io.onStop(resolve));
  const where = `keystile serves ${served.name} at ${reachable(url)}\n`;
  const first = await startFirst(io, served, (first, keyFile) => where + welcome(reachable(url), first, keyFile));
  if (typeof first === "string") await io.stdout.write(where);
  if (served.file !== undefined) await warnIfWide(io, flags.db);
  if (first === "without root key") {
    await note(
      io,
      served.file === undefined
        ? "no root key is in the store: nobody is let in; make one with createRootKey of the library"
        : `no root key is in the file: nobody is let in; run: npx keystile root-keys create --db ${flags.db} --all`,
    );
  }
  if (!/^(localhost|127\..*|::1)$/.test(flags.host)) {
    await warn(io, "root keys and keys come over plain HTTP; put a proxy that speaks TLS before it");
  }
  await stopped;
  await note(io, "stopping: answering what is in flight");
}

/**
 * Makes what the first start makes and shows it, the root key once: on a terminal, or in a file. The key is in a file
 * before it is committed, also where a terminal shows it afterwards. What nobody gets to see is not kept.
 */
async function startFirst(
  io: Io,
  { store, place }: Served,
  toText: (first: FirstStart, keyFile: string | undefined) => string,
): Promise<FirstStart | "made before" | "without root key"> {
  const path = rootKeyFile(place);
  let staged: string | undefined;
  const first = await makeFirst(store, {
    async prepare() {
      await removeDeletedRootKey(store, path);
      if (!io.stdout.isTTY) assertFree(path);
    },
    write({ rootKeyId, rootKey }) {
      const file = stageRootKey(path, rootKeyId, rootKey);
      staged = file;
      return () => removeRootKey(file);
    },
  });
  if (typeof first === "string" || staged === undefined) {
    for (const file of await settleRootKeys(store, path))
      await note(io, `the first root key is in ${file}: read it, and remove it`);
    return first;
  }
  const keyFile = io.stdout.isTTY ? undefined : placeRootKey(staged, path);
  try {
    await (keyFile === undefined ? io.reveal(toText(first, keyFile)) : io.stdout.write(toText(first, keyFile)));
  } catch (error) {
    // In this order: the text of a root key that is in force stays in its file.
    await unmakeFirst(store, first);
    removeRootKey(keyFile ?? staged);
    throw error;
  }
  if (keyFile === undefined) removeRootKey(staged);
  await settleRootKeys(store, path);
  return first;
}

/** Digests, names and metadata are for the owner alone. */
async function warnIfWide(io: Io, db: string): Promise<void> {
  if (db === ":memory:" || process.platform === "win32" || (statSync(db).mode & 0o077) === 0) return;
  await warn(io, `others than its owner can use ${db}; run: chmod 600 ${db}`);
}

async function open(flags: ServeFlags): Promise<Served> {
  if (flags.store !== undefined) return openPostgres(flags.store, flags);
  const file = openDatabase(flags);
  return {
    store: file,
    file,
    name: flags.db,
    place: flags.db,
    close: async () => file.close(),
  };
}

/** Opens a PostgreSQL, and makes its tables if there are none. */
async function openPostgres(address: string, { schema, durability, auditRows }: ServeFlags): Promise<Served> {
  const name = withoutCredentials(address);
  const pool = await openPool(address);
  const store = postgresStore(pool, { schema, durability, audit: { rows: auditRows } });
  const close = async () => {
    await store.close();
    await pool.end();
  };
  try {
    // A role that may not make tables runs on those that are there.
    if ((await store.status()).schemaVersion === undefined) await store.setUp();
    await store.pollChanges();
    return { store, file: undefined, name, place: "keystile", close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Opens the file, which the store makes if there is none. */
function openDatabase({ db, durability, auditRows }: ServeFlags): SqliteStore {
  if (durability === "replicated") throw usage("--durability replicated: for --store, whose server has a standby");
  assertNoFolder(db);
  const isThere = db === ":memory:" || existsSync(db);
  try {
    return sqliteStore(db, { durability, audit: { rows: auditRows } });
  } catch (error) {
    const { cause } = error as { readonly cause?: NodeJS.ErrnoException };
    const code = isThere ? undefined : cause?.code;
    if (code === undefined || resultName(cause) !== undefined) throw error;
    const why =
      code === "ENOENT" ? "its folder, or that of what it links to, does not exist" : `cannot be made (${code})`;
    throw usage(`--db: ${db}: ${why}`);
  }
}

function toOptions(
  io: Io,
  { requestLimit, trustedProxy, docsBase, log, metrics, analytics, credits, nodes }: ServeFlags,
  limiter: Limiter | undefined,
): ServerOptions {
  const line = (text: string): void => void io.stderr.write(`${text}\n`);
  return {
    verifier: { credits: { mode: credits }, limiter, nodes, ...(analytics === true && { analytics }) },
    ...(requestLimit !== undefined && { requestLimit: { ...requestLimit, ...(limiter && { limiter, nodes }) } }),
    ...(trustedProxy !== undefined && { trustedProxies: trustedProxy }),
    ...(docsBase !== undefined && { docsBase }),
    ...(log === true && { log: line }),
    ...(metrics === true && { metrics }),
    onError: (error, { requestId }) =>
      line(JSON.stringify({ time: io.now(), requestId, fault: toFailure(error).message })),
  };
}

async function listen(server: Server, { port, host }: ServeFlags): Promise<{ readonly url: string }> {
  try {
    return await server.listen({ port, host });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EADDRINUSE")
      throw failure(EXIT.failed, `port ${port} of ${host} is taken; choose another with --port`);
    throw failure(EXIT.failed, `cannot listen on port ${port} of ${host} (${code ?? "unknown"})`);
  }
}

/** The URL on this machine of a server that listens on every address. */
function reachable(url: string): string {
  return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
}

/** @param keyFile of the root key; `undefined`: it is shown here, this once */
function welcome(url: string, { apiId, rootKey }: FirstStart, keyFile: string | undefined): string {
  const body = JSON.stringify({ apiId, name: "first key" });
  const [key, note] =
    keyFile === undefined
      ? [rootKey, "shown this once: keep it where nobody else can read it"]
      : [keyFile, "the file that holds it, for its owner alone: read it, and remove it"];
  const read = keyFile === undefined ? "read -rs KEY" : `read -r KEY < '${keyFile.replaceAll("'", "'\\''")}'`;
  return `
API       ${apiId}
root key  ${key}
          ${note}

Make a key${keyFile === undefined ? ", having pasted the root key to the first line" : ""}:

${read}
printf 'Authorization: Bearer %s' "$KEY" | curl ${url}/v2/keys.createKey -H @- -H 'Content-Type: application/json' -d '${body}'
`;
}
