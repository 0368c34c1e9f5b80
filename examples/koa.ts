import type { AddressInfo } from "node:net";
import Koa from "koa";
import { createGuard, headersOf, setHeaders, type VerifiedKey } from "keystile/web";
import { apiId, tell, verifier } from "./keys.js";

const app = new Koa();

const guard = createGuard<Koa.Context>(verifier, { apiId, permissions: "documents.read" });

app.use(async (ctx, next) => {
  const { req: memory, ip: clientAddress } = ctx;
  const decision = await guard.check({
    request: ctx,
    memory,
    header: headersOf(ctx.headers, ctx.req.rawHeaders),
    clientAddress,
  });
  if (decision.outcome === "skip") return void (await next());
  setHeaders(
    decision.headers,
    (name) => ctx.response.get(name),
    (name, value) => ctx.set(name, value),
  );
  if (decision.outcome === "pass") {
    ctx.state["apiKey"] = decision.apiKey;
    return void (await next());
  }
  ctx.status = decision.refusal.status;
  ctx.set("Content-Type", decision.rendered.type);
  ctx.body = decision.rendered.body;
});

app.use((ctx) => {
  const { apiKey } = ctx.state as { apiKey: VerifiedKey };
  ctx.body = { documents: [], keyId: apiKey.keyId };
});

const server = app.listen(Number(process.env["PORT"] ?? 0), "127.0.0.1", () =>
  tell(`http://127.0.0.1:${(server.address() as AddressInfo).port}/documents`),
);
