/**
 * A program, or `keystile serve`, whose sessions a rig ends. Calls on and on until its parent lets go of it. Ends with
 * exit code 1, as any program does, when an error event has no listener.
 */
import pg from "pg";
import { isKeystileError } from "../../../src/contracts/errors.js";
import { postgresStore } from "../../../src/stores/postgres/index.js";
import { createVerifier } from "../../../src/verify/verifier.js";

export interface TerminatedOrders {
  readonly url: string;
  readonly key: string;
  readonly callers: number;
  /** Runs `keystile serve` on this port, and lets its parent call it. */
  readonly port?: number;
  /** The planted fault: whoever asks the pool for a connection gets it by a promise, a microtask too late. */
  readonly isLate?: boolean;
}

const { url, key, callers, port, isLate = false } = JSON.parse(process.argv[2]!) as TerminatedOrders;
process.on("disconnect", () => process.exit(0));

/** The pool's connections by promise, whatever the store asks for. */
function late(pool: pg.Pool): pg.Pool {
  const connect = pool.connect.bind(pool) as () => Promise<pg.PoolClient>;
  const byPromise = (onConnected: (error: unknown, client?: pg.PoolClient) => void): void => {
    connect().then((client) => onConnected(undefined, client), onConnected);
  };
  return Object.assign(pool, { connect: byPromise as never });
}

async function call(): Promise<void> {
  const pool = new pg.Pool({ connectionString: url, max: 10, connectionTimeoutMillis: 5_000 });
  pool.on("error", () => undefined);
  const verifier = createVerifier(postgresStore(isLate ? late(pool) : pool));
  const counts = { granted: 0, failed: 0 };
  const run = async (): Promise<never> => {
    for (;;) {
      try {
        await verifier.verify({ key });
        counts.granted++;
      } catch (error) {
        if (!isKeystileError(error)) throw error;
        counts.failed++;
      }
    }
  };
  setInterval(() => process.send!(counts), 250);
  await Promise.all(Array.from({ length: callers }, run));
}

if (port === undefined) await call();
else {
  process.stdout.write = ((_text: string, done?: () => void) => {
    done?.();
    return true;
  }) as typeof process.stdout.write;
  process.argv.splice(2, Infinity, "serve", "--store", url, "--port", String(port));
  const { runProcess } = await import("../../../src/cli/io/process.js");
  await runProcess();
}
