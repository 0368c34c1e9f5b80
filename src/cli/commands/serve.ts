/** `keystile serve`: serves a database file over HTTP until SIGINT or SIGTERM. */
import { existsSync, statSync } from "node:fs";
import { type Command, Option } from "commander";
import { createServer, type Server, type ServerOptions } from "../../http/index.js";
import { sqliteLimiter, type SqliteLimiter, sqliteStore, type SqliteStore } from "../../stores/sqlite/index.js";
import { DEFAULT_HOST, DEFAULT_PORT } from "../client/settings.js";
import { type FirstStart, makeFirst, unmakeFirst } from "../database/bootstrap.js";
import { assertNoFolder } from "../database/database.js";
import { removeRootKey, rootKeyFile, writeRootKey } from "../database/root-key-file.js";
import { readEnvironment } from "../io/environment.js";
import { EXIT, failure, toFailure, usage } from "../io/failures.js";
import type { Io } from "../io/io.js";
import { collectRange, notEmpty, toDocsBase, toInteger, toPath, toRequestLimit } from "../io/parsers.js";
import { note, paint } from "../io/text.js";

const HELP = `
The first start makes the file, an API and a root key. A terminal shows the key this once; elsewhere it goes to a file
beside the database, FILE.root-key, and into no log. Others than the owner can read neither file.
Each flag may also be given as an environment variable: KEYSTILE_DB, KEYSTILE_PORT, KEYSTILE_REQUEST_LIMIT and so on; 1
turns a flag on, and KEYSTILE_TRUSTED_PROXY is a list with commas. The command line goes before.
SIGINT and SIGTERM answer what is in flight and then stop; a second one stops at once.
The service speaks plain HTTP: put a proxy that speaks TLS before it, and let it listen on 127.0.0.1 meanwhile.

Examples:
  $ keystile serve
  $ keystile serve --db /var/lib/keystile/keys.db --port 8080 --log --metrics --request-limit 1000/60
  $ keystile serve --limiter file --port 8081     # one of several processes on keys.db, which share its rate limits`;

interface ServeFlags {
  readonly db: string;
  readonly port: number;
  readonly host: string;
  readonly durability: "power" | "process";
  readonly credits: "exact" | "leased";
  readonly limiter: "memory" | "file";
  readonly requestLimit?: { readonly limit: number; readonly duration: number };
  readonly trustedProxy?: readonly string[];
  readonly docsBase?: string;
  readonly log?: true;
  readonly metrics?: true;
}

export function addServeCommand(program: Command, io: Io): void {
  const command = program
    .command("serve")
    .description("Serve a database file over HTTP; the first start makes it.")
    .option("--db <file>", "the database file; :memory: for none", toPath, "keys.db")
    .option("--port <port>", "0: any that is free", toInteger(0, 65_535), DEFAULT_PORT)
    .option("--host <address>", "the address to listen on", notEmpty, DEFAULT_HOST)
    .option("--log", "a line of JSON for each request on stderr, without any secret")
    .option("--metrics", "counts for Prometheus at /metrics, for whoever asks")
    .option(
      "--request-limit <calls/seconds>",
      "calls that a workspace may make, such as 1000/60; default: no limit",
      toRequestLimit,
    )
    .option("--trusted-proxy <range>", "whose X-Forwarded-For is believed; may be repeated", collectRange)
    .option("--docs-base <url>", "where the pages of error types are; default: /docs of this server", toDocsBase)
    .addOption(
      new Option("--durability <what>", "what an answer survives: a power cut, or the end of the process")
        .choices(["power", "process"])
        .default("power"),
    )
    .addOption(
      new Option("--credits <mode>", "each deduction in the file before its answer, or from leases in memory")
        .choices(["exact", "leased"])
        .default("exact"),
    )
    .addOption(
      new Option(
        "--limiter <where>",
        "rate limits in memory, of this process and gone with it, or in a file that all processes on the database share",
      )
        .choices(["memory", "file"])
        .default("memory"),
    )
    .addHelpText("after", HELP)
    .action(() => serve(io, command.opts<ServeFlags>()));
  readEnvironment(command, io, ["trustedProxy"]);
}

async function serve(io: Io, flags: ServeFlags): Promise<void> {
  if (flags.limiter === "file" && flags.db === ":memory:")
    throw usage("--limiter file: a database in memory has no file beside which limits could be kept");
  const store = open(flags);
  try {
    const limiter = flags.limiter === "file" ? sqliteLimiter(store) : undefined;
    try {
      await runServer(io, store, limiter, flags);
    } finally {
      await limiter?.close();
    }
  } finally {
    await store.close();
  }
  await note(io, "stopped");
}

async function runServer(
  io: Io,
  store: SqliteStore,
  limiter: SqliteLimiter | undefined,
  flags: ServeFlags,
): Promise<void> {
  const server = createServer(store, toOptions(io, flags, limiter));
  try {
    await run(io, store, server, flags);
  } finally {
    await server.close();
  }
}

/** Listens before it creates anything, so that if the port is taken, the next start is still the first. */
async function run(io: Io, store: SqliteStore, server: Server, flags: ServeFlags): Promise<void> {
  const { url } = await listen(server, flags);
  const stopped = new Promise<void>((resolve) => io.onStop(resolve));
  const first = await makeFirst(store);
  const where = `keystile serves ${flags.db} at ${reachable(url)}\n`;
  if (typeof first === "string") await io.stdout.write(where);
  else await showFirst(io, store, flags, first, (keyFile) => where + welcome(reachable(url), first, keyFile));
  await warnIfWide(io, flags.db);
  if (first === "without root key") {
    await note(
      io,
      `no root key is in the file: nobody is let in; run: keystile root-keys create --db ${flags.db} --all`,
    );
  }
  if (!/^(localhost|127\..*|::1)$/.test(flags.host)) {
    await note(
      io,
      paint(
        io,
        io.stderr,
        "yellow",
        "warning: root keys and keys come over plain HTTP; put a proxy that speaks TLS before it",
      ),
    );
  }
  await stopped;
  await note(io, "stopping: answering what is in flight");
}

/**
 * Shows what the first start has made, and the root key once: on a terminal, or in a file. What nobody gets to see is
 * not kept.
 */
async function showFirst(
  io: Io,
  store: SqliteStore,
  { db }: ServeFlags,
  first: FirstStart,
  toText: (keyFile: string | undefined) => string,
): Promise<void> {
  const keyFile = io.stdout.isTTY ? undefined : rootKeyFile(db);
  let isWritten = false;
  try {
    if (keyFile !== undefined) writeRootKey(keyFile, first.rootKey);
    isWritten = keyFile !== undefined;
    await (keyFile === undefined ? io.reveal(toText(keyFile)) : io.stdout.write(toText(keyFile)));
  } catch (error) {
    if (keyFile !== undefined && isWritten) removeRootKey(keyFile);
    await unmakeFirst(store, first);
    throw error;
  }
}

/** Digests, names and metadata are for the owner alone. */
async function warnIfWide(io: Io, db: string): Promise<void> {
  if (db === ":memory:" || process.platform === "win32" || (statSync(db).mode & 0o077) === 0) return;
  const text = `warning: others than its owner can use ${db}; run: chmod 600 ${db}`;
  await note(io, paint(io, io.stderr, "yellow", text));
}

/** Opens the file, which the store makes if there is none. */
function open({ db, durability }: ServeFlags): SqliteStore {
  assertNoFolder(db);
  const isThere = db === ":memory:" || existsSync(db);
  try {
    return sqliteStore(db, { durability });
  } catch (error) {
    const code = isThere ? undefined : ((error as Error).cause as NodeJS.ErrnoException | undefined)?.code;
    if (code === undefined || code.startsWith("SQLITE_")) throw error;
    const why =
      code === "ENOENT" ? "its folder, or that of what it links to, does not exist" : `cannot be made (${code})`;
    throw usage(`--db: ${db}: ${why}`);
  }
}

function toOptions(
  io: Io,
  { requestLimit, trustedProxy, docsBase, log, metrics, credits }: ServeFlags,
  limiter: SqliteLimiter | undefined,
): ServerOptions {
  const line = (text: string): void => void io.stderr.write(`${text}\n`);
  return {
    verifier: { credits: { mode: credits }, limiter },
    ...(requestLimit !== undefined && { requestLimit: { ...requestLimit, ...(limiter && { limiter }) } }),
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
