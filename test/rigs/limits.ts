/** The rig of several processes that share rate limits: what they are granted in all, against limit plus refill. */
import type { ChildProcess } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { buildWorker, ended, type Message, nextMessage, rigFolder, startWorker, tell } from "./workers.js";
import type { TakeRedisOrders } from "./workers/take-redis.js";
import type { TakeOrders } from "./workers/take.js";

export interface LimitsReport {
  /** Calls that passed, told by those who made them; of a killed process those that it had told of. */
  readonly granted: number;
  /** What any one limiter may grant between the first and the last take: the limit, and what refilled. */
  readonly most: number;
  /** Calls that a kill may have cut off between the take and the telling. */
  readonly untold: number;
  readonly perProcess: readonly number[];
  readonly errors: readonly string[];
}

const HOUR = 3_600_000;
const CLOCKS = [0, 40, -40, 15];

/**
 * Four processes take from two limits at once, each call a token of both; the smaller decides.
 * @param limit tokens an hour
 * @param options kills: one process is killed when it has told of so many, and another takes its place
 */
export async function runLimits(
  limit: number,
  options: { readonly kills?: number; readonly readsThenTakes?: boolean; readonly inFlight?: number } = {},
): Promise<LimitsReport> {
  const { kills, readsThenTakes = false, inFlight = 16 } = options;
  const folder = rigFolder();
  const worker = await buildWorker("take");
  const orders = (n: number, tells: boolean): TakeOrders => ({
    file: join(folder, "keys.db"),
    inFlight,
    limits: [
      { bucket: "key_1 small", limit, duration: HOUR },
      { bucket: "key_1 large", limit: limit * 2, duration: HOUR },
    ],
    clockOff: CLOCKS[n] ?? 0,
    readsThenTakes,
    tells,
    refusals: inFlight * 4,
  });
  try {
    const children = CLOCKS.map((_, n) => startWorker(worker, orders(n, n === 0 && kills !== undefined)));
    await Promise.all(children.map(nextMessage));
    const totals = children.map((child, n) =>
      n === 0 && kills !== undefined ? killed(child, kills) : nextMessage(child),
    );
    for (const child of children) tell(child, "go");
    let successor: Promise<Message>[] = [];
    if (kills !== undefined) {
      await totals[0];
      const next = startWorker(worker, orders(0, false));
      await nextMessage(next);
      successor = [nextMessage(next)];
      tell(next, "go");
      children.push(next);
    }
    const reports = (await Promise.all([...totals, ...successor])) as unknown as Report[];
    await Promise.all(children.map(ended));
    return summary(reports, limit, kills === undefined ? 0 : inFlight);
  } finally {
    rmSync(folder, { recursive: true, force: true });
    rmSync(worker, { force: true });
  }
}

/**
 * Four processes take from two limits in Redis at once, each call a token of both.
 * @param limit tokens an hour, of the smaller one
 * @param getsThenSets the planted fault: a limiter that reads a count and writes one more
 */
export async function runRedisLimits(url: string, limit: number, getsThenSets = false): Promise<LimitsReport> {
  const worker = await buildWorker("take-redis");
  const orders: TakeRedisOrders = {
    url,
    inFlight: 16,
    limits: [
      { bucket: "key_1 small", limit, duration: HOUR },
      { bucket: "key_1 large", limit: limit * 2, duration: HOUR },
    ],
    getsThenSets,
    refusals: 64,
  };
  try {
    const children = CLOCKS.map(() => startWorker(worker, orders));
    await Promise.all(children.map(nextMessage));
    const totals = children.map(nextMessage);
    for (const child of children) tell(child, "go");
    const reports = (await Promise.all(totals)) as unknown as Report[];
    await Promise.all(children.map(ended));
    return summary(reports, limit, 0);
  } finally {
    rmSync(worker, { force: true });
  }
}

function summary(reports: readonly Report[], limit: number, untold: number): LimitsReport {
  const first = Math.min(...reports.map((report) => report.first ?? Infinity));
  const last = Math.max(...reports.map((report) => report.last ?? -Infinity));
  return {
    granted: reports.reduce((sum, { granted }) => sum + granted, 0),
    most: limit + Math.floor(((last - first) * limit) / HOUR),
    untold,
    perProcess: reports.map(({ granted }) => granted),
    errors: [...new Set(reports.flatMap(({ errors }) => errors ?? []))],
  };
}

interface Report {
  readonly granted: number;
  /** Absent where nothing was granted: JSON has no Infinity. */
  readonly first?: number | null;
  readonly last?: number | null;
  readonly errors?: readonly string[];
}

/** Kills a process once it has told of so many; resolves with what it told until its end. */
function killed(child: ChildProcess, after: number): Promise<Message> {
  let told: Message = { granted: 0 };
  return new Promise((resolve) => {
    child.on("message", (message) => {
      told = message as Message;
      if ((told as unknown as Report).granted >= after) child.kill("SIGKILL");
    });
    child.once("exit", () => resolve(told));
  });
}
