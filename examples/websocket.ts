import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { setInterval } from "node:timers/promises";
import { type WebSocket, WebSocketServer } from "ws";
import { isKeystileError } from "keystile";
import { createGuard, headersOf, type Refused } from "keystile/web";
import { apiId, keyring, tell, verifier } from "./keys.js";

const server = createServer();
const sockets = new WebSocketServer({ noServer: true });

const guard = createGuard<IncomingMessage>(verifier, { apiId, permissions: "documents.read" });
/** The sockets that are open, each with the id of its key. */
const open = new Map<WebSocket, string>();

async function upgrade(request: IncomingMessage, socket: Duplex, head: Buffer) {
  socket.on("error", () => socket.destroy());
  const clientAddress = request.socket.remoteAddress;
  // A new object as `memory` for each check: each is charged.
  const check = () =>
    guard.check({ request, memory: {}, header: headersOf(request.headers, request.rawHeaders), clientAddress });
  const decision = await check();
  if (decision.outcome === "skip") return socket.destroy();
  if (decision.outcome === "refuse") return socket.end(toHttp(decision));
  const { keyId } = decision.apiKey;
  sockets.handleUpgrade(request, socket, head, (client) => {
    open.set(client, keyId);
    client.on("close", () => open.delete(client));
    client.on("message", () => {
      void check().then((each) => {
        if (each.outcome === "refuse") client.close(1008, each.refusal.code);
        else client.send(JSON.stringify({ documents: [], keyId }));
      });
    });
  });
}

/** Closes the sockets of keys that were revoked or have expired, also where the client sends nothing. */
async function closeRevoked() {
  for (const id of new Set(open.values())) {
    const state = await stateOf(id);
    if (state === "active" || state === "exhausted") continue;
    for (const [client, keyId] of open) if (keyId === id) client.close(1008, state);
  }
}

function stateOf(keyId: string): Promise<string> {
  return keyring.getKey({ keyId }).then(
    (key) => key.state,
    (error: unknown) => {
      if (isKeystileError(error) && error.code === "NOT_FOUND") return "deleted";
      throw error;
    },
  );
}

/** A refusal as the response to the request that wanted to be upgraded. */
function toHttp({ refusal, rendered, headers }: Refused): string {
  const fields = { ...headers, "Content-Type": rendered.type, Connection: "close" };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}`);
  return [`HTTP/1.1 ${refusal.status} ${refusal.title}`, ...lines, "", rendered.body].join("\r\n");
}

server.on("upgrade", (...asked) => void upgrade(...asked));

server.listen(Number(process.env["PORT"] ?? 0), "127.0.0.1", () =>
  tell(`ws://127.0.0.1:${(server.address() as AddressInfo).port}/documents`, { command: "npx wscat", rest: "-c " }),
);

for await (const _ of setInterval(1_000)) await closeRevoked().catch(console.error);
