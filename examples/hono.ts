import { serve } from "@hono/node-server";
import { getConnInfo } from "@hono/node-server/conninfo";
import { Hono } from "hono";
import { apiKey, verifiedKey } from "keystile/hono";
import { apiId, tell, verifier } from "./keys.js";

const app = new Hono();

app.get(
  "/documents",
  apiKey(verifier, {
    apiId,
    permissions: "documents.read",
    // For keys with an allow-list.
    clientAddress: (c) => getConnInfo(c).remote.address,
  }),
  (c) => c.json({ documents: [], keyId: verifiedKey(c.var).keyId }),
);

serve({ fetch: app.fetch, port: Number(process.env["PORT"] ?? 0), hostname: "127.0.0.1" }, ({ port }) =>
  tell(`http://127.0.0.1:${port}/documents`),
);
