/** A key passes, and its absence is refused, with the framework or the client that is named; prints the two outcomes. */
import { once } from "node:events";
import { createServer as httpServer } from "node:http";
import { createKeyring, createVerifier, memoryStore } from "keystile";

const [name] = process.argv.slice(2);
const { DATABASE_URL, REDIS_URL } = process.env;

/** A verifier on a store, and a key with one permission and a limit of one call. */
async function world(store, options) {
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const ratelimits = [{ name: "calls", limit: 1, duration: 60_000, autoApply: true }];
  const { key } = await keyring.createKey({ apiId, permissions: ["documents.read"], ratelimits });
  return { verifier: createVerifier(store, options), key };
}

const listening = async (server) => {
  await once(server.listen(0, "127.0.0.1"), "listening");
  return `http://127.0.0.1:${server.address().port}`;
};

/** Frameworks: each returns where its route is. */
const FRAMEWORKS = {
  async express(verifier) {
    const { default: express } = await import("express");
    const { apiKey, verifiedKey } = await import("keystile/express");
    const app = express();
    app.get("/documents", apiKey(verifier), (req, res) => res.json(verifiedKey(req).keyId));
    return listening(httpServer(app));
  },
  async fastify(verifier) {
    const { default: fastify } = await import("fastify");
    const { apiKey, verifiedKey } = await import("keystile/fastify");
    const app = fastify();
    await app.register(apiKey(verifier));
    app.get("/documents", (request) => [verifiedKey(request).keyId]);
    return app.listen({ port: 0, host: "127.0.0.1" });
  },
  async hono(verifier) {
    const { Hono } = await import("hono");
    const { apiKey, verifiedKey } = await import("keystile/hono");
    const app = new Hono();
    app.get("/documents", apiKey(verifier), (c) => c.json(verifiedKey(c.var).keyId));
    const fetch = async (req, res) => {
      const answer = await app.fetch(new Request(`http://a${req.url}`, { headers: req.headers }));
      res.writeHead(answer.status).end(await answer.text());
    };
    return listening(httpServer((req, res) => void fetch(req, res)));
  },
  async "@trpc/server"(verifier) {
    const { initTRPC } = await import("@trpc/server");
    const { createHTTPServer } = await import("@trpc/server/adapters/standalone");
    const { apiKey } = await import("keystile/trpc");
    const t = initTRPC.context().create();
    const router = t.router({ documents: t.procedure.use(apiKey(verifier)).query(({ ctx }) => ctx.apiKey.keyId) });
    const made = createHTTPServer({ router, createContext: ({ req, res }) => ({ req, res }) });
    return listening(made.server ?? made);
  },
  async "@nestjs/common"(verifier) {
    await import("reflect-metadata");
    const { Controller, Get, Module, Req } = await import("@nestjs/common");
    const { NestFactory } = await import("@nestjs/core");
    const { ApiKeyModule, verifiedKey } = await import("keystile/nest");
    class Documents {
      list(request) {
        return [verifiedKey(request).keyId];
      }
    }
    Req()(Documents.prototype, "list", 0);
    Get("documents")(Documents.prototype, "list", Object.getOwnPropertyDescriptor(Documents.prototype, "list"));
    Controller()(Documents);
    class App {}
    Module({ imports: [ApiKeyModule.forRoot(verifier)], controllers: [Documents] })(App);
    const app = await NestFactory.create(App, { logger: false });
    await app.listen(0, "127.0.0.1");
    return app.getUrl();
  },
};

/** Clients, and what measures them: each returns a verifier and a key. */
const CLIENTS = {
  async pg() {
    const { default: pg } = await import("pg");
    const { postgresStore } = await import("keystile/postgres");
    const store = postgresStore(new pg.Pool({ connectionString: DATABASE_URL }));
    await store.setUp();
    return world(store);
  },
  async "@opentelemetry/api"() {
    const { metrics, trace } = await import("@opentelemetry/api");
    const { instrumentStore, instrumentVerifier } = await import("keystile/otel");
    const meter = metrics.getMeter("keystile");
    const store = instrumentStore(memoryStore(), { meter, tracer: trace.getTracer("keystile"), system: "other_sql" });
    const made = await world(store);
    instrumentVerifier(made.verifier, meter);
    return made;
  },
  async ioredis() {
    const { default: Redis } = await import("ioredis");
    const { redisLimiter } = await import("keystile/redis");
    return world(memoryStore(), { limiter: redisLimiter(new Redis(REDIS_URL)) });
  },
  async redis() {
    const { createClient } = await import("redis");
    const { redisLimiter } = await import("keystile/redis");
    const client = createClient({ url: REDIS_URL });
    await client.connect();
    return world(memoryStore(), { limiter: redisLimiter(client) });
  },
};

async function guarded() {
  const { verifier, key } = await world(memoryStore());
  const url = `${await FRAMEWORKS[name](verifier)}/documents`;
  const call = async (headers) => (await fetch(url, { headers })).status;
  return [await call({ authorization: `Bearer ${key}` }), await call({})];
}

async function verified() {
  const { verifier, key } = await CLIENTS[name]();
  return [(await verifier.verify({ key })).code, (await verifier.verify({ key })).code];
}

console.log(JSON.stringify(await (name in CLIENTS ? verified() : guarded())));
process.exit(0);
