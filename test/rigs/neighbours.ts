/**
 * The rig of neighbours: whatever one caller sends, it ends no server, and slows down and refuses no other caller. The
 * server, the attacker and the neighbour are processes of their own; this one samples the server's memory.
 */
import type { ChildProcess } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { type Attack, type AttackName, ATTACKS } from "./neighbours/attacks.js";
import { createDatabases } from "./neighbours/databases.js";
import { type Database, openDatabase } from "./neighbours/open-database.js";
import { type Left, readLeft, type World } from "./neighbours/world.js";
import type { AttackOrders, AttackReport } from "./workers/attack.js";
import type { NeighbourOrders, NeighbourReport } from "./workers/neighbour.js";
import type { ServeOrders } from "./workers/serve.js";
import type { AdmissionBounds } from "../../src/http/admission/admission.js";
import type { ConnectionBounds } from "../../src/http/node/connections.js";
import { buildWorker, ended, nextMessage, rigFolder, startWorker, tell, type Without } from "./workers.js";

/** Bounds of the server that a control changes. */
export type Bounds = Partial<AdmissionBounds & ConnectionBounds> & {
  /** Whether a workspace gets no more than its share of the limiter's buckets. */
  readonly limiterShare?: boolean;
};

/** What a control takes out: bounds, or what a module of `src` does, which one of `neighbours/without` replaces. */
export type Fault = Bounds & { readonly without?: Without };

/** What was not as it must be. */
export type Problem =
  /** The server's process ended, or was ended for its size. */
  | "dead"
  /** It took too much memory, or kept it. */
  | "memory"
  | "kept"
  /** The neighbour was slowed down, or refused. By the median of calls on connections that stay, or of others. */
  | "p50"
  | "p99"
  | "refused"
  /** Of an attack whose requests must all be answered, not all were; a 500; too long an answer. */
  | "lost"
  | "fault"
  | "long"
  /** The attackers' workspace has grown. */
  | "left"
  /** Of the neighbour's calls some are not in its counts, or entries of its audit trail are gone. */
  | "uncounted"
  | "washed"
  /** Changes that change nothing made entries in the audit trail. */
  | "recorded";

export interface Settings {
  /** Of the full strength. */
  readonly scale: number;
  /** Milliseconds of an attack, without those in which the server waited for a processor. */
  readonly ms: number;
  readonly fault?: Fault;
  /** Options of Node for the server. */
  readonly execArgv?: readonly string[];
  /** MiB at which the server's process is ended. */
  readonly killAt?: number;
}

export interface NeighboursReport {
  readonly name: AttackName;
  readonly isAlive: boolean;
  /** Resident memory of the server, MiB: before, at most, and at the end of the seconds that it has to give it back. */
  readonly baseline: number;
  readonly peak: number;
  readonly after: number;
  /** Of the time in which the server's thread could run, the part in which the host let it. */
  readonly share: number;
  readonly neighbour: NeighbourReport;
  readonly attacker: AttackReport;
  /** What is there afterwards, and what there was. */
  readonly left: Left;
  readonly before: Left;
  readonly problems: readonly Problem[];
}

/** A bound taken out, and what shows it. */
export interface Control {
  readonly attack: AttackName;
  readonly fault: Fault;
  /**
   * `slower`: the median of the neighbour's calls, on connections that stay or on others, is three times that of a run
   * with nothing taken out, each times the part of the time in which the host let the server run.
   */
  readonly caughtBy: Problem | "slower";
}

const OUT = Number.MAX_SAFE_INTEGER;
/**
 * One for each bound that a verdict tells apart. The bound of requests is none of them: of heads alone a server has as
 * many as connections, and what 6,000 of them hold is below every bound of memory here. `test/http/node/heads.test.ts`
 * and `test/http/admission/requests.test.ts` fail without it.
 */
export const CONTROLS: readonly Control[] = [
  { attack: "bodies that never end", fault: { budget: OUT }, caughtBy: "memory" },
  { attack: "bodies that never end", fault: { isFair: false }, caughtBy: "p99" },
  { attack: "pages read", fault: { places: OUT }, caughtBy: "p99" },
  { attack: "bad root key pipelined", fault: { turnMs: OUT }, caughtBy: "p99" },
  { attack: "idle connections of many addresses", fault: { evicts: false }, caughtBy: "refused" },
  { attack: "limiter flood", fault: { limiterShare: false }, caughtBy: "refused" },
  { attack: "chunks of a byte, many", fault: { without: "paced-reads" }, caughtBy: "p50" },
  { attack: "a thousand limits", fault: { without: "fair-turns" }, caughtBy: "slower" },
  { attack: "bodies of one connection", fault: { without: "long-json" }, caughtBy: "slower" },
  { attack: "bodies at once", fault: { without: "body-memory" }, caughtBy: "kept" },
  {
    attack: "long tags of two bytes a character, a slow store",
    fault: { without: "bytes-of-counts" },
    caughtBy: "memory",
  },
  { attack: "long tags, little memory", fault: { without: "shares-of-counts" }, caughtBy: "uncounted" },
  { attack: "roles of wildcards", fault: { without: "slices" }, caughtBy: "slower" },
  { attack: "updates", fault: { without: "shares-of-audit" }, caughtBy: "washed" },
  { attack: "updates that change nothing", fault: { without: "comparison-of-writes" }, caughtBy: "recorded" },
];

/** A server that ended before it could show anything else is found out too. @param whole with nothing taken out */
function isCaught({ caughtBy }: Control, report: NeighboursReport, whole?: NeighboursReport): boolean {
  const { problems } = report;
  if (problems.includes("dead")) return true;
  if (caughtBy !== "slower") return problems.includes(caughtBy);
  const took = (calls: "kept" | "anew", { neighbour, share }: NeighboursReport) => neighbour[calls].p50 * share;
  return (["kept", "anew"] as const).some((calls) => took(calls, report) > SLOWER * took(calls, whole!));
}
const SLOWER = 3;

/** What a control shows depends on which calls meet: of a few runs one is enough. */
const CONTROL_RUNS = 3;
/** @returns whether it was found out, and the rows of its runs */
export async function runControl(
  rig: Rig,
  control: Control,
  settings: Settings,
): Promise<{ isCaught: boolean; rows: string[] }> {
  const rows: string[] = [];
  for (let run = 0; run < CONTROL_RUNS; run++) {
    const whole = control.caughtBy === "slower" ? await rig.run(control.attack, settings) : undefined;
    const report = await rig.run(control.attack, { ...settings, fault: control.fault });
    if (whole !== undefined) rows.push(toRow(whole));
    rows.push(`${JSON.stringify(control.fault)} ${toRow(report)}`);
    if (isCaught(control, report, whole)) return { isCaught: true, rows };
  }
  return { isCaught: false, rows };
}

/** MiB above the baseline: twice the default budget of the server's options, and what the collector has yet to see. */
export const MAX_GROWTH = 512;
/**
 * MiB above the baseline that may stay after a collection: the collector keeps some pages of its heap, and the C
 * library gives blocks back only above a size that grows with the largest freed one: 150 MiB were seen to stay of 1 MiB
 * bodies. A leak of what was sent would be gigabytes.
 */
export const MAX_KEPT = 256;
/** Milliseconds, of an undisturbed host: it is 2 to 20 there, and seconds where a bound is missing. */
const MAX_P50 = 1_000;
/**
 * Milliseconds, of an undisturbed host. Where others use it too, the server's thread waits for a processor and so do
 * the neighbour's timers: the bound gives way by the kernel's own figures of the first and by what is measured of the
 * second.
 */
const MAX_P99 = 50;
/** What a neighbour's 99th percentile may be on the host as it was. */
export const boundOf = ({ share, neighbour }: Pick<NeighboursReport, "share" | "neighbour">): number =>
  MAX_P99 / share + neighbour.hostP99;
const MAX_ANSWER_BYTES = 4 * 2 ** 20;
const GIVE_BACK_MS = 10_000;
const MAX_CLOSE_MS = 20_000;
const SAMPLE_MS = 50;
const BASELINE_MS = 250;
/** Attacks that must be answered whole may take so many times as long: a busy host answers some 460 requests late. */
const PATIENCE = 12;
/** Where the host gives the server little time, it is given so many times as long. */
const MAX_STRETCH = 6;

export interface Rig {
  run(name: AttackName, settings: Settings): Promise<NeighboursReport>;
  close(): Promise<void>;
}

async function leftIn(database: Database, world: World): Promise<Left> {
  const { store, end } = openDatabase(database);
  try {
    return await readLeft(store, world);
  } finally {
    await end();
  }
}

/** Bundles the workers. */
export async function createRig(): Promise<Rig> {
  const folder = rigFolder();
  const [attack, neighbour] = await Promise.all(["attack", "neighbour"].map((name) => buildWorker(name)));
  const servers = new Map<Without | undefined, Promise<string>>();
  const serverWithout = (without: Without | undefined): Promise<string> => {
    const built = servers.get(without) ?? buildWorker("serve", { without });
    servers.set(without, built);
    return built;
  };
  const databases = createDatabases(folder);
  return {
    async run(name, settings) {
      const { scale, ms, fault = {}, execArgv = [], killAt = OUT } = settings;
      const { without, ...bounds } = fault;
      const { host = "server", engine = "sqlite", options, isComplete, isCounting }: Attack = ATTACKS[name];
      const { roles = 0, countsTake = 0 }: Attack = ATTACKS[name];
      const { database, world } = await databases.make(engine, Math.ceil(roles * scale));
      const serving: ServeOrders = { database, host, options: options?.(scale) ?? {}, bounds, countsTake };
      const server = startWorker(await serverWithout(without), serving, {}, ["--expose-gc", ...execArgv]);
      const children: ChildProcess[] = [server];
      const observed = observe(server, killAt);
      try {
        const { port } = (await nextMessage(server)) as { readonly port: number };
        const observing: NeighbourOrders = { port, host, good: world.good };
        const observer = startWorker(neighbour!, observing);
        children.push(observer);
        await nextMessage(observer);
        await pause(BASELINE_MS);
        const baseline = observed.now();
        const orders: AttackOrders = { name, scale, port, world };
        const attacker = startWorker(attack!, orders);
        children.push(attacker);
        await nextMessage(attacker);
        tell(observer, "begin");
        const before = observed.ran();
        tell(attacker, "begin");
        const attacking = nextMessage(attacker);
        await observed.given(isComplete === true ? ms * PATIENCE : ms, attacking);
        tell(attacker, "end");
        const attacked = (await attacking) as unknown as AttackReport;
        const seen = nextMessage(observer);
        tell(observer, "end");
        const neighboured = (await seen) as unknown as NeighbourReport;
        const { run, wait } = observed.ran();
        const report = {
          name,
          share: (run - before.run) / (run - before.run + wait - before.wait) || 1,
          neighbour: neighboured,
          attacker: attacked,
          baseline,
          ...(await observed.settled(baseline + MAX_KEPT)),
        };
        for (const child of [observer, attacker]) child.kill("SIGKILL");
        if (isCounting === true) await closed(server);
        for (const child of children) child.kill("SIGKILL");
        await Promise.all(children.map(ended));
        const whole = { ...report, left: await leftIn(database, world), before: world.before };
        return { ...whole, problems: problemsOf(whole) };
      } finally {
        observed.stop();
        for (const child of children) child.kill("SIGKILL");
        databases.remove(database);
      }
    },
    async close() {
      await databases.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Has the server write what it counted. One that has ended has nothing to write. */
async function closed(server: ChildProcess): Promise<void> {
  const closing = nextMessage(server).catch(() => undefined);
  tell(server, "close");
  await Promise.race([closing, ended(server), pause(MAX_CLOSE_MS)]);
}

/** What broke, by the bounds. */
function problemsOf(report: Omit<NeighboursReport, "problems">): readonly Problem[] {
  const { isAlive, baseline, peak, after, neighbour, attacker, left, before } = report;
  const { isComplete, isCounting, isChangeless }: Attack = ATTACKS[report.name];
  const answered = Object.values(attacker.answers).reduce((sum, count) => sum + count, 0);
  const found: Readonly<Record<Problem, boolean>> = {
    dead: !isAlive,
    memory: peak > baseline + MAX_GROWTH,
    kept: after > baseline + MAX_KEPT,
    p50: Math.max(neighbour.kept.p50, neighbour.anew.p50) > MAX_P50 / report.share,
    p99: neighbour.all.p99 > boundOf(report),
    refused: neighbour.refused > 0,
    lost: isComplete === true && (attacker.lost > 0 || answered !== attacker.requests),
    fault: (attacker.answers["500"] ?? 0) > 0,
    long: attacker.longestAnswer > MAX_ANSWER_BYTES,
    left: left.permissions !== before.permissions,
    uncounted: isCounting === true && left.counted < neighbour.verified,
    washed: left.goodEntries < before.goodEntries,
    recorded: isChangeless === true && left.entries > before.entries,
  };
  return (Object.keys(found) as Problem[]).filter((problem) => found[problem]);
}

interface Observed {
  /** Resident memory, MiB. */
  now(): number;
  /** For how long the main thread ran, and waited for a processor; nanoseconds. */
  ran(): { readonly run: number; readonly wait: number };
  /**
   * Waits until the host has given the server so many milliseconds, in which it could have run.
   * @param sooner ends the wait
   */
  given(ms: number, sooner?: Promise<unknown>): Promise<void>;
  /** Lets the server collect its garbage until it holds no more than `most` MiB, or its seconds are over. */
  settled(most: number): Promise<Pick<NeighboursReport, "isAlive" | "peak" | "after">>;
  stop(): void;
}

/** Samples a process. Its peak of memory is the kernel's own figure: nothing between two samples is missed. */
function observe(server: ChildProcess, killAt: number): Observed {
  let [resident, peak, run, wait] = [0, 0, 0, 0];
  const isAlive = (): boolean => server.exitCode === null && server.signalCode === null;
  const sample = (): void => {
    if (!isAlive()) return;
    const status = readProc(server.pid!, "status");
    const read = (name: string): number => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0) / 1_024;
    resident = Math.round(read("VmRSS"));
    peak = Math.max(peak, Math.round(read("VmHWM")));
    [run = run, wait = wait] = readProc(server.pid!, "schedstat").split(" ").slice(0, 2).map(Number);
    if (resident > killAt) server.kill("SIGKILL");
  };
  const sampling = setInterval(sample, SAMPLE_MS);
  const given = async (ms: number, sooner?: Promise<unknown>): Promise<void> => {
    const [began, waited] = [performance.now(), wait];
    let isOver = false;
    const end = (): void => void (isOver = true);
    sooner?.then(end, end);
    const passed = (): number => performance.now() - began;
    while (!isOver && isAlive() && passed() - (wait - waited) / 1e6 < ms && passed() < ms * MAX_STRETCH)
      await pause(SAMPLE_MS);
  };
  return {
    now() {
      sample();
      return resident;
    },
    ran() {
      sample();
      return { run, wait };
    },
    given,
    async settled(most) {
      let isOver = false;
      const giving = given(GIVE_BACK_MS).then(() => (isOver = true));
      while (!isOver && isAlive()) {
        tell(server, "collect");
        await Promise.race([giving, pause(10 * SAMPLE_MS)]);
        sample();
        if (resident <= most) break;
      }
      return { isAlive: isAlive(), peak, after: isAlive() ? resident : 0 };
    },
    stop: () => clearInterval(sampling),
  };
}

/** Of a process that has just ended there is nothing to read. */
function readProc(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "utf8");
  } catch {
    return "";
  }
}

/** The head of a table, and a row of it. */
export const HEADINGS: readonly string[] = [
  "attack",
  "baseline, peak, after (MiB)",
  "calls, refused",
  "p50, p99, max of connections that stay (ms)",
  "p50, p99, max of new ones (ms)",
  "bound of p99, host's share, p99, max (ms)",
  "answers",
  "lost, closed",
  "connections made, of, MB sent, s",
  "broken",
];
export function toRow(report: NeighboursReport): string {
  const { name, baseline, peak, after, share, neighbour, attacker, problems } = report;
  const { calls, refused, kept, anew, hostP99, hostMax } = neighbour;
  const { answers, lost, closed, connected, connections, sentMB, seconds } = attacker;
  const cells = [
    name,
    [baseline, peak, after].join(", "),
    [calls, refused].join(", "),
    ...[kept, anew].map(({ p50, p99, max }) => [p50, p99, max].join(", ")),
    [Math.round(boundOf(report)), share.toFixed(2), hostP99, hostMax].join(", "),
    Object.entries(answers)
      .map(([status, count]) => `${status} × ${count}`)
      .join(", "),
    [lost, closed].join(", "),
    [connected, connections, sentMB, seconds].join(", "),
    problems.join(", "),
  ];
  return `| ${cells.join(" | ")} |`;
}
