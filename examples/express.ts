import type { AddressInfo } from "node:net";
import express from "express";
import { apiKey, verifiedKey } from "keystile/express";
import { apiId, tell, verifier } from "./keys.js";

const app = express();

app.get("/documents", apiKey(verifier, { apiId, permissions: "documents.read" }), (req, res) => {
  res.json({ documents: [], keyId: verifiedKey(req).keyId });
});

const server = app.listen(Number(process.env["PORT"] ?? 0), "127.0.0.1", () =>
  tell(`http://127.0.0.1:${(server.address() as AddressInfo).port}/documents`),
);
