/** Next: `export const GET = …`. Bun, Deno and workers: `fetch: …`. Here Node serves the same function. */
import { serve } from "@hono/node-server";
import { apiKey } from "keystile/web";
import { apiId, tell, verifier } from "./keys.js";

export const GET = apiKey(verifier, { apiId, permissions: "documents.read" }, (_request, key) =>
  Response.json({ documents: [], keyId: key.keyId }),
);

serve({ fetch: GET, port: Number(process.env["PORT"] ?? 0), hostname: "127.0.0.1" }, ({ port }) =>
  tell(`http://127.0.0.1:${port}/documents`),
);
