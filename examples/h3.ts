import { serve } from "@hono/node-server";
import { H3, type H3Event } from "h3";
import { createGuard, setHeaders, toResponse, type VerifiedKey } from "keystile/web";
import { apiId, tell, verifier } from "./keys.js";

const app = new H3();

const guard = createGuard<H3Event>(verifier, { apiId, permissions: "documents.read" });

app.use(async (event, next) => {
  const { req, res, context } = event;
  const decision = await guard.check({ request: event, memory: req, header: (name) => req.headers.get(name) });
  if (decision.outcome === "refuse") return toResponse(decision);
  if (decision.outcome === "skip") return next();
  setHeaders(
    decision.headers,
    (name) => res.headers.get(name),
    (name, value) => res.headers.set(name, value),
  );
  context["apiKey"] = decision.apiKey;
  return next();
});

app.get("/documents", ({ context }) => ({ documents: [], keyId: (context["apiKey"] as VerifiedKey).keyId }));

serve({ fetch: app.fetch, port: Number(process.env["PORT"] ?? 0), hostname: "127.0.0.1" }, ({ port }) =>
  tell(`http://127.0.0.1:${port}/documents`),
);
