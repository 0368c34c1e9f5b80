/**
 * The rig of the change log: transactions that are open for up to 20 ms and one for seconds, with rollbacks among them.
 * What was committed must be told, within the bound. Beside it a reader that goes by a sequence, which must be found
 * out.
 */
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { dice } from "../model/dice.js";
import type { TestPostgres } from "../servers/postgres.js";
import { makeKeys, openNode, percentile } from "./postgres-support.js";

export interface ChangesReport {
  readonly committed: number;
  readonly rolledBack: number;
  /** Committed, and never told: must be 0. */
  readonly lost: number;
  /** Told, and never committed: must be 0. */
  readonly invented: number;
  /** Milliseconds from the commit to the notification. */
  readonly p99: number;
  readonly max: number;
  /** What the reader by sequence lost. */
  readonly lostBySequence: number;
}

const WRITERS = 8;

/** @param longMs how long the one long transaction is open */
export async function runChanges(
  server: TestPostgres,
  entries: number,
  { seed = 1, longMs = 5_000 }: { readonly seed?: number; readonly longMs?: number } = {},
): Promise<ChangesReport> {
  const url = await server.newDatabase();
  await makeKeys(url, 0);
  const node = openNode(url, { bound: 2_000, poll: 100 });
  const clients = await Promise.all(
    Array.from({ length: WRITERS + 2 }, async () => {
      const client = new pg.Client(url);
      await client.connect();
      return client;
    }),
  );
  const [reader, long, ...writers] = clients as [pg.Client, pg.Client, ...pg.Client[]];
  try {
    await reader.query("CREATE TABLE numbered (id bigserial PRIMARY KEY, what text)");
    await node.store.pollChanges("anew");
    const committed = new Map<string, number>();
    const toldAt = new Map<string, number>();
    const unsubscribe = node.store.subscribe((change) => {
      if (typeof change === "object" && "digest" in change) toldAt.set(change.digest, performance.now());
    });
    const bySequence = new Set<string>();
    let rolledBack = 0;
    const write = async (client: pg.Client, what: string, ms: number, commits: boolean): Promise<void> => {
      await client.query("BEGIN");
      await client.query("INSERT INTO keystile.changes (what) VALUES ($1)", [`=${what}`]);
      await client.query("INSERT INTO numbered (what) VALUES ($1)", [what]);
      if (ms > 0) await pause(ms);
      await client.query(commits ? "COMMIT" : "ROLLBACK");
      if (commits) committed.set(what, performance.now());
      else rolledBack++;
    };
    let isOver = false;
    const polling = (async () => {
      while (!isOver) {
        await node.store.pollChanges();
        await pause(2);
      }
    })();
    const numbered = (async () => {
      for (let last = "0"; !isOver; await pause(2)) {
        const { rows } = await reader.query<{ id: string; what: string }>(
          "SELECT id, what FROM numbered WHERE id > $1 ORDER BY id",
          [last],
        );
        for (const { id, what } of rows) {
          bySequence.add(what);
          last = id;
        }
      }
    })();
    let next = 0;
    const work = writers.map(async (client, w) => {
      const rolled = dice(seed * 100 + w);
      while (next < entries) await write(client, `entry-${next++}`, rolled.below(21), rolled.chance(0.9));
    });
    await Promise.all([...work, write(long, "entry-long", longMs, true)]);
    // The last may be told as late as the bound allows.
    for (const deadline = performance.now() + 3_000; performance.now() < deadline;) {
      if ([...committed.keys()].every((what) => toldAt.has(what))) break;
      await pause(20);
    }
    isOver = true;
    await Promise.all([polling, numbered]);
    unsubscribe();
    const told = [...committed].filter(([what]) => toldAt.has(what));
    // What is known before its writer heard of the commit took no time.
    const delays = told.map(([what, at]) => Math.max(0, toldAt.get(what)! - at));
    return {
      committed: committed.size,
      rolledBack,
      lost: committed.size - told.length,
      invented: [...toldAt.keys()].filter((what) => !committed.has(what)).length,
      p99: percentile(delays, 0.99),
      max: Math.max(...delays),
      lostBySequence: [...committed.keys()].filter((what) => !bySequence.has(what)).length,
    };
  } finally {
    await Promise.all(clients.map((client) => client.end()));
    await node.close();
  }
}
