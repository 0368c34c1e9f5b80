import fastify from "fastify";
import { apiKey, verifiedKey } from "keystile/fastify";
import { apiId, tell, verifier } from "./keys.js";

const app = fastify();

// Every route needs a key; a route's config asks for more, or opens it.
await app.register(apiKey(verifier, { apiId }));

app.get("/documents", { config: { apiKey: { permissions: "documents.read" } } }, (request) => ({
  documents: [],
  keyId: verifiedKey(request).keyId,
}));

app.get("/health", { config: { apiKey: false } }, () => "fine");

tell(`${await app.listen({ port: Number(process.env["PORT"] ?? 0), host: "127.0.0.1" })}/documents`);
