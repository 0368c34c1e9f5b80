/**
 * The rig of a server of which something does not go on: a row that another session has locked, a synchronous standby
 * that is gone, a process of the server that is stopped. Four nodes call on; another program of the server must get its
 * connection all the while.
 */
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { isKeystileError } from "../../src/contracts/errors.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import type { PostgresClient } from "../../src/stores/postgres/index.js";
import { postgresStore } from "../../src/stores/postgres/index.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { startPostgres, type TestPostgres } from "../servers/postgres.js";
import { makeKeys } from "./postgres-support.js";

export type Stall = "a locked row" | "a lost standby" | "a stopped process";

const NODES = 4;
/** Connections of the pool of a node. */
const MAX = 6;
/** The most connections of all nodes: with those that listen, and that ask whether a statement is still running. */
export const MOST = NODES * (MAX + 2);
const KEYS = 8;
const TIMEOUT = 3_000;
/** What a commit takes on a slow disk, or with a standby far away, microseconds: four nodes commit in turns then. */
const COMMIT_US = 30_000;
const CREDITS = 1_000_000;
/** New keys of each node that are written at once: more than it has connections. */
const WRITES = 8;

export interface StallsReport {
  /** The most connections that the nodes had on the server. */
  readonly connections: number;
  /** Times that the other program was refused or had to wait for more than two seconds: none. */
  readonly refused: number;
  /** Calls on a key without credits that were not VALID: none. */
  readonly failed: number;
  /** Outcomes of calls with credits while it lasted, by key: the first is the one whose row is locked. */
  readonly kinds: readonly Readonly<Record<string, number>>[];
  /** Outcomes of new keys that were written meanwhile, each of which is a commit that waits for no lock. */
  readonly writes: Readonly<Record<string, number>>;
  /** From its end until a call on every key was granted, milliseconds. */
  readonly grantsAfter: number;
  /** Acknowledged deductions that the server does not have: none. */
  readonly lost: number;
}

/**
 * A client that knows nothing of its connections and forgets the statements that it gave up, with as many at once as
 * the store may have: the control.
 */
function forgetful(pool: pg.Pool): PostgresClient {
  return {
    query: (text, values) => pool.query({ text, values, query_timeout: TIMEOUT } as pg.QueryConfig),
  };
}

/** @param seconds for which it lasts @param forgets whether the client is the control's */
export async function runStall(
  stall: Stall,
  seconds: number,
  { forgets = false }: { readonly forgets?: boolean } = {},
): Promise<StallsReport> {
  const slow = stall === "a locked row" ? ["fsync = on", `commit_delay = ${COMMIT_US}`, "commit_siblings = 0"] : [];
  const server = await startPostgres(["max_connections = 100", "synchronous_commit = on", ...slow]);
  const endings: (() => unknown)[] = [() => server.close()];
  try {
    const url = await server.newDatabase();
    const made = await makeKeys(url, KEYS, CREDITS);
    const unlimited = (await unlimitedKey(url))!;
    const name = new URL(url).pathname.slice(1);
    const [api] = await server.sql("SELECT id FROM keystile.entities WHERE kind = 'apis' LIMIT 1", name);
    const apiId = api!["id"] as string;
    const nodes = Array.from({ length: NODES }, () => {
      const pool = new pg.Pool({ connectionString: url, max: MAX, connectionTimeoutMillis: 2_000 });
      pool.on("error", () => undefined);
      const store = postgresStore(forgets ? forgetful(pool) : pool, {
        timeout: TIMEOUT,
        // A busy host is no fault of the server.
        bound: 10_000,
        ...(forgets && { maxWrites: 100 }),
      });
      return { pool, store, verifier: createVerifier(store, { usage: false }) };
    });
    const acknowledged = made.map(() => 0);
    const grantedAt = made.map(() => 0);
    let kinds = made.map((): Record<string, number> => ({}));
    let writes: Record<string, number> = {};
    let [failed, refused, connections] = [0, 0, 0];
    let isStopping = false;
    const loops: Promise<void>[] = [];
    const loop = async (work: () => Promise<void>, ms: number): Promise<void> => {
      while (!isStopping) {
        await work();
        await pause(ms);
      }
    };
    for (const { store, verifier } of nodes) {
      for (const [i, { key }] of made.entries()) {
        let calls = 0;
        const call = async (): Promise<void> => {
          // Some of them with an idempotency key.
          const once = calls++ % 2 === 0 ? { idempotencyKey: `${Math.random()}` } : {};
          const kind = await codeOf(async () => (await verifier.verify({ key }, once)).code);
          kinds[i]![kind] = (kinds[i]![kind] ?? 0) + 1;
          if (kind !== "VALID") return;
          acknowledged[i]!++;
          grantedAt[i] = performance.now();
        };
        loops.push(loop(call, 10));
      }
      const callUnlimited = async (): Promise<void> => {
        if ((await codeOf(async () => (await verifier.verify({ key: unlimited })).code)) !== "VALID") failed++;
      };
      loops.push(loop(callUnlimited, 20));
      const keyring = createKeyring(store);
      const write = async (): Promise<void> => {
        const kind = await codeOf(async () => (await keyring.createKey({ apiId }), "written"));
        writes[kind] = (writes[kind] ?? 0) + 1;
      };
      for (let i = 0; i < WRITES; i++) loops.push(loop(write, 100));
    }
    while (grantedAt.some((at) => at === 0)) await pause(50);
    const other = async (): Promise<void> => {
      const late = pause(2_000).then(() => {
        throw new Error("late");
      });
      const asked = server.sql(
        `SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = '${name}' AND application_name <> 'rig'`,
      );
      try {
        const [row] = await Promise.race([asked, late]);
        connections = Math.max(connections, row!["n"] as number);
      } catch {
        refused++;
      }
      late.catch(() => undefined);
      asked.catch(() => undefined);
    };
    [failed, refused] = [0, 0];
    loops.push(loop(other, 100));
    const end = await STALLS[stall](server, url, endings);
    // Calls that began before.
    await pause(TIMEOUT);
    kinds = made.map(() => ({}));
    writes = {};
    await pause(seconds * 1_000);
    const [seen, written] = [kinds, writes];
    writes = {};
    kinds = made.map(() => ({}));
    const over = performance.now();
    await end();
    while (grantedAt.some((at) => at < over) && performance.now() - over < 20_000) await pause(5);
    const grantsAfter = Math.max(...grantedAt) - over;
    isStopping = true;
    await Promise.all(loops);
    for (const { verifier, store, pool } of nodes) {
      await verifier.close();
      await store.close();
      void pool.end();
    }
    await pause(500);
    const rows = await server.sql(
      "SELECT spent::int AS n FROM keystile.accounts WHERE NOT unlimited ORDER BY number",
      name,
    );
    const lost = acknowledged.reduce((sum, count, i) => sum + Math.max(0, count - (rows[i]!["n"] as number)), 0);
    return { connections, refused, failed, kinds: seen, writes: written, grantsAfter, lost };
  } finally {
    for (const ending of endings.toReversed()) await ending();
  }
}

async function codeOf(call: () => Promise<string>): Promise<string> {
  try {
    return await call();
  } catch (error) {
    if (!isKeystileError(error)) throw error;
    return error.code;
  }
}

async function unlimitedKey(url: string): Promise<string | undefined> {
  const [made] = await makeKeys(url, 1);
  return made?.key;
}

type Endings = (() => unknown)[];

/** A connection of the rig's own, which is not one of the nodes'. */
async function connect(url: string, endings: Endings): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: "rig" });
  client.on("error", () => undefined);
  await client.connect();
  endings.push(() => client.end());
  return client;
}

/** Each begins, and resolves with what ends it. */
const STALLS: Readonly<
  Record<Stall, (server: TestPostgres, url: string, endings: Endings) => Promise<() => Promise<unknown>>>
> = {
  async "a locked row"(_, url, endings) {
    const client = await connect(url, endings);
    await client.query("BEGIN");
    await client.query("SELECT * FROM keystile.accounts ORDER BY number LIMIT 1 FOR UPDATE");
    return () => client.query("ROLLBACK");
  },
  async "a lost standby"(_, url, endings) {
    const client = await connect(url, endings);
    const configure = async (names: string): Promise<void> => {
      await client.query(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
      await client.query("SELECT pg_reload_conf()");
    };
    await configure("gone");
    return () => configure("");
  },
  async "a stopped process"(server, url, endings) {
    const name = new URL(url).pathname.slice(1);
    for (;;) {
      const [row] = await server.sql(
        `SELECT pid FROM pg_stat_activity WHERE datname = '${name}' AND state = 'active' AND query LIKE '%spend%' LIMIT 1`,
      );
      if (row === undefined) continue;
      const pid = row["pid"] as number;
      process.kill(pid, "SIGSTOP");
      let isStopped = true;
      const end = async (): Promise<void> => {
        if (isStopped) process.kill(pid, "SIGCONT");
        isStopped = false;
      };
      endings.push(end);
      return end;
    }
  },
};
