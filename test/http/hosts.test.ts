/** The handler inside other hosts, and what programs may get wrong in setting it up. */
import { createServer as listenHttp } from "node:http";
import type { AddressInfo } from "node:net";
import { inspect } from "node:util";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { describe, expect, it, vi } from "vitest";
import {
  createAuthenticator,
  createHandler,
  createNodeListener,
  createServer,
  type HandlerOptions,
  type ServerOptions,
} from "../../src/http.js";
import { createKeyring, createRatelimits, createVerifier, memoryStore } from "../../src/index.js";
import type { Parsed } from "./raw.js";
import { EVERYTHING, JSON_TYPE } from "./support.js";

async function made(options: HandlerOptions = {}) {
  const store = memoryStore();
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const { key } = await keyring.createKey({ apiId, ipAllowlist: ["192.0.2.7"] });
  const headers = { authorization: `Bearer ${(await keyring.createRootKey({ permissions: EVERYTHING })).key}`, ...JSON_TYPE };
  const request = (url: string) => new Request(url, { method: "POST", headers, body: JSON.stringify({ key }) });
  return { handler: createHandler(store, options), request, store };
}

describe("hosts", () => {
  it("hono: for all paths that the program has no route of its own for", async () => {
    const { handler, request } = await made({ clientAddress: () => "192.0.2.7" });
    const app = new Hono().get("/", (c) => c.text("home")).all("*", (c) => handler(c.req.raw));
    const response = await app.request(request("http://a.test/v2/keys.verifyKey"));
    expect([response.status, ((await response.json()) as Parsed).data.code]).toEqual([200, "VALID"]);
    expect(await (await app.request("http://a.test/")).text()).toBe("home");
    await handler.close();
  });

  it("@hono/node-server: on a socket of Node's, with the client's address out of what the host passes", async () => {
    const { handler, request } = await made({
      clientAddress: (_request, context) => (context as { address?: string } | undefined)?.address,
    });
    let address = "192.0.2.7";
    const server = serve({ fetch: (incoming) => handler(incoming, { address }), port: 0, hostname: "127.0.0.1" });
    await new Promise<void>((resolve) => server.once("listening", resolve));
    const { port } = server.address() as { port: number };
    const codeOf = async () => ((await (await fetch(request(`http://127.0.0.1:${port}/v2/keys.verifyKey`))).json()) as Parsed).data.code;
    expect(await codeOf()).toBe("VALID");
    address = "192.0.2.8";
    expect(await codeOf()).toBe("FORBIDDEN");
    await new Promise((resolve) => server.close(resolve));
    await handler.close();
  });

  it("a body that breaks off is a 400, and no fault of the server's", async () => {
    const faults: unknown[] = [];
    const { handler, request } = await made({ onError: (error) => faults.push(error) });
    const { url, headers } = request("http://a.test/v2/keys.verifyKey");
    const body = new ReadableStream({ pull: (controller) => controller.error(new Error("the client went away")) });
    const response = await handler(new Request(url, { method: "POST", headers, body, duplex: "half" }));
    expect([response.status, ((await response.json()) as Parsed).error.errors[0].location, faults]).toEqual([400, "body", []]);
    await handler.close();
  });

  it("node:http: a listener for a server that the program has, behind a proxy of its own", async () => {
    const { request, store } = await made();
    const listener = createNodeListener(store, { trustedProxies: ["127.0.0.1"] });
    const server = listenHttp(listener);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const asked = request(`${url}/v2/keys.verifyKey`);
    asked.headers.set("x-forwarded-for", "192.0.2.7");
    expect(((await (await fetch(asked)).json()) as Parsed).data.code).toBe("VALID");
    expect(((await (await fetch(request(`${url}/v2/keys.verifyKey`))).json()) as Parsed).data.code).toBe("FORBIDDEN");
    await new Promise((resolve) => server.close(resolve));
    await listener.close();
    expect(() => createNodeListener(store, { headersTimeout: 5 } as object)).toThrow(/headersTimeout is not an option/);
  });

  it.each([
    [
      "throws",
      () => {
        throw new Error("no");
      },
    ],
    ["rejects", () => Promise.reject(new Error("no")) as never],
    ["answers late", () => Promise.resolve("192.0.2.7") as never],
  ])("an address that cannot be told is in no allow-list: clientAddress %s", async (_, clientAddress: () => string) => {
    const { handler, request } = await made({ clientAddress });
    expect(((await (await handler(request("http://a.test/v2/keys.verifyKey"))).json()) as Parsed).data.code).toBe("FORBIDDEN");
  });

  it("a stream without a length is bounded too, and is cut off at the bound", async () => {
    const { handler, request } = await made({ maxBodyBytes: 2_048 });
    let sent = 0;
    const body = new ReadableStream({
      pull(controller) {
        sent++;
        controller.enqueue(new Uint8Array(1_024));
      },
    });
    const { headers } = request("http://a.test/");
    const endless = new Request("http://a.test/v2/keys.verifyKey", { method: "POST", headers, body, duplex: "half" });
    expect((await handler(endless)).status).toBe(413);
    expect(sent).toBeLessThan(10);
  });

  it("HEAD of a page has its headers and no body", async () => {
    const { handler } = await made();
    const response = await handler(new Request("http://a.test/v2/liveness", { method: "HEAD" }));
    expect([response.status, await response.text()]).toEqual([200, ""]);
  });
});

describe("options", () => {
  it.each<[ServerOptions | HandlerOptions, RegExp]>([
    [{ wrong: 1 } as object, /options\.wrong is not an option/],
    [{ workspaceId: "no blanks" }, /options\.workspaceId/],
    [{ clock: 5 as never }, /options\.clock/],
    [{ docsBase: "/docs" }, /options\.docsBase must be absolute/],
    [{ docsBase: "https://a.test/" }, /options\.docsBase must be absolute/],
    [{ docs: 1 as never }, /options\.docs must be true or false/],
    [{ maxBodyBytes: 10 }, /options\.maxBodyBytes/],
    [{ maxImportBytes: 1e12 }, /options\.maxImportBytes/],
    [{ log: "x" as never }, /options\.log/],
    [{ metrics: "yes" as never }, /options\.metrics/],
    [{ onError: {} as never }, /options\.onError/],
    [{ verifier: 5 as never }, /options\.verifier must be an object/],
    [{ verifier: { nodes: 0 } }, /options\.verifier\.nodes/],
    [{ verifier: { cache: { size: 0 } } }, /options\.verifier\.cache\.size must be from 1/],
    [{ verifier: { migrationAlgorithms: { md5: 5 } } as never }, /options\.verifier\.migrationAlgorithms\.md5 must be a function/],
    [{ verifier: { cahce: 1 } as never }, /options\.verifier\.cahce is not an option; there are: cache, limiter, [^;]*nodes, credits, /],
    [{ verifier: { workspaceId: "ws_other" } as never }, /options\.verifier\.workspaceId is not an option/],
    [{ verifier: { clock: Date.now } as never }, /options\.verifier\.clock is not an option/],
    [{ authentication: { rootKeys: 0 } }, /options\.authentication\.rootKeys/],
    [
      { authentication: { clock: Date.now } as never },
      /options\.authentication\.clock is not an option; there are: proxyTokens, scheme, rootKeys$/,
    ],
    [{ authentication: { proxyTokens: { issuer: 5 } as never } }, /options\.authentication\.proxyTokens\.issuer/],
    [{ requestLimit: { limit: 0, duration: 1 } }, /options\.requestLimit\.limit/],
    [{ requestLimit: null as never }, /options\.requestLimit must be an object/],
    [{ requestLimit: {} as never }, /options\.requestLimit\.limit must be given/],
    [{ trustedProxies: ["nonsense"] }, /options\.trustedProxies/],
    [{ trustedProxies: "10.0.0.0/8" as never }, /options\.trustedProxies/],
    [{ requestTimeout: 0 }, /options\.requestTimeout/],
    [{ maxHeaderBytes: 1 }, /options\.maxHeaderBytes/],
  ])("%j is a mistake that is named at once", (options, message) => {
    expect(() => createServer(memoryStore(), options as ServerOptions)).toThrow(message);
  });

  it("the store is told the system's time by what the service verifies", async () => {
    const { handler, request, store } = await made({ clientAddress: () => "192.0.2.7" });
    const catchUp = vi.spyOn(store, "catchUp");
    expect(await (await handler(request("http://keys.test/v2/keys.verifyKey"))).json()).toMatchObject({ data: { code: "VALID" } });
    expect(catchUp).toHaveBeenCalledWith(expect.any(Number));
  });

  it("a store without a method, and parts that are none, are named", () => {
    expect(() => createHandler({} as never)).toThrow(/store lacks the method findKey/);
    for (const none of [undefined, null, 5, "keys.db"]) expect(() => createHandler(none as never)).toThrow(/store must be an object/);
    const store = memoryStore();
    expect(() => createHandler({ store, verifier: {}, keyring: createKeyring(store) } as never)).toThrow(
      /verifier lacks the method verify/,
    );
    const verifier = createVerifier(store);
    expect(() => createHandler({ verifier, keyring: { ...createKeyring(store) } })).toThrow(/store must be given/);
    expect(() => createHandler({ verifier, keyring: { ...createKeyring(store) }, store })).not.toThrow();
    const parts = { verifier, keyring: createKeyring(store) };
    const make = (more: object, options = {}) => createHandler({ ...parts, ...more }, options);
    expect(() => make({ ratelimits: {} })).toThrow("ratelimits lacks the method limit()");
    expect(() => make({ ratelimits: { ...createRatelimits(store), setOverride: 5 } })).toThrow("ratelimits lacks the method setOverride()");
    expect(() => make({ authenticator: {} })).toThrow("authenticator lacks the method authenticate()");
    const authenticator = createAuthenticator(store);
    expect(() => make({ authenticator, ratelimits: createRatelimits(store) })).not.toThrow();
    expect(() => make({}, { authentication: { scheme: "mine" } })).not.toThrow();
    expect(() => make({ authenticator }, { authentication: {} })).toThrow("options.authentication must not be given beside");
    expect(() => make({}, { verifier: {} })).toThrow("options.verifier must not be given beside");
    expect(inspect(createKeyring(store))).not.toContain("findKey");
    expect(() => createHandler(store, { clientAddress: 5 as never })).toThrow(/options\.clientAddress/);
  });
});
