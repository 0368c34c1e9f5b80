/**
 * A rig that ends every session of a program every 40 ms, those that were just made among them, on a machine that is
 * busy: the error of a session must never find nobody that listens, since that ends the program. Without busy loops
 * beside it the error seldom comes in the packet in which the session begins.
 */
import { type ChildProcess, spawn } from "node:child_process";
import pg from "pg";
import { createKeyring } from "../../src/keyring/keyring.js";
import { freePort, type TestPostgres, wait } from "../servers/postgres.js";
import { makeKeys, openNode } from "./postgres-support.js";
import { buildWorker, ended, nextMessage, startWorker } from "./workers.js";
import type { TerminatedOrders } from "./workers/terminated.js";

export interface TerminationReport {
  readonly runs: number;
  /** Programs that ended. Must be 0. */
  readonly exits: number;
  /** Calls that were answered, and that failed. */
  readonly granted: number;
  readonly failed: number;
}

const CALLERS = 8;
const BUSY_LOOPS = 6;
const EVERY_MS = 40;
const CREDITS = 1_000_000_000;

/** @param of what ends @param seconds of each run */
export async function runTerminations(
  server: TestPostgres,
  of: "a program" | "serve",
  { runs, seconds, isLate = false }: { readonly runs: number; readonly seconds: number; readonly isLate?: boolean },
): Promise<TerminationReport> {
  const url = await server.newDatabase();
  const [made] = await makeKeys(url, 1, CREDITS);
  const rootKey = await makeRootKey(url);
  const worker = await buildWorker("terminated");
  const report = { runs, exits: 0, granted: 0, failed: 0 };
  for (let run = 0; run < runs; run++) {
    const port = of === "serve" ? await freePort() : undefined;
    const orders: TerminatedOrders = { url, key: made!.key, callers: CALLERS, isLate, ...(port && { port }) };
    const child = startWorker(worker, orders);
    let last = { granted: 0, failed: 0 };
    child.on("message", (message) => (last = message as typeof last));
    await (port === undefined ? nextMessage(child) : listens(port, child));
    const busy = Array.from({ length: BUSY_LOOPS }, () => spawn(process.execPath, ["-e", "for (;;);"]));
    const endTerminator = await terminator(server, url);
    try {
      const until = performance.now() + seconds * 1_000;
      const isOver = () => performance.now() >= until || child.exitCode !== null;
      if (port !== undefined) last = await callServer(port, rootKey, made!.key, isOver);
      while (!isOver()) await wait(20);
    } finally {
      for (const loop of busy) loop.kill("SIGKILL");
      await endTerminator();
    }
    if (child.exitCode !== null) report.exits++;
    child.kill("SIGKILL");
    await ended(child);
    report.granted += last.granted;
    report.failed += last.failed;
  }
  return report;
}

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
