/** The portal below a path of frameworks, and behind a proxy that takes the path away. */
import { createServer, type RequestListener } from "node:http";
import { getRequestListener } from "@hono/node-server";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { afterEach, describe, expect, it } from "vitest";
import { createPortal, createPortalListener } from "../../src/portal/index.js";
import { hiddenOf } from "../console/client.js";
import { listen } from "../console/support.js";
import { openShop, optionsOf, type Shop } from "./support.js";

const BASE = "/account/keys";
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

function listenerOf(shop: Shop) {
  const listener = createPortalListener(shop.keyring, optionsOf(shop, { basePath: BASE }));
  closing.push(() => listener.close());
  return listener;
}

function serveHono(shop: Shop, toRequest: (request: Request) => Request): Promise<string> {
  const portal = createPortal(shop.keyring, optionsOf(shop, { basePath: BASE }));
  closing.push(() => portal.close());
  const app = new Hono().all(`${BASE}/*`, (c) => portal(toRequest(c.req.raw)));
  const listener = getRequestListener(app.fetch);
  return serve((request, response) => void listener(request, response));
}

const MOUNTS: readonly (readonly [name: string, start: (shop: Shop) => Promise<string>])[] = [
  ["node:http", (shop) => serve(listenerOf(shop))],
  ["Express, before it reads bodies", (shop) => serve(express().use(BASE, listenerOf(shop)).use(express.urlencoded()))],
  ["Hono", (shop) => serveHono(shop, (request) => request)],
  [
    "Hono, which takes the path away",
    (shop) => serveHono(shop, (request) => new Request(request.url.replace(BASE, ""), request)),
  ],
  [
    "Fastify",
    async (shop) => {
      const app = fastify();
      const listener = listenerOf(shop);
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
];

describe("portal: mounted below a path", () => {
  it.each(MOUNTS)("%s: shows pages and their files, and makes a key", async (_name, start) => {
    const url = await start(await openShop());
    const call = async (path: string, fields?: Record<string, string>) => {
      const form = fields && { method: "POST", body: new URLSearchParams(fields) };
      const response = await fetch(url + path, {
        redirect: "manual",
        headers: { cookie: "user=ann", origin: url },
        ...form,
      });
      return { status: response.status, text: await response.text() };
    };
    const first = await call(`${BASE}/`);
    expect(first.text).toContain("Laptop of ann");
    const addresses = [...first.text.matchAll(/(?:href|src|action)="([^"#]+)"/g)].map(([, address = ""]) => address);
    expect(addresses.length).toBeGreaterThan(7);
    for (const address of new Set(addresses)) {
      expect(address.startsWith(`${BASE}/`)).toBe(true);
      expect([address, (await call(address)).status]).toEqual([address, 200]);
    }
    const hidden = hiddenOf((await call(`${BASE}/new`)).text, `${BASE}/new`);
    const made = await call(`${BASE}/new`, { ...hidden, name: "CI", "may:reports.read": "on" });
    expect([made.status, made.text.includes('id="ks-secret"')]).toEqual([200, true]);
    expect((await call(`${BASE}/`)).text).toContain("CI");
  });

  it("a body that was read before is a 500 that onError is told of", async () => {
    const shop = await openShop();
    const told: unknown[] = [];
    const listener = createPortalListener(
      shop.keyring,
      optionsOf(shop, { basePath: BASE, onError: (error) => void told.push(error) }),
    );
    closing.push(() => listener.close());
    const url = await serve(express().use(express.urlencoded()).use(BASE, listener));
    const headers = { cookie: "user=ann", origin: url };
    const hidden = hiddenOf(await (await fetch(`${url}${BASE}/new`, { headers })).text(), `${BASE}/new`);
    const response = await fetch(`${url}${BASE}/new`, { method: "POST", headers, body: new URLSearchParams(hidden) });
    expect([response.status, String(told[0])]).toEqual([500, expect.stringContaining("body")]);
  });
});
