/** The rig of several nodes on one PostgreSQL server: what they are granted in all, against what was there. */
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { CreditsOptions } from "../../src/verify/verifier-options.js";
import type { TestPostgres } from "../servers/postgres.js";
import { makeKeys, openNode } from "./postgres-support.js";
import { buildWorker, ended, nextMessage, rigFolder, startWorker, tell } from "./workers.js";
import type { NodeCommand, NodeOrders } from "./workers/postgres-node.js";

export interface NodesReport {
  /** Costs of all that was VALID. */
  readonly granted: number;
  /** Left in the store when all had ended. */
  readonly balance: number;
  readonly deadlocks: number;
  readonly errors: readonly string[];
  readonly perProcess: readonly number[];
  readonly seconds: number;
}

/** The most that a call costs. */
export const MAX_COST = 7;

/** @param remaining credits of all keys together, of each the same */
export async function runNodes(
  server: TestPostgres,
  processes: number,
  remaining: number,
  options: {
    readonly credits?: CreditsOptions;
    readonly keys?: number;
    readonly readsThenWrites?: boolean;
    /** Calls in flight in each process. */
    readonly inFlight?: number;
    /** Kills the first process when so many credits are granted. */
    readonly killAt?: number;
    /**
     * Then gives all that nodes have drawn back to the balance, as a store might that guesses who is gone: the planted
     * fault.
     */
    readonly reclaims?: boolean;
  } = {},
): Promise<NodesReport> {
  const {
    credits = { mode: "exact" },
    keys = 1,
    readsThenWrites = false,
    inFlight = 32,
    killAt,
    reclaims = false,
  } = options;
  const folder = rigFolder();
  const worker = await buildWorker("postgres-node");
  try {
    const url = await server.newDatabase();
    const made = await makeKeys(url, keys, remaining / keys);
    const orders: NodeOrders = { url, credits, readsThenWrites };
    const children = Array.from({ length: processes }, () => startWorker(worker, orders));
    await Promise.all(children.map(nextMessage));
    const acks = children.map((_, i) => join(folder, `acks-${i}`));
    const grantedBy = (i: number) => readFileSync(acks[i]!).reduce((sum, cost) => sum + cost, 0);
    const begun = performance.now();
    const words = children.map((child) => nextMessage(child).catch(() => ({ errors: [] })));
    for (const [i, child] of children.entries())
      tell(child, { what: "spend", keys: made.map(({ key }) => key), inFlight, acks: acks[i]! } satisfies NodeCommand);
    if (killAt !== undefined) {
      const total = () => {
        try {
          return acks.reduce((sum, _, i) => sum + grantedBy(i), 0);
        } catch {
          return 0;
        }
      };
      while (total() < killAt) await new Promise((resolve) => setTimeout(resolve, 5));
      children[0]!.kill("SIGKILL");
      if (reclaims) await server.sql(RECLAIM, new URL(url).pathname.slice(1));
    }
    const reports = (await Promise.all(words)) as { errors: string[] }[];
    const seconds = (performance.now() - begun) / 1_000;
    for (const child of children) if (child.connected) child.disconnect();
    await Promise.all(children.map(ended));
    const { store, close } = openNode(url);
    const balances = await store.readBalances(
      made.map(({ keyId }) => ({ keyId, period: 0 })),
      Date.now(),
    );
    await close();
    const perProcess = acks.map((_, i) => grantedBy(i));
    return {
      granted: perProcess.reduce((sum, granted) => sum + granted, 0),
      balance: balances.reduce((sum, balance) => sum + (balance?.remaining ?? 0), 0),
      deadlocks: await deadlocks(server, url),
      errors: [...new Set(reports.flatMap((report) => report.errors))],
      perProcess,
      seconds,
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
    rmSync(worker, { force: true });
  }
}

const RECLAIM = `SELECT keystile.end_leases_v1('power', (SELECT jsonb_agg(jsonb_build_array(account, holder, 0))::text FROM keystile.leases))`;

async function deadlocks(server: TestPostgres, url: string): Promise<number> {
  const [row] = await server.sql(
    `SELECT deadlocks::int AS n FROM pg_stat_database WHERE datname = '${new URL(url).pathname.slice(1)}'`,
  );
  return row!["n"] as number;
}
