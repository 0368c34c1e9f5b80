/** Connections without a network: what keeps new ones from waiting, and what is forgotten. */
import { EventEmitter } from "node:events";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import type { Connection, RequestSlot } from "../../../src/http/node/connection.js";
import { CONNECTION_BOUNDS, Connections } from "../../../src/http/node/connections.js";
import { nextTurn } from "../../../src/lib/timers.js";

/** A socket that notes what happens to it. */
class Socket extends EventEmitter implements Connection {
  readonly writable = true;
  destroyed = false;
  isPaused = false;
  readonly timeouts: number[] = [];
  constructor(readonly remoteAddress = "192.0.2.1") {
    super();
  }
  end(): void {
    this.destroy();
  }
  destroy(): void {
    this.destroyed = true;
    this.emit("close");
  }
  pause(): void {
    this.isPaused = true;
  }
  resume(): void {
    this.isPaused = false;
  }
  setTimeout(milliseconds: number): void {
    this.timeouts.push(milliseconds);
  }
}

function world(bounds: Partial<typeof CONNECTION_BOUNDS> = {}) {
  const asked: string[] = [];
  const admission = { hurry: () => void asked.push("hurry"), makeSpace: () => void asked.push("makeSpace") };
  const connections = new Connections({ ...CONNECTION_BOUNDS, ...bounds }, admission);
  const open = (address?: string): Socket => {
    const socket = new Socket(address);
    connections.open(socket, address);
    return socket;
  };
  /** Begins a request. @returns what its handler gets once it is served */
  const begin = (socket: Socket): { slot?: RequestSlot } => {
    const served: { slot?: RequestSlot } = {};
    const hold = { release: () => undefined, abandon: () => undefined } as never;
    const serve = (slot: RequestSlot) => void (served.slot = slot);
    connections.begin(socket, { request: { complete: true }, hold, isLong: false, serve });
    return served;
  };
  return { connections, asked, open, begin };
}

describe("Connections", () => {
  it("open: in the tick of a new connection none is read and no request begins, so that others are accepted", async () => {
    const { asked, open } = world();
    const first = open("192.0.2.1");
    expect(asked).toEqual(["hurry"]);
    await nextTurn();
    expect(first.isPaused).toBe(true);
    await nextTurn();
    expect(first.isPaused).toBe(false);
  });

  it("sweep: an answer that stays unread has one timeout, which the connection's next request ends", () => {
    const { connections, open, begin } = world();
    const socket = open("192.0.2.1");
    const [first, second] = [begin(socket), begin(socket)];
    connections.sweep(5_000);
    expect(socket.timeouts).toEqual([]);
    first.slot!.answered();
    // Set anew at each sweep it would never end.
    for (let i = 0; i < 3; i++) connections.sweep(5_000);
    expect(socket.timeouts).toEqual([5_000]);
    first.slot!.end();
    expect(socket.timeouts).toEqual([5_000, 0]);
    second.slot!.answered();
    connections.sweep(5_000);
    expect(socket.timeouts).toEqual([5_000, 0, 5_000]);
  });

  it("an address is forgotten with its last connection", () => {
    setFlagsFromString("--expose-gc");
    const gc = runInNewContext("gc") as () => void;
    const { open } = world();
    const heap = () => {
      gc();
      return process.memoryUsage().heapUsed;
    };
    const come = (n: number): void => {
      for (let i = 0; i < 10_000; i++) open(`2001:db8::${n}:${i.toString(16)}`).destroy();
    };
    come(0);
    const before = heap();
    come(1);
    // They would take some 8 MB.
    expect(heap() - before).toBeLessThan(2_500_000);
  });

  it("a request of a socket that has closed is served, and nothing is kept of it", () => {
    const { connections, open, begin } = world({ max: 1 });
    const socket = open("192.0.2.1");
    socket.destroy();
    expect(begin(socket).slot!.isLast()).toBe(true);
    // It would count as a connection for good.
    expect(open("192.0.2.2").destroyed).toBe(false);
    connections.sweep(5_000);
    expect(socket.timeouts).toEqual([]);
  });

  it("evicts: without it a connection beyond the bound is closed, and no other", () => {
    for (const [evicts, closed] of [
      [true, [true, false, false]],
      [false, [false, false, true]],
    ] as const) {
      const { open } = world({ max: 2, evicts });
      expect([open("192.0.2.1"), open("192.0.2.2"), open("192.0.2.3")].map((one) => one.destroyed)).toEqual(closed);
    }
  });

  it("evicts: of the address with the most idle connections, the one that has been idle longest", () => {
    const { open, begin } = world({ max: 160 });
    const kept = open("192.0.2.1");
    const crowd = Array.from({ length: 159 }, (_, i) => open(`198.51.100.${i % 53}`));
    for (let i = 0; i < 60; i++) {
      // One that is new has not been read yet: it is as idle as those of the crowd.
      const anew = open("192.0.2.2");
      crowd.push(open(`198.51.100.${i % 53}`));
      expect([kept.destroyed, anew.destroyed]).toEqual([false, false]);
      begin(anew).slot!.end();
      anew.destroy();
    }
    expect(crowd.findIndex(({ destroyed }) => destroyed)).toBe(0);
    expect(crowd.filter(({ destroyed }) => destroyed)).toHaveLength(61);
  });

  it("evicts: connections that count for no address only where no address has two", () => {
    const { connections } = world({ max: 64 });
    const open = (address?: string): Socket => {
      const socket = new Socket(address);
      connections.open(socket, address);
      return socket;
    };
    const proxied = Array.from({ length: 64 }, () => open());
    const closed = (sockets: readonly Socket[]) => sockets.flatMap(({ destroyed }, i) => (destroyed ? [i] : []));
    const counted = ["192.0.2.1", "192.0.2.1", "192.0.2.2"].map(open);
    // The first came for one of theirs, the second for the first.
    expect([closed(counted), closed(proxied)]).toEqual([[0], [0, 1]]);
  });
});
