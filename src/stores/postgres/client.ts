/**
 * Runs statements on any PostgreSQL client, each within a deadline: reads whose connection was lost run once more, and
 * errors are those of the store contract. No value of a statement gets into an error.
 */
import type { MaybePromise } from "../../contracts/types.js";
import { KeystileError } from "../../contracts/errors.js";
import { digestText } from "../../lib/hash.js";
import { isThenable } from "../../lib/thenable.js";
import { type Failure, failureOf, toStoreError } from "./errors.js";
import { createSlots, NoSlot, type Slots } from "./slots.js";
import { clearTimeout, setTimeout } from "../../lib/timers.js";

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
  readonly options?: { readonly max?: number; readonly allowExitOnIdle?: boolean };
  connect(onConnected: (error: unknown, client?: PoolClient) => void): unknown;
}
type Listener = (message: { channel?: string; payload?: string }) => void;
interface PoolClient {
  query(statement: string | object): Promise<unknown>;
  on(event: string, listener: Listener): unknown;
  removeListener(event: string, listener: Listener): unknown;
  release(destroy?: boolean): void;
  /** Absent where the pool's client is not of JavaScript. */
  unref?(): void;
}

/** A statement, and whether it may be sent again if its answer was lost. */
export interface Statement {
  readonly text: string;
  readonly isRead: boolean;
  /** Whose slots it takes, where `isRead` does not say it: polls must not wait for finds, a read may commit. */
  readonly lane?: Lane;
}
type Lane = "write" | "read" | "poll";

/**
 * A statement that writes.
 * @param result what it computes
 * @param lockMs for which it waits for a lock; then it fails, and nothing was changed
 * @param query what the result reads from
 */
export function writing(result: string, lockMs: number, query = ""): Statement {
  const waits = `pg_catalog.set_config('lock_timeout', '${Math.max(1, Math.floor(lockMs))}', true)`;
  return { isRead: false, text: `${query}SELECT ${waits}, ${result}::text AS result` };
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
  /** Forgets statements that did not respond. */
  close(): void;
}

export interface SessionOptions {
  /** Milliseconds for a whole call, its retries included. */
  readonly timeout: number;
  /** Whether statements are named, where the client can. */
  readonly prepared: boolean;
  /** Most statements that write at once, those included that did not respond. */
  readonly maxWrites: number;
}

/** Times that a statement is sent again after a deadlock or a serialisation failure, which changed nothing. */
const MAX_RETRIES = 5;
/** The longest pause before the first of them, milliseconds; it doubles each time. */
const RETRY_MS = 10;
/** Polls at once: one may be on a backend that does not go on. */
const POLLS = 2;
/** Reads at once of a client whose connections cannot be counted. */
const READS = 16;
/** Milliseconds between two questions whether statements that did not respond are still running. */
const PROBE_MS = 200;
/** How far the server's and this node's durations of one statement may be apart, milliseconds. */
const PROBE_SLACK_MS = 1_000;
/**
 * Statements of this role that the server is running, with their age. By text and age: behind a pooler a connection has
 * no process of its own.
 */
const RUNNING = `SELECT a.query AS text,
    (extract(epoch FROM pg_catalog.clock_timestamp() - a.query_start) * 1000::numeric)::bigint::text AS age
  FROM pg_catalog.pg_stat_activity a
  WHERE a.state = 'active' AND a.query <> '' AND a.usename = current_user AND a.datname = pg_catalog.current_database()`;

/** A statement on its way. */
interface Sent {
  readonly result: Promise<unknown>;
  /** Gives up waiting for it. @returns when it was sent, if it was; if not, it never will be */
  drop(): number | undefined;
}
/** A statement that did not respond in time, and whose slots it keeps. */
interface Stalled {
  readonly text: string;
  readonly began: number;
  readonly slots: Slots;
}

export function createSession(client: PostgresClient, { timeout, prepared, maxWrites }: SessionOptions): Session {
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
  /** Gives slots back once the server no longer runs what held them. Takes none: it must run when all are taken. */
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
          const isIt = ({ text, age }: PostgresRow): boolean =>
            // The server keeps the beginning of a long text.
            one.text.startsWith(text as string) && Math.abs(now - one.began - Number(age)) < PROBE_SLACK_MS;
          if (!rows.some(isIt) && stalled.delete(one)) one.slots.recover();
        }
      } catch {
        // Out of reach: whether they are running is unknown as before.
        sent.drop();
      }
    }
    isProbing = false;
  };
  /** One try. Rejects with what {@link readFailure} reads. */
  const attempt = async (
    { text, isRead, lane = isRead ? "read" : "write" }: Statement,
    values: (string | null)[],
    name: string | undefined,
    deadline: number,
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
    async run(statement, ...values) {
      const deadline = performance.now() + timeout;
      for (let tries = 0; ; tries++) {
        const name = nameFor(statement.text);
        try {
          return rowsOf(await attempt(statement, values, name, deadline));
        } catch (error) {
          if (error instanceof KeystileError) throw error;
          const failure = readFailure(error);
          // A pooler that gives each statement another connection: nothing was run. Others may have failed meanwhile.
          if (failure.kind === "unprepared" && name !== undefined) isNamed = false;
          else if (!mayRetry(failure, statement, tries) || performance.now() >= deadline)
            throw toStoreError(failure, statement.isRead);
          // Those that met each other do not meet again.
          if (failure.kind === "conflict") {
            const ms = Math.random() * RETRY_MS * 2 ** tries;
            // Keeps the process alive, as the pool may not: somebody waits for the call.
            await new Promise((again) => setTimeout(again, ms));
          }
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
    close() {
      stalled.clear();
    },
  };
}

/** The call did not settle in time. */
class Timeout extends Error {}

function readFailure(error: unknown): Failure {
  if (error instanceof Timeout) return { kind: "timeout" };
  return error instanceof NoSlot ? { kind: "stalled" } : failureOf(error);
}

/**
 * Writes have at most half of what a pool has beside two connections for polls: reads always find one, and with what
 * did not respond a node has no more statements on the server than the pool may have connections, unless that is less
 * than four. Beside them it listens, and asks what is still running.
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
    promise.then(resolve, reject).finally(() => {
      clearTimeout(timer);
    });
  });
}

/** Keeps no process alive. */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer: unknown = setTimeout(resolve, ms);
    (timer as { unref?: () => void }).unref?.();
  });
}

/**
 * Takes a connection out of the pool.
 *
 * Why not by the promise of `connect()`: the pool takes its own listener of errors away first, and the server may end a
 * session in the packet in which it says that it is ready. An error that nobody listens for ends the program.
 * @param listen adds the listeners, of errors above all; runs before the connection's next event
 */
function borrow(pool: Pool, listen: (client: PoolClient) => void): Promise<PoolClient> {
  return new Promise((resolve, reject) => {
    pool.connect((error, client) => {
      if (client === undefined) {
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the pool's own, as it is
        reject(error);
        return;
      }
      listen(client);
      resolve(client);
    });
  });
}

/** Runs a statement on a connection of the pool. One that is dropped, or failed, is not lent again. */
function sendTo(pool: Pool, statement: object): Sent {
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
    // The statement rejects as well.
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
      // What the server refused leaves the connection as it was.
      giveBack(kind !== "server" && kind !== "conflict");
      throw error;
    }
  };
  return {
    result: run(),
    drop() {
      isDropped = true;
      giveBack(true);
      return began;
    },
  };
}

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
  let isOpen = true;
  const end = (client: PoolClient) => {
    if (!isOpen) return;
    isOpen = false;
    // Destroyed: a connection that listens must not be lent again.
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
  // It is never idle to the pool.
  if (pool.options?.allowExitOnIdle === true) client.unref?.();
  return () => end(client);
}
