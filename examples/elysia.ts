import { serve } from "@hono/node-server";
import { Elysia } from "elysia";
import { apiKey } from "keystile/web";
import { apiId, tell, verifier } from "./keys.js";

const documents = apiKey(verifier, { apiId, permissions: "documents.read" }, (_request, key) =>
  Response.json({ documents: [], keyId: key.keyId }),
);

const app = new Elysia().get("/documents", ({ request }) => documents(request));

serve({ fetch: app.fetch, port: Number(process.env["PORT"] ?? 0), hostname: "127.0.0.1" }, ({ port }) =>
  tell(`http://127.0.0.1:${port}/documents`),
);
