import { apiKey } from "keystile/web";
import { apiId, verifier } from "../../../keystile";

const options = { apiId, permissions: "documents.read", cost: 2 };

// What Next passes besides the request comes after the key.
export const GET = apiKey(verifier, options, async (_request, key, { params }: { params: Promise<{ id: string }> }) =>
  Response.json({ id: (await params).id, credits: key.credits }),
);
