/**
 * Floods of heads that announce a body and send none: they hold what they sent, and end for each other's sake alone.
 */
import { once } from "node:events";
import { createServer as createHttpServer, request } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterEach, describe, expect, it, vi } from "vitest";
import { createConsoleListener } from "../../../src/console/index.js";
import { createNodeListener, createServer, type NodeListener } from "../../../src/http/index.js";
import { createKeyring, memoryStore } from "../../../src/index.js";
import { EVERYTHING } from "../support.js";

/** A busy host takes long to make so many connections. */
vi.setConfig({ testTimeout: 180_000 });

/** The least that the option takes, and the console's: room for 1,536 requests at a time. */
const MEMORY = 96 * 1_048_576;
const REQUESTS = 1_536;
const HEADS = 1_600;
const CONNECTING = 100;

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function listening(listener: NodeListener): Promise<number> {
  const server = createHttpServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  ends.push(
    () => listener.close(),
    () => new Promise((resolve) => server.close(resolve)),
    () => server.closeAllConnections(),
  );
  return (server.address() as AddressInfo).port;
}

/** Two workspaces of a store. */
async function workspaces() {
  const store = memoryStore();
  const rootKeys: string[] = [];
  for (const workspaceId of ["evil", "good"])
    rootKeys.push((await createKeyring(store, { workspaceId }).createRootKey({ permissions: EVERYTHING })).key);
  const [evil = "", good = ""] = rootKeys;
  return { store, evil, good };
}

/** Sends a head on each of so many connections, and nothing else. @returns how many of them have ended */
async function flood(port: number, lines: readonly string[], addresses = 1): Promise<() => number> {
  const sockets: Socket[] = [];
  let ended = 0;
  ends.push(() => sockets.forEach((socket) => socket.destroy()));
  for (let at = 0; at < HEADS; at += CONNECTING)
    await Promise.all(
      Array.from({ length: CONNECTING }, async (_, i) => {
        const localAddress = addresses === 1 ? "127.0.0.1" : `127.0.1.${1 + (i % addresses)}`;
        const socket = connect({ port, host: "127.0.0.1", localAddress });
        sockets.push(socket);
        socket.on("error", () => undefined);
        socket.on("close", () => ended++);
        await Promise.race([once(socket, "connect"), once(socket, "close")]);
        socket.write(`${lines.join("\r\n")}\r\n\r\n`);
        socket.resume();
      }),
    );
  // What was sent has arrived.
  await new Promise((resolve) => setTimeout(resolve, 500));
  return () => ended;
}

interface Call {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** The status of a call on a connection of its own, or its error. */
const statusOf = (port: number, { method, path, headers, body = "" }: Call): Promise<unknown> =>
  new Promise((resolve) => {
    const more = { "content-length": Buffer.byteLength(body) };
    const sent = request({ port, host: "127.0.0.1", agent: false, method, path, headers: { ...headers, ...more } });
    sent.on("error", resolve);
    sent.on("response", (response) => resolve(response.resume().statusCode));
    sent.end(body);
  });

async function statusesOf(port: number, call: Call): Promise<unknown[]> {
  const statuses = [];
  for (let i = 0; i < 10; i++) statuses.push(await statusOf(port, call));
  return statuses;
}
const ALL = Array.from({ length: 10 }, () => 200);

const authorization = (rootKey: string) => `authorization: Bearer ${rootKey}`;
const headOf = (rootKey: string, ...more: readonly string[]) => [
  ...["POST /v2/keys.migrateKeys HTTP/1.1", "host: a", authorization(rootKey), "content-type: application/json"],
  ...["content-length: 1000000", ...more],
];
const call = (rootKey: string): Call => ({
  method: "POST",
  path: "/v2/apis.createApi",
  headers: { authorization: `Bearer ${rootKey}`, "content-type": "application/json" },
  body: '{"name":"mine"}',
});

describe("heads without a body: other workspaces are served, and the oldest of those that are too many end", () => {
  const HOSTS: Readonly<Record<string, (store: ReturnType<typeof memoryStore>) => Promise<number>>> = {
    async createServer(store) {
      const server = createServer(store, { memoryBudget: MEMORY, graceTimeout: 1 });
      ends.push(() => server.close());
      return (await server.listen()).port;
    },
    createNodeListener: (store) => listening(createNodeListener(store, { memoryBudget: MEMORY })),
  };
  it.each([
    ["createServer", 1, []],
    ["createServer", 100, ["expect: 100-continue"]],
    ["createNodeListener", 1, ["expect: 100-continue"]],
    ["createNodeListener", 100, []],
  ] as const)("%s, from %i addresses, with %j", async (host, addresses, more) => {
    const { store, evil, good } = await workspaces();
    const port = await HOSTS[host]!(store);
    expect(await statusesOf(port, call(good))).toEqual(ALL);
    const ended = await flood(port, headOf(evil, ...more), process.platform === "linux" ? addresses : 1);
    expect(await statusesOf(port, call(good))).toEqual(ALL);
    await vi.waitFor(() => expect(ended()).toBeGreaterThanOrEqual(HEADS - REQUESTS), { timeout: 20_000 });
    // The attackers' own workspace is served, too.
    expect(await statusesOf(port, call(evil))).toEqual(ALL);
  });

  it("callers with credentials that nobody knows are in nobody's way", async () => {
    const { store, good } = await workspaces();
    const port = await HOSTS["createServer"]!(store);
    await flood(port, headOf("unknown"));
    expect(await statusesOf(port, call(good))).toEqual(ALL);
  });

  it("the console: forms of sign-in that nobody sends neither refuse a session nor a sign-in", async () => {
    const { store, good } = await workspaces();
    const port = await listening(createConsoleListener(store, { workspaceId: "good" }));
    const url = `http://127.0.0.1:${port}`;
    const signIn = () =>
      fetch(`${url}/sign-in`, {
        method: "POST",
        headers: { origin: url },
        body: new URLSearchParams({ key: good, to: "/" }),
        redirect: "manual",
      });
    const cookie = (await signIn()).headers.get("set-cookie")!.split(";")[0]!;
    await flood(port, [
      ...["POST /sign-in HTTP/1.1", "host: localhost", "origin: http://localhost"],
      ...["content-type: application/x-www-form-urlencoded", "content-length: 16384"],
    ]);
    expect(await statusesOf(port, { method: "GET", path: "/keys", headers: { cookie } })).toEqual(ALL);
    expect((await signIn()).status).toBe(303);
  });
});
