/**
 * A client that behaves: a call every 5 ms, half on connections that stay, half on a connection of their own. Of the
 * console it is an operator with a session, who loads a page every 20 ms.
 */
import { once } from "node:events";
import { Agent, request } from "node:http";
import { connect, createServer } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { watchHost } from "../host-delays.js";
import type { Host } from "../neighbours/attacks.js";
import type { World } from "../neighbours/world.js";

export interface NeighbourOrders {
  readonly port: number;
  readonly host: Host;
  readonly good: World["good"];
}

/** Percentiles of the times of calls. */
export interface Times {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

/** What it saw between two words. Times in milliseconds. */
export interface NeighbourReport {
  readonly calls: number;
  readonly refused: number;
  /** What it was refused with, and how often. */
  readonly refusals: Readonly<Record<string, number>>;
  readonly all: Times;
  /** Verifications that were answered, those before the attack as well. */
  readonly verified: number;
  /** Calls on connections that stay, and calls on a connection of their own. */
  readonly kept: Times;
  readonly anew: Times;
  /** How late the host itself was: of stretches of 50 ms the 99th percentile of the longest delay, and the longest. */
  readonly hostP99: number;
  readonly hostMax: number;
}

/** Calls that wait for their answers. */
const MAX_CALLS = 64;
/** On a host that gives the server little time, a call may wait long: that is for the bound of times to say. */
const TIMEOUT_MS = 30_000;
const SAMPLE_MS = 50;
/** Not the attackers', so that a bound of each address would not be theirs together. */
const ADDRESS = "127.0.0.2";

const { port, host: served, good } = JSON.parse(process.argv[2]!) as NeighbourOrders;
const everyMs = served === "console" ? 20 : 5;
const VERIFIED = '"code":"VALID"';
/** Sets of tags that it has. */
const PLANS = 24;
let verified = 0;
let [keptTimes, newTimes]: [number[], number[]] = [[], []];
let hostDelays: number[] = [];
let refusals: Record<string, number> = {};
let isOver = false;

interface Call {
  readonly path: string;
  /** Absent: it is a GET. */
  readonly text?: string;
  readonly headers: Readonly<Record<string, string>>;
  /** What stands in the right answer. */
  readonly expected: string;
}

const operation = (name: string, body: object, expected: string): Call => ({
  path: `/v2/${name}`,
  text: JSON.stringify(body),
  headers: { authorization: `Bearer ${good.rootKey}`, "content-type": "application/json" },
  expected,
});

/** The call of a number. */
function callOf(i: number): Call {
  if (served === "console") return { path: "/keys", headers: { cookie: session }, expected: "Sign out" };
  if (i % 20 === 13) return operation("keys.getKey", { keyId: good.keyId }, good.keyId);
  if (i % 5 !== 2) return operation("keys.verifyKey", { key: good.key, tags: [`plan${i % PLANS}`] }, VERIFIED);
  const check = { namespace: "mine", identifier: `user${i}`, limit: 1_000_000, duration: 60_000 };
  return operation("ratelimit.limit", check, '"success":true');
}

/** The cookie of an operator who has signed in. */
async function signIn(): Promise<string> {
  const host = `127.0.0.1:${port}`;
  const { headers } = await fetch(`http://${host}/sign-in`, {
    method: "POST",
    headers: { origin: `http://${host}` },
    body: new URLSearchParams({ key: good.rootKey, to: "/" }),
    redirect: "manual",
  });
  return headers.get("set-cookie")!.split(";")[0]!;
}

/** @returns what was wrong with the answer; `undefined`: nothing */
function send(agent: Agent | false, call: Call, isRepeat = false): Promise<string | undefined> {
  const { path, text, headers, expected } = call;
  return new Promise((resolve) => {
    const sent = request({
      host: "127.0.0.1",
      port,
      localAddress: ADDRESS,
      agent,
      method: text === undefined ? "GET" : "POST",
      path,
      headers: text === undefined ? headers : { ...headers, "content-length": Buffer.byteLength(text) },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    sent.on("error", (error: NodeJS.ErrnoException) => {
      // The server closed an idle connection as the request left: clients send it again.
      if (sent.reusedSocket && !isRepeat) void send(false, call, true).then(resolve);
      else resolve(`${path}: ${error.code ?? error.message}`);
    });
    sent.on("response", (response) => {
      let answer = "";
      response.setEncoding("utf8");
      response.on("data", (part: string) => (answer += part));
      response.on("error", (error) => resolve(`${path}: ${error.message}`));
      response.on("end", () =>
        resolve(
          answer.includes(expected)
            ? undefined
            : `${path}: ${response.statusCode} ${answer.replace(/"req_\w+"/, '""').slice(0, 120)}`,
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
      const isKept = i % 2 > 0;
      const asked = callOf(i);
      const call = send(isKept && agent, asked).then((wrong) => {
        calls.delete(call);
        if (wrong === undefined && asked.expected === VERIFIED) verified++;
        (isKept ? keptTimes : newTimes).push(performance.now() - began);
        if (wrong !== undefined) refusals[wrong] = (refusals[wrong] ?? 0) + 1;
      });
      calls.add(call);
    }
    await pause(everyMs);
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

function timesOf(times: readonly number[]): Times {
  const sorted = [...times].sort((a, b) => a - b);
  return { p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99), max: percentile(sorted, 1) };
}

const session = served === "console" ? await signIn() : "";
const echo = await createEcho();
const host = watchHost(echo.probe);
const sampling = setInterval(() => hostDelays.push(host.worst()), SAMPLE_MS);
const calling = keepCalling();
process.once("disconnect", () => process.exit());
process.on("message", (word) => {
  if (word === "begin") {
    [keptTimes, newTimes, hostDelays, refusals] = [[], [], [], {}];
    return;
  }
  isOver = true;
  void calling.then(async () => {
    clearInterval(sampling);
    await host.stop();
    echo.close();
    hostDelays.sort((a, b) => a - b);
    const report: NeighbourReport = {
      calls: keptTimes.length + newTimes.length,
      refused: Object.values(refusals).reduce((sum, count) => sum + count, 0),
      refusals,
      verified,
      all: timesOf([...keptTimes, ...newTimes]),
      kept: timesOf(keptTimes),
      anew: timesOf(newTimes),
      hostP99: percentile(hostDelays, 0.99),
      hostMax: percentile(hostDelays, 1),
    };
    process.send!(report, () => process.disconnect());
  });
});
process.send!({ isReady: true });
