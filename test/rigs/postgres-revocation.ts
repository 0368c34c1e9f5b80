/**
 * The rig of revocation between nodes on one PostgreSQL server: another process disables a key and says when that was
 * committed; how long do verifications here still pass? Also of a node that is stopped meanwhile.
 */
import { rmSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import type { PostgresStoreOptions } from "../../src/stores/postgres/index.js";
import { createVerifier } from "../../src/verify/verifier.js";
import type { TestPooler, TestPostgres } from "../servers/postgres.js";
import { makeKeys, openNode, percentile } from "./postgres-support.js";
import { buildWorker, ended, nextMessage, startWorker, tell } from "./workers.js";
import type { NodeCommand, NodeOrders } from "./workers/postgres-node.js";

export interface RemoteRevocations {
  readonly revocations: number;
  /** Milliseconds from the commit to the start of the last verification that passed. */
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  /** Verifications meanwhile. */
  readonly calls: number;
}

/** How the reader hears of changes. */
export type Listener = "alive" | "killed" | { readonly through: TestPooler };

export async function runRemoteRevocations(
  server: TestPostgres,
  revocations: number,
  listener: Listener,
  options: PostgresStoreOptions = {},
): Promise<RemoteRevocations> {
  const worker = await buildWorker("postgres-node");
  const url = await server.newDatabase();
  const made = await makeKeys(url, revocations);
  const reader = openNode(typeof listener === "object" ? listener.through.through(url) : url, options);
  const verifier = createVerifier(reader.store);
  const child = startWorker(worker, { url } satisfies NodeOrders);
  try {
    await nextMessage(child);
    for (const { key } of made) await verifier.verify({ key });
    // The listener has heard itself, or has waited for it in vain.
    const listens = async () => (await reader.store.status()).isListening;
    for (const deadline = performance.now() + 3_000; !(await listens()) && performance.now() < deadline;)
      await pause(20);
    if ((await listens()) !== (typeof listener !== "object")) throw new Error("the listener is not as it should be");
    const latencies: number[] = [];
    let calls = 0;
    for (const { key, keyId } of made) {
      if (listener === "killed") await endListeners(server, url);
      const word = nextMessage(child) as Promise<{ at?: string; failed?: string }>;
      tell(child, { what: "disable", keyId } satisfies NodeCommand);
      let lastPassed = process.hrtime.bigint();
      for (;;) {
        const began = process.hrtime.bigint();
        const { code } = await verifier.verify({ key });
        calls++;
        if (code === "DISABLED") break;
        lastPassed = began;
        await pause(calls % 2);
      }
      const { at, failed } = await word;
      if (at === undefined) throw new Error(failed);
      latencies.push(Math.max(0, Number(lastPassed - BigInt(at)) / 1e6));
      // At no fixed distance from polls.
      await pause((calls * 7) % 23);
    }
    const figures = { p50: percentile(latencies, 0.5), p99: percentile(latencies, 0.99), max: Math.max(...latencies) };
    return { revocations, ...figures, calls };
  } finally {
    child.disconnect();
    await ended(child);
    await verifier.close();
    await reader.close();
    rmSync(worker, { force: true });
  }
}

async function endListeners(server: TestPostgres, url: string): Promise<void> {
  await server.sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE query LIKE 'LISTEN %' AND datname = '${new URL(url).pathname.slice(1)}'`);
}

export interface StoppedReport {
  readonly stops: number;
  /** Verifications that began after a node was continued, and passed: must be 0. */
  readonly passed: number;
  readonly judged: number;
}

/** Stops nodes for three seconds, in which another one disables the keys that they verify, each one of its own. */
export async function runStops(
  server: TestPostgres,
  stops: number,
  options: { readonly stoppedMs?: number } = {},
): Promise<StoppedReport> {
  const { stoppedMs = 3_000 } = options;
  const worker = await buildWorker("postgres-node");
  const url = await server.newDatabase();
  const made = await makeKeys(url, stops);
  const admin = startWorker(worker, { url } satisfies NodeOrders);
  const nodes = made.map(() => startWorker(worker, { url } satisfies NodeOrders));
  const totals = { passed: 0, judged: 0 };
  try {
    await Promise.all([admin, ...nodes].map(nextMessage));
    const results: Promise<{ after?: { began: string; code: string }[] }>[] = [];
    for (const [i, node] of nodes.entries()) {
      const watching = nextMessage(node);
      tell(node, { what: "watch", key: made[i]!.key } satisfies NodeCommand);
      if ((await watching)["isWatching"] !== "VALID") throw new Error("the key does not pass");
      results.push(nextMessage(node));
      node.kill("SIGSTOP");
    }
    for (const { keyId } of made) {
      const word = nextMessage(admin);
      tell(admin, { what: "disable", keyId } satisfies NodeCommand);
      if ((await word)["at"] === undefined) throw new Error("the key was not disabled");
    }
    await pause(stoppedMs);
    for (const [i, node] of nodes.entries()) {
      const continued = process.hrtime.bigint();
      node.kill("SIGCONT");
      for (const { began, code } of (await results[i])?.after ?? []) {
        if (BigInt(began) < continued) continue;
        totals.judged++;
        if (code !== "DISABLED") totals.passed++;
      }
      node.disconnect();
      await ended(node);
    }
    return { stops, ...totals };
  } finally {
    for (const one of [admin, ...nodes]) {
      one.kill("SIGCONT");
      if (one.connected) one.disconnect();
    }
    rmSync(worker, { force: true });
  }
}
