/**
 * Rigs that break the server or the way to it under load, in one node: a crash and restart, a network that cuts,
 * stalls, delays and loses, and a failover to a standby. What was acknowledged is set against what the server has.
 */
import { setTimeout as pause } from "node:timers/promises";
import { isKeystileError } from "../../src/contracts/errors.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import type { PostgresStoreOptions } from "../../src/stores/postgres/index.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { startPostgres, type TestPostgres } from "../servers/postgres.js";
import { type Proxy, type ProxyMode, startProxy } from "../servers/proxy.js";
import { type HostDelays, watchHost } from "./host-delays.js";
import { createCanaries, makeKeys, type MadeKey, openNode } from "./postgres-support.js";

export const IN_FLIGHT = 64;
const KEYS = 8;
const CREDITS = 1_000_000_000_000;

export interface Load {
  /** Acknowledged deductions by key. */
  readonly acknowledged: number[];
  /** The longest that a call took to settle, milliseconds. */
  slowest: number;
  /** When a call was granted last. */
  grantedAt: number;
  /** Calls wait while it is set. */
  isHeld: boolean;
  readonly kinds: ReadonlyMap<string, number>;
  readonly leaks: ReadonlySet<string>;
  resets(): Promise<number>;
  stop(): Promise<void>;
}

/** Verifies with many calls in flight until it is stopped; a call that fails is followed by another one. */
function startLoad(
  url: string,
  made: readonly MadeKey[],
  options: PostgresStoreOptions,
  secrets: readonly string[],
): Load {
  const node = openNode(url, options);
  const verifier = createVerifier(node.store);
  const canaries = createCanaries([...secrets, ...made.map(({ key }) => key)]);
  let isStopping = false;
  const load: Load = {
    acknowledged: made.map(() => 0),
    slowest: 0,
    grantedAt: 0,
    isHeld: false,
    kinds: canaries.kinds,
    leaks: canaries.leaks,
    resets: async () => (await node.store.status()).resets,
    async stop() {
      isStopping = true;
      await Promise.all(loops);
      await verifier.close();
      await node.close();
    },
  };
  const run = async (first: number): Promise<void> => {
    for (let i = first; !isStopping; i++) {
      while (load.isHeld) await pause(1);
      const at = i % made.length;
      const began = performance.now();
      try {
        const { code } = await verifier.verify({ key: made[at]!.key });
        if (code !== "VALID") throw new Error(`returned ${code}`);
        load.acknowledged[at]!++;
        load.grantedAt = performance.now();
      } catch (error) {
        canaries.add(error);
        if (!isKeystileError(error)) throw error;
        await pause(5);
      }
      load.slowest = Math.max(load.slowest, performance.now() - began);
    }
  };
  const loops = Array.from({ length: IN_FLIGHT }, (_, i) => run(i));
  return load;
}

async function digests(server: TestPostgres, url: string): Promise<string[]> {
  const rows = await server.sql("SELECT digest FROM keystile.keys", databaseOf(url));
  return rows.map(({ digest }) => digest as string);
}

const databaseOf = (url: string): string => new URL(url).pathname.slice(1);

/** What the server says was deducted of each key, in the order in which they were made. */
async function deducted(server: TestPostgres, url: string): Promise<number[]> {
  const rows = await server.sql(
    "SELECT a.remaining::text AS remaining FROM keystile.accounts a ORDER BY a.number",
    databaseOf(url),
  );
  return rows.map(({ remaining }) => CREDITS - Number(remaining));
}

/** Small commits on the server itself, as its disk and this host let them through at the time. */
async function watchServer(server: TestPostgres): Promise<HostDelays> {
  await server.sql("CREATE TABLE IF NOT EXISTS probe AS SELECT 0 AS n");
  return watchHost(() => server.sql("UPDATE probe SET n = n + 1"));
}

interface Compared {
  /** Acknowledged deductions that the server does not have. */
  readonly lost: number;
  /** Deductions that were not acknowledged. */
  readonly extra: number;
}

function compare(acknowledged: readonly number[], there: readonly number[]): Compared {
  const differences = acknowledged.map((count, i) => there[i]! - count);
  return {
    lost: differences.reduce((sum, one) => sum + Math.max(0, -one), 0),
    extra: differences.reduce((sum, one) => sum + Math.max(0, one), 0),
  };
}

export interface CrashReport {
  readonly crashes: number;
  readonly acknowledged: number;
  /** Must be 0. */
  readonly lost: number;
  /** The most that one crash left without an answer: at most the calls in flight. */
  readonly extra: number;
  /** The longest from the start of the server to the next grant, milliseconds, less what the host was late by. */
  readonly grantsAfter: number;
  readonly kinds: Readonly<Record<string, number>>;
  readonly leaks: readonly string[];
}

/** Stops the server at once under load, and starts it again. */
export async function runCrashes(
  server: TestPostgres,
  crashes: number,
  options: PostgresStoreOptions = {},
): Promise<CrashReport> {
  const url = await server.newDatabase();
  const made = await makeKeys(url, KEYS, CREDITS);
  const load = startLoad(url, made, options, [server.password, ...(await digests(server, url))]);
  const host = await watchServer(server);
  let [lost, extra, grantsAfter] = [0, 0, 0];
  // What earlier crashes left.
  const offset = made.map(() => 0);
  for (let crash = 0; crash < crashes; crash++) {
    await pause(300 + ((crash * 97) % 400));
    await server.stop("immediate");
    await pause(100);
    // Held while the two are compared.
    load.isHeld = true;
    await server.start();
    // The calls that were in flight have failed.
    await pause(50);
    const there = await deducted(server, url);
    const expected = load.acknowledged.map((count, i) => count + offset[i]!);
    const compared = compare(expected, there);
    lost += compared.lost;
    extra = Math.max(extra, compared.extra);
    for (const [i, count] of expected.entries()) offset[i]! += there[i]! - count;
    host.worst();
    const released = performance.now();
    load.isHeld = false;
    while (load.grantedAt < released && performance.now() - released < 10_000) await pause(2);
    grantsAfter = Math.max(grantsAfter, load.grantedAt - released - host.worst());
  }
  await host.stop();
  await load.stop();
  const acknowledged = load.acknowledged.reduce((sum, count) => sum + count, 0);
  const kinds = Object.fromEntries(load.kinds);
  return { crashes, acknowledged, lost, extra, grantsAfter, kinds, leaks: [...load.leaks] };
}

export interface KilledProcessReport {
  /** Numbers of transactions that the server used again: none, and the run shows nothing. */
  readonly usedAgain: number;
  /** Of a node that had the key in memory, after another had disabled it. */
  readonly codes: readonly string[];
  readonly resets: number;
}

/**
 * Kills one process of the server, as the system does where memory is short: the server recovers without starting
 * anew, and what another program had committed without waiting for the disk is gone. A key is disabled then, and as
 * many transactions follow as a node had seen before.
 */
export async function runKilledProcess(server: TestPostgres): Promise<KilledProcessReport> {
  const url = await server.newDatabase();
  const other = databaseOf(await server.newDatabase());
  await server.sql(`ALTER DATABASE ${other} SET synchronous_commit = off`);
  await server.sql("CREATE TABLE t (i int)", other);
  const commit = (times: number) =>
    server.sql(`DO $$ BEGIN FOR i IN 1..${times} LOOP INSERT INTO t VALUES (i); COMMIT; END LOOP; END $$`, other);
  const next = async () =>
    Number((await server.sql("SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS x"))[0]!["x"]);
  const [{ key, keyId }] = (await makeKeys(url, 1)) as [MadeKey];
  const [here, there] = [openNode(url), openNode(url)];
  const verifier = createVerifier(here.store);
  await verifier.verify({ key });
  await commit(5_000);
  // What it has seen is not on the disk.
  await here.store.pollChanges("anew");
  const seen = await next();
  const [row] = await server.sql(`SELECT pid FROM pg_stat_activity WHERE datname = '${databaseOf(url)}' LIMIT 1`);
  process.kill(row!["pid"] as number, "SIGKILL");
  const persistently = async <T>(work: () => Promise<T>): Promise<T> => {
    for (const began = performance.now(); ; await pause(20)) {
      try {
        return await work();
      } catch (error) {
        if (performance.now() - began > 30_000) throw error;
      }
    }
  };
  const recovered = await persistently(next);
  await persistently(() => createKeyring(there.store).updateKey({ keyId, enabled: false }));
  await persistently(() => commit(5_000));
  const codes: string[] = [];
  for (let i = 0; i < 3; i++) {
    await here.store.pollChanges("anew");
    codes.push((await verifier.verify({ key })).code);
  }
  const { resets } = await here.store.status();
  await verifier.close();
  await Promise.all([here.close(), there.close()]);
  return { usedAgain: seen - recovered, codes, resets };
}

export interface FaultTimes {
  readonly slowest: number;
  readonly grantsAfter: number;
  readonly hostDelay: number;
}

export interface NetworkReport {
  readonly timeout: number;
  /**
   * Of each fault: the slowest call, how soon calls were granted once it was over, and how late the host was then,
   * milliseconds.
   */
  readonly faults: Readonly<Record<string, FaultTimes>>;
  readonly acknowledged: number;
  /** Must be 0. */
  readonly lost: number;
  readonly extra: number;
  readonly kinds: Readonly<Record<string, number>>;
  readonly leaks: readonly string[];
}

/** @param ms how long what does not end by itself lasts */
const FAULTS: Readonly<Record<string, (proxy: Proxy, ms: number) => Promise<void>>> = {
  async cut(proxy) {
    for (let i = 0; i < 5; i++) {
      proxy.cut();
      await pause(100);
    }
  },
  async refuse(proxy) {
    proxy.set("refuse");
    proxy.cut();
    await pause(1_000);
  },
  delay: (proxy, ms) => hold(proxy, "delay", ms),
  stall: (proxy, ms) => hold(proxy, "stall", ms),
  "half-open": (proxy, ms) => hold(proxy, "half-open", ms),
};

async function hold(proxy: Proxy, mode: ProxyMode, ms: number): Promise<void> {
  proxy.set(mode);
  await pause(ms);
}

/** Breaks the way to the server in every manner, under load. */
export async function runNetworkFaults(
  server: TestPostgres,
  options: {
    readonly timeout?: number;
    /** Milliseconds that a fault lasts, longer than calls may take. */
    readonly lasting?: number;
    readonly rounds?: number;
    readonly faults?: readonly string[];
  } = {},
): Promise<NetworkReport> {
  const { timeout = 1_000, lasting = 2_500, rounds = 1, faults: names = Object.keys(FAULTS) } = options;
  const url = await server.newDatabase();
  const made = await makeKeys(url, KEYS, CREDITS);
  const proxy = await startProxy(server.port);
  const through = Object.assign(new URL(url), { port: String(proxy.port) }).href;
  const load = startLoad(through, made, { timeout }, [server.password, ...(await digests(server, url))]);
  const host = await watchServer(server);
  const faults: Record<string, FaultTimes> = {};
  for (let round = 0; round < rounds; round++) {
    for (const name of names) {
      await pause(300);
      load.slowest = 0;
      host.worst();
      await FAULTS[name]!(proxy, lasting);
      const over = performance.now();
      proxy.set("pass");
      while (load.grantedAt < over && performance.now() - over < 20_000) await pause(2);
      const grantsAfter = load.grantedAt - over;
      // Calls that began before it was over.
      await pause(timeout);
      const before = faults[name] ?? { slowest: 0, grantsAfter: 0, hostDelay: 0 };
      faults[name] = {
        slowest: Math.max(before.slowest, load.slowest),
        grantsAfter: Math.max(before.grantsAfter, grantsAfter),
        hostDelay: Math.max(before.hostDelay, host.worst()),
      };
    }
  }
  await host.stop();
  await load.stop();
  await proxy.close();
  await pause(200);
  const acknowledged = load.acknowledged.reduce((sum, count) => sum + count, 0);
  const compared = compare(load.acknowledged, await deducted(server, url));
  return { timeout, faults, acknowledged, ...compared, kinds: Object.fromEntries(load.kinds), leaks: [...load.leaks] };
}

export interface FailoverReport {
  readonly acknowledged: number;
  /** Acknowledged deductions that the standby had not got. */
  readonly lost: number;
  readonly extra: number;
  /** Times that the node dropped what it remembered: at least once. */
  readonly resets: number;
  /** From the standby's promotion to the next grant, milliseconds, less what the host was late by. */
  readonly grantsAfter: number;
  readonly kinds: Readonly<Record<string, number>>;
  readonly leaks: readonly string[];
}

/** The primary is lost under load, and its standby, which follows through a line of 200 ms, takes over. */
export async function runFailover(isSynchronous: boolean): Promise<FailoverReport> {
  const primary = await startPostgres();
  const line = await startProxy(primary.port);
  const proxy = await startProxy(primary.port);
  const url = await primary.newDatabase();
  const made = await makeKeys(url, KEYS, CREDITS);
  const standby = await primary.standby("rig", line.port);
  try {
    if (isSynchronous) {
      await primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'rig'");
      await primary.sql("SELECT pg_reload_conf()");
    }
    line.set("delay");
    const through = Object.assign(new URL(url), { port: String(proxy.port) }).href;
    const load = startLoad(through, made, {}, [primary.password, ...(await digests(primary, url))]);
    await pause(1_500);
    // What is on its way to the standby is lost with the primary.
    line.set("half-open");
    await primary.stop("immediate");
    proxy.retarget(standby.port);
    proxy.cut();
    line.cut();
    await pause(200);
    load.isHeld = true;
    await standby.promote();
    const compared = compare(load.acknowledged, await deducted(standby, url));
    const acknowledged = load.acknowledged.reduce((sum, count) => sum + count, 0);
    const host = await watchServer(standby);
    const released = performance.now();
    load.isHeld = false;
    while (load.grantedAt < released && performance.now() - released < 10_000) await pause(2);
    const grantsAfter = load.grantedAt - released - host.worst();
    await host.stop();
    await pause(1_000);
    const resets = await load.resets();
    await load.stop();
    const kinds = Object.fromEntries(load.kinds);
    return { acknowledged, ...compared, resets, grantsAfter, kinds, leaks: [...load.leaks] };
  } finally {
    await Promise.all([proxy.close(), line.close(), standby.close(), primary.close()]);
  }
}
