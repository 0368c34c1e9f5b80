/** `keystile console`: pages for looking after keys, on this machine, until SIGINT or SIGTERM. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Command } from "commander";
import { createConsoleListener } from "../../console/index.js";
import type { Store } from "../../contracts/store.js";
import { type StoreFlags, withStore } from "../database/database.js";
import { schemaOption, withoutCredentials } from "../database/postgres.js";
import { givenAs, readEnvironment } from "../io/environment.js";
import { EXIT, failure, toFailure, usage } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import { toAddress, toInteger, toPath } from "../io/parsers.js";
import { note } from "../io/text.js";

const HELP = `
Sign in with a root key: you see and change what it may. The console listens on this machine alone, and answers to no
other name than localhost, 127.0.0.1 and [::1]. How far rate limits are used is known to the processes that count them.

Each flag may also be given as an environment variable: KEYSTILE_DB, KEYSTILE_STORE and so on. Passwords belong there,
or in PGPASSWORD: other users can see those of the command line in the process list.

Examples:
  $ keystile console --db keys.db
  $ keystile console --store postgres://keystile@db.internal/app --read-only`;

const HOST = "127.0.0.1";

interface ConsoleFlags extends StoreFlags {
  readonly db: string;
  readonly port: number;
  readonly readOnly?: boolean;
}

export function addConsoleCommand(program: Command, io: Io): Command {
  const command = program
    .command("console")
    .description("Pages for looking after keys, in a browser on this machine.")
    .option("--db <file>", "the database file", toPath, "keys.db")
    .option("--store <address>", "in place of --db: postgres://USER@HOST/DATABASE", toAddress)
    .addOption(schemaOption("with --store"))
    .option("--port <port>", "0: any that is free", toInteger(0, 65_535), 5_398)
    .option("--read-only", "nothing can be changed")
    .addHelpText("after", wrapped(HELP))
    .action(() => {
      const [db, store] = [givenAs(command, "db"), givenAs(command, "store")];
      if (db !== undefined && store !== undefined) throw usage(`${db} and ${store}: leave out one of them`);
      return open(io, command.opts<ConsoleFlags>());
    });
  return readEnvironment(command, io);
}

function open(io: Io, flags: ConsoleFlags): Promise<void> {
  const { db, store: address, schema } = flags;
  if (address === undefined) return withStore({ db, schema }, (store) => run(io, store, db, flags));
  const name = withoutCredentials(address);
  return withStore({ store: address, schema }, (store) => run(io, store, name, flags));
}

async function run(io: Io, store: Store, name: string, { port, readOnly = false }: ConsoleFlags): Promise<void> {
  // A store that does not answer is found before there is an address.
  await store.pollChanges();
  const onError = (error: unknown): void =>
    void io.stderr.write(`${JSON.stringify({ time: io.now(), fault: toFailure(error).message })}\n`);
  const listener = createConsoleListener(store, { readOnly, onError });
  const server = createServer(listener);
  server.maxHeadersCount = 0;
  try {
    const stopped = new Promise<void>((resolve) => io.onStop(resolve));
    const url = await listen(server, port);
    await io.stdout.write(`keystile console of ${name} at ${url}\n`);
    await stopped;
  } finally {
    await close(server);
    await listener.close();
  }
  await note(io, "stopped");
}

async function listen(server: Server, port: number): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", ({ code }: NodeJS.ErrnoException) =>
      reject(failure(EXIT.failed, `cannot listen on port ${port} of ${HOST} (${code ?? "unknown"})`)),
    );
    server.listen(port, HOST, resolve);
  });
  return `http://${HOST}:${(server.address() as AddressInfo).port}`;
}

async function close(server: Server): Promise<void> {
  if (!server.listening) return;
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  await closed;
}
