import { apiKey } from "keystile/web";
import { apiId, verifier } from "../../keystile";

export const GET = apiKey(verifier, { apiId, permissions: "documents.read" }, (_request, key) =>
  Response.json({ documents: [], keyId: key.keyId }),
);
