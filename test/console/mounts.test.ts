/** The console below a path of frameworks, behind a proxy that takes the path away, and as a command. */
import { createServer, request as httpRequest, type RequestListener } from "node:http";
import { getRequestListener } from "@hono/node-server";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { afterEach, describe, expect, it } from "vitest";
import { createConsole, createConsoleListener } from "../../src/console/index.js";
import { createKeyring, type Store } from "../../src/index.js";
import { hiddenOf } from "./client.js";
import { listen, NOW, seed } from "./support.js";

const BASE = "/admin/keys";
const options = { basePath: BASE, clock: () => NOW };
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  const url = await listen(server);
  closing.push(() => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve))));
  return url;
}

function serveFetch(fetch: (request: Request) => Response | Promise<Response>): Promise<string> {
  const listener = getRequestListener(fetch);
  return serve((request, response) => void listener(request, response));
}

function listenerOf(store: Store, more: object = {}) {
  const listener = createConsoleListener(store, { ...options, ...more });
  closing.push(() => listener.close());
  return listener;
}

function handlerOf(store: Store) {
  const handler = createConsole(store, options);
  closing.push(() => handler.close());
  return handler;
}

/** Each serves the console below {@link BASE}, as the browser sees it. */
const MOUNTS: readonly (readonly [name: string, start: (store: Store) => Promise<string>])[] = [
  ["node:http", (store) => serve(listenerOf(store))],
  ["Express, which takes the path away", (store) => serve(express().use(BASE, listenerOf(store)))],
  [
    "Express, which leaves the path",
    (store) => {
      const listener = listenerOf(store);
      return serve(
        express().use((request, response, next) =>
          request.path.startsWith(BASE) ? listener(request, response) : next(),
        ),
      );
    },
  ],
  [
    "Hono",
    (store) => {
      const handler = handlerOf(store);
      return serveFetch(new Hono().all(`${BASE}/*`, (c) => handler(c.req.raw)).fetch);
    },
  ],
  [
    "Hono, which takes the path away",
    (store) => {
      const handler = handlerOf(store);
      const stripped = (request: Request) => new Request(request.url.replace(BASE, ""), request);
      return serveFetch(new Hono().all(`${BASE}/*`, (c) => handler(stripped(c.req.raw))).fetch);
    },
  ],
  [
    "Fastify",
    async (store) => {
      const app = fastify();
      const listener = listenerOf(store);
      app.removeAllContentTypeParsers();
      app.addContentTypeParser("*", (_request, _payload, done) => done(null));
      app.all(`${BASE}/*`, (request, reply) => {
        reply.hijack();
        listener(request.raw, reply.raw);
      });
      closing.push(() => app.close());
      return app.listen({ port: 0, host: "127.0.0.1" });
    },
  ],
  [
    "a proxy that takes the path away",
    async (store) => {
      const behind = new URL(await serve(listenerOf(store)));
      return serve((request, response) => {
        const path = (request.url ?? "").slice(BASE.length) || "/";
        const { method, headers } = request;
        const onward = httpRequest({ host: behind.hostname, port: behind.port, path, method, headers }, (answer) => {
          response.writeHead(answer.statusCode ?? 500, answer.headers);
          answer.pipe(response);
        });
        onward.on("error", () => response.destroy());
        request.pipe(onward);
      });
    },
  ],
];

describe("console: mounted below a path", () => {
  it.each(MOUNTS)("%s: signs in, shows pages and their files, and changes a key", async (_name, start) => {
    const { store, rootKey, keys } = await seed();
    const url = await start(store);
    let cookie = "";
    const call = async (path: string, fields?: Record<string, string>) => {
      const form = fields && { method: "POST", body: new URLSearchParams(fields) };
      const response = await fetch(url + path, { redirect: "manual", headers: { cookie, origin: url }, ...form });
      const set = response.headers.get("set-cookie");
      if (set !== null) {
        expect(set).toContain(`Path=${BASE};`);
        cookie = set.split(";")[0] ?? "";
      }
      return { status: response.status, location: response.headers.get("location") ?? "", text: await response.text() };
    };
    const first = await call(`${BASE}/`);
    expect([first.status, first.location]).toEqual([303, `${BASE}/sign-in`]);
    expect((await call(`${BASE}/sign-in`, { key: rootKey, to: "/keys" })).location).toBe(`${BASE}/keys`);
    const list = await call(`${BASE}/keys`);
    expect(list.text).toContain("Mobile app");
    const addresses = [...list.text.matchAll(/(?:href|src|action)="([^"#]*)"/g)].map(([, address = ""]) =>
      address.replaceAll("&amp;", "&"),
    );
    expect(addresses.length).toBeGreaterThan(20);
    for (const address of new Set(addresses)) {
      expect(address.startsWith(`${BASE}/`)).toBe(true);
      const { status } = await call(address);
      expect([address, status]).toEqual([address, address.endsWith("/sign-out") ? 404 : 200]);
    }
    const path = `${BASE}/keys/${keys["Trial"]}`;
    const { text } = await call(`${path}/disable`);
    expect((await call(`${path}/disable`, hiddenOf(text, `${path}/disable`))).location).toBe(`${path}?notice=disabled`);
    expect((await createKeyring(store).getKey({ keyId: keys["Trial"] ?? "" })).enabled).toBe(false);
  });

  it("a listener answers to names of the machine alone, unless others are given", async () => {
    const { store } = await seed();
    const [own, given] = [
      await serve(listenerOf(store)),
      await serve(listenerOf(store, { hosts: ["keys.example.com"] })),
    ];
    const status = (url: string, host: string) =>
      new Promise<number>((resolve, reject) => {
        const { hostname, port } = new URL(url);
        const sent = httpRequest({ hostname, port, path: `${BASE}/sign-in`, headers: { host } }, (answer) => {
          answer.resume();
          resolve(answer.statusCode ?? 0);
        });
        sent.on("error", reject);
        sent.end();
      });
    for (const host of ["localhost:5398", "127.0.0.1", "[::1]:1"]) expect(await status(own, host)).toBe(200);
    for (const host of ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example"])
      expect(await status(own, host)).toBe(400);
    expect([await status(given, "keys.example.com:443"), await status(given, "localhost")]).toEqual([200, 400]);
  });
});
