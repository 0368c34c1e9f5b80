/** The server on real sockets: order, limits, broken connections, shutdown. Ruling G1; hostile inputs A027, A073. */
import { Server as HttpServer } from "node:http";
import { connect, type Socket } from "node:net";
import { afterAll, describe, expect, it, vi } from "vitest";
import type { Store } from "../../../src/contracts/store.js";
import { createServer, type Server, type ServerOptions } from "../../../src/http/index.js";
import { createKeyring, memoryStore } from "../../../src/index.js";
import { dial, type Parsed, toText } from "../raw.js";
import { EVERYTHING, faultsOf } from "../support.js";

const servers: Server[] = [];
// Not after each: those that wait for four seconds, in which the rest of a body is dropped, run at the same time.
afterAll(async () => void (await Promise.all(servers.splice(0).map((server) => server.close()))));

async function serving(options: ServerOptions = {}, store: Store = memoryStore()) {
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const { key: rootKey } = await keyring.createRootKey({ permissions: EVERYTHING });
  const server = createServer(store, options);
  servers.push(server);
  const { url } = await server.listen();
  const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 1_000 } });
  const authorization = `authorization: Bearer ${rootKey}`;
  const json = "content-type: application/json";
  const verify = (over: object = {}) =>
    toText("/v2/keys.verifyKey", [authorization, json], JSON.stringify({ key, ...over }));
  const balance = async () => (await keyring.getKey({ keyId })).credits?.remaining;
  return { server, url, keyring, store, key, keyId, rootKey, authorization, json, verify, balance };
}

const typeOf = (body: Parsed): string => body.error.type.split("/errors/")[1];

describe("server: clients that do not read", () => {
  const openApi = "GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n";
  /** Connections that ask so often at once and read nothing. */
  const deaf = async (url: string, count: number, asks: number) => {
    const { hostname, port } = new URL(url);
    const sockets = await Promise.all(
      Array.from(
        { length: count },
        () =>
          new Promise<Socket>((resolve) => {
            const socket = connect(Number(port), hostname, () => {
              resolve(socket.pause());
            });
            socket.on("error", () => {});
          }),
      ),
    );
    // One after the other: what comes at once beyond a share ends its connection.
    for (let sent = 0; sent < asks; sent++) {
      for (const socket of sockets) socket.write(openApi);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return { end: () => sockets.forEach((socket) => socket.destroy()) };
  };
  const connectionsOf = (server: HttpServer) =>
    new Promise<number>((resolve) => server.getConnections((_, count) => resolve(count)));

  /** A server, and how many connections it has. */
  const watched = async (options: ServerOptions) => {
    const listen = vi.spyOn(HttpServer.prototype, "listen");
    const made = await serving(options);
    const http = listen.mock.contexts[0] as HttpServer;
    listen.mockRestore();
    return { ...made, connections: () => connectionsOf(http) };
  };

  it("S7: connections that ask for much and read nothing end, and others are answered meanwhile", async () => {
    const { url, verify, connections } = await watched({ unreadTimeout: 500, memoryBudget: 2 ** 34 });
    const clients = await deaf(url, 30, 100);
    const well = dial(url);
    for (let i = 0; i < 20; i++) well.write(verify());
    expect((await well.responses(20)).map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
    well.socket.destroy();
    await vi.waitFor(async () => expect(await connections()).toBe(0), { timeout: 20_000 });
    clients.end();
  });

  it("S7, a control: without the time-out they stay", async () => {
    const { url, connections } = await watched({
      unreadTimeout: 3_600_000,
      keepAliveTimeout: 500,
      memoryBudget: 2 ** 32,
    });
    const clients = await deaf(url, 10, 100);
    await new Promise((resolve) => setTimeout(resolve, 3_500));
    expect(await connections()).toBe(10);
    clients.end();
  });

  it("callers without a credential hold a sixteenth of the budget: beyond it the oldest that read nothing end, and others are answered", async () => {
    const { url, verify, connections } = await watched({ memoryBudget: 96 * 1_048_576 });
    const clients = await deaf(url, 60, 60);
    const [well, stranger] = [dial(url), dial(url)];
    for (let i = 0; i < 20; i++) well.write(verify());
    expect((await well.responses(20)).map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
    // What they hold of their answers is above that once a third of them has an answer that waits.
    await vi.waitFor(async () => expect(await connections()).toBeLessThan(60), { timeout: 20_000 });
    stranger.write(openApi);
    expect((await stranger.responses(1))[0]?.status).toBe(200);
    for (const { socket } of [well, stranger]) socket.destroy();
    clients.end();
  });

  it("a connection on which more than 128 requests wait ends at once, and no other", async () => {
    const { url, verify } = await serving();
    const [client, other] = [dial(url), dial(url)];
    client.write(verify() + "GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(129));
    expect((await client.responses(130)).length).toBeLessThan(130);
    await client.ended;
    other.write(verify());
    expect((await other.responses(1))[0]?.status).toBe(200);
    other.socket.destroy();
  });

  it("for a further connection the one that has been idle for longest is closed, not one with a request", async () => {
    const { url, verify, connections } = await watched({ maxConnections: 3 });
    const busy = await deaf(url, 1, 100);
    const [first, second] = [dial(url), dial(url)];
    for (const one of [first, second]) {
      one.write(verify());
      await one.responses(1);
    }
    const third = dial(url);
    third.write(verify());
    expect((await third.responses(1))[0]?.status).toBe(200);
    await first.ended;
    second.write(verify());
    expect((await second.responses(1))[0]?.status).toBe(200);
    expect(await connections()).toBe(3);
    for (const { socket } of [second, third]) socket.destroy();
    busy.end();
  });

  // Only Linux takes all of 127.0.0.0/8 for itself.
  it.runIf(process.platform === "linux")(
    "an address that has more than its share makes space by its own connections, were they all busy; nobody else's end",
    async () => {
      const { url, verify, connections } = await watched({ maxConnections: 4 });
      const other = dial(url, "127.0.0.2");
      other.write(verify());
      await other.responses(1);
      const busy = await deaf(url, 3, 100);
      await vi.waitFor(async () => expect(await connections()).toBe(4), { timeout: 5_000 });
      await Promise.all([dial(url).ended, dial(url).ended]);
      other.write(verify());
      expect((await other.responses(1))[0]?.status).toBe(200);
      // One that has no more than its share gets the space of whoever was idle for longest.
      const further = dial(url, "127.0.0.3");
      further.write(verify());
      expect((await further.responses(1))[0]?.status).toBe(200);
      await other.ended;
      further.socket.destroy();
      busy.end();
    },
  );

  it("such an address leaves a sixteenth to others, whose connections do not end for those of each other", async () => {
    const { url, verify, connections } = await watched({ maxConnections: 32 });
    const busy = await deaf(url, 40, 100);
    await vi.waitFor(async () => expect(await connections()).toBe(30), { timeout: 5_000 });
    const others = [dial(url, "127.0.0.2"), dial(url, "127.0.0.3")];
    for (let round = 0; round < 2; round++)
      for (const other of others) {
        other.write(verify());
        expect((await other.responses(1))[0]?.status).toBe(200);
      }
    for (const { socket } of others) socket.destroy();
    busy.end();
  });

  it("of each connection one request is handled at a time", async () => {
    const inner = memoryStore();
    const releases: (() => void)[] = [];
    const store: Store = {
      ...inner,
      async findKey(digest) {
        // Of the caller nothing is held.
        if (holds) await new Promise<void>((resolve) => releases.push(resolve));
        return inner.findKey(digest);
      },
    };
    let holds = false;
    const { url, verify, key } = await serving({}, store);
    const clients = [dial(url), dial(url)];
    for (const one of clients) one.write(verify());
    for (const one of clients) await one.responses(1);
    holds = true;
    // Each another key, so that no two look for one.
    const texts = (from: number) => Array.from({ length: 40 }, (_, i) => verify({ key: `${key}${from + i}` })).join("");
    const settled = async (count: number) => {
      await vi.waitFor(() => expect(releases.length).toBe(count), { timeout: 5_000 });
      await new Promise((resolve) => setTimeout(resolve, 100));
      expect(releases.length).toBe(count);
    };
    clients[0]!.write(texts(100));
    await settled(1);
    clients[1]!.write(texts(200));
    await settled(2);
    holds = false;
    for (const release of releases) release();
    for (const one of clients) {
      expect((await one.responses(40)).map(({ body }) => body.data.code)).toEqual(Array(40).fill("NOT_FOUND"));
      one.socket.destroy();
    }
  });

  it("of one address no more connections than the option says", async () => {
    const { url, verify } = await serving({ maxConnectionsPerAddress: 2 });
    const clients = [dial(url), dial(url), dial(url)];
    await clients[0]!.ended;
    for (const one of clients.slice(1)) {
      one.write(verify());
      expect((await one.responses(1))[0]?.status).toBe(200);
      one.socket.destroy();
    }
  });

  it("connections are bounded", async () => {
    const { url, connections } = await watched({ maxConnections: 3 });
    const clients = await deaf(url, 5, 1);
    await vi.waitFor(async () => expect(await connections()).toBe(3), { timeout: 5_000 });
    clients.end();
  });
});

describe("server: connections", () => {
  it("A027: 100 requests on one socket at once get 100 answers in order, each with its own requestId", async () => {
    const { url, verify, authorization, json } = await serving();
    const requests = Array.from({ length: 100 }, (_, i) => {
      if (i % 4 === 1) return verify({ permissions: "a AND" });
      if (i % 4 === 2) return toText("/v2/keys.verifyKey", [json], "{}");
      if (i % 4 === 3) return toText("/nowhere", [authorization], "x");
      return verify();
    });
    const client = dial(url);
    client.write(requests.join(""));
    const responses = await client.responses(100);
    expect(responses.map(({ status }) => status)).toEqual(requests.map((_, i) => [200, 400, 401, 404][i % 4]));
    expect(responses.filter((_, i) => i % 4 === 0).map(({ body }) => body.data.credits)).toEqual(
      Array.from({ length: 25 }, (_, i) => 999 - i),
    );
    expect(new Set(responses.map(({ body }) => body.meta.requestId)).size).toBe(100);
    for (const response of responses)
      expect(faultsOf("/v2/keys.verifyKey", "POST", response).filter((fault) => !fault.includes("404"))).toEqual([]);
    client.socket.destroy();
  });

  it("A019: of transfer codings only chunks are taken apart: any other beside them is a 415, and nothing is decompressed", async () => {
    const { url, authorization, json, key } = await serving();
    const body = JSON.stringify({ key });
    const chunked = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
    const statusOf = async (...codings: readonly string[]) => {
      const client = dial(url);
      const headers = [authorization, json, ...codings.map((coding) => `transfer-encoding: ${coding}`)].join("\r\n");
      client.write(`POST /v2/keys.verifyKey HTTP/1.1\r\nhost: a\r\n${headers}\r\n\r\n${chunked}`);
      const [response] = await client.responses(1);
      client.socket.destroy();
      return response!.status;
    };
    for (const codings of [["gzip, chunked"], ["identity, chunked"], ["gzip", "chunked"]])
      expect(await statusOf(...codings)).toBe(415);
    for (const coding of ["chunked", "Chunked"]) expect(await statusOf(coding)).toBe(200);
  });

  it("A073: two Authorization headers are malformed both ways, whatever their letter case, and verify nothing", async () => {
    const { url, authorization, json, key, balance } = await serving();
    const body = JSON.stringify({ key });
    const other = "Authorization: Bearer nobody";
    const pairs = [
      [authorization, other],
      [other, authorization],
      [authorization, authorization],
      [authorization, "AUTHORIZATION:"],
    ];
    for (const pair of pairs) {
      const client = dial(url);
      client.write(toText("/v2/keys.verifyKey", [...pair, json], body));
      const [response] = await client.responses(1);
      expect([response!.status, typeOf(response!.body)]).toEqual([401, "keystile/authentication/malformed"]);
      client.socket.destroy();
    }
    expect(await balance()).toBe(1_000);
  });

  it("A073: a second Authorization is seen behind any number of headers", async () => {
    const { url, authorization, json, key, balance } = await serving();
    const client = dial(url);
    const many = Array.from({ length: 1_100 }, () => "a:");
    client.write(
      toText(
        "/v2/keys.verifyKey",
        [authorization, json, ...many, "Authorization: Bearer nobody"],
        JSON.stringify({ key }),
      ),
    );
    const [response] = await client.responses(1);
    expect([response!.status, typeOf(response!.body)]).toEqual([401, "keystile/authentication/malformed"]);
    client.socket.destroy();
    expect(await balance()).toBe(1_000);
  });

  it("what is no HTTP, headers that are too large and tunnels get the envelope, and the connection ends", async () => {
    const { url } = await serving({ maxHeaderBytes: 2_048 });
    const broken: [string, number, string][] = [
      ["nonsense\r\n\r\n", 400, "user/bad_request/invalid_input"],
      [
        "POST /v2/keys.verifyKey HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        400,
        "user/bad_request/invalid_input",
      ],
      [
        "POST /v2/keys.verifyKey HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        400,
        "user/bad_request/invalid_input",
      ],
      [`GET / HTTP/1.1\r\nhost: a\r\nx-long: ${"a".repeat(4_096)}\r\n\r\n`, 431, "user/bad_request/headers_too_large"],
      [
        "TRACE /v2/keys.verifyKey HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        405,
        "user/bad_request/method_not_allowed",
      ],
      ["CONNECT keys.test:443 HTTP/1.1\r\nhost: keys.test\r\n\r\n", 405, "user/bad_request/method_not_allowed"],
    ];
    for (const [text, status, type] of broken) {
      const client = dial(url);
      client.write(text);
      const [response] = await client.responses(1);
      expect([response?.status, typeOf(response?.body)], text.slice(0, 30)).toEqual([status, type]);
      expect(faultsOf("/", "GET", response!)).toEqual([]);
      expect(response!.headers.has("allow"), text.slice(0, 30)).toBe(status === 405);
      await client.ended;
    }
  });

  it("a request that came with the end of a body is not the last that is read of its connection", async () => {
    const { url, authorization, json, key } = await serving();
    const client = dial(url);
    const head = ["POST /v2/keys.verifyKey HTTP/1.1", "host: a", authorization, json, "transfer-encoding: chunked"];
    const live = "GET /v2/liveness HTTP/1.1\r\nhost: a\r\n\r\n";
    const body = JSON.stringify({ key });
    const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
    client.write(`${head.join("\r\n")}\r\n\r\n${chunk(body.slice(0, 5))}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
    client.write(`${chunk(body.slice(5))}0\r\n\r\n${live}`);
    expect((await client.responses(2)).map(({ status }) => status)).toEqual([200, 200]);
    client.write(live);
    expect((await client.responses(1)).map(({ status }) => status)).toEqual([200]);
    client.socket.destroy();
  });

  const LONG = JSON.stringify({ key: "k".repeat(1_500) });
  const chunked = "transfer-encoding: chunked";
  const inChunks = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`;

  it.each<[name: string, status: number, path: string, headers: readonly string[], body: string]>([
    ["of an unknown credential, long", 401, "/v2/keys.verifyKey", ["authorization: Bearer no"], LONG],
    ["of an unknown credential, in chunks", 401, "/v2/keys.verifyKey", [chunked], inChunks("{}")],
    ["for a path that is none, long", 404, "/v2/keys.nothing", [], LONG],
    ["without a content type, long", 415, "/v2/keys.verifyKey", ["OWN"], LONG],
  ])(
    "a request %s is refused, and the next ones on its connection are answered",
    async (_, status, path, more, body) => {
      const { url, verify, authorization } = await serving();
      const client = dial(url);
      const headers = more.map((one) => (one === "OWN" ? authorization : one));
      const length = headers.includes(chunked) ? [] : [`content-length: ${body.length}`];
      const refused = [`POST ${path} HTTP/1.1`, "host: a", ...headers, ...length].join("\r\n");
      for (let again = 0; again < 3; again++) {
        client.write(`${refused}\r\n\r\n${body}`);
        expect((await client.responses(1)).map((one) => one.status)).toEqual([status]);
        client.write(verify());
        expect((await client.responses(1)).map((one) => one.status)).toEqual([200]);
      }
      client.socket.destroy();
    },
  );

  it("answers that are under way go out before the 400 of a broken request behind them", async () => {
    const { url, verify } = await serving();
    const client = dial(url);
    client.write(`${verify()}${verify()}nonsense\r\n\r\n`);
    const responses = await client.responses(3);
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 400]);
    await client.ended;
  });

  it.concurrent("a request that does not arrive in time is a 408", async () => {
    const { url, authorization, json } = await serving({ headersTimeout: 200, requestTimeout: 400 });
    const slow = [
      "POST /v2/keys.verifyKey HTTP/1.1\r\nhost: a\r\n",
      `POST /v2/keys.verifyKey HTTP/1.1\r\nhost: a\r\n${authorization}\r\n${json}\r\ncontent-length: 9\r\n\r\n{`,
    ];
    await Promise.all(
      slow.map(async (text) => {
        const client = dial(url);
        client.write(text);
        const responses = await client.responses(1);
        expect(responses.map(({ status }) => status)).toEqual([408]);
        await client.ended;
      }),
    );
  });

  it.concurrent("a body that ends early verifies nothing", async () => {
    const { url, verify, balance } = await serving();
    const client = dial(url);
    client.write(verify().slice(0, -1));
    await new Promise((resolve) => setTimeout(resolve, 20));
    client.socket.end();
    await client.ended;
    expect(await balance()).toBe(1_000);
  });

  it.concurrent("a body over the bound is a 413 by its declared length and by its chunks, and ends the connection", async () => {
    const { url, authorization, json, verify } = await serving({ maxBodyBytes: 2_048, maxImportBytes: 8_192 });
    const chunk = "400\r\n" + "x".repeat(1_024) + "\r\n";
    const head = `POST /v2/keys.verifyKey HTTP/1.1\r\nhost: a\r\n${authorization}\r\n${json}\r\ntransfer-encoding: chunked\r\n\r\n`;
    for (const sent of [
      toText("/v2/keys.verifyKey", [authorization, json], "x".repeat(2_049)),
      `${head}${chunk.repeat(3)}0\r\n\r\n`,
    ]) {
      const client = dial(url);
      client.write(sent);
      client.write(verify());
      const responses = await client.responses(2);
      expect(responses.map(({ status, headers }) => [status, headers.get("connection")])).toEqual([[413, "close"]]);
      await client.ended;
    }
    const client = dial(url);
    client.write(toText("/v2/keys.migrateKeys", [authorization, json], "x".repeat(2_049)));
    client.write(verify());
    expect((await client.responses(2)).map(({ status }) => status)).toEqual([400, 200]);
    client.socket.destroy();
  });

  it.concurrent("T12: a client that goes on sending after a 413 reads it, and is cut off soon, in time and in bytes", async () => {
    const { url, authorization, json } = await serving({ maxBodyBytes: 2_048 });
    const head = `POST /v2/keys.verifyKey HTTP/1.1\r\nhost: a\r\n${authorization}\r\n${json}\r\ncontent-length: 67108864\r\n\r\n`;
    for (const every of [1, 50]) {
      const client = dial(url);
      client.write(head);
      let sent = 0;
      const sending = setInterval(() => {
        if (client.socket.writable && client.socket.write("x".repeat(65_536))) sent += 65_536;
      }, every);
      const began = performance.now();
      expect((await client.responses(1)).map(({ status }) => status)).toEqual([413]);
      await client.ended;
      clearInterval(sending);
      expect(performance.now() - began).toBeLessThan(5_000);
      expect(sent).toBeLessThan(16_777_216);
    }
  });

  it.concurrent("a client that waits for 100 Continue is told to go on only when its body is wanted", async () => {
    const { url, authorization, json, key } = await serving();
    const body = JSON.stringify({ key });
    const ask = (headers: string[]) =>
      `POST /v2/keys.verifyKey HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n${headers.join("\r\n")}\r\ncontent-length: ${body.length}\r\n\r\n`;
    const welcome = dial(url);
    welcome.write(ask([authorization, json]));
    expect((await welcome.responses(1)).map(({ status }) => status)).toEqual([100]);
    welcome.write(body);
    expect((await welcome.responses(1))[0]!.body.data.code).toBe("VALID");
    welcome.socket.destroy();
    const refused = dial(url);
    refused.write(ask([json]));
    expect((await refused.responses(2)).map(({ status }) => status)).toEqual([401]);
    await refused.ended;
  });

  it.concurrent("a client that waits for 100 Continue with a body longer than the bound gets the 413 at once", async () => {
    const { url, authorization, json } = await serving({ maxBodyBytes: 2_048 });
    const client = dial(url);
    client.write(
      toText("/v2/keys.verifyKey", ["expect: 100-continue", authorization, json], "x".repeat(2_049)).slice(0, -2_049),
    );
    expect((await client.responses(2)).map(({ status }) => status)).toEqual([413]);
    await client.ended;
  });

  it("takes HTTP/1.0 without a Host, and the absolute form", async () => {
    const { url, authorization, json, key } = await serving();
    const body = JSON.stringify({ key });
    const tail = `${authorization}\r\n${json}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    for (const head of [
      "POST /v2/keys.verifyKey HTTP/1.0",
      "POST http://keys.test/v2/keys.verifyKey HTTP/1.1\r\nhost: keys.test",
    ]) {
      const client = dial(url);
      client.write(`${head}\r\n${tail}`);
      expect((await client.responses(1))[0]!.body.data.code, head).toBe("VALID");
      client.socket.destroy();
    }
  });

  it("T12: HTTP/1.1 without a Host, or with two, is a 400 in the envelope", async () => {
    const { url, authorization, json, key } = await serving();
    const body = JSON.stringify({ key });
    for (const hosts of ["", "host: a\r\nhost: a\r\n", "host: a\r\nHOST: b\r\n"]) {
      const client = dial(url);
      client.write(
        `POST /v2/keys.verifyKey HTTP/1.1\r\n${hosts}${authorization}\r\n${json}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
      const [answer] = await client.responses(1);
      expect([answer!.status, answer!.body.error.errors[0].location], hosts).toEqual([400, "headers.Host"]);
      client.socket.destroy();
    }
  });

  it("S13: a Host is repeated nowhere", async () => {
    const { url } = await serving();
    for (const host of ["evil.test", '"><script>']) {
      const client = dial(url);
      client.write(`GET /nowhere HTTP/1.1\r\nhost: ${host}\r\n\r\n`);
      const [answer] = await client.responses(1);
      expect(answer!.body.error.type).toBe("/docs/errors/application/not_found");
      expect(answer!.text + JSON.stringify([...answer!.headers])).not.toContain(host.slice(0, 4));
      client.socket.destroy();
    }
  });
});

describe("server: defaults", () => {
  it("maxHeaderBytes: 16 KiB", async () => {
    const { url } = await serving();
    const statusWith = async (bytes: number) => {
      const client = dial(url);
      const start = "GET /v2/liveness HTTP/1.1\r\nhost: a\r\nx-long: ";
      client.write(`${start}${"a".repeat(bytes - start.length - 4)}\r\n\r\n`);
      const [response] = await client.responses(1);
      client.socket.destroy();
      return response!.status;
    };
    // What of the lines counts is the parser's affair.
    expect([await statusWith(16_384 - 100), await statusWith(16_384 + 100)]).toEqual([200, 431]);
  });

  it("keepAliveTimeout: 10 s, and the client is told", async () => {
    const { url } = await serving();
    const client = dial(url);
    client.write("GET /v2/liveness HTTP/1.1\r\nhost: a\r\n\r\n");
    const [response] = await client.responses(1);
    expect(response!.headers.get("keep-alive")).toBe("timeout=10");
    client.socket.destroy();
  });

  it("backlog: 511, or what the option says", async () => {
    const listen = vi.spyOn(HttpServer.prototype, "listen");
    try {
      for (const options of [{}, { backlog: 4_096 }]) {
        const server = createServer(memoryStore());
        servers.push(server);
        await server.listen(options);
      }
      // 511 is Node's own.
      expect(listen.mock.calls.map(([where]) => (where as { backlog?: number }).backlog)).toEqual([undefined, 4_096]);
    } finally {
      listen.mockRestore();
    }
  });

  it("headersTimeout: 10 s, and never longer than requestTimeout: 30 s", async () => {
    const listen = vi.spyOn(HttpServer.prototype, "listen");
    try {
      await serving();
      await serving({ requestTimeout: 9_000 });
      const made = listen.mock.contexts as HttpServer[];
      expect(made.map(({ headersTimeout, requestTimeout }) => [headersTimeout, requestTimeout])).toEqual([
        [10_000, 30_000],
        [9_000, 9_000],
      ]);
    } finally {
      listen.mockRestore();
    }
  });

  it("graceTimeout: then connections that never finish are cut, and not before", async () => {
    const { server, url } = await serving({ graceTimeout: 300 });
    const client = dial(url);
    client.write("POST /v2/keys.verifyKey HTTP/1.1\r\nhost: a\r\n");
    await new Promise((resolve) => setTimeout(resolve, 20));
    const began = performance.now();
    await server.close();
    // A timer may come a millisecond early.
    expect(performance.now() - began).toBeGreaterThan(298);
    client.socket.destroy();
  });
});

describe("server: who the client is", () => {
  const codeFrom = async (options: ServerOptions, forwarded: string, allow = "192.0.2.7") => {
    const { url, keyring, keyId, verify } = await serving(options);
    await keyring.updateKey({ keyId, ipAllowlist: [allow] });
    const client = dial(url);
    client.write(verify().replace("\r\n\r\n", `\r\n${forwarded}\r\n\r\n`));
    const [response] = await client.responses(1);
    client.socket.destroy();
    return response!.body.data.code as string;
  };

  it("is who connects, and nobody's header changes that", async () => {
    expect(await codeFrom({}, "x-forwarded-for: 192.0.2.7")).toBe("FORBIDDEN");
    expect(await codeFrom({}, "x-forwarded-for: 192.0.2.7", "127.0.0.1")).toBe("VALID");
  });

  it("is the last address that is no trusted proxy, once a trusted one connects", async () => {
    const trustedProxies = ["127.0.0.0/8", "10.0.0.0/8"];
    expect(await codeFrom({ trustedProxies }, "x-forwarded-for: 198.51.100.1, 192.0.2.7, 10.1.1.1")).toBe("VALID");
    expect(await codeFrom({ trustedProxies }, "x-forwarded-for: 192.0.2.7:51234, 10.1.1.1:443")).toBe("VALID");
    expect(
      await codeFrom({ trustedProxies }, "x-forwarded-for: 192.0.2.7, 198.51.100.1"),
      "what a client wrote in front",
    ).toBe("FORBIDDEN");
    expect(await codeFrom({ trustedProxies: ["10.0.0.0/8"] }, "x-forwarded-for: 192.0.2.7")).toBe("FORBIDDEN");
    expect(await codeFrom({ trustedProxies }, "x-forwarded-for: garbage")).toBe("FORBIDDEN");
  });
});

describe("server: shutdown", () => {
  it("answers what is in flight, ends the connections, and loses no deduction", async () => {
    const { server, url, verify, balance } = await serving();
    const clients = Array.from({ length: 20 }, () => dial(url));
    let answered = 0;
    const working = clients.map(async (client) => {
      for (;;) {
        client.write(verify());
        const [response] = await client.responses(1);
        if (response === undefined) return;
        expect(response.body.data.code).toBe("VALID");
        answered++;
        if (response.headers.get("connection") === "close") return;
      }
    });
    while (answered < 100) await new Promise(setImmediate);
    await server.close();
    await Promise.all(working);
    // The memory store is exact: whatever was taken was answered, or was on its way when the connection ended.
    const taken = 1_000 - (await balance())!;
    expect(taken).toBeGreaterThanOrEqual(answered);
    expect(taken).toBeLessThanOrEqual(answered + clients.length);
    await expect(fetch(`${url}/v2/liveness`)).rejects.toThrow();
  });

  it("answers requests that came on kept connections and were not read yet", async () => {
    const { server, url, verify, balance } = await serving();
    const clients = Array.from({ length: 20 }, () => dial(url));
    for (const client of clients) client.write(verify());
    await Promise.all(clients.map((client) => client.responses(1)));
    for (const client of clients) client.write(verify());
    const closing = server.close();
    const answers = (await Promise.all(clients.map((client) => client.responses(1)))).flat();
    expect(answers.map(({ body, headers }) => [body.data.code, headers.get("connection")])).toEqual(
      clients.map(() => ["VALID", "close"]),
    );
    await closing;
    expect(await balance()).toBe(1_000 - 40);
  });

  it("a slow answer is waited for, an idle connection is not, and leases go back", async () => {
    const inner = memoryStore();
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    let holds = false;
    const store: Store = {
      ...inner,
      async findKey(digest) {
        if (holds) await held;
        return inner.findKey(digest);
      },
    };
    const { server, url, verify, balance, key } = await serving(
      { verifier: { credits: { mode: "leased", firstStep: 250 }, cache: { size: 1 } } },
      store,
    );
    const idle = dial(url);
    idle.write(verify());
    expect((await idle.responses(1))[0]!.body.data.code).toBe("VALID");
    expect(await balance(), "a lease is out").toBeLessThan(999);
    holds = true;
    const slow = dial(url);
    slow.write(verify({ key: `${key}x` }));
    await new Promise((resolve) => setTimeout(resolve, 20));
    let closed = false;
    const closing = server.close().then(() => (closed = true));
    await idle.ended;
    expect(closed).toBe(false);
    release();
    const [response] = await slow.responses(1);
    expect([response!.body.data.code, response!.headers.get("connection")]).toEqual(["NOT_FOUND", "close"]);
    await closing;
    expect(await balance()).toBe(999);
  });

  it("connections that never finish are cut after the grace time; close again does nothing; a server listens once", async () => {
    const { server, url } = await serving({ graceTimeout: 50 });
    await expect(server.listen()).rejects.toThrow("a server listens once");
    const client = dial(url);
    client.write("POST /v2/keys.verifyKey HTTP/1.1\r\nhost: a\r\n");
    await new Promise((resolve) => setTimeout(resolve, 20));
    const first = server.close();
    expect(server.close()).toBe(first);
    await first;
    await client.ended;
    await expect(createServer(memoryStore()).close()).resolves.toBeUndefined();
    const hasty = createServer(memoryStore());
    const listening = [hasty.listen(), hasty.listen()].map((promise) =>
      promise.then(
        () => "listens",
        (error: unknown) => (error as Error).message,
      ),
    );
    await hasty.close();
    expect(await Promise.all(listening)).toEqual([
      "the server was closed before it listened",
      "a server listens once; make another",
    ]);
  });

  it("a requestTimeout below the default of headersTimeout bounds both; an empty host is no address", async () => {
    await serving({ requestTimeout: 5_000 });
    await serving({ requestTimeout: 1, headersTimeout: 2 });
    await expect(createServer(memoryStore()).listen({ host: "" })).rejects.toThrow("options.host must");
  });

  it.each([
    [{ port: "http.sock" }, "options.port must be an integer"],
    [{ port: NaN }, "options.port must be an integer"],
    [{ port: 70_000 }, "options.port must be from 0 to 65535"],
    [{ port: -1 }, "options.port must be from 0 to 65535"],
    [{ host: 5 }, "options.host must be a string"],
    [{ backlog: 0 }, "options.backlog must be from 1 to 65535"],
    [{ prot: 80 }, "options.prot is not an option; there are: port, host, backlog"],
    [null, "options must be an object"],
    [8080, "options must be an object"],
  ])("listen(%j) is a mistake that is named, and the server can still listen", async (wrong, message) => {
    const server = createServer(memoryStore());
    servers.push(server);
    await expect(server.listen(wrong as never)).rejects.toThrow(message);
    expect((await server.listen({ port: undefined as never })).url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  });

  it("a port that is taken is said", async () => {
    const { url } = await serving();
    await expect(createServer(memoryStore()).listen({ port: Number(new URL(url).port) })).rejects.toThrow("EADDRINUSE");
  });
});
