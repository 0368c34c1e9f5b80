/** A client that sends bytes as they are, and reads the responses of one connection. */
import { connect, type Socket } from "node:net";

/** What JSON turned out to hold; tests look into it as they please. */
export type Parsed = ReturnType<typeof JSON.parse>;

export interface RawResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: Parsed;
}

export interface Connection {
  readonly socket: Socket;
  write(text: string): void;
  /** The next so many responses, or those that came before the other side closed. */
  responses(count: number): Promise<RawResponse[]>;
  /** When the other side has closed. */
  readonly ended: Promise<void>;
}

export function dial(url: string, localAddress?: string): Connection {
  const { hostname, port } = new URL(url);
  const socket = connect({ port: Number(port), host: hostname, localAddress });
  let received = Buffer.alloc(0);
  let over = false;
  let wake: () => void = () => undefined;
  const ended = new Promise<void>((resolve) => {
    socket.on("close", () => {
      over = true;
      wake();
      resolve();
    });
  });
  socket.on("error", () => undefined);
  socket.on("data", (chunk) => {
    received = Buffer.concat([received, chunk]);
    wake();
  });
  const next = (): RawResponse | undefined => {
    const end = received.indexOf("\r\n\r\n");
    if (end < 0) return undefined;
    const [line = "", ...lines] = received.subarray(0, end).toString("latin1").split("\r\n");
    const headers = new Headers(
      lines.map(
        (part) => [part.slice(0, part.indexOf(":")), part.slice(part.indexOf(":") + 1).trim()] as [string, string],
      ),
    );
    const status = Number(line.split(" ")[1]);
    const length = status === 100 ? 0 : Number(headers.get("content-length"));
    if (received.length < end + 4 + length) return undefined;
    const text = received.subarray(end + 4, end + 4 + length).toString();
    received = received.subarray(end + 4 + length);
    return { status, headers, text, body: text === "" ? undefined : JSON.parse(text) };
  };
  return {
    socket,
    ended,
    write: (text) => void socket.write(text),
    async responses(count) {
      const found: RawResponse[] = [];
      for (;;) {
        for (let one = next(); one !== undefined && found.length < count; one = next()) found.push(one);
        if (found.length === count || over) return found;
        await new Promise<void>((resolve) => (wake = resolve));
      }
    },
  };
}

/** A request as text. */
export function toText(path: string, headers: readonly string[], body = "", method = "POST"): string {
  const lines = [
    `${method} ${path} HTTP/1.1`,
    "host: keys.test",
    ...headers,
    `content-length: ${Buffer.byteLength(body)}`,
  ];
  return `${lines.join("\r\n")}\r\n\r\n${body}`;
}
