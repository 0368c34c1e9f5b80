/** Opens a PostgreSQL server by its address. No part of an address but host, port and database is ever shown. */
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Option } from "commander";
import type { PostgresClient } from "../../stores/postgres/index.js";
import { EXIT, failure, usage } from "../io/failures.js";
import { toSchema } from "../io/parsers.js";

/** `--schema`. @param when it says something, such as `with --store`; default: always */
export function schemaOption(when?: string): Option {
  const text = `the schema of the tables${when === undefined ? "" : `, ${when}`}`;
  return new Option("--schema <name>", text).argParser(toSchema).default("keystile");
}

/** A connection, or a pool of them, that the command line made. */
export interface Opened extends PostgresClient {
  end(): Promise<void>;
}

interface Listening extends Opened {
  on(event: "error", listener: () => void): unknown;
}
interface PgModule {
  readonly Pool: new (config: object) => Listening;
  readonly Client: new (config: object) => Listening & { connect(): Promise<void> };
}

/** Whether a text is the address of a PostgreSQL server. */
export function isPostgresAddress(text: string): boolean {
  return /^postgres(ql)?:\/\//.test(text);
}

/** An address without user and password, for people. @throws a usage error that shows nothing of it */
export function withoutCredentials(address: string): string {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  // A password with one of these as it is ends there for URL, which takes what is before for a host and the rest for a
  // path.
  if (url === undefined || /[@#]/.test(url.pathname + url.search + url.hash))
    throw usage(
      "an address of PostgreSQL looks like postgres://user:password@host:5432/database, with @, /, ? and # of a password written as %40, %2F, %3F and %23",
    );
  return `${url.protocol}//${url.host}${url.pathname}`;
}

/**
 * Makes a pool with the package `pg`, which the program's folder, or the place of this package, must have.
 * @throws failure 1 if it is not installed
 */
export async function openPool(address: string, max = 10): Promise<Opened> {
  withoutCredentials(address);
  const { Pool } = await loadPg();
  const pool = new Pool({ ...settingsOf(address), max });
  // An idle connection that ends: the next call makes another.
  pool.on("error", () => undefined);
  return pool;
}

/** As {@link openPool}, one connection. Its queries reject if it cannot be made, or has ended. */
export async function openConnection(address: string): Promise<Opened> {
  withoutCredentials(address);
  const { Client } = await loadPg();
  const client = new Client(settingsOf(address));
  client.on("error", () => undefined);
  const connected = client.connect();
  connected.catch(() => undefined);
  return {
    query: (text, values) => connected.then(() => client.query(text, values)),
    end: () => client.end(),
  };
}

const settingsOf = (address: string): object => ({ connectionString: address, connectionTimeoutMillis: 5_000 });

async function loadPg(): Promise<PgModule> {
  const name = "pg";
  try {
    return pgOf(await import(name));
  } catch {
    // A command that was installed globally finds what stands in the folder it runs in.
  }
  try {
    return createRequire(pathToFileURL(join(process.cwd(), "package.json")))(name) as PgModule;
  } catch {
    throw failure(EXIT.failed, "the package pg is not installed; run: npm install pg");
  }
}

function pgOf(module: unknown): PgModule {
  const { default: inner } = module as { default?: unknown };
  return (inner ?? module) as PgModule;
}
