import { serve } from "@hono/node-server";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import { createGuard, toResponse, type VerifiedKey } from "keystile/web";
import { z } from "zod";
import { apiId, tell, verifier } from "./keys.js";

/** What a call of each tool asks of a key. */
const TOOLS = new Map([
  ["search", { permissions: "documents.read", cost: 1 }],
  ["publish", { permissions: "documents.write OR admin", cost: 5 }],
  ["purge", { permissions: "admin", cost: 0 }],
]);

const guard = createGuard<Request>(verifier, { apiId });

/** What a message asks, or an array of messages: all its calls together, so that all are paid for or none. */
function requirementsOf(body: unknown) {
  const messages = (Array.isArray(body) ? body : [body]) as { method?: string; params?: { name?: string } }[];
  const calls = messages.filter(({ method }) => method === "tools/call");
  const tools = calls.flatMap(({ params }) => TOOLS.get(params?.name ?? "") ?? []);
  const cost = tools.reduce((sum, tool) => sum + tool.cost, 0);
  // A token for each call, and none for the messages of a handshake.
  const ratelimits = [{ name: "requests", cost: calls.length }];
  return [...tools.map(({ permissions }) => ({ permissions })), { cost, ratelimits }];
}

export async function mcp(request: Request): Promise<Response> {
  if (request.method !== "POST") return new Response(null, { status: 405 });
  const parsedBody: unknown = await request.json().catch(() => undefined);
  const header = (name: string) => request.headers.get(name);
  const decision = await guard.check({ request, memory: request, header }, () => requirementsOf(parsedBody));
  if (decision.outcome === "refuse") return toResponse(decision);
  if (decision.outcome === "skip") return new Response(null, { status: 401 });
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
  await serverFor(decision.apiKey).connect(transport);
  return transport.handleRequest(request, { parsedBody });
}

/** A server with the tools that the key may use. */
function serverFor(apiKey: VerifiedKey): McpServer {
  const server = new McpServer({ name: "documents", version: "1.0.0" });
  for (const [name, { permissions }] of TOOLS)
    if (apiKey.can(permissions))
      server.registerTool(name, { inputSchema: { text: z.string().optional() } }, () => ({
        content: [{ type: "text", text: `${name} by ${apiKey.keyId}` }],
      }));
  return server;
}

serve({ fetch: mcp, port: Number(process.env["PORT"] ?? 0), hostname: "127.0.0.1" }, ({ port }) =>
  tell(`http://127.0.0.1:${port}/mcp`, {
    rest:
      `-H "Content-Type: application/json" -H "Accept: application/json, text/event-stream" ` +
      `-d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{}}}' `,
  }),
);
