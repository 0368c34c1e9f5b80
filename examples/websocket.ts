import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { WebSocketServer } from "ws";
import { createGuard, headersOf } from "keystile/web";
import { apiId, tell, verifier } from "./keys.js";

const server = createServer();
const sockets = new WebSocketServer({ noServer: true });

const guard = createGuard<IncomingMessage>(verifier, { apiId, permissions: "documents.read" });

async function upgrade(request: IncomingMessage, socket: Duplex, head: Buffer) {
  socket.on("error", () => socket.destroy());
  const { headers } = request;
  const clientAddress = request.socket.remoteAddress;
  // An object of its own for each check: each is charged.
  const check = () => guard.check({ request, memory: {}, header: headersOf(headers), clientAddress });
  const decision = await check();
  if (decision.outcome === "skip") return socket.destroy();
  if (decision.outcome === "refuse") {
    const { refusal, rendered } = decision;
    const fields = { ...decision.headers, "Content-Type": rendered.type, Connection: "close" };
    const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}`);
    return socket.end([`HTTP/1.1 ${refusal.status} ${refusal.title}`, ...lines, "", rendered.body].join("\r\n"));
  }
  sockets.handleUpgrade(request, socket, head, (client) => {
    const answer = async () => {
      const each = await check();
      if (each.outcome === "refuse") {
        client.close(1008, each.refusal.code);
        return;
      }
      client.send(JSON.stringify({ documents: [], keyId: decision.apiKey.keyId }));
    };
    client.on("message", () => void answer());
  });
}

server.on("upgrade", (...asked) => void upgrade(...asked));

server.listen(Number(process.env["PORT"] ?? 0), "127.0.0.1", () =>
  tell(`ws://127.0.0.1:${(server.address() as AddressInfo).port}/documents`, { command: "npx wscat", rest: "-c " }),
);
