import { after } from "next/server";
import { apiKey } from "keystile/web";
import { apiId, connect, verifier } from "../../../keystile";

type Context = { params: Promise<{ id: string }> };

const options = { apiId, permissions: "documents.read", cost: 2 };
const guarded = apiKey(verifier, options, async (_request, key, { params }: Context) =>
  Response.json({ id: (await params).id, credits: key.credits }),
);

export async function GET(request: Request, context: Context) {
  await connect();
  after(() => verifier.flush()); // counts, once the response has ended: then the instance is frozen
  return guarded(request, context);
}
