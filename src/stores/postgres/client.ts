/**
 * Runs statements on any PostgreSQL client, each within a deadline. A read whose connection was lost runs once more.
 * Errors are those of the store contract, and never contain a statement's values.
 */
import type { MaybePromise } from "../../contracts/types.js";
import { KeystileError } from "../../contracts/errors.js";
import { digestText } from "../../lib/hash.js";
import { isThenable } from "../../lib/thenable.js";
import { type Failure, failureOf, toStoreError } from "./errors.js";
import { createSlots, NoSlot, type Slots } from "./slots.js";
import { clearTimeout, setTimeout } from "../../lib/timers.js";

/** A row as clients return it. All columns that keystile selects are text or null. */
export type PostgresRow = Readonly<Record<string, unknown>>;

/**
 * The methods that the store needs of a client: a `Pool` of `pg`, a PGlite, or two lines around any other. Each call
 * may use another connection.
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
   * Listens on a channel, on a connection that stays open. Optional: without it, other nodes' changes are found only by
   * polling.
   * @returns, or resolves with, a function that ends the listening, or an object with `unlisten()`
   */
  listen?(channel: string, onNotify: (payload: string) => void): unknown;
}

/** The part of a `Pool` of `pg` that the store uses: for named statements, and for a connection that listens. */
interface Pool extends PostgresClient {
  readonly totalCount: number;
  readonly options?: { readonly max?: number; readonly allowExitOnIdle?: boolean };
  connect(onConnected: (error: unknown, client?: PoolClient) => void): unknown;
}
type Listener = (message: { channel?: string; payload?: string }) => void;
interface PoolClient {
  query(statement: string | object): Promise<unknown>;
  on(event: string, listener: Listener): unknown;
  removeListener(event: string, listener: Listener): unknown;
  release(destroy?: boolean): void;
  /** Absent in a pool of native clients. */
  unref?(): void;
}

/** A statement. `isRead`: it may be sent again if its answer was lost. */
export interface Statement {
  readonly text: string;
  readonly isRead: boolean;
  /**
   * The kind of its slots, if not given by `isRead`: polls must not wait for finds, and a repeatable statement may
   * write.
   */
  readonly lane?: Lane;
}
type Lane = "write" | "read" | "poll";

/** An expression that is computed once another one was: as a column of its own it took `pg` 5 µs a call. */
export const after = (first: string, result: string): string =>
  `CASE WHEN (${first}) IS DISTINCT FROM '' THEN ${result} END`;

/**
 * A statement that writes.
 * @param result the SQL expression to compute
 * @param lockMs milliseconds that it waits for a lock; then it fails, and nothing was changed
 * @param query SQL before the SELECT, such as WITH, that the result reads from
 */
export function writing(result: string, lockMs: number, query = ""): Statement {
  const waits = `pg_catalog.set_config('lock_timeout', '${Math.max(1, Math.floor(lockMs))}', true)`;
  return { isRead: false, text: `${query}SELECT ${after(waits, `${result}::text`)} AS result` };
}

export type EndListening = () => MaybePromise<void>;

export interface SessionOptions {
  /** Milliseconds for a whole call, its retries included. */
  readonly timeout: number;
  /** Whether statements are named (prepared), if the client can do it. */
  readonly prepared: boolean;
  /** Most statements that write at once, including those that did not respond. */
  readonly maxWrites: number;
}

/** Times that a statement is sent again after a deadlock or a serialisation failure, which changed nothing. */
const MAX_RETRIES = 5;
/** The longest pause before the first retry, milliseconds; it doubles each time. */
const RETRY_MS = 10;
/** Polls at once: one of them may hang. */
const POLLS = 2;
/** Reads at once on a client that is not a pool. */
const READS = 16;
/** Milliseconds between two checks whether statements that did not respond are still running. */
const PROBE_MS = 200;
/** Largest difference between the server's and this node's age of the same statement, milliseconds. */
const PROBE_SLACK_MS = 1_000;
/**
 * Statements of this role that the server is running, with their age. Compared by text and age, since behind a pooler a
 * connection has no server process of its own.
 */
const RUNNING = `SELECT a.query AS text,
    (extract(epoch FROM pg_catalog.clock_timestamp() - a.query_start) * 1000::numeric)::bigint::text AS age
  FROM pg_catalog.pg_stat_activity a
  WHERE a.state = 'active' AND a.query <> '' AND a.usename = current_user AND a.datname = pg_catalog.current_database()`;

/** A statement that did not respond in time, and still holds one of `slots`. */
interface Stalled {
  readonly text: string;
  readonly began: number;
  readonly slots: Slots;
}

export function createSession(client: PostgresClient, { timeout, prepared, maxWrites }: SessionOptions) {
  const pool = isPool(client) ? client : undefined;
  const lanes = lanesOf(pool, maxWrites);
  const stalled = new Set<Stalled>();
  let isProbing = false;
  let isNamed = prepared && pool !== undefined;
  const names = new Map<string, string>();

  const nameFor = (text: string): string | undefined => {
    if (!isNamed) return undefined;
    const name = names.get(text) ?? nameOf(text);
    if (name !== undefined) names.set(text, name);
    return name;
  };
  const send = (text: string, values: (string | null)[], name?: string): Sent => {
    if (pool !== undefined) return sendTo(pool, { text, values, ...(name !== undefined && { name }) });
    const began = performance.now();
    return { result: (async () => client.query(text, values))(), drop: () => began };
  };
  /** Frees the slots of statements that the server no longer runs. Takes no slot: it must run when all are taken. */
  const probe = async (): Promise<void> => {
    if (isProbing) return;
    isProbing = true;
    while (stalled.size > 0) {
      await pause(PROBE_MS);
      const sent = send(RUNNING, []);
      try {
        const rows = rowsOf(await within(sent.result, timeout));
        const now = performance.now();
        for (const one of stalled) {
          const isSame = ({ text, age }: PostgresRow): boolean =>
            // The server shows only the beginning of a long text.
            one.text.startsWith(text as string) && Math.abs(now - one.began - Number(age)) < PROBE_SLACK_MS;
          if (!rows.some(isSame) && stalled.delete(one)) one.slots.recover();
        }
      } catch {
        // The server is out of reach: the statements may still be running.
        sent.drop();
      }
    }
    isProbing = false;
  };
  /** One try. {@link readFailure} reads its errors. */
  const attempt = async (
    { text, isRead, lane = isRead ? "read" : "write" }: Statement,
    values: (string | null)[],
    { name, deadline }: { readonly name: string | undefined; readonly deadline: number },
  ): Promise<unknown> => {
    const slots = lanes[lane];
    await slots.take(Math.max(1, deadline - performance.now()));
    const sent = send(text, values, name);
    let isOver = true;
    try {
      return await within(sent.result, deadline - performance.now());
    } catch (error) {
      if (!(error instanceof Timeout)) throw error;
      const began = sent.drop();
      if (began === undefined) throw new NoSlot();
      isOver = false;
      slots.stall();
      stalled.add({ text, began, slots });
      void probe();
      throw error;
    } finally {
      if (isOver) slots.give();
    }
  };

  return {
    /**
     * Runs a statement.
     * @throws (rejects with) KeystileError STORE_UNAVAILABLE within the deadline, and other errors of `toStoreError`
     */
    async run(statement: Statement, ...values: (string | null)[]): Promise<readonly PostgresRow[]> {
      const deadline = performance.now() + timeout;
      for (let tries = 0; ; tries++) {
        const name = nameFor(statement.text);
        try {
          return rowsOf(await attempt(statement, values, { name, deadline }));
        } catch (error) {
          if (error instanceof KeystileError) throw error;
          const failure = readFailure(error);
          // A pooler gave the statement another connection, and nothing was run. Looks at `name`, since another call
          // may already have cleared `isNamed`.
          if (failure.kind === "unprepared" && name !== undefined) isNamed = false;
          else if (!mayRetry(failure, statement, tries) || performance.now() >= deadline)
            throw toStoreError(failure, statement.isRead);
          // A random pause, so that conflicting statements do not meet again.
          if (failure.kind === "conflict") {
            const ms = Math.random() * RETRY_MS * 2 ** tries;
            // This timer keeps the process alive for the waiting caller; the pool may not.
            await new Promise((again) => setTimeout(again, ms));
          }
        }
      }
    },
    /**
     * Listens, if the client can.
     * @param onLost called once if the connection ends
     * @returns a function that ends the listening, and never throws or rejects; `undefined`: this client cannot listen
     */
    async listen(
      channel: string,
      onNotify: (payload: string) => void,
      onLost: () => void,
    ): Promise<EndListening | undefined> {
      if (pool !== undefined) return listenOn(pool, channel, { onNotify, onLost });
      if (client.listen === undefined) return undefined;
      const listening = client.listen(channel, onNotify);
      const ended: unknown = isThenable(listening) ? await listening : listening;
      return async () => {
        try {
          if (typeof ended === "function") await (ended as () => unknown)();
          else if (isUnlisten(ended)) await ended.unlisten();
        } catch {
          // The client's connection has ended, and the listening with it.
        }
      };
    },
    /** Stops asking about statements that did not respond. */
    close(): void {
      stalled.clear();
    },
  };
}

export type Session = ReturnType<typeof createSession>;

class Timeout extends Error {}

function readFailure(error: unknown): Failure {
  if (error instanceof Timeout) return { kind: "timeout" };
  return error instanceof NoSlot ? { kind: "stalled" } : failureOf(error);
}

/**
 * Two connections of a pool are for polls. Of the others, writes take at most half, so that reads always find one. A
 * node has no more statements on the server than the pool has connections, hung ones included, unless the pool has
 * fewer than five. Listening and {@link RUNNING} come on top.
 */
function lanesOf(pool: Pool | undefined, maxWrites: number): Readonly<Record<Lane, Slots>> {
  const shared = pool === undefined ? READS + maxWrites : (pool.options?.max ?? 10) - 2;
  const writes = pool === undefined ? maxWrites : Math.min(maxWrites, Math.max(1, Math.floor(shared / 2)));
  return {
    write: createSlots(writes),
    read: createSlots(Math.max(2, shared - writes)),
    poll: createSlots(POLLS),
  };
}

/** Settles as the promise does, or rejects with {@link Timeout}. */
function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new Timeout());
    }, ms);
    const stop = (): void => clearTimeout(timer);
    promise.then(stop, stop);
    promise.then(resolve, reject);
  });
}

/** Resolves after a pause, without keeping the process alive. */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer: unknown = setTimeout(resolve, ms);
    (timer as { unref?: () => void }).unref?.();
  });
}

/**
 * Takes a connection out of the pool.
 *
 * Why not with the promise of `connect()`: the pool removes its own error listener first, and the server may end a
 * session in the same packet that says it is ready. An error without a listener ends the program.
 * @param listen adds listeners, above all for errors; runs before the connection's next event
 */
function borrow(pool: Pool, listen: (client: PoolClient) => void): Promise<PoolClient> {
  return new Promise((resolve, reject) => {
    pool.connect((error, client) => {
      if (client === undefined) {
        // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- the pool's own, as it is
        reject(error);
        return;
      }
      listen(client);
      resolve(client);
    });
  });
}

/**
 * Runs a statement on a connection of the pool, which is closed if the statement is dropped or the connection fails.
 */
function sendTo(pool: Pool, statement: object) {
  let isDropped = false;
  let held: PoolClient | undefined;
  let began: number | undefined;
  const ignore = (): void => undefined;
  const giveBack = (destroy: boolean): void => {
    held?.removeListener("error", ignore);
    held?.release(destroy);
    held = undefined;
  };
  const run = async (): Promise<unknown> => {
    // The error is ignored here, since the statement rejects too.
    held = await borrow(pool, (client) => client.on("error", ignore));
    if (isDropped) {
      giveBack(false);
      throw new NoSlot();
    }
    began = performance.now();
    try {
      const result = await held.query(statement);
      giveBack(false);
      return result;
    } catch (error) {
      const { kind } = failureOf(error);
      // A statement that the server refused leaves the connection usable.
      giveBack(kind !== "server" && kind !== "conflict");
      throw error;
    }
  };
  return {
    result: run(),
    /** Gives up waiting for it. @returns when it was sent; `undefined`: it was not sent, and never will be */
    drop(): number | undefined {
      isDropped = true;
      giveBack(true);
      return began;
    },
  };
}

/** A statement that was sent, or waits for a connection. */
type Sent = ReturnType<typeof sendTo>;

function mayRetry({ kind }: Failure, { isRead }: Statement, tries: number): boolean {
  if (kind === "conflict") return tries < MAX_RETRIES;
  if (kind === "refused") return tries < 1;
  return kind === "lost" && isRead && tries < 1;
}

/**
 * A name derived from the text: with a pooler, programs share connections and their statements. `undefined`: this
 * runtime has only asynchronous digests.
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

/** Listens on one connection of the pool, unless it is the only one. */
async function listenOn(
  pool: Pool,
  channel: string,
  { onNotify, onLost }: { readonly onNotify: (payload: string) => void; readonly onLost: () => void },
): Promise<EndListening | undefined> {
  if ((pool.options?.max ?? 10) < 2) return undefined;
  let isOpen = true;
  const end = (client: PoolClient) => {
    if (!isOpen) return;
    isOpen = false;
    // Destroyed, because a connection that listens must not be lent again.
    client.release(true);
  };
  const client = await borrow(pool, (borrowed) => {
    const lost = () => {
      if (!isOpen) return;
      end(borrowed);
      onLost();
    };
    borrowed.on("error", lost);
    borrowed.on("end", lost);
    borrowed.on("notification", ({ payload = "" }) => {
      if (isOpen) onNotify(payload);
    });
  });
  try {
    await client.query(`LISTEN "${channel}"`);
  } catch (error) {
    end(client);
    throw error;
  }
  // The pool never considers it idle, so without this it would keep the process alive.
  if (pool.options?.allowExitOnIdle === true) client.unref?.();
  return () => end(client);
}
