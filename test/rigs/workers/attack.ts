/** Runs one attack on raw sockets from a word on until all was answered, or until the next; then tells what it got. */
import { connect, type Socket } from "node:net";
import { constants, setPriority } from "node:os";
import { type Attack, ATTACKS, type AttackName, type Sent } from "../neighbours/attacks.js";
import type { World } from "../neighbours/world.js";

export interface AttackOrders {
  readonly name: AttackName;
  readonly scale: number;
  readonly port: number;
  readonly world: World;
}

export interface AttackReport {
  readonly connections: number;
  /** Connections that were made, those made again included. */
  readonly connected: number;
  /** Of all connections together. */
  readonly requests: number;
  /** By status. */
  readonly answers: Readonly<Record<string, number>>;
  /** Requests on connections that ended before they were answered, and connections that could not be made. */
  readonly lost: number;
  readonly unconnected: number;
  /** Connections that the server closed. */
  readonly closed: number;
  readonly sentMB: number;
  readonly longestAnswer: number;
  readonly seconds: number;
}

/** Connections that are being made at a time: a full backlog is the system's matter, not the server's. */
const CONNECTING = 200;
/** Of those that the server closed, so many come back every so often. */
const REOPENED = 10;
const REOPEN_EVERY_MS = 20;

const { name, scale, port, world } = JSON.parse(process.argv[2]!) as AttackOrders;
// Its processor time would not be the server's machine's.
setPriority(constants.priority.PRIORITY_BELOW_NORMAL);
const attack: Attack = ATTACKS[name];
const requests = attack.requestsOf(world);
const requestOf = typeof requests === "function" ? requests : (i: number): Sent => requests[i % requests.length]!;
const connections = Math.max(1, Math.round(attack.connections * scale));
const each = attack.requests ?? Math.ceil((requests.length * attack.rounds!) / connections);
const totals = { connected: 0, lost: 0, unconnected: 0, closed: 0, sentBytes: 0, longestAnswer: 0 };
const answers: Record<string, number> = {};
const sockets = new Set<Socket>();
/** Connections still to be made, by number and requests already sent; those to be made again. */
const waiting = Array.from({ length: connections }, (_, index) => ({ index, sent: 0 }));
const reopening: typeof waiting = [];
let connecting = 0;
let finished = 0;
let isOver = false;
let onFinished: () => void = () => undefined;

/** @param onAnswer status, bytes of the body, whether the server closes the connection */
function createReader(onAnswer: (status: string, bytes: number, isLast: boolean) => void): (chunk: Buffer) => void {
  let head = "";
  let left = 0;
  let onBody: () => void = () => undefined;
  return (chunk) => {
    for (let at = 0; at < chunk.length;) {
      if (left > 0) {
        const taken = Math.min(left, chunk.length - at);
        at += taken;
        left -= taken;
        if (left === 0) onBody();
        continue;
      }
      const before = head.length;
      head += chunk.toString("latin1", at, at + 2_048);
      const end = head.indexOf("\r\n\r\n");
      if (end < 0) {
        at += head.length - before;
        continue;
      }
      at += end + 4 - before;
      const bytes = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      const [status, isLast] = [head.slice(9, 12), /connection: close/i.test(head)];
      head = "";
      left = bytes;
      onBody = () => onAnswer(status, bytes, isLast);
      if (left === 0) onBody();
    }
  };
}

function open({ index, sent: sentBefore }: (typeof waiting)[number]): void {
  const { addresses = 1 } = attack;
  const localAddress = addresses === 1 ? "127.0.0.1" : `127.0.1.${1 + (index % addresses)}`;
  const socket = connect({ port, host: "127.0.0.1", localAddress });
  let [sent, answered, isLast, isConnected] = [sentBefore, sentBefore, false, false];
  sockets.add(socket);
  connecting++;
  const pump = (): void => {
    if (isLast || isOver || !isConnected) return;
    socket.cork();
    while (sent < each && sent - answered < attack.depth && !socket.writableNeedDrain) {
      for (const part of requestOf(index + sent++ * connections)) socket.write(part);
    }
    process.nextTick(() => socket.uncork());
  };
  socket.on("connect", () => {
    isConnected = true;
    connecting--;
    totals.connected++;
    openMore();
    pump();
  });
  socket.on("drain", pump);
  // What it means shows in `close`.
  socket.on("error", () => undefined);
  socket.on("close", () => {
    sockets.delete(socket);
    if (!isConnected) {
      connecting--;
      if (!isOver) totals.unconnected++;
    }
    totals.sentBytes += socket.bytesWritten - socket.writableLength;
    if (isOver) return;
    if (isConnected) totals.closed++;
    if (attack.isReading) totals.lost += sent - answered;
    if (sent >= each && attack.isHolding === undefined) finish();
    else reopening.push({ index, sent });
  });
  if (!attack.isReading) return void socket.pause();
  socket.on(
    "data",
    createReader((status, bytes, closes) => {
      answers[status] = (answers[status] ?? 0) + 1;
      totals.longestAnswer = Math.max(totals.longestAnswer, bytes);
      answered++;
      if (closes) {
        // An error of the connection itself answers for a request that had not arrived whole, and ends the others.
        isLast = true;
        socket.destroy();
      } else if (answered === each && attack.isHolding === undefined) socket.destroy();
      else pump();
    }),
  );
}

function openMore(): void {
  while (connecting < CONNECTING && waiting.length > 0 && !isOver) open(waiting.shift()!);
}

function finish(): void {
  if (++finished === connections) onFinished();
}

process.once("disconnect", () => process.exit());
await new Promise((resolve) => {
  process.once("message", resolve);
  process.send!({ isReady: true });
});
const began = performance.now();
const reopens = setInterval(() => {
  waiting.push(...reopening.splice(0, REOPENED));
  openMore();
}, REOPEN_EVERY_MS);
openMore();
await new Promise<void>((resolve) => {
  onFinished = resolve;
  process.once("message", () => resolve());
});
const seconds = (performance.now() - began) / 1_000;
clearInterval(reopens);
isOver = true;
await Promise.all(
  [...sockets].map((socket) => new Promise<void>((resolve) => socket.once("close", () => resolve()).destroy())),
);
const report: AttackReport = {
  connections,
  connected: totals.connected,
  requests: connections * each,
  answers,
  lost: totals.lost,
  unconnected: totals.unconnected,
  closed: totals.closed,
  sentMB: Math.round(totals.sentBytes / 1e6),
  longestAnswer: totals.longestAnswer,
  seconds: Math.round(seconds * 10) / 10,
};
process.send!(report, () => process.exit());
