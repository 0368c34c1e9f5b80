/** Every framework that has a middleware, served for real: the same routes with the same handler. */
import "reflect-metadata";
import type { AddressInfo } from "node:net";
import { createServer, type RequestListener } from "node:http";
import { Controller, Get, type INestApplication, Module, Req } from "@nestjs/common";
import { type AbstractHttpAdapter, NestFactory } from "@nestjs/core";
import { ExpressAdapter } from "@nestjs/platform-express";
import { FastifyAdapter } from "@nestjs/platform-fastify";
import { initTRPC } from "@trpc/server";
import { fetchRequestHandler } from "@trpc/server/adapters/fetch";
import express from "express";
// @ts-expect-error Express 4 under another name has no types
import express4 from "express4";
import fastify from "fastify";
import { Hono } from "hono";
import type { Verifier } from "../../src/index.js";
import { apiKey as expressGuard } from "../../src/middleware/express.js";
import { apiKey as fastifyGuard } from "../../src/middleware/fastify.js";
import { apiKey as honoGuard } from "../../src/middleware/hono.js";
import type { ApiKeyOptions, VerifiedKey } from "../../src/middleware/guard.js";
import { ApiKeyModule, type NestRequest, RequireApiKey } from "../../src/middleware/nest.js";
import { REQUIREMENT_OPTIONS } from "../../src/middleware/requirement.js";
import { apiKey as trpcGuard } from "../../src/middleware/trpc.js";
import { apiKey as webGuard } from "../../src/middleware/web.js";

/** Options that fit any framework: their functions don't look at the request. */
export type AnyOptions = ApiKeyOptions<unknown>;

/** What handlers do before they return, in tests that say so. */
export const handling: { act: ((apiKey: VerifiedKey) => unknown) | undefined } = { act: undefined };

/** What a handler returns. */
async function told(apiKey: VerifiedKey | undefined) {
  if (handling.act !== undefined && apiKey !== undefined) await handling.act(apiKey);
  return { keyId: apiKey?.keyId ?? null, ...(apiKey?.can("documents.write OR admin") === true && { mayWrite: true }) };
}

/** An application that runs. Its handler returns `{ keyId }`, and for a key that may write `mayWrite: true`. */
export interface App {
  call(headers?: Record<string, string>): Promise<Response>;
  close(): Promise<void>;
}

export interface Bed {
  readonly name: string;
  /** Whether an inner guard's requirement is known before the outer one takes anything. */
  readonly merges: boolean;
  /** Whether refusals have keystile's body; tRPC has one of its own. */
  readonly hasBody: boolean;
  /** One route behind one guard, or behind two, in the order given. */
  start(verifier: Verifier, outer: AnyOptions, inner?: AnyOptions): Promise<App>;
}

/** Listens on a port of the system's choice. */
export async function listen(listener: RequestListener): Promise<{ url: string; close(): Promise<void> }> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const close = () => new Promise<void>((resolve) => (server.closeAllConnections(), server.close(() => resolve())));
  return { url: `http://127.0.0.1:${port}`, close };
}

const appAt = (url: string, close: () => Promise<void>): App => ({
  call: (headers = {}) => fetch(`${url}/route`, { headers }),
  close,
});

const inMemory = (call: (request: Request) => Response | Promise<Response>): App => ({
  call: async (headers = {}) => call(new Request("http://localhost/route", { headers })),
  close: async () => undefined,
});

const withExpress = (name: string, make: typeof express): Bed => ({
  name,
  merges: false,
  hasBody: true,
  async start(verifier, outer, inner) {
    const app = make();
    if (inner !== undefined) app.use(expressGuard(verifier, outer));
    app.get("/route", expressGuard(verifier, inner ?? outer), (req, res, next) => {
      told(req.apiKey).then((body) => res.json(body), next);
    });
    const { url, close } = await listen(app);
    return appAt(url, close);
  },
});

/** What a route adds, where the rest are options of the whole application. */
function split(options: AnyOptions) {
  const entries = Object.entries(options);
  const isRequirement = ([name]: [string, unknown]) => Object.hasOwn(REQUIREMENT_OPTIONS, name);
  return Object.fromEntries(entries.filter(isRequirement)) as AnyOptions;
}

export const BEDS: readonly Bed[] = [
  withExpress("express 5", express),
  withExpress("express 4", express4 as typeof express),
  {
    name: "hono",
    merges: false,
    hasBody: true,
    async start(verifier, outer, inner) {
      const app = new Hono();
      if (inner !== undefined) app.use(honoGuard(verifier, outer));
      app.get("/route", honoGuard(verifier, inner ?? outer), async (c) => c.json(await told(c.var.apiKey)));
      return inMemory((request) => app.fetch(request));
    },
  },
  {
    name: "fastify",
    merges: true,
    hasBody: true,
    async start(verifier, outer, inner) {
      const app = fastify();
      await app.register(fastifyGuard(verifier, outer));
      const config = inner === undefined ? {} : { apiKey: split(inner) };
      app.get("/route", { config }, (request) => told(request.apiKey));
      const url = await app.listen({ port: 0, host: "127.0.0.1" });
      return appAt(url, () => app.close());
    },
  },
  {
    name: "web",
    merges: false,
    hasBody: true,
    async start(verifier, outer, inner) {
      const route = webGuard(verifier, inner ?? outer, async (_request, key: VerifiedKey | undefined) =>
        Response.json(await told(key)),
      );
      return inMemory(inner === undefined ? route : webGuard(verifier, outer, (request) => route(request)));
    },
  },
  nestOn("nest on Express", () => new ExpressAdapter()),
  nestOn("nest on Fastify", () => new FastifyAdapter()),
  {
    name: "trpc",
    merges: false,
    hasBody: false,
    async start(verifier, outer, inner) {
      const t = initTRPC.context<{ req: Request; resHeaders: Headers }>().create();
      const guarded = t.procedure.use(trpcGuard(verifier, outer));
      const procedure = inner === undefined ? guarded : guarded.use(trpcGuard(verifier, inner));
      const router = t.router({ route: procedure.query(({ ctx }) => told(ctx.apiKey)) });
      return inMemory(async (req) => {
        const createContext = ({ resHeaders }: { resHeaders: Headers }) => ({ req, resHeaders });
        const response = await fetchRequestHandler({ endpoint: "", req, router, createContext });
        const { result } = (await response.json()) as { result?: { data: unknown } };
        return new Response(JSON.stringify(result?.data ?? {}), response);
      });
    },
  },
];

/** Nest on one of its platforms. */
function nestOn(name: string, adapter: () => AbstractHttpAdapter): Bed {
  return {
    name,
    merges: true,
    hasBody: true,
    async start(verifier, outer, inner) {
      const app = await createNest(adapter(), verifier, outer, inner);
      await app.listen(0, "127.0.0.1");
      const url = await app.getUrl();
      return appAt(url, () => app.close());
    },
  };
}

/** Decorators by hand, since the compiler of the tests knows another kind of them. */
function createNest(
  adapter: AbstractHttpAdapter,
  verifier: Verifier,
  outer: AnyOptions,
  inner?: AnyOptions,
): Promise<INestApplication> {
  class Documents {
    read(request: NestRequest) {
      return told(request.apiKey);
    }
  }
  const method = Object.getOwnPropertyDescriptor(Documents.prototype, "read")!;
  Get("route")(Documents.prototype, "read", method);
  Req()(Documents.prototype, "read", 0);
  if (inner !== undefined) RequireApiKey(split(inner))(Documents.prototype, "read", method);
  Controller()(Documents);
  class App {}
  Module({ imports: [ApiKeyModule.forRoot(verifier, outer)], controllers: [Documents] })(App);
  return NestFactory.create(App, adapter, { logger: false, abortOnError: false });
}
