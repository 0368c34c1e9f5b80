/**
 * What does a guard add to a route? Each framework's guarded route next to the same route without a guard, over HTTP on
 * loopback.
 */
import { createServer as createHttpServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { connect, type Socket } from "node:net";
import { getRequestListener } from "@hono/node-server";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { createKeyring, createVerifier, memoryStore } from "../src/index.js";
import { apiKey as expressGuard } from "../src/middleware/express.js";
import { apiKey as fastifyGuard } from "../src/middleware/fastify.js";
import { apiKey as honoGuard } from "../src/middleware/hono.js";
import { apiKey as webGuard } from "../src/middleware/web.js";
import { measure, report, scaled, type Side } from "./harness.js";

const CONNECTIONS = 16;
const GOAL = "≤ 1.25";
/** A word that the handler alone writes. */
const PASSED = '{"documents":[]}';
const DOCUMENTS = { documents: [] };
const options = { permissions: "documents.read" } as const;

const store = memoryStore();
const keyring = createKeyring(store);
const { apiId } = await keyring.createApi({ name: "documents" });
const ratelimits = [{ name: "requests", limit: 1_000_000_000, duration: 1_000, autoApply: true }];
const { key } = await keyring.createKey({ apiId, permissions: ["documents.*"], ratelimits });
const verifier = createVerifier(store);

const servers: Server[] = [];
const connections: Socket[][] = [];
async function listen(listener: RequestListener): Promise<number> {
  const server = createHttpServer(listener);
  // Connections wait while the other sides have their turn.
  server.keepAliveTimeout = 0;
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

/** As @hono/node-server serves a handler of fetch. */
function listenerOf(handler: (request: Request) => Response | Promise<Response>): RequestListener {
  const answer = getRequestListener(handler);
  return (incoming, outgoing) => void answer(incoming, outgoing);
}

const request = `GET /documents HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`;

/** Calls over connections that stay open, each with one request in flight. @returns how many came back right */
function caller(port: number): (operations: number) => Promise<number> {
  const sockets: Socket[] = [];
  connections.push(sockets);
  const call = (socket: Socket) =>
    new Promise<boolean>((resolve, reject) => {
      let text = "";
      const take = (chunk: Buffer) => {
        text += chunk.toString("latin1");
        // The body of each is the same: once it is there, all of the answer is, but the end of a last chunk.
        if (!text.includes(PASSED) && !/^HTTP\/1\.1 [345]/.test(text)) return;
        if (/^transfer-encoding: chunked/im.test(text) && !text.endsWith("0\r\n\r\n")) return;
        socket.off("data", take);
        socket.off("error", reject);
        resolve(text.startsWith("HTTP/1.1 200"));
      };
      socket.on("data", take);
      socket.once("error", reject);
      socket.write(request);
    });
  return async (operations) => {
    while (sockets.length < CONNECTIONS) {
      const socket = connect(port, "127.0.0.1").setNoDelay(true);
      await new Promise((resolve) => socket.once("connect", resolve));
      sockets.push(socket);
    }
    let [left, right] = [operations, 0];
    await Promise.all(
      sockets.map(async (socket) => {
        while (left-- > 0) if (await call(socket)) right++;
      }),
    );
    return right;
  };
}

const FRAMEWORKS: Readonly<Record<string, (guarded: boolean) => Promise<number>>> = {
  express: (guarded) => {
    const app = express();
    if (guarded) app.get("/documents", expressGuard(verifier, options), (_req, res) => void res.json(DOCUMENTS));
    else app.get("/documents", (_req, res) => void res.json(DOCUMENTS));
    return listen(app);
  },
  hono: (guarded) => {
    const app = new Hono();
    if (guarded) app.get("/documents", honoGuard(verifier, options), (c) => c.json(DOCUMENTS));
    else app.get("/documents", (c) => c.json(DOCUMENTS));
    return listen(listenerOf(app.fetch));
  },
  fastify: async (guarded) => {
    const app = fastify();
    if (guarded) await app.register(fastifyGuard(verifier, options));
    app.get("/documents", () => DOCUMENTS);
    await app.listen({ port: 0, host: "127.0.0.1" });
    servers.push(app.server);
    return (app.server.address() as AddressInfo).port;
  },
  web: (guarded) => {
    const handler = () => Response.json(DOCUMENTS);
    return listen(listenerOf(guarded ? webGuard(verifier, options, handler) : handler));
  },
};

const sides: Side[] = [];
for (const [name, serve] of Object.entries(FRAMEWORKS)) {
  const floor = `${name}: the bare route`;
  sides.push({ name: floor, run: caller(await serve(false)) });
  sides.push({
    name: `${name}: guarded, one permission and one limit`,
    run: caller(await serve(true)),
    floor,
    goal: GOAL,
  });
}
for (const { run } of sides) await run(scaled(2_000, CONNECTIONS));
const rows = await measure(sides);
await verifier.close();
for (const socket of connections.flat()) socket.destroy();
for (const server of servers) {
  server.closeAllConnections();
  server.close();
}
report({ question: "What does a guard add to a route, over HTTP on loopback?", rows });
