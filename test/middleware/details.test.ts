/** What is particular to one framework, and the parts of the shared core that no framework shows. */
import "reflect-metadata";
import { once } from "node:events";
import { get, type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Controller, Get, Module, Req, UseGuards } from "@nestjs/common";
import { ExternalContextCreator, NestFactory } from "@nestjs/core";
import { initTRPC } from "@trpc/server";
import { fetchRequestHandler } from "@trpc/server/adapters/fetch";
import { createHTTPHandler } from "@trpc/server/adapters/standalone";
import express from "express";
import fastify from "fastify";
import { type Context, Hono } from "hono";
import { beforeEach, describe, expect, expectTypeOf, it, vi } from "vitest";
import { z } from "zod";
import { KeystileError } from "../../src/contracts/errors.js";
import { createKeyring, createVerifier, memoryStore, type Store, type Verifier } from "../../src/index.js";
import { apiKey as expressGuard, verifiedKey } from "../../src/middleware/express.js";
import { apiKey as fastifyGuard } from "../../src/middleware/fastify.js";
import type { VerifiedKey } from "../../src/middleware/guard.js";
import { apiKey as honoGuard } from "../../src/middleware/hono.js";
import {
  ApiKeyModule,
  createApiKeyGuard,
  NoApiKey,
  type NestRequest,
  RequireApiKey,
} from "../../src/middleware/nest.js";
import { withRatelimitFields } from "../../src/middleware/ratelimit-fields.js";
import { apiKey as trpcGuard } from "../../src/middleware/trpc.js";
import { apiKey as webGuard } from "../../src/middleware/web.js";
import { listen } from "./beds.js";

let store: Store;
let verifier: Verifier;
let key: string;
let headers: Record<string, string>;
const left = async () => (await verifier.verify({ key, credits: { cost: 0 } })).credits;

beforeEach(async () => {
  store = memoryStore();
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const given = { permissions: ["documents.read", "documents.7"], credits: { remaining: 100 } };
  ({ key } = await keyring.createKey({ apiId, meta: { plan: "pro" }, ...given }));
  headers = { authorization: `Bearer ${key}` };
  verifier = createVerifier(store);
});

describe("verifiedKey", () => {
  it("is the key of a request that a guard let pass, typed, and throws where none did", () => {
    const apiKey = { valid: true, code: "VALID", keyId: "key_1", meta: { plan: "pro" } } as VerifiedKey<{
      plan: string;
    }>;
    const found = verifiedKey({ apiKey });
    expectTypeOf(found).toEqualTypeOf<VerifiedKey<{ plan: string }>>();
    expect(found).toBe(apiKey);
    expect(() => verifiedKey({})).toThrow(new TypeError("no key was verified: put a guard before this handler"));
  });
});

describe("express", () => {
  it("functions get Express's own request, typed, and an allow-list the address that Express finds", async () => {
    const seen: unknown[] = [];
    const app = express();
    const permissions = (req: express.Request) => `documents.${req.params["id"] as string}`;
    const clientAddress = (req: express.Request) => (seen.push(req.ip), req.ip);
    app.get("/documents/:id", expressGuard(verifier, { permissions, clientAddress }), (req, res) => {
      expectTypeOf(req.apiKey).toEqualTypeOf<VerifiedKey | undefined>();
      res.json(req.apiKey?.meta);
    });
    const { url, close } = await listen(app);
    try {
      const get = (id: string) => fetch(`${url}/documents/${id}`, { headers });
      expect(await (await get("7")).json()).toEqual({ plan: "pro" });
      expect((await get("8")).status).toBe(403);
      expect(seen[0]).toMatch(/127\.0\.0\.1$/);
    } finally {
      await close();
    }
  });

  it("a handler that fails is Express's matter, and what was taken stays taken", async () => {
    const app = express();
    app.get("/", expressGuard(verifier), () => {
      throw new Error("handler");
    });
    app.use(
      ((error: Error, _req, res, _next) => void res.status(418).end(error.message)) as express.ErrorRequestHandler,
    );
    const { url, close } = await listen(app);
    try {
      const response = await fetch(`${url}/`, { headers });
      expect([response.status, await response.text(), await left()]).toEqual([418, "handler", 99]);
    } finally {
      await close();
    }
  });
});

describe("several Authorization headers", () => {
  it("are no key on Node either, whichever is first: another program may read the other", async () => {
    const app = express();
    app.use(expressGuard(verifier), (_req, res) => void res.end("passed"));
    const plugin = fastify();
    await plugin.register(fastifyGuard(verifier));
    plugin.get("/route", () => "passed");
    await plugin.ready();
    const t = initTRPC.context<{ req: { headers: object } }>().create();
    const router = t.router({ route: t.procedure.use(trpcGuard(verifier)).query(() => "passed") });
    const rpc = createHTTPHandler({ router, createContext: ({ req }) => ({ req }) });
    for (const handle of [app, (req: IncomingMessage, res: ServerResponse) => plugin.routing(req, res), rpc]) {
      const { url, close } = await listen(handle);
      const statusOf = async (...authorization: string[]) => {
        const given: OutgoingHttpHeaders = Object.fromEntries([["authorization", authorization]]);
        const asked = get(`${url}/route`, { headers: given, agent: false });
        const [response] = (await once(asked, "response")) as [IncomingMessage];
        response.resume();
        return response.statusCode;
      };
      const mine = `Bearer ${key}`;
      expect(await statusOf(mine)).toBe(200);
      expect([await statusOf(mine, "Bearer other"), await statusOf("Bearer other", mine)]).toEqual([401, 401]);
      expect(await statusOf(mine, mine)).toBe(401);
      await close();
    }
    await plugin.close();
    expect(await left()).toBe(97);
  });
});

describe("what a guard adds for caches", () => {
  it("leaves the handler's own, and adds to its Vary", async () => {
    const own = { "cache-control": "public, max-age=60", vary: "Origin" };
    const fields = (response: Response) => ["cache-control", "vary"].map((name) => response.headers.get(name));
    const kept = ["public, max-age=60", "Origin, authorization, x-api-key"];
    const web = webGuard(verifier, {}, () => new Response("passed", { headers: own }));
    expect(fields(await web(new Request("http://localhost/", { headers })))).toEqual(kept);
    const hono = new Hono().get("/", honoGuard(verifier), (c) => c.text("passed", 200, own));
    expect(fields(await hono.request("/", { headers }))).toEqual(kept);
    const app = express();
    app.use((_req, res, next) => void (res.vary("Origin"), next()));
    app.get("/", expressGuard(verifier), (_req, res) => void res.set("Cache-Control", own["cache-control"]).end());
    const { url, close } = await listen(app);
    try {
      expect(fields(await fetch(url, { headers }))).toEqual(kept);
    } finally {
      await close();
    }
  });
});

describe("a response that a program keeps, or that it has from fetch", () => {
  const adding = { "cache-control": "private", vary: "Origin, authorization, x-api-key" };
  const fields = (response: Response) => ["cache-control", "vary"].map((name) => response.headers.get(name));
  const remaining = (response: Response) => /r=(\d+)/.exec(response.headers.get("ratelimit") ?? "")?.[1];
  /** A route that returns what it is given, behind a guard with a limit and without one. */
  const routes = (given: () => Response) => {
    const ratelimits = [{ name: "requests", limit: 5, duration: 60_000 }];
    const app = new Hono();
    app.get("/", honoGuard(verifier, { ratelimits }), given);
    app.get("/open", given);
    const web = webGuard(verifier, { ratelimits }, given);
    return {
      hono: () => app.request("/", { headers }),
      web: () => web(new Request("http://localhost/", { headers })),
      open: () => app.request("/open"),
    };
  };

  it.each(["hono", "web"] as const)("%s: one without a body never shows what another caller has left", async (name) => {
    const kept = new Response(null, { status: 204, headers: { vary: "Origin" } });
    const { [name]: call, open } = routes(() => kept);
    const answers = [await call(), await call(), await open()];
    expect(answers.map((one) => [one.status, remaining(one)])).toEqual([
      [204, "4"],
      [204, "3"],
      [204, undefined],
    ]);
    expect(fields(answers[1]!)).toEqual(Object.values(adding));
    expect(fields(kept)).toEqual([null, "Origin"]);
  });

  it.each(["hono", "web"] as const)("%s: one with a body shows each caller its own", async (name) => {
    const kept = new Response("kept", { headers: { vary: "Origin" } });
    const call = routes(() => kept)[name];
    const answers = [await call(), await call()];
    expect(answers.map(remaining)).toEqual(["4", "3"]);
    expect(answers.map(fields)).toEqual([Object.values(adding), Object.values(adding)]);
  });

  it.each(["hono", "web"] as const)("%s: one that cannot be changed is copied, with its own Vary", async (name) => {
    const { url, close } = await listen(express().get("/", (_req, res) => void res.vary("Origin").send("fetched")));
    try {
      const fetched = await fetch(url);
      const answer = await routes(() => fetched)[name]();
      expect([await answer.text(), remaining(answer), ...fields(answer)]).toEqual([
        "fetched",
        "4",
        ...Object.values(adding),
      ]);
    } finally {
      await close();
    }
  });

  it("web: a handler that returns no response rejects, and is no empty 200", async () => {
    for (const made of [undefined, null, { ok: true }, "text"])
      await expect(
        webGuard(verifier, {}, () => made as never)(new Request("http://localhost/", { headers })),
      ).rejects.toThrow(new TypeError("the guarded handler must return a Response, or a promise of one"));
  });

  it.each(["hono", "web"] as const)("%s: two guards of one request share a response", async (name) => {
    const made = new Response("made");
    const app = new Hono();
    app.use(honoGuard(verifier));
    app.get("/", honoGuard(verifier, { permissions: "documents.read" }), () => made);
    const inner = webGuard(verifier, { permissions: "documents.read" }, () => made);
    const web = webGuard(verifier, {}, inner);
    const request = new Request("http://localhost/", { headers });
    expect(await (name === "web" ? web(request) : app.request(request))).toBe(made);
  });
});

describe("guards of one request", () => {
  it("by another verifier, or with another key, take each for itself", async () => {
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "second" });
    const second = await keyring.createKey({ apiId, credits: { remaining: 100 } });
    const app = express();
    const passed: express.RequestHandler = (_req, res) => void res.end("passed");
    app.get("/verifiers", expressGuard(verifier), expressGuard(createVerifier(store)), passed);
    app.get("/keys", expressGuard(verifier), expressGuard(verifier, { keyFrom: ["x-second"] }), passed);
    const { url, close } = await listen(app);
    try {
      expect((await fetch(`${url}/verifiers`, { headers })).status).toBe(200);
      expect(await left()).toBe(98);
      expect((await fetch(`${url}/keys`, { headers: { ...headers, "x-second": second.key } })).status).toBe(200);
      expect((await verifier.verify({ key: second.key, credits: { cost: 0 } })).credits).toBe(99);
      expect(await left()).toBe(97);
    } finally {
      await close();
    }
  });
});

describe("hono", () => {
  it("functions get the context, and a Response that the handler made gets the headers too", async () => {
    const app = new Hono();
    const ratelimits = [{ name: "requests", limit: 5, duration: 60_000 }];
    app.get("/documents/:id", honoGuard(verifier, { ratelimits, keyFrom: (c) => c.req.header("token") }), (c) => {
      expectTypeOf(c.var.apiKey).toEqualTypeOf<VerifiedKey | undefined>();
      return Response.json(c.var.apiKey?.meta);
    });
    const response = await app.request("/documents/7", { headers: { token: key } });
    expect(await response.json()).toEqual({ plan: "pro" });
    expect(response.headers.get("ratelimit-policy")).toBe('"requests";q=5;w=60');
    expect((await app.request("/documents/7", { headers })).status).toBe(401);
  });

  it.each([101, 0])("a response of status %i, of which there is no copy, goes out as it is", async (status) => {
    const ratelimits = [{ name: "requests", limit: 5, duration: 60_000 }];
    const app = new Hono();
    const made = Object.defineProperty(new Response(null), "status", { value: status });
    app.get("/socket", honoGuard(verifier, { ratelimits }), () => made);
    expect(await app.request("/socket", { headers })).toBe(made);
  });

  it("the context that functions get is Hono's", async () => {
    const app = new Hono();
    const seen: unknown[] = [];
    const clientAddress = (c: Context) => (seen.push(c.req.path), "192.0.2.1");
    const permissions = (c: Context) => `documents.${c.req.param("action")}`;
    app.get("/annotated/:action", honoGuard(verifier, { clientAddress, permissions }), (c) => c.text(""));
    const guard = honoGuard(verifier, {
      clientAddress: (c) => (expectTypeOf(c).toEqualTypeOf<Context>(), clientAddress(c)),
      permissions: (c) => permissions(c),
    });
    app.get("/inferred/:action", guard, (c) => c.text(""));
    for (const path of ["/annotated/read", "/inferred/read"])
      expect((await app.request(path, { headers })).status).toBe(200);
    expect(seen).toEqual(["/annotated/read", "/inferred/read"]);
  });
});

describe("fastify", () => {
  it("a route whose config lost its requirement throws when it is built", async () => {
    const app = fastify();
    await app.register(fastifyGuard(verifier));
    const config = { apiKey: undefined as never };
    expect(() => app.get("/", { config }, () => "passed")).toThrow(/^config\.apiKey must be an object/);
  });

  it("guards routes of the instance and of those inside it, but for open ones", async () => {
    const app = fastify();
    await app.register(fastifyGuard(verifier, { tags: ["all"] }));
    app.get("/open", { config: { apiKey: false } }, (request) => ({ open: request.apiKey === undefined }));
    await app.register(async (inside) => {
      inside.get("/inside", { config: { apiKey: { permissions: "documents.read" } } }, (request) => {
        expectTypeOf(request.apiKey).toEqualTypeOf<VerifiedKey | undefined>();
        return request.apiKey?.meta;
      });
    });
    expect((await app.inject("/open")).json()).toEqual({ open: true });
    expect((await app.inject("/inside")).statusCode).toBe(401);
    expect((await app.inject("/nowhere")).statusCode).toBe(401);
    expect((await app.inject({ url: "/inside", headers })).json()).toEqual({ plan: "pro" });
    await app.close();
  });

  it("a mistake in a route's config throws when the route is built, or is a 500 if it was built too early", async () => {
    const log = vi.fn();
    const config = { apiKey: { permissions: "documents.read AND" } };
    const app = fastify();
    await app.register(fastifyGuard(verifier));
    expect(() => app.get("/", { config }, () => "passed")).toThrow(/^config\.apiKey\.permissions: /);
    await app.close();
    const early = fastify();
    void early.register(fastifyGuard(verifier, { onError: log }));
    early.get("/", { config }, () => "passed");
    early.get("/right", { config: { apiKey: { permissions: "billing.view" } } }, () => "passed");
    const response = await early.inject({ url: "/", headers });
    expect([response.statusCode, response.json()]).toEqual([500, expect.objectContaining({ code: "INTERNAL" })]);
    expect((await early.inject({ url: "/right", headers })).statusCode).toBe(403);
    expect(log).toHaveBeenCalledOnce();
    await early.close();
  });

  it("a plugin in another is known to it: each verifies what it asks for", async () => {
    const app = fastify();
    await app.register(fastifyGuard(verifier));
    await app.register(async (inside) => {
      await inside.register(fastifyGuard(verifier, { cost: 3 }));
      inside.get("/inside", () => "passed");
    });
    expect((await app.inject({ url: "/inside", headers })).body).toBe("passed");
    expect(await left()).toBe(97);
    await app.close();
  });
});

describe("web", () => {
  it("passes on what the host gives besides the request, and copies a response that can't be changed", async () => {
    const ratelimits = [{ name: "requests", limit: 5, duration: 60_000 }];
    const route = webGuard(verifier, { ratelimits }, (_request, apiKey, { id }: { id: string }) => {
      expectTypeOf(apiKey).toEqualTypeOf<VerifiedKey>();
      return id === "away" ? Response.redirect("http://localhost/", 302) : Response.json({ id, ...apiKey.meta });
    });
    const request = new Request("http://localhost/documents/7", { headers });
    expect(await (await route(request, { id: "7" })).json()).toEqual({ id: "7", plan: "pro" });
    // The same Request again is another call.
    const away = await route(request, { id: "away" });
    expect([away.status, away.headers.get("location"), away.headers.has("ratelimit")]).toEqual([
      302,
      "http://localhost/",
      true,
    ]);
    expect(await left()).toBe(98);
  });

  it("a handler that is none is a mistake when the route is built, before a key is charged", () => {
    for (const handler of [undefined, null, "handler", {}])
      expect(() => webGuard(verifier, {}, handler as never)).toThrow(new TypeError("handler must be a function"));
  });

  it("what the handler throws rises", async () => {
    const route = webGuard(verifier, {}, () => Promise.reject(new Error("handler")));
    await expect(route(new Request("http://localhost/", { headers }))).rejects.toThrow("handler");
  });

  it("with skipJwt the key may be missing, and the type says so", async () => {
    webGuard(verifier, { skipJwt: true }, (_request, apiKey) => {
      expectTypeOf(apiKey).toEqualTypeOf<VerifiedKey | undefined>();
      return new Response();
    });
  });
});

describe("nest", () => {
  const decorated = (name: string, read: (request: NestRequest) => unknown, ...decorators: MethodDecorator[]) => {
    class Documents {
      read(request: NestRequest) {
        return read(request);
      }
    }
    const method = Object.getOwnPropertyDescriptor(Documents.prototype, "read")!;
    for (const decorator of [Get(name), ...decorators]) decorator(Documents.prototype, "read", method);
    Req()(Documents.prototype, "read", 0);
    Controller()(Documents);
    return Documents;
  };
  const serve = async (metadata: object) => {
    class App {}
    Module(metadata)(App);
    const app = await NestFactory.create(App, { logger: false, abortOnError: false });
    await app.listen(0, "127.0.0.1");
    const url = await app.getUrl();
    return {
      get: (path: string, given = headers) => fetch(`${url}/${path}`, { headers: given }),
      close: () => app.close(),
    };
  };

  it("decorators of class and method are merged, and one opens a handler", async () => {
    const both = decorated("both", ({ apiKey }) => apiKey?.meta, RequireApiKey({ permissions: "documents.read" }));
    RequireApiKey({ cost: 5, permissions: "documents.7" })(both);
    const refused = decorated("refused", () => "passed", RequireApiKey({ permissions: "documents.read" }));
    RequireApiKey({ permissions: "billing.view" })(refused);
    const open = decorated("open", ({ apiKey }) => ({ open: apiKey === undefined }), NoApiKey());
    RequireApiKey({ permissions: "billing.view" })(open);
    const app = await serve({ imports: [ApiKeyModule.forRoot(verifier)], controllers: [both, refused, open] });
    expect(await (await app.get("both")).json()).toEqual({ plan: "pro" });
    expect((await app.get("refused")).status).toBe(403);
    expect(await (await app.get("open", {})).json()).toEqual({ open: true });
    expect(await left()).toBe(95);
    await app.close();
    expect(() => RequireApiKey({ permissions: "(" })).toThrow(/^requirement\.permissions: /);
  });

  it("a guard without the module answers with its status and headers, and Nest's body", async () => {
    const documents = decorated("route", () => "passed");
    UseGuards(createApiKeyGuard(verifier) as never)(documents);
    const app = await serve({ controllers: [documents] });
    const refused = await app.get("route", {});
    expect([refused.status, refused.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
    expect(await refused.json()).toEqual({
      statusCode: 401,
      message: "No API key was sent, or not with the scheme Bearer.",
    });
    expect(await (await app.get("route")).text()).toBe("passed");
    await app.close();
  });

  /** A handler of another kind than HTTP, as drivers make them. */
  const external = async (kind: string, shared: unknown, ...decorators: MethodDecorator[]) => {
    const resolver = decorated("external", (request) => request.apiKey?.meta ?? "open", ...decorators);
    class App {}
    Module({ imports: [ApiKeyModule.forRoot(verifier)], controllers: [resolver] })(App);
    const app = await NestFactory.create(App, { logger: false, abortOnError: false });
    await app.init();
    const instance = app.get<{ read(...args: unknown[]): unknown }>(resolver);
    const call = function (...args: unknown[]) {
      return (args[2] as { req?: NestRequest } | undefined)?.req?.apiKey?.meta ?? "open";
    };
    // The handler's function carries its decorators.
    const read = Object.assign(call, {});
    Object.defineProperties(read, Object.getOwnPropertyDescriptors(instance.read));
    instance.read = read;
    const creator = app.get(ExternalContextCreator, { strict: false });
    const guarded = creator.create(instance, read, "read", "", undefined, undefined, undefined, undefined, kind);
    try {
      return (await guarded(undefined, {}, shared, {})) as unknown;
    } finally {
      await app.close();
    }
  };

  it("guards GraphQL by the request in its context, and sets headers where it has the response", async () => {
    const set: Record<string, string> = {};
    const res = { getHeader: () => undefined, header: (name: string, value: string) => void (set[name] = value) };
    expect(await external("graphql", { req: { headers }, res })).toEqual({ plan: "pro" });
    expect(set["Cache-Control"]).toBe("private");
    const refused = external("graphql", { req: { headers: {} } });
    await expect(refused).rejects.toMatchObject({ name: "ApiKeyRefused", extensions: { code: "KEY_MISSING" } });
    await expect(external("graphql", {})).rejects.toThrow("the context of GraphQL must have its request");
  });

  it("handlers of other kinds pass if they are opened, and else say what to do", async () => {
    expect(await external("ws", undefined, NoApiKey())).toBe("open");
    await expect(external("rpc", undefined)).rejects.toThrow("give handlers of kind rpc @NoApiKey()");
  });
});

describe("trpc", () => {
  it("each call of a batch is charged, and ctx.apiKey is typed", async () => {
    const t = initTRPC.context<{ req: Request }>().create();
    const plan = t.procedure.use(trpcGuard(verifier)).query(({ ctx }) => {
      expectTypeOf(ctx.apiKey).toEqualTypeOf<VerifiedKey>();
      return ctx.apiKey.meta;
    });
    const closed = t.procedure.use(trpcGuard(verifier, { permissions: ({ path }) => path })).query(() => "passed");
    const router = t.router({ plan, closed });
    const req = new Request("http://localhost/plan,plan,closed?batch=1&input={}", { headers });
    const response = await fetchRequestHandler({ endpoint: "", req, router, createContext: () => ({ req }) });
    const [first, second, third] = (await response.json()) as Record<string, { data: unknown }>[];
    expect([first!["result"]!.data, second!["result"]!.data]).toEqual([{ plan: "pro" }, { plan: "pro" }]);
    expect(third!["error"]!.data).toMatchObject({ code: "FORBIDDEN", httpStatus: 403 });
    expect(await left()).toBe(98);
  });

  it("an error's message begins with the code of the refusal", async () => {
    const t = initTRPC.context<{ req: Request }>().create();
    const router = t.router({ plan: t.procedure.use(trpcGuard(verifier)).query(() => "passed") });
    const req = new Request("http://localhost/plan");
    const response = await fetchRequestHandler({ endpoint: "", req, router, createContext: () => ({ req }) });
    const { error } = (await response.json()) as { error: { message: string } };
    expect(error.message).toBe("KEY_MISSING: No API key was sent, or not with the scheme Bearer.");
  });

  it("with skipJwt the key may be missing, and the type says so", async () => {
    const t = initTRPC.context<{ req: Request }>().create();
    t.procedure.use(trpcGuard(verifier, { skipJwt: true })).query(({ ctx }) => {
      expectTypeOf(ctx.apiKey).toEqualTypeOf<VerifiedKey | undefined>();
    });
  });

  it("reads the headers of a Node request, and sets those of its response", async () => {
    const t = initTRPC
      .context<{ req: { headers: Record<string, string | string[] | undefined> }; res: object }>()
      .create();
    const ratelimits = [{ name: "requests", limit: 5, duration: 60_000 }];
    const router = t.router({ route: t.procedure.use(trpcGuard(verifier, { ratelimits })).query(() => "passed") });
    const { url, close } = await listen(createHTTPHandler({ router, createContext: ({ req, res }) => ({ req, res }) }));
    try {
      const response = await fetch(`${url}/route`, { headers });
      expect([response.status, response.headers.get("ratelimit-policy")]).toEqual([200, '"requests";q=5;w=60']);
      expect((await fetch(`${url}/route`)).headers.get("www-authenticate")).toBe("Bearer");
    } finally {
      await close();
    }
  });

  it("a call whose response has no headers, or has sent them, passes or is refused as any other", async () => {
    const t = initTRPC.context<{ req: { headers: object }; res: object }>().create();
    let sent = (): void => undefined;
    const waiting = t.procedure.use(async ({ next }) => (await new Promise<void>((go) => (sent = go)), next()));
    const { apiId } = await createKeyring(store).createApi({ name: "other" });
    const router = t.router({
      first: t.procedure.query(() => "first"),
      passes: waiting.use(trpcGuard(verifier)).query(() => "passed"),
      refused: t.procedure.use(trpcGuard(verifier, { apiId })).query(() => "passed"),
    });
    const { url, close } = await listen(createHTTPHandler({ router, createContext: ({ req, res }) => ({ req, res }) }));
    try {
      const streaming = { ...headers, "trpc-accept": "application/jsonl" };
      const response = await fetch(`${url}/first,passes?batch=1&input={}`, { headers: streaming });
      sent();
      expect(await response.text()).toContain('"passed"');
    } finally {
      await close();
    }
    // As the adapter of WebSockets has it.
    const socket = t.createCallerFactory(router)({ req: { headers }, res: { send: () => undefined } });
    const passing = socket.passes();
    await vi.waitFor(() => sent());
    await nextTurn();
    sent();
    expect(await passing).toBe("passed");
    await expect(socket.refused()).rejects.toMatchObject({ code: "UNAUTHORIZED" });
    expect(await left()).toBe(98);
  });

  it("a context without the request is the program's mistake, of which the client learns nothing", async () => {
    const onError = vi.fn();
    const t = initTRPC.create();
    const router = t.router({ route: t.procedure.use(trpcGuard(verifier, { onError })).query(() => "passed") });
    const refused = { code: "INTERNAL_SERVER_ERROR", message: "INTERNAL: The request could not be handled." };
    await expect(t.createCallerFactory(router)({}).route()).rejects.toMatchObject(refused);
    expect(onError).toHaveBeenCalledOnce();
  });
});

describe("options", () => {
  const call = async (options: object, given = headers) =>
    webGuard(verifier, options, () => new Response("passed"))(new Request("http://localhost/", { headers: given }));

  it("a header is read in linear time, and Bearer is a word", async () => {
    // A quadratic pattern takes a second for each of them.
    for (const filler of [" ", "\t", "eyJ.", "a ", ","]) {
      const text = `Bearer x${filler.repeat(100_000 / filler.length)}y`;
      for (const name of ["authorization", "x-api-key"]) {
        const begun = performance.now();
        expect((await call({ skipJwt: true }, { [name]: text })).status).toBe(401);
        expect(performance.now() - begun).toBeLessThan(1_000);
      }
    }
    expect((await call({}, { authorization: `Bearer${key}` })).headers.get("www-authenticate")).toBe("Bearer");
    expect((await call({}, { authorization: `Bearer  ${key}\t` })).status).toBe(200);
    for (const blanks of ["\t", "\t ", " \t"])
      expect((await call({}, { authorization: `Bearer${blanks}${key}`, "x-api-key": key })).status).toBe(401);
  });

  it("of headers of one's own the first that is there counts, and the query string never does", async () => {
    const names = { keyFrom: ["x-first", "Authorization", "x-last"] };
    for (const name of ["X-First", "x-last"]) expect((await call(names, { [name]: key })).status).toBe(200);
    expect((await call(names, { "x-first": "nobody", ...headers, "x-last": key })).status).toBe(401);
    expect((await call(names, { "x-api-key": key })).status).toBe(401);
    const route = webGuard(verifier, {}, () => new Response("passed"));
    for (const name of ["api_key", "apiKey", "key", "access_token", "x-api-key", "authorization"])
      expect((await route(new Request(`http://localhost/?${name}=${key}`))).status).toBe(401);
  });

  it("a renderer of one's own; one that throws is a 500", async () => {
    const render = ({ code, status }: { code: string; status: number }) => ({
      type: "text/x",
      body: `${status} ${code}`,
    });
    const response = await call({ render }, {});
    expect([response.status, response.headers.get("content-type"), await response.text()]).toEqual([
      401,
      "text/x",
      "401 KEY_MISSING",
    ]);
    const onError = vi.fn(() => {
      throw new Error("log");
    });
    const render2 = () => {
      throw new Error("render");
    };
    const failed = await call({ render: render2, onError }, {});
    expect([failed.status, failed.headers.get("content-type")]).toEqual([500, "application/problem+json"]);
    expect(onError).toHaveBeenCalledOnce();
  });

  it("reasons go to console.error by default, without the key", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => undefined);
    try {
      expect((await call({ ratelimits: [{ name: "unknown" }] })).status).toBe(500);
      expect(log).toHaveBeenCalledOnce();
      expect(JSON.stringify(log.mock.calls)).not.toContain(key);
    } finally {
      log.mockRestore();
    }
  });

  it("of an outage there is one line for each request there", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => undefined);
    try {
      const verify = () => Promise.reject(new KeystileError("STORE_UNAVAILABLE", "the server is away"));
      const route = webGuard({ ...verifier, verify }, {}, () => new Response());
      expect((await route(new Request("http://localhost/", { headers }))).status).toBe(503);
      expect(log.mock.calls).toEqual([["STORE_UNAVAILABLE: the server is away"]]);
    } finally {
      log.mockRestore();
    }
  });

  it("a verifier whose result is not VALID in every respect never passes", async () => {
    const results = [
      { valid: true, code: "LATER" },
      { valid: true, code: "VALID" },
      { valid: false, code: "VALID" },
      {},
      undefined,
    ];
    for (const result of results) {
      const foreign = { verify: async () => result } as never;
      const route = webGuard(foreign, { onError: () => undefined }, () => new Response("passed"));
      expect([403, 500]).toContain((await route(new Request("http://localhost/", { headers }))).status);
    }
    expect(() => webGuard({} as never, {}, () => new Response())).toThrow("verifier lacks the method verify()");
  });

  it("an inherited header or option counts for nothing", async () => {
    const app = express();
    app.get("/", expressGuard(verifier), (_req, res) => void res.end());
    const { url, close } = await listen(app);
    Object.assign(Object.prototype, { "x-api-key": key, permissions: "billing.view" });
    try {
      expect((await call({})).status).toBe(200);
      expect(await (await fetch(url)).json()).toMatchObject({ code: "KEY_MISSING" });
    } finally {
      for (const name of ["x-api-key", "permissions"]) delete (Object.prototype as Record<string, unknown>)[name];
      await close();
    }
  });
});

describe("RateLimit fields", () => {
  const limit = (name: string, remaining: number, exceeded = false) => ({
    name,
    remaining,
    exceeded,
    id: "rl_12345678",
    limit: 100,
    duration: 1_500,
    reset: 1_001,
    autoApply: true,
  });

  it("names are quoted, and percent-encoded where a structured field has no character for them", () => {
    const fields = withRatelimitFields(
      {},
      [limit('a"\\b', 1), limit("Größe 50%", 2), limit('a"\\b', 3), limit("\n\u{1f600}\ud800", 4)],
      false,
      Date.now,
    );
    expect(fields).toEqual({
      "RateLimit-Policy":
        '"a\\"\\\\b";q=100;w=2, "Gr%C3%B6%C3%9Fe 50%25";q=100;w=2, "%0A%F0%9F%98%80%EF%BF%BD";q=100;w=2',
      RateLimit: '"a\\"\\\\b";r=3;t=2, "Gr%C3%B6%C3%9Fe 50%25";r=2;t=2, "%0A%F0%9F%98%80%EF%BF%BD";r=4;t=2',
    });
    expect(withRatelimitFields({}, [], true, Date.now)).toEqual({});
  });

  it("the old fields tell the tightest limit, and when it is full as Unix time", () => {
    const now = () => 1_700_000_000_000;
    expect(withRatelimitFields({}, [limit("a", 5), limit("b", 3)], true, now)).toMatchObject({
      "X-RateLimit-Limit": "100",
      "X-RateLimit-Remaining": "3",
      "X-RateLimit-Reset": "1700000002",
    });
    expect(withRatelimitFields({}, [limit("a", 5, true), limit("b", 3)], true, now)).toMatchObject({
      "X-RateLimit-Remaining": "5",
    });
  });
});

describe("meta through a schema", () => {
  const Plan = z.object({ plan: z.string(), seats: z.number().default(1) });
  type Meta = { plan: string; seats: number } | undefined;
  const typed = (store: Store) => createVerifier(store, { meta: Plan });

  it("is typed and read in handlers of web and of tRPC", async () => {
    const guarded = webGuard(typed(store), {}, (_request, apiKey) => {
      expectTypeOf(apiKey.meta).toEqualTypeOf<Meta>();
      return Response.json(apiKey.meta);
    });
    const response = await guarded(new Request("http://localhost/", { headers }));
    expect(await response.json()).toEqual({ plan: "pro", seats: 1 });

    const t = initTRPC.context<{ req: Request }>().create();
    const procedure = t.procedure.use(trpcGuard(typed(store))).query(({ ctx }) => {
      expectTypeOf(ctx.apiKey.meta).toEqualTypeOf<Meta>();
      return ctx.apiKey.meta;
    });
    const caller = t.router({ procedure }).createCaller({ req: new Request("http://localhost/", { headers }) });
    expect(await caller.procedure()).toEqual({ plan: "pro", seats: 1 });
  });

  it("that stored metadata does not fit is a 503 whose reason goes to the log", async () => {
    const errors: unknown[] = [];
    const strict = createVerifier(store, { meta: z.object({ plan: z.literal("free") }) });
    const onError = (error: unknown) => errors.push(error);
    const guarded = webGuard(strict, { onError }, () => new Response("passed"));
    const response = await guarded(new Request("http://localhost/", { headers }));
    expect([response.status, await response.text()]).toEqual([503, expect.not.stringContaining("plan")]);
    expect(errors).toMatchObject([{ code: "META_INVALID" }]);
  });
});
