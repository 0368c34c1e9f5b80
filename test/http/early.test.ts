/** What is answered before all of a request has come, or where none ever came. Rulings F2, G1, G2; raw sockets. */
import { afterEach, describe, expect, it } from "vitest";
import { createHandler, createServer, type Server, type ServerOptions } from "../../src/http/index.js";
import { createKeyring, memoryStore } from "../../src/index.js";
import { dial, type RawResponse, toText } from "./raw.js";
import { EVERYTHING, JSON_TYPE } from "./support.js";

const servers: Server[] = [];
afterEach(async () => void (await Promise.all(servers.splice(0).map((server) => server.close()))));

async function serving(options: ServerOptions = {}, store = memoryStore()) {
  const { key: rootKey } = await createKeyring(store).createRootKey({ permissions: EVERYTHING });
  const server = createServer(store, { graceTimeout: 200, ...options });
  servers.push(server);
  const { url } = await server.listen();
  return { server, url, store, authorization: `authorization: Bearer ${rootKey}` };
}

const JSON_LINE = "content-type: application/json";
const headOf = (length: number, ...headers: readonly string[]): string =>
  ["POST /v2/keys.verifyKey HTTP/1.1", "host: a", JSON_LINE, ...headers, `content-length: ${length}`, "", ""].join(
    "\r\n",
  );
const typeOf = ({ body }: RawResponse): string => body.error.type.split("/errors/keystile/authentication/")[1];

const FAULTY: readonly (readonly [string, readonly string[]])[] = [
  ["missing", []],
  ["malformed", ["authorization: Basic eDp5"]],
  ["key_not_found", ["authorization: Bearer root_nobody"]],
];

describe("the header is read before the body", () => {
  it.each(FAULTY)("%s: 401 while none of a short body has come", async (type, headers) => {
    const { url } = await serving();
    const client = dial(url);
    client.write(headOf(10, ...headers));
    const [response] = await client.responses(1);
    expect([response!.status, typeOf(response!)]).toEqual([401, type]);
    client.socket.destroy();
  });

  it.each(FAULTY)("%s: 401 for a body that breaks off, or is longer than it may be", async (type, headers) => {
    const { url } = await serving({ maxBodyBytes: 1_024, maxImportBytes: 1_024 });
    const broken = dial(url);
    broken.write(`${headOf(10, ...headers)}{"`);
    broken.socket.end();
    const large = dial(url);
    large.write(headOf(2_000, ...headers));
    const responses = await Promise.all([broken, large].map((client) => client.responses(1)));
    expect(responses.flat().map((one) => [one.status, typeOf(one)])).toEqual([
      [401, type],
      [401, type],
    ]);
    large.socket.destroy();
  });

  it("a good credential waits for what is left of the body, and takes it in any pieces", async () => {
    const { url, authorization } = await serving();
    const body = '{"key":"k"}';
    const client = dial(url);
    client.write(headOf(body.length, authorization));
    for (const part of [
      body.slice(0, 4),
      body.slice(4),
      `${headOf(body.length, authorization)}${body.slice(0, 6)}`,
      body.slice(6),
    ]) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      client.write(part);
    }
    expect((await client.responses(2)).map((one) => one.body.data.code)).toEqual(["NOT_FOUND", "NOT_FOUND"]);
    client.socket.destroy();
    const broken = dial(url);
    broken.write(`${headOf(10, authorization)}{"`);
    broken.socket.end();
    expect((await broken.responses(1)).map(({ status }) => status)).toEqual([400]);
  });

  it("in process: a stream that never yields holds no 401 back", async () => {
    const handler = createHandler(memoryStore());
    for (const headers of [{}, { authorization: "Basic x" }, { authorization: "Bearer root_nobody" }]) {
      const init = {
        method: "POST",
        body: new ReadableStream({}),
        duplex: "half",
        headers: { ...JSON_TYPE, "content-length": "10", ...headers },
      };
      expect((await handler(new Request("http://a.test/v2/keys.verifyKey", init as RequestInit))).status).toBe(401);
    }
    await handler.close();
  });
});

describe("a second Content-Type is a wrong one", () => {
  const pairs = [
    ["application/json", "text/plain"],
    ["text/plain", "application/json"],
    ["application/json; v=2", "text/plain"],
    ["application/json", "application/json"],
  ] as const;

  it.each(pairs)("%s and %s: 415 on a socket", async (...types) => {
    const { url, authorization } = await serving();
    const client = dial(url);
    client.write(
      toText("/v2/keys.verifyKey", [authorization, ...types.map((type) => `Content-Type: ${type}`)], '{"key":"k"}'),
    );
    expect((await client.responses(1)).map(({ status }) => status)).toEqual([415]);
    client.socket.destroy();
  });

  it.each(pairs)("%s and %s: 415 in process", async (...types) => {
    const { store, authorization } = await serving();
    const handler = createHandler(store);
    const headers = new Headers([["authorization", authorization.slice("authorization: ".length)]]);
    for (const type of types) headers.append("content-type", type);
    const request = new Request("http://a.test/v2/keys.verifyKey", { method: "POST", headers, body: '{"key":"k"}' });
    expect((await handler(request)).status).toBe(415);
    await handler.close();
  });
});

describe("what is no request is logged and counted as what it is", () => {
  const BROKEN: readonly (readonly [string, string, number, string, string])[] = [
    ["no HTTP", "nonsense\r\n\r\n", 400, "BAD_REQUEST", "OTHER"],
    [
      "a large head",
      `GET / HTTP/1.1\r\nhost: a\r\nx-long: ${"a".repeat(4_096)}\r\n\r\n`,
      431,
      "HEADERS_TOO_LARGE",
      "OTHER",
    ],
    ["a tunnel", "CONNECT keys.test:443 HTTP/1.1\r\nhost: keys.test\r\n\r\n", 405, "METHOD_NOT_ALLOWED", "CONNECT"],
    ["half a head", "POST /v2/keys.verifyKey HTTP/1.1\r\nhost: a\r\n", 408, "REQUEST_TIMEOUT", "OTHER"],
  ];

  it.each(BROKEN)("%s", async (_what, text, status, code, method) => {
    const lines: string[] = [];
    const options = { maxHeaderBytes: 2_048, headersTimeout: 200, requestTimeout: 400, metrics: true };
    const { url } = await serving({ ...options, log: (line) => lines.push(line) });
    const client = dial(url);
    client.write(text);
    const [response] = await client.responses(1);
    await client.ended;
    expect(response!.status).toBe(status);
    const requestId = response!.headers.get("x-request-id");
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { requestId, operation: "unknown", method, status, code },
    ]);
    const counts = await (await fetch(`${url}/metrics`)).text();
    expect(counts).toContain(`keystile_requests_total{operation="unknown",status="${status}"} 1\n`);
    expect(counts, "the one that asks").toContain("keystile_requests_in_flight 1\n");
  });

  it("one answer and one line, however much nonsense comes while earlier answers are under way", async () => {
    const lines: string[] = [];
    const inner = memoryStore();
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const slow = {
      ...inner,
      readMany: async (...asked: Parameters<typeof inner.readMany>) => held.then(() => inner.readMany(...asked)),
    };
    const { url } = await serving({ log: (line) => lines.push(line) }, slow as typeof inner);
    const client = dial(url);
    client.write(toText("/v2/liveness", [], "", "GET"));
    for (let i = 0; i < 3; i++) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      client.write("nonsense\r\n\r\n");
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
    release();
    const responses = await client.responses(3);
    await client.ended;
    expect(responses.map(({ status }) => status)).toEqual([200, 400]);
    expect(lines.map((line) => JSON.parse(line).requestId)).toEqual(
      responses.map(({ headers }) => headers.get("x-request-id")),
    );
  });

  it("a client that is gone gets no answer, no line and no count", async () => {
    const lines: string[] = [];
    const { url } = await serving({ metrics: true, log: (line) => lines.push(line) });
    for (const text of ["", "POST /v2/keys.ver"]) {
      const client = dial(url);
      client.write(text);
      await new Promise((resolve) => setTimeout(resolve, 20));
      client.socket.resetAndDestroy();
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(lines).toEqual([]);
    expect(await (await fetch(`${url}/metrics`)).text()).toContain("keystile_requests_in_flight 1\n");
  });
});

describe("a client that asked for a tunnel", () => {
  const CONNECT = "CONNECT keys.test:443 HTTP/1.1\r\nhost: keys.test\r\n\r\n";

  it("ends nothing but its own connection when it resets it", async () => {
    const { url } = await serving();
    for (const text of [CONNECT, `${CONNECT}${"x".repeat(100_000)}`]) {
      const client = dial(url);
      await new Promise((resolve) => client.socket.once("connect", resolve));
      client.write(text);
      client.socket.resetAndDestroy();
      await client.ended;
    }
    expect((await fetch(`${url}/v2/liveness`)).status).toBe(200);
  });

  it("does not hold a shutdown up by never closing, and has its earlier answers first", async () => {
    const { url, server } = await serving();
    const client = dial(url);
    client.socket.allowHalfOpen = true;
    client.write(`${toText("/v2/liveness", [], "", "GET")}${CONNECT}`);
    expect((await client.responses(2)).map(({ status }) => status)).toEqual([200, 405]);
    await server.close();
    client.socket.destroy();
  });
});
