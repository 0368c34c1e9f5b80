/**
 * A rig that ends every session of a program: those that are there every 40 ms, and every second new one in the packet
 * in which it begins, as a server does that is busy. The error of a session must never find nobody that listens, since
 * that ends the program.
 */
import type { ChildProcess } from "node:child_process";
import pg from "pg";
import { createKeyring } from "../../src/keyring/keyring.js";
import { freePort, type TestPostgres, wait } from "../servers/postgres.js";
import { startProxy } from "../servers/proxy.js";
import { makeKeys, openNode } from "./postgres-support.js";
import { buildWorker, ended, nextMessage, startWorker } from "./workers.js";
import type { TerminatedOrders } from "./workers/terminated.js";

export interface TerminationReport {
  /** Sessions that ended in the packet in which they began. */
  readonly fresh: number;
  /** Whether the program ended. Must be false. */
  readonly hasEnded: boolean;
  /** Calls that were answered, and that failed. */
  readonly granted: number;
  readonly failed: number;
}

const CALLERS = 8;
const EVERY_MS = 40;
const CREDITS = 1_000_000_000;
/** The end of the packet in which a session begins: the server is ready, and idle. */
const READY = Buffer.from("5a0000000549", "hex");
const FATAL = ((): Buffer => {
  const fields = "SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0";
  const message = Buffer.concat([Buffer.from("E\0\0\0\0"), Buffer.from(fields)]);
  message.writeUInt32BE(message.length - 1, 1);
  return message;
})();

/**
 * @param of what ends
 * @param sessions after how many that ended in their first packet the run is over
 */
export async function runTerminations(
  server: TestPostgres,
  of: "a program" | "serve",
  { sessions, isLate = false }: { readonly sessions: number; readonly isLate?: boolean },
): Promise<TerminationReport> {
  const url = await server.newDatabase();
  const [made] = await makeKeys(url, 1, CREDITS);
  const rootKey = await makeRootKey(url);
  const worker = await buildWorker("terminated");
  let isEnding = false;
  const begun = new WeakSet<object>();
  let [all, fresh] = [0, 0];
  const proxy = await startProxy(server.port, (piece, from, client) => {
    if (!isEnding || from === "client" || begun.has(client) || !piece.subarray(-READY.length).equals(READY)) return;
    begun.add(client);
    if (all++ % 2 === 1) return;
    fresh++;
    // The piece is written before that, and goes with it.
    client.cork();
    process.nextTick(() => {
      client.end(FATAL);
      client.uncork();
    });
  });
  const through = Object.assign(new URL(url), { port: String(proxy.port) }).href;
  const port = of === "serve" ? await freePort() : undefined;
  const orders: TerminatedOrders = { url: through, key: made!.key, callers: CALLERS, isLate, ...(port && { port }) };
  const child = startWorker(worker, orders);
  let last = { granted: 0, failed: 0 };
  child.on("message", (message) => (last = message as typeof last));
  await (port === undefined ? nextMessage(child) : listens(port, child));
  isEnding = true;
  const endTerminator = await terminator(server, url);
  try {
    const until = performance.now() + MOST_MS;
    const isOver = () => fresh >= sessions || performance.now() > until || child.exitCode !== null;
    if (port !== undefined) last = await callServer(port, rootKey, made!.key, isOver);
    while (!isOver()) await wait(20);
    // Its last error has arrived.
    await wait(300);
    const hasEnded = child.exitCode !== null;
    return { fresh, hasEnded, ...last };
  } finally {
    await endTerminator();
    child.kill("SIGKILL");
    await ended(child);
    await proxy.close();
  }
}
const MOST_MS = 60_000;

async function makeRootKey(url: string): Promise<string> {
  const { store, close } = openNode(url);
  const { key } = await createKeyring(store).createRootKey({ permissions: ["api.*.verify_key"] });
  await close();
  return key;
}

/** Ends sessions until it is told to stop. */
async function terminator(server: TestPostgres, url: string): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  let isStopping = false;
  const looping = (async () => {
    while (!isStopping) {
      await client.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", [
        new URL(url).pathname.slice(1),
      ]);
      await wait(EVERY_MS);
    }
    await client.end();
  })();
  return () => {
    isStopping = true;
    return looping;
  };
}

async function listens(port: number, child: ChildProcess): Promise<void> {
  for (let tries = 0; tries < 1_000 && child.exitCode === null; tries++) {
    const isReached = await fetch(`http://127.0.0.1:${port}/v2/liveness`).then(
      () => true,
      () => false,
    );
    if (isReached) return;
    await wait(20);
  }
  throw new Error("the server did not start");
}

async function callServer(port: number, rootKey: string, key: string, isOver: () => boolean) {
  const counts = { granted: 0, failed: 0 };
  const headers = { authorization: `Bearer ${rootKey}`, "content-type": "application/json" };
  const run = async (): Promise<void> => {
    while (!isOver()) {
      try {
        const init = { method: "POST", headers, body: JSON.stringify({ key }), signal: AbortSignal.timeout(10_000) };
        const { ok } = await fetch(`http://127.0.0.1:${port}/v2/keys.verifyKey`, init);
        counts[ok ? "granted" : "failed"]++;
      } catch {
        // It has ended.
        await wait(20);
      }
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, run));
  return counts;
}
