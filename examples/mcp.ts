import { serve } from "@hono/node-server";
import { createGuard, type KeyRequirement, toResponse } from "keystile/web";
import { apiId, tell, verifier } from "./keys.js";

interface Call {
  readonly id?: string | number;
  readonly method: string;
  readonly params?: { readonly name?: string };
}

/** What a call of each tool asks of a key. */
const TOOLS = new Map<string, KeyRequirement<unknown> & { permissions: string }>([
  ["search", { permissions: "documents.read", cost: 1 }],
  ["publish", { permissions: "documents.write OR admin", cost: 5 }],
  ["purge", { permissions: "admin", cost: 0 }],
]);

const guard = createGuard<Request>(verifier, { apiId, cost: 0 });

export async function mcp(request: Request): Promise<Response> {
  const { id, method, params } = (await request.json()) as Call;
  const tool = method === "tools/call" ? TOOLS.get(params?.name ?? "") : undefined;
  const header = (name: string) => request.headers.get(name);
  const decision = await guard.check({ request, memory: request, header }, () => (tool === undefined ? [] : [tool]));
  if (decision.outcome === "refuse") return toResponse(decision);
  if (decision.outcome === "skip") return new Response(null, { status: 401 });
  const { apiKey, headers } = decision;
  const respond = (more: object) => Response.json({ jsonrpc: "2.0", id, ...more }, { headers });
  if (method === "tools/list") {
    // Those that the key may use.
    const names = [...TOOLS].filter(([, { permissions }]) => apiKey.can(permissions)).map(([name]) => name);
    return respond({ result: { tools: names.map((name) => ({ name, inputSchema: { type: "object" } })) } });
  }
  if (tool === undefined) return respond({ error: { code: -32601, message: "no such method or tool" } });
  return respond({ result: { content: [{ type: "text", text: `by ${apiKey.keyId}` }] } });
}

serve({ fetch: mcp, port: Number(process.env["PORT"] ?? 0), hostname: "127.0.0.1" }, ({ port }) =>
  tell(`http://127.0.0.1:${port}/mcp`, {
    rest: `-d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search"}}' `,
  }),
);
