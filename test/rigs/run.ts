/**
 * The long runs of the rigs: `tsx test/rigs/run.ts [name…]`, all of them without a name. Prints what was measured
 * beside what must be; the exit code is 1 when a promise broke or a control was not found out. `TEST_SEED` starts
 * them elsewhere.
 */
import { memoryStore } from "../../src/stores/memory.js";
import { noRedis, startRedis } from "../servers/redis.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { runCounting } from "./analytics.js";
import { runBackups } from "./backup.js";
import { buildWriter } from "./workers.js";
import { rehearseFailures } from "./failures.js";
import { rehearseFills } from "./fills.js";
import { runFlood } from "./flood.js";
import { IN_FLIGHT, KEYS, runKills } from "./kill.js";
import { runCuts, runLostSyncs } from "./powercut/cuts.js";
import { runIoFaults, spread } from "./powercut/io-faults.js";
import { runLimitCuts } from "./powercut/limits.js";
import { missing } from "./powercut/record.js";
import {
  noPgbouncer,
  noPostgresServer,
  startPgbouncer,
  startPostgres,
  type TestPostgres,
} from "../servers/postgres.js";
import { runLimits, runRedisLimits } from "./limits.js";
import { CONTROLS, createRig, HEADINGS, runControl, toRow } from "./neighbours.js";
import { type AttackName, ATTACKS } from "./neighbours/attacks.js";
import { runOnce } from "./once.js";
import { runChanges } from "./postgres-changes.js";
import { IN_FLIGHT as POSTGRES_IN_FLIGHT, runCrashes, runFailover, runNetworkFaults } from "./postgres-faults.js";
import { MAX_COST, runNodes } from "./postgres-processes.js";
import { runRemoteRevocations, runStops } from "./postgres-revocation.js";
import { MOST, runStall } from "./postgres-stalls.js";
import { runTerminations } from "./postgres-terminations.js";
import { runProcesses } from "./processes.js";
import { runLongTurns, runRevocations } from "./revocation.js";
import { runRestores } from "./restore.js";
import { runWalPrefix } from "./wal-prefix.js";

const SEED = Number(process.env["TEST_SEED"] ?? 1);

/** Figures, and whether they are as they must be. */
interface Verdict {
  readonly holds: boolean;
  readonly figures: object;
}

const verdict = (holds: boolean, figures: object): Verdict => ({ holds, figures });

async function cuts(count: number, options: Parameters<typeof runCuts>[1]): Promise<Verdict> {
  const report = await runCuts(count, { seed: SEED, stopAfter: 100_000, ...options });
  const isOff = options?.fault !== undefined;
  const holds = isOff
    ? report.lost > 0 && report.corrupt > 0
    : report.corrupt === 0 && (options?.durability === "process" || report.lost === 0);
  return verdict(holds && report.unanswered <= IN_FLIGHT + 1, report);
}

async function onPostgres<T>(work: (server: TestPostgres) => Promise<T>): Promise<T> {
  const server = await startPostgres();
  try {
    return await work(server);
  } finally {
    await server.close();
  }
}

/** Attacks of ten seconds at full strength; the server is ended before it takes the host's memory. */
const LONG = { scale: 1, ms: 10_000, killAt: 6_144 };

/** One row of a table for each attack, as it ends. */
async function neighbours(execArgv: readonly string[]): Promise<Verdict> {
  const rig = await createRig();
  const broken = [];
  console.log(`| ${HEADINGS.join(" | ")} |`);
  for (const name of Object.keys(ATTACKS) as AttackName[]) {
    const report = await rig.run(name, { ...LONG, execArgv });
    console.log(toRow(report));
    if (report.problems.length > 0) broken.push(`${name}: ${report.problems.join(", ")}`);
  }
  await rig.close();
  return verdict(broken.length === 0, { attacks: Object.keys(ATTACKS).length, broken });
}

const RIGS: Readonly<Record<string, () => Promise<Verdict>>> = {
  async backup() {
    const report = await runBackups(60);
    const cp = await runBackups(5, "cp");
    const leases = await runBackups(3, "VACUUM INTO alone");
    const controls = { cp, leases };
    const isFoundOut = cp.lost + cp.problems.length > 0 && leases.problems.includes("a lease is left");
    const holds = report.lost + report.invented === 0 && report.problems.length === 0;
    return verdict(holds && isFoundOut, { ...report, controls });
  },
  async limits() {
    const shared = await runLimits(20_000);
    const killed = await runLimits(20_000, { kills: 2_000 });
    const control = await runLimits(2_000, { readsThenTakes: true });
    const holds = shared.granted >= 20_000 && shared.granted <= shared.most && killed.granted <= killed.most;
    const isWhole = killed.granted >= 20_000 - killed.untold && shared.errors.length + killed.errors.length === 0;
    return verdict(holds && isWhole && control.granted > control.most, { shared, killed, control });
  },
  async "limits-redis"() {
    const redis = await startRedis();
    try {
      const shared = await runRedisLimits(redis.url, 1_000);
      await redis.cli("flushall");
      const control = await runRedisLimits(redis.url, 1_000, true);
      const holds = shared.granted >= 1_000 && shared.granted <= shared.most && shared.errors.length === 0;
      return verdict(holds && control.granted > control.most, { shared, control });
    } finally {
      await redis.close();
    }
  },
  async failures() {
    const reports = [];
    for (let seed = SEED; seed < SEED + 300; seed++) {
      for (const credits of [{ mode: "exact" }, { mode: "leased", size: 20 }] as const)
        reports.push(await rehearseFailures(memoryStore(), credits, seed));
    }
    const problems = [...new Set(reports.flatMap((report) => report.problems))];
    return verdict(problems.length === 0, {
      runs: reports.length,
      failures: reports.reduce((sum, { failures }) => sum + failures, 0),
      problems,
    });
  },
  async fills() {
    const totals = { stale: 0, judged: 0 };
    for (let seed = SEED; seed < SEED + 500; seed++) {
      const { stale, judged } = await rehearseFills(seed);
      totals.stale += stale;
      totals.judged += judged;
    }
    return verdict(totals.stale === 0, totals);
  },
  neighbours: () => neighbours([]),
  /** With a heap of 512 MiB, which the server's bounds must fit into. */
  "neighbours-small": () => neighbours(["--max-old-space-size=512"]),
  async "neighbours-controls"() {
    const rig = await createRig();
    const missed = [];
    for (const control of CONTROLS) {
      const { isCaught, rows } = await runControl(rig, control, LONG);
      console.log(rows.join("\n"));
      if (!isCaught) missed.push(control);
    }
    await rig.close();
    return verdict(missed.length === 0, { controls: CONTROLS.length, missed });
  },
  async once() {
    const report = await runOnce(100, { seed: SEED });
    return verdict(report.taken === report.calls && report.refused === 0, report);
  },
  async "once-control"() {
    const report = await runOnce(30, { seed: SEED, fault: "records apart" });
    return verdict(report.taken > report.calls, report);
  },
  async counts() {
    const report = await runCounting(200, 3, undefined, sqliteStore, { seed: SEED });
    return verdict(report.twice + report.lost + report.unbalanced === 0, report);
  },
  async "counts-control"() {
    const report = await runCounting(6, 3, undefined, sqliteStore, { seed: SEED, forgetsIds: true });
    return verdict(report.twice > 0, report);
  },
  async flood() {
    const report = await runFlood(1_000_000);
    return verdict(report.missed <= report.hot / 100 && report.grownMB <= 32, report);
  },
  async processes() {
    const report = await runProcesses(4, 20_000, { keys: 8 });
    return verdict(report.granted === 20_000 && report.balance === 0 && report.errors.length === 0, report);
  },
  async "processes-leased"() {
    const report = await runProcesses(4, 200_000, { credits: { mode: "leased", size: 1_000 } });
    return verdict(report.granted + report.balance === 200_000 && report.errors.length === 0, report);
  },
  async kill() {
    const report = await runKills(200, { seed: SEED });
    return verdict(report.lost === 0 && report.unanswered <= IN_FLIGHT && report.problems.length === 0, report);
  },
  async "kill-leased"() {
    const size = 100;
    // So long that nothing comes back while the rig runs.
    const report = await runKills(100, { seed: SEED, credits: { mode: "leased", size, ttl: 3_600_000 } });
    return verdict(report.lost === 0 && report.unanswered <= KEYS * size && report.problems.length === 0, report);
  },
  async "kill-thread"() {
    const report = await runKills(200, { seed: SEED, writer: await buildWriter() });
    return verdict(report.lost === 0 && report.unanswered <= IN_FLIGHT && report.problems.length === 0, report);
  },
  async restore() {
    const [database, mixed] = [await runRestores(false), await runRestores(true)];
    const control = await runRestores(false, "moves the log first");
    const holds = database.problems.length + mixed.problems.length === 0 && control.problems.length > 0;
    return verdict(holds, { database, mixed, control });
  },
  async revocation() {
    const report = await runRevocations(2_500);
    const inside = await runLongTurns(500);
    return verdict(report.stale + inside.stale === 0, { ...report, insideOneTurn: inside });
  },
  async "wal-prefix"() {
    const { problems, waves, cuts: count } = await runWalPrefix(1_000, SEED);
    return verdict(problems.length === 0, { cuts: count, states: waves.size, problems });
  },
  cuts: () => cuts(5_000, { checkpointPages: 40 }),
  "cuts-default": () => cuts(1_000, { stopAfter: 250_000 }),
  "cuts-process": () => cuts(2_000, { checkpointPages: 40, durability: "process" }),
  "cuts-off": () => cuts(500, { checkpointPages: 40, fault: "synchronous off" }),
  async "cuts-lost-sync"() {
    const report = await runLostSyncs(20, 300, { seed: SEED });
    return verdict(report.lost + report.corrupt === 0, report);
  },
  async "cuts-lost-sync-control"() {
    const report = await runLostSyncs(8, 50, { seed: SEED, fault: "leaves the log" });
    return verdict(report.lost > 0, report);
  },
  async "cuts-limits"() {
    const report = await runLimitCuts(2_000, { seed: SEED, takes: 40_000 });
    const control = await runLimitCuts(200, { seed: SEED, fault: "syncs nothing" });
    const holds = report.lost + report.corrupt === 0 && report.forgotten <= report.unsynced;
    return verdict(holds && control.lost > 0 && control.corrupt > 0, { ...report, control });
  },
  async io() {
    const once = await runIoFaults(spread(200, 40));
    const long = await runIoFaults(spread(40, 20).map((fault) => ({ ...fault, count: 40 })));
    return verdict(once.problems.length + long.problems.length === 0, { once, long });
  },
  "postgres-processes": () =>
    onPostgres(async (server) => {
      const reports = [];
      let holds = true;
      for (const processes of [2, 4]) {
        for (const keys of [1, 100]) {
          const exact = await runNodes(server, processes, 20_000, { keys });
          holds &&= exact.granted === 20_000 && exact.balance + exact.deadlocks + exact.errors.length === 0;
          const credits = { mode: "leased", size: 100, step: 100 } as const;
          const leased = await runNodes(server, processes, 20_000, { keys, credits, inFlight: 4, killAt: 5_000 });
          const gone = 20_000 - leased.granted - leased.balance;
          holds &&= gone >= 0 && gone <= 100 * keys + 4 * MAX_COST && leased.deadlocks + leased.errors.length === 0;
          reports.push({ processes, keys, exact, leased, gone });
        }
      }
      const control = await runNodes(server, 4, 2_000, { readsThenWrites: true });
      return verdict(holds && control.granted > 2_000, { reports, control });
    }),
  "postgres-revocation": () =>
    onPostgres(async (server) => {
      const alive = await runRemoteRevocations(server, 1_000, "alive");
      const killed = await runRemoteRevocations(server, 1_000, "killed");
      const through = await startPgbouncer(server);
      const pooled = await runRemoteRevocations(server, 1_000, { through });
      await through.close();
      // All nodes of a run are connected at once.
      const stopped = [await runStops(server, 10), await runStops(server, 10), await runStops(server, 10)];
      const control = await runRemoteRevocations(server, 5, "killed", { bound: 10_000, poll: 3_000 });
      const isBounded = [alive, killed, pooled].every(({ max }) => max <= 2_000);
      const isFast = alive.p99 <= 50 && killed.p99 <= 600 && pooled.p99 <= 600;
      const holds = isBounded && isFast && stopped.every(({ passed }) => passed === 0);
      return verdict(holds && control.p99 > 600, { alive, killed, pooled, stopped, control });
    }),
  "postgres-changes": () =>
    onPostgres(async (server) => {
      const report = await runChanges(server, 10_000, { seed: SEED });
      const holds = report.lost + report.invented === 0 && report.max <= 2_000;
      return verdict(holds && report.lostBySequence > 0, report);
    }),
  "postgres-crashes": () =>
    onPostgres(async (server) => {
      const report = await runCrashes(server, 20);
      const control = await runCrashes(server, 5, { durability: "process" });
      const holds = report.lost + report.leaks.length === 0 && report.extra <= POSTGRES_IN_FLIGHT;
      return verdict(holds && report.grantsAfter <= 1_000 && control.lost > 0, { ...report, control });
    }),
  "postgres-network": () =>
    onPostgres(async (server) => {
      const report = await runNetworkFaults(server, { rounds: 10 });
      const control = await runNetworkFaults(server, { timeout: 4_000, faults: ["stall"] });
      const inTime = Object.values(report.faults).every(
        ({ slowest, hostDelay }) => slowest <= report.timeout + 250 + hostDelay,
      );
      const holds = inTime && report.lost + report.leaks.length === 0;
      return verdict(holds && control.faults["stall"]!.slowest > 2_400, { ...report, control });
    }),
  "postgres-terminations": () =>
    onPostgres(async (server) => {
      const program = await runTerminations(server, "a program", { sessions: 1_000 });
      const served = await runTerminations(server, "serve", { sessions: 1_000 });
      const control = await runTerminations(server, "a program", { sessions: 50, isLate: true });
      return verdict(!program.hasEnded && !served.hasEnded && control.hasEnded, { program, served, control });
    }),
  async "postgres-stalls"() {
    const reports = [];
    for (const stall of ["a locked row", "a lost standby", "a stopped process"] as const)
      reports.push({ stall, ...(await runStall(stall, 60)) });
    const control = await runStall("a lost standby", 6, { forgets: true });
    const holds = reports.every(
      ({ refused, failed, lost, connections, grantsAfter }) =>
        refused + failed + lost === 0 && connections <= MOST && grantsAfter <= 1_000,
    );
    return verdict(holds && control.connections > MOST, { reports, control });
  },
  async "postgres-failover"() {
    const synchronous = await runFailover(true);
    const asynchronous = await runFailover(false);
    const isReset = synchronous.resets > 0 && asynchronous.resets > 0;
    return verdict(synchronous.lost === 0 && asynchronous.lost > 0 && isReset, { synchronous, asynchronous });
  },
};
const RECORDED = /^(cuts|io)/;

const reason = missing();
const chosen = process.argv.slice(2);
for (const name of chosen.length > 0 ? chosen : Object.keys(RIGS)) {
  const rig = RIGS[name];
  if (rig === undefined) throw new TypeError(`there is no rig ${name}; there are: ${Object.keys(RIGS).join(", ")}`);
  if (name === "limits-redis" && noRedis !== undefined) {
    console.log(`${name}: skipped, ${noRedis}`);
    continue;
  }
  if (RECORDED.test(name) && reason !== undefined) {
    console.log(`${name}: skipped, ${reason}`);
    continue;
  }
  const noServer = noPostgresServer ?? noPgbouncer;
  if (name.startsWith("postgres-") && noServer !== undefined) {
    console.log(`${name}: skipped, ${noServer}`);
    continue;
  }
  const { holds, figures } = await rig();
  console.log(`${name}: ${holds ? "holds" : "BROKEN"}`, figures);
  if (!holds) process.exitCode = 1;
}
