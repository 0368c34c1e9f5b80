/**
 * One way to ask the server: any client, a deadline for every call, one retry of reads, and errors as the store
 * contract has them. No value of a statement ever gets into an error.
 */
import type { MaybePromise } from "../../contracts/types.js";
import { KeystileError } from "../../contracts/errors.js";
import { digestText } from "../../lib/hash.js";
import { isThenable } from "../../lib/thenable.js";
import { type Failure, failureOf, toStoreError } from "./errors.js";

/** A row as clients return it. Every column that keystile selects is text or null. */
export type PostgresRow = Readonly<Record<string, unknown>>;

/**
 * What the store needs of a client: a `Pool` of `pg`, a PGlite, or two lines around any other. Each call may use
 * another connection.
 */
export interface PostgresClient {
  /**
   * Runs one statement.
   * @param text with `$1`, `$2`, …
   * @param values texts, or null
   * @returns the rows, or an object that has them as `rows`
   */
  query(text: string, values: (string | null)[]): Promise<unknown>;
  /**
   * Listens on a channel, on a connection that stays. Optional: without it changes of other nodes are polled.
   * @returns, or resolves with, what ends it: a function, or an object with `unlisten()`
   */
  listen?(channel: string, onNotify: (payload: string) => void): unknown;
}

/** A `Pool` of `pg`, as far as the store uses it: named statements, and a connection that listens. */
interface Pool extends PostgresClient {
  readonly totalCount: number;
  readonly options?: { readonly max?: number };
  connect(): Promise<PoolClient>;
}
interface PoolClient {
  query(text: string): Promise<unknown>;
  on(event: string, listener: (message: { channel?: string; payload?: string }) => void): unknown;
  release(destroy?: boolean): void;
}

/** A statement, and whether it may be sent again if its answer was lost. */
export interface Statement {
  readonly text: string;
  readonly isRead: boolean;
}

export type EndListening = () => MaybePromise<void>;

export interface Session {
  /**
   * Runs a statement.
   * @throws (rejects with) KeystileError STORE_UNAVAILABLE within the deadline, and what `toStoreError` says
   */
  run(statement: Statement, ...values: (string | null)[]): Promise<readonly PostgresRow[]>;
  /**
   * Listens, if the client can.
   * @param onLost called once if the connection ends
   * @returns what ends it, and never throws or rejects; `undefined`: this client does not listen
   */
  listen(channel: string, onNotify: (payload: string) => void, onLost: () => void): Promise<EndListening | undefined>;
}

export interface SessionOptions {
  /** Milliseconds for a whole call, its retries included. */
  readonly timeout: number;
  /** Whether statements are named, where the client can. */
  readonly prepared: boolean;
}

/** Times that a statement is sent again after a deadlock or a serialisation failure, which changed nothing. */
const MAX_RETRIES = 5;

export function createSession(client: PostgresClient, { timeout, prepared }: SessionOptions): Session {
  const pool = isPool(client) ? client : undefined;
  let isNamed = prepared && pool !== undefined;
  const names = new Map<string, string>();

  const nameFor = (text: string): string | undefined => {
    if (!isNamed) return undefined;
    const name = names.get(text) ?? nameOf(text);
    if (name !== undefined) names.set(text, name);
    return name;
  };
  const send = async (
    { text }: Statement,
    values: (string | null)[],
    name: string | undefined,
    ms: number,
  ): Promise<unknown> => {
    if (pool === undefined) return client.query(text, values);
    // The pool then drops a connection that does not respond, instead of lending it again.
    const config = { text, values, query_timeout: Math.ceil(ms), ...(name !== undefined && { name }) };
    return (pool.query as unknown as (config: object) => Promise<unknown>).call(pool, config);
  };
  /** One try. Rejects with a {@link Failure}. */
  const attempt = (
    statement: Statement,
    values: (string | null)[],
    name: string | undefined,
    milliseconds: number,
  ): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Timeout());
      }, milliseconds);
      send(statement, values, name, milliseconds)
        .then(resolve, reject)
        .finally(() => {
          clearTimeout(timer);
        });
    });

  return {
    async run(statement, ...values) {
      const deadline = performance.now() + timeout;
      for (let tries = 0; ; tries++) {
        const name = nameFor(statement.text);
        try {
          return rowsOf(await attempt(statement, values, name, Math.max(1, deadline - performance.now())));
        } catch (error) {
          if (error instanceof KeystileError) throw error;
          const failure: Failure = error instanceof Timeout ? { kind: "timeout" } : failureOf(error);
          // A pooler that gives each statement another connection: nothing was run. Others may have failed meanwhile.
          if (failure.kind === "unprepared" && name !== undefined) isNamed = false;
          else if (!mayRetry(failure, statement, tries) || performance.now() >= deadline)
            throw toStoreError(failure, statement.isRead);
        }
      }
    },
    async listen(channel, onNotify, onLost) {
      if (pool !== undefined) return listenOn(pool, channel, onNotify, onLost);
      if (client.listen === undefined) return undefined;
      const listening = client.listen(channel, onNotify);
      const ended: unknown = isThenable(listening) ? await listening : listening;
      return async () => {
        try {
          if (typeof ended === "function") await (ended as () => unknown)();
          else if (isUnlisten(ended)) await ended.unlisten();
        } catch {
          // The client's connection has ended, and its listening with it.
        }
      };
    },
  };
}

/** The call did not settle in time. */
class Timeout extends Error {}

function mayRetry({ kind }: Failure, { isRead }: Statement, tries: number): boolean {
  if (kind === "conflict") return tries < MAX_RETRIES;
  if (kind === "refused") return tries < 1;
  return kind === "lost" && isRead && tries < 1;
}

/**
 * The name says the text: a pooler may hand a connection from one program to another. `undefined`: this runtime digests
 * by promise alone.
 */
function nameOf(text: string): string | undefined {
  const digest = digestText("sha256", text, "hex");
  return typeof digest === "string" ? `keystile_${digest.slice(0, 32)}` : undefined;
}

function rowsOf(result: unknown): readonly PostgresRow[] {
  const rows = Array.isArray(result) ? (result as unknown[]) : (result as { rows?: unknown } | null)?.rows;
  if (!Array.isArray(rows))
    throw new KeystileError("STORE_INVALID", "client.query must return the rows, or an object with rows");
  return rows as readonly PostgresRow[];
}

function isPool(client: PostgresClient): client is Pool {
  const { totalCount, connect } = client as Partial<Pool>;
  return typeof totalCount === "number" && typeof connect === "function";
}

function isUnlisten(value: unknown): value is { unlisten(): unknown } {
  return (
    typeof value === "object" && value !== null && typeof (value as { unlisten?: unknown }).unlisten === "function"
  );
}

/** One connection of the pool listens, unless it is the only one. */
async function listenOn(
  pool: Pool,
  channel: string,
  onNotify: (payload: string) => void,
  onLost: () => void,
): Promise<EndListening | undefined> {
  if ((pool.options?.max ?? 10) < 2) return undefined;
  const client = await pool.connect();
  let isOpen = true;
  const end = () => {
    if (!isOpen) return;
    isOpen = false;
    // Destroyed: a connection that listens must not be lent again.
    client.release(true);
  };
  const lost = () => {
    if (!isOpen) return;
    end();
    onLost();
  };
  client.on("error", lost);
  client.on("end", lost);
  client.on("notification", ({ payload = "" }) => {
    if (isOpen) onNotify(payload);
  });
  try {
    await client.query(`LISTEN "${channel}"`);
  } catch (error) {
    end();
    throw error;
  }
  return end;
}
