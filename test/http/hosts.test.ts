/** The handler inside other hosts, and what programs may get wrong in setting it up. */
import { once } from "node:events";
import { connect as connectHttp2, createServer as createHttp2 } from "node:http2";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createServer as listenHttp, type IncomingMessage } from "node:http";
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
} from "../../src/http/index.js";
import { createKeyring, createRatelimits, createVerifier, type Keyring, memoryStore } from "../../src/index.js";
import { Fingerprint } from "../../src/lib/fingerprint.js";
import type { Parsed } from "./raw.js";
import { EVERYTHING, type Host, JSON_TYPE, world } from "./support.js";

setFlagsFromString("--expose-gc");

async function made(options: HandlerOptions = {}) {
  const store = memoryStore();
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const { key } = await keyring.createKey({ apiId, ipAllowlist: ["192.0.2.7"] });
  const headers = {
    authorization: `Bearer ${(await keyring.createRootKey({ permissions: EVERYTHING })).key}`,
    ...JSON_TYPE,
  };
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
    const codeOf = async () =>
      ((await (await fetch(request(`http://127.0.0.1:${port}/v2/keys.verifyKey`))).json()) as Parsed).data.code;
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
    expect([response.status, ((await response.json()) as Parsed).error.errors[0].location, faults]).toEqual([
      400,
      "body",
      [],
    ]);
    await handler.close();
  });

  interface Source {
    readonly start?: (controller: ReadableStreamDefaultController) => void;
    readonly pull?: (controller: ReadableStreamDefaultController) => void;
    readonly cancel?: () => Promise<void> | undefined;
  }
  const streamed = async (source: Source, options: HandlerOptions = {}) => {
    const faults: unknown[] = [];
    const { handler, request } = await made({ ...options, onError: (error) => faults.push(error) });
    const { url, headers } = request("http://a.test/v2/keys.verifyKey");
    const response = await handler(
      new Request(url, { method: "POST", headers, body: new ReadableStream(source), duplex: "half" }),
    );
    return { status: response.status, text: await response.text(), faults };
  };

  it.each([
    ["fails", () => Promise.reject(new Error("the host's"))],
    ["never ends", () => new Promise<void>(() => undefined)],
  ])("a body over the bound is a 413 also where cutting it off %s", async (_, cancel) => {
    const pull = (controller: ReadableStreamDefaultController) => controller.enqueue(new Uint8Array(2_000));
    expect(await streamed({ pull, cancel }, { maxBodyBytes: 2_048 })).toMatchObject({ status: 413, faults: [] });
  });

  it.each([["text"], [undefined], [[1, 2]]])(
    "a stream that gives %j for bytes is a mistake of the program's: a 500 whose fault says so",
    async (chunk) => {
      let isCut = false;
      const { status, text, faults } = await streamed({
        pull: (controller) => controller.enqueue(chunk),
        cancel: () => void (isCut = true),
      });
      expect([status, isCut, text.includes("Uint8Array")]).toEqual([500, true, false]);
      expect(String(faults)).toBe("TypeError: the stream of the request's body must give Uint8Arrays");
    },
  );

  it("A019: a body that the host says came in another transfer coding than chunks is a 415", async () => {
    const { handler, request } = await made();
    const statusOf = async (coding: string) => {
      const asked = request("http://a.test/v2/keys.verifyKey");
      asked.headers.set("transfer-encoding", coding);
      return (await handler(asked)).status;
    };
    expect([await statusOf("gzip, chunked"), await statusOf("chunked")]).toEqual([415, 200]);
  });

  it("a length that the host passed on and that is none is a 400, and no fault of the server's", async () => {
    const faults: unknown[] = [];
    const { handler, request } = await made({ onError: (error) => faults.push(error) });
    const answerTo = async (length: string) => {
      const asked = request("http://a.test/v2/keys.verifyKey");
      asked.headers.set("content-length", length);
      const response = await handler(asked);
      return [response.status, await response.text()] as const;
    };
    for (const length of ["abc", "NaN", "-1", "0x10", "1e9", "1e400", "5, 5", "+5", ""]) {
      const [status, text] = await answerTo(length);
      expect([length, status, text.includes("headers.Content-Length")]).toEqual([length, 400, true]);
    }
    // What is well formed and wrong bounds nothing.
    for (const length of ["0", "5", " 20 "]) expect((await answerTo(length))[0]).toBe(200);
    expect(faults).toEqual([]);
  });

  it("bytes of another realm are bytes", async () => {
    const bytes = runInNewContext("new Uint8Array([123, 125])") as Uint8Array;
    expect(bytes).not.toBeInstanceOf(Uint8Array);
    const start = (controller: ReadableStreamDefaultController) => (controller.enqueue(bytes), controller.close());
    expect((await streamed({ start })).text).toContain("body.key: is required");
  });

  const READ_BEFORE = /^TypeError: the request's body was read, or taken, before the service got the request/;

  it.each([
    ["read", async (request: Request) => void (await request.text())],
    ["taken", async (request: Request) => void request.body?.getReader()],
  ])("a body that the program has %s before is its mistake: a 500 whose fault says so", async (_, use) => {
    const faults: unknown[] = [];
    const { handler, request } = await made({ onError: (error) => faults.push(error) });
    const asked = request("http://a.test/v2/keys.verifyKey");
    await use(asked);
    expect([(await handler(asked)).status, faults.length, String(faults)]).toEqual([
      500,
      1,
      expect.stringMatching(READ_BEFORE),
    ]);
  });

  it.each([["{}"], [""], [" ".repeat(5_000)]])(
    "node:http: so is a body that middleware read before, and it is answered: %#",
    async (body) => {
      const faults: unknown[] = [];
      const { request, store } = await made();
      const listener = createNodeListener(store, { onError: (error) => faults.push(error) });
      const server = listenHttp(
        (incoming, response) => void incoming.resume().on("end", () => listener(incoming, response)),
      );
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const { url, headers } = request(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v2/keys.verifyKey`);
      const { status } = await fetch(url, { method: "POST", headers, body, signal: AbortSignal.timeout(20_000) });
      expect([status, String(faults)]).toEqual([500, expect.stringMatching(READ_BEFORE)]);
      await new Promise((resolve) => server.close(resolve));
    },
  );

  it.each([
    ["paused", "FORBIDDEN", (incoming: IncomingMessage) => incoming.pause()],
    ["set to give text", undefined, (incoming: IncomingMessage) => incoming.setEncoding("utf8")],
  ] as const)("node:http: a body that the program %s is answered all the same", async (_, code, spoil) => {
    const faults: unknown[] = [];
    const { request, store } = await made();
    const listener = createNodeListener(store, { onError: (error) => faults.push(error) });
    const server = listenHttp((incoming, response) => {
      spoil(incoming);
      setTimeout(() => void listener(incoming, response), 20);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const asked = request(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v2/keys.verifyKey`);
    const answer = await fetch(asked, { signal: AbortSignal.timeout(20_000) });
    expect(((await answer.json()) as { data?: { code: string } }).data?.code).toBe(code);
    if (code === undefined)
      expect([answer.status, String(faults)]).toEqual([500, expect.stringContaining("Uint8Arrays")]);
    await new Promise((resolve) => server.close(resolve));
  });

  it("node:http: a client that left before its body was asked for is no fault, and its request ends", async () => {
    const { request, store } = await made();
    const lines: string[] = [];
    const listener = createNodeListener(store, { log: (line) => lines.push(line) });
    const closed = new Promise<void>((resolve) => {
      const server = listenHttp((incoming, response) => {
        incoming.socket.destroy();
        incoming
          .on("error", () => undefined)
          .on("close", () => (listener(incoming, response), server.close(() => resolve())));
      });
      server.listen(0, "127.0.0.1", () => {
        const asked = request(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v2/keys.verifyKey`);
        const body = new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array(1)) });
        fetch(asked.url, { method: "POST", headers: asked.headers, body, duplex: "half" }).catch(() => undefined);
      });
    });
    await closed;
    await vi.waitFor(() => expect(lines).toHaveLength(1), 20_000);
    expect(JSON.parse(lines[0]!)).toMatchObject({ status: 400 });
  });

  it("node:http: of requests whose clients have left before they are handed over nothing stays", async () => {
    const { request, store } = await made();
    const lines: string[] = [];
    const listener = createNodeListener(store, { log: (line) => lines.push(line) });
    const gone: WeakRef<object>[] = [];
    const server = listenHttp((incoming, response) => {
      gone.push(new WeakRef(incoming.socket));
      incoming.socket.on("close", () => setTimeout(() => void listener(incoming, response), 5));
      incoming.socket.destroy();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v2/keys.verifyKey`;
    const asks = Array.from({ length: 50 }, () => fetch(request(url)).catch(() => undefined));
    await Promise.all(asks);
    await vi.waitFor(() => expect(lines.length).toBeGreaterThanOrEqual(50), 20_000);
    const gc = runInNewContext("gc") as () => void;
    await vi.waitFor(() => {
      gc();
      expect(gone.filter((one) => one.deref() !== undefined).length).toBeLessThan(5);
    });
    await new Promise((resolve) => server.close(resolve));
  });

  it("node:http2: a request is a 505 that says what serves it, with a body of any length", async () => {
    const { store } = await made();
    const listener = createNodeListener(store);
    const server = createHttp2((incoming, response) => void listener(incoming as never, response as never));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const client = connectHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    for (const body of ["{}", "x".repeat(3_000)]) {
      const asked = client.request({ ":method": "POST", ":path": "/v2/keys.verifyKey", "content-length": body.length });
      asked.end(body);
      const [headers] = (await once(asked, "response")) as [Record<string, unknown>];
      expect(headers[":status"]).toBe(505);
      let text = "";
      for await (const part of asked) text += String(part);
      expect(text).toContain("use createHandler");
    }
    client.close();
    await new Promise((resolve) => server.close(resolve));
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
    ["rejects in another realm", () => runInNewContext("Promise.reject(new Error('no'))") as never],
  ])(
    "an address that cannot be told is in no allow-list, and ends no process: clientAddress %s",
    async (_, clientAddress: () => string) => {
      const unhandled = vi.fn();
      process.on("unhandledRejection", unhandled);
      const { handler, request } = await made({ clientAddress });
      expect(((await (await handler(request("http://a.test/v2/keys.verifyKey"))).json()) as Parsed).data.code).toBe(
        "FORBIDDEN",
      );
      await new Promise((resolve) => setTimeout(resolve, 0));
      process.off("unhandledRejection", unhandled);
      expect(unhandled).not.toHaveBeenCalled();
    },
  );

  it("basePath: operations, pages, links and error types are below it, and nothing is outside", async () => {
    const { handler, request } = await made({ basePath: "/api/keys" });
    const get = async (path: string) => {
      const response = await handler(new Request(`http://evil.test${path}`));
      return { status: response.status, text: await response.text() };
    };
    expect((await handler(request("http://a.test/api/keys/v2/keys.verifyKey"))).status).toBe(200);
    expect((await get("/api/keys/v2/liveness")).status).toBe(200);
    for (const path of [
      "/v2/liveness",
      "/api/keysv2/liveness",
      "/api/keys",
      "/api/keys/api/keys/v2/liveness",
      "/docs",
    ]) {
      const { status, text } = await get(path);
      expect([status, JSON.parse(text).error.type], path).toEqual([404, "/api/keys/docs/errors/application/not_found"]);
    }
    expect((await get("/api/keys/docs/errors/application/not_found")).status).toBe(200);
    const { text } = await get("/api/keys/docs");
    const links = [...text.matchAll(/href="(\/[^"]*)"/g)].map(([, path]) => path!);
    expect(links.length).toBeGreaterThan(1);
    for (const path of links) expect((await get(path)).status, path).toBe(200);
    expect(JSON.parse((await get("/api/keys/openapi.json")).text).servers).toEqual([{ url: "/api/keys" }]);
  });

  it.each(["", "/", "api", "/api/", "/a b", "/a//b", "/a?b", 5])("basePath: %j is none", (basePath) => {
    expect(() => createHandler(memoryStore(), { basePath: basePath as string })).toThrow(/options\.basePath must be/);
  });

  const secret = "/v2/liveness?key=sk_live_secret";
  it.each<[string, unknown]>([
    ["nothing", undefined],
    ["null", null],
    ["a text", `http://a.test${secret}`],
    ["an object without headers", { url: `http://a.test${secret}`, method: "GET" }],
    ["a request whose url is relative", { url: secret, method: "GET", headers: new Headers() }],
    ["a request of node:http", { url: secret, method: "GET", headers: { host: "a.test" } }],
  ])("a handler that gets %s for a Request answers 500, and its fault says so and no more", async (_, asked) => {
    const faults: unknown[] = [];
    const lines: string[] = [];
    const { handler } = await made({ onError: (error) => faults.push(error), log: (line) => lines.push(line) });
    const response = await handler(asked as Request);
    expect([response.status, ((await response.json()) as Parsed).error.type]).toEqual([
      500,
      "/docs/errors/application/internal",
    ]);
    expect(faults).toEqual([new TypeError("the handler must be given a Request, with an absolute url")]);
    expect(lines.map((line) => JSON.parse(line).status)).toEqual([500]);
    expect(inspect([faults, lines], { depth: 9, showHidden: true })).not.toContain("sk_live");
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

describe("a limiter that fails", () => {
  it("what was taken meanwhile counts, however many other workspaces ask", async () => {
    const store = memoryStore();
    const limiter = { take: () => Promise.reject(new Error("planted: out of reach")) };
    const handler = createHandler(store, { verifier: { limiter } });
    const body = JSON.stringify({ namespace: "login", identifier: "bob", limit: 2, duration: 3_600_000 });
    const limitIn = async (workspaceId: string) => {
      const keyring = createKeyring(store, { workspaceId });
      const { key } = await keyring.createRootKey({
        permissions: ["ratelimit.*.limit", "ratelimit.*.create_namespace"],
      });
      return async () => {
        const headers = { authorization: `Bearer ${key}`, ...JSON_TYPE };
        const response = await handler(new Request("http://x/v2/ratelimit.limit", { method: "POST", headers, body }));
        return ((await response.json()) as Parsed).data.success as boolean;
      };
    };
    const one = await limitIn("ws_0");
    expect([await one(), await one(), await one()]).toEqual([true, true, false]);
    // As many as a service keeps wired.
    for (let i = 1; i <= 1_000; i++) expect(await (await limitIn(`ws_${i}`))()).toBe(true);
    expect(await one()).toBe(false);
    await handler.close();
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
    [
      { verifier: { migrationAlgorithms: { md5: 5 } } as never },
      /options\.verifier\.migrationAlgorithms\.md5 must be a function/,
    ],
    [
      { verifier: { cahce: 1 } as never },
      /options\.verifier\.cahce is not an option; there are: cache, storeTimeout, limiter, [^;]*nodes, credits, /,
    ],
    [{ verifier: { workspaceId: "ws_other" } as never }, /options\.verifier\.workspaceId is not an option/],
    [{ verifier: { clock: Date.now } as never }, /options\.verifier\.clock is not an option/],
    [{ authentication: { rootKeys: 0 } }, /options\.authentication\.rootKeys/],
    [
      { authentication: { clock: Date.now } as never },
      /options\.authentication\.clock is not an option; there are: proxyTokens, scheme, rootKeys$/,
    ],
    [{ authentication: { proxyTokens: { issuer: 5 } as never } }, /options\.authentication\.proxyTokens\.issuer/],
    [{ requestLimit: { limit: 0, duration: 1_000 } }, /options\.requestLimit\.limit/],
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
    const pollChanges = vi.spyOn(store, "pollChanges");
    expect(await (await handler(request("http://keys.test/v2/keys.verifyKey"))).json()).toMatchObject({
      data: { code: "VALID" },
    });
    expect(pollChanges).toHaveBeenCalledWith(expect.any(Number));
  });

  it("createServer finds keys by their digest unless the options say otherwise, and a handler by a tag", async () => {
    const read = vi.spyOn(Fingerprint.prototype, "read");
    const isTagged = async (host: Host, verifier?: HandlerOptions["verifier"]) => {
      const { call, create, close } = await world({ host, ...(verifier && { verifier }) });
      const { key } = await create();
      read.mockClear();
      for (let i = 0; i < 3; i++) expect((await call("keys.verifyKey", { key })).body.data.code).toBe("VALID");
      await close();
      return read.mock.calls.some(([text]) => text === key);
    };
    expect(await isTagged("node")).toBe(false);
    expect(await isTagged("node", { cache: { size: 10 } })).toBe(false);
    expect(await isTagged("node", { cache: { by: "tag" } })).toBe(true);
    expect(await isTagged("fetch")).toBe(true);
    read.mockRestore();
  });

  it("a store without a method, and parts that are none, are named", () => {
    expect(() => createHandler({} as never)).toThrow(/store lacks the method findKey/);
    for (const none of [undefined, null, 5, "keys.db"])
      expect(() => createHandler(none as never)).toThrow(/store must be a store/);
    const store = memoryStore();
    expect(() => createHandler({ store, verifier: {}, keyring: createKeyring(store) } as never)).toThrow(
      /verifier lacks the method verify/,
    );
    const verifier = createVerifier(store);
    for (const keyring of [undefined, 5, { ...createKeyring(store) }, createRatelimits(store)])
      expect(() => createHandler({ verifier, keyring: keyring as Keyring, store })).toThrow(
        "keyring must be one that createKeyring made",
      );
    const parts = { verifier, keyring: createKeyring(store) };
    const make = (more: object, options = {}) => createHandler({ ...parts, ...more }, options);
    for (const ratelimits of [{}, 5, null, { ...createRatelimits(store) }, createKeyring(store)])
      expect(() => make({ ratelimits })).toThrow("ratelimits must be those that createRatelimits made");
    expect(() => make({ authenticator: {} })).toThrow("authenticator lacks the method authenticate()");
    const authenticator = createAuthenticator(store);
    expect(() => make({ authenticator, ratelimits: createRatelimits(store) })).not.toThrow();
    expect(() => make({}, { authentication: { scheme: "mine" } })).not.toThrow();
    expect(() => make({ authenticator }, { authentication: {} })).toThrow(
      "options.authentication must not be given beside",
    );
    expect(() => make({}, { verifier: {} })).toThrow("options.verifier must not be given beside");
    expect(inspect(createKeyring(store))).not.toContain("findKey");
    expect(() => createHandler(store, { clientAddress: 5 as never })).toThrow(/options\.clientAddress/);
  });
});
