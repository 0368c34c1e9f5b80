/**
 * A client that behaves: a call every 5 ms, three of four on connections that stay and one on a connection of its own.
 */
import { once } from "node:events";
import { Agent, request } from "node:http";
import { connect, createServer } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { watchHost } from "../host-delays.js";
import type { World } from "../neighbours/world.js";

export interface NeighbourOrders {
  readonly port: number;
  readonly good: World["good"];
}

/** What it saw between two words. Times in milliseconds. */
export interface NeighbourReport {
  readonly calls: number;
  readonly refused: number;
  /** What it was refused with, and how often. */
  readonly refusals: Readonly<Record<string, number>>;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  /** The 99th percentile of calls on connections that stay. */
  readonly keptP99: number;
  /** How late the host itself was: of stretches of 50 ms the 99th percentile of the longest delay, and the longest. */
  readonly hostP99: number;
  readonly hostMax: number;
}

const EVERY_MS = 5;
/** Calls that wait for their answers. */
const MAX_CALLS = 64;
/** On a host that gives the server little time, a call may wait long: that is for the bound of times to say. */
const TIMEOUT_MS = 30_000;
const SAMPLE_MS = 50;
/** Not the attackers', so that a bound of each address would not be theirs together. */
const ADDRESS = "127.0.0.2";

const { port, good } = JSON.parse(process.argv[2]!) as NeighbourOrders;
let times: number[] = [];
let keptTimes: number[] = [];
let hostDelays: number[] = [];
let refusals: Record<string, number> = {};
let isOver = false;

interface Call {
  readonly operation: string;
  readonly body: object;
  readonly expected: string;
}

/** The call of a number. */
function callOf(i: number): Call {
  if (i % 20 === 13) return { operation: "keys.getKey", body: { keyId: good.keyId }, expected: good.keyId };
  if (i % 5 !== 2) return { operation: "keys.verifyKey", body: { key: good.key }, expected: '"code":"VALID"' };
  const check = { namespace: "mine", identifier: `user${i}`, limit: 1_000_000, duration: 60_000 };
  return { operation: "ratelimit.limit", body: check, expected: '"success":true' };
}

/** @returns what was wrong with the answer; `undefined`: nothing */
function send(
  agent: Agent | false,
  { operation, body, expected }: Call,
  isRepeat = false,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    const text = JSON.stringify(body);
    const sent = request({
      host: "127.0.0.1",
      port,
      localAddress: ADDRESS,
      agent,
      method: "POST",
      path: `/v2/${operation}`,
      headers: {
        authorization: `Bearer ${good.rootKey}`,
        "content-type": "application/json",
        "content-length": Buffer.byteLength(text),
      },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    sent.on("error", (error: NodeJS.ErrnoException) => {
      // The server closed an idle connection as the request left: clients send it again.
      if (sent.reusedSocket && !isRepeat) void send(false, { operation, body, expected }, true).then(resolve);
      else resolve(`${operation}: ${error.code ?? error.message}`);
    });
    sent.on("response", (response) => {
      let answer = "";
      response.setEncoding("utf8");
      response.on("data", (part: string) => (answer += part));
      response.on("error", (error) => resolve(`${operation}: ${error.message}`));
      response.on("end", () =>
        resolve(
          answer.includes(expected)
            ? undefined
            : `${operation}: ${response.statusCode} ${answer.replace(/"req_\w+"/, '""').slice(0, 120)}`,
        ),
      );
    });
    sent.end(text);
  });
}

/**
 * Calls in turn, without waiting for the call before: while a server stands still, all calls of that time wait for it.
 */
async function keepCalling(): Promise<void> {
  const agent = new Agent({ keepAlive: true });
  const calls = new Set<Promise<void>>();
  for (let i = 0; !isOver; i++) {
    if (calls.size < MAX_CALLS) {
      const began = performance.now();
      const isKept = i % 4 > 0;
      const call = send(isKept && agent, callOf(i)).then((wrong) => {
        calls.delete(call);
        times.push(performance.now() - began);
        if (isKept) keptTimes.push(performance.now() - began);
        if (wrong !== undefined) refusals[wrong] = (refusals[wrong] ?? 0) + 1;
      });
      calls.add(call);
    }
    await pause(EVERY_MS);
  }
  await Promise.all(calls);
  agent.destroy();
}

/** A byte to itself and back. */
async function createEcho(): Promise<{ probe(): Promise<unknown>; close(): void }> {
  const listener = createServer((socket) => socket.pipe(socket)).listen(0, "127.0.0.1");
  await once(listener, "listening");
  const socket = connect((listener.address() as { port: number }).port, "127.0.0.1");
  await once(socket, "connect");
  return {
    probe() {
      socket.write("x");
      return once(socket, "data");
    },
    close() {
      socket.destroy();
      listener.close();
    },
  };
}

const rounded = (ms: number): number => Math.round(ms * 10) / 10;
const percentile = (sorted: readonly number[], part: number): number =>
  rounded(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Infinity);

const echo = await createEcho();
const host = watchHost(echo.probe);
const sampling = setInterval(() => hostDelays.push(host.worst()), SAMPLE_MS);
const calling = keepCalling();
process.once("disconnect", () => process.exit());
process.on("message", (word) => {
  if (word === "begin") {
    [times, keptTimes, hostDelays, refusals] = [[], [], [], {}];
    return;
  }
  isOver = true;
  void calling.then(async () => {
    clearInterval(sampling);
    await host.stop();
    echo.close();
    times.sort((a, b) => a - b);
    keptTimes.sort((a, b) => a - b);
    hostDelays.sort((a, b) => a - b);
    const report: NeighbourReport = {
      calls: times.length,
      refused: Object.values(refusals).reduce((sum, count) => sum + count, 0),
      refusals,
      p50: percentile(times, 0.5),
      p99: percentile(times, 0.99),
      max: percentile(times, 1),
      keptP99: percentile(keptTimes, 0.99),
      hostP99: percentile(hostDelays, 0.99),
      hostMax: percentile(hostDelays, 1),
    };
    process.send!(report, () => process.disconnect());
  });
});
process.send!({ isReady: true });
