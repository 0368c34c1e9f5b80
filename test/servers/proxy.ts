/** A TCP proxy that breaks connections as networks do. */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/**
 * `pass`: as a wire. `delay`: each piece 200 ms later. `stall`: nothing passes, and what was sent waits. `half-open`:
 * what is sent in either direction is lost, and nobody is told. `refuse`: new connections end at once.
 */
export type ProxyMode = "pass" | "delay" | "stall" | "half-open" | "refuse";

export interface Proxy {
  readonly port: number;
  /** How it treats what comes from now on; leaving `stall` sends what waited. */
  set(mode: ProxyMode): void;
  /** Ends every connection. */
  cut(): void;
  /** New connections go there. */
  retarget(port: number): void;
  close(): Promise<void>;
}

const DELAY_MS = 200;

/**
 * @param target the port of the server, on loopback
 * @param onData called with each piece before it passes; what it does to the proxy counts for this piece already
 */
export async function startProxy(
  target: number,
  onData?: (piece: Buffer, from: "client" | "server", client: Socket) => void,
): Promise<Proxy> {
  let mode: ProxyMode = "pass";
  let port = target;
  const sockets = new Set<Socket>();
  const waiting: (() => void)[] = [];
  const track = (socket: Socket): void => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("close", () => sockets.delete(socket));
  };
  const pipe = (from: Socket, to: Socket, onPiece: (piece: Buffer) => void = () => undefined): void => {
    const pass = (act: () => void): void => {
      if (mode === "pass" || mode === "refuse") act();
      else if (mode === "delay") setTimeout(act, DELAY_MS);
      else if (mode === "stall") waiting.push(act);
    };
    from.on("data", (data) => {
      onPiece(data);
      pass(() => {
        if (to.writable) to.write(data);
      });
    });
    from.once("close", () => {
      pass(() => to.destroy());
    });
  };
  const server = createServer((client) => {
    track(client);
    if (mode === "refuse") {
      client.destroy();
      return;
    }
    const upstream = connect(port, "127.0.0.1");
    track(upstream);
    pipe(client, upstream, (piece) => onData?.(piece, "client", client));
    pipe(upstream, client, (piece) => onData?.(piece, "server", client));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as { port: number }).port,
    set(next) {
      mode = next;
      if (next !== "stall") for (const act of waiting.splice(0)) act();
    },
    cut,
    retarget(next) {
      port = next;
    },
    async close() {
      server.close();
      cut();
    },
  };
}
