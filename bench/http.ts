/** How does `POST /v2/keys.verifyKey` compare with a bare `node:http` server that only parses and echoes JSON? */
import { fork } from "node:child_process";
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { connect, type Socket } from "node:net";
import { createServer } from "../src/http/index.js";
import { createKeyring } from "../src/keyring/keyring.js";
import { createVerifier } from "../src/verify/verifier.js";
import { measure, report, scaled, type Side } from "./harness.js";
import { requestFor, WORKSPACE } from "./keys.js";
import { openCopy } from "./stores.js";
import { LARGE_LEASES, remember } from "./work.js";

const KEYS = scaled(1_000, 100);
/** Connections, each with one request in flight. */
const CONNECTIONS = 32;
const FLOOR = "bare node:http: parse a JSON body, answer it";
/** A word that every right answer holds. */
const ECHOED = '"permissions"';
const VALID = '"code":"VALID"';

/** What the client is asked, and answers: how many of so many came back right. */
interface Order {
  readonly port: number;
  readonly authorization: string;
  readonly word: string;
  readonly operations: number;
}

if (process.argv.includes("--client")) serveOrders();
else await main();

async function main(): Promise<void> {
  const { store } = await openCopy({ keys: KEYS, limited: true }, {}, "http.db");
  const { key: rootKey } = await createKeyring(store, { workspaceId: WORKSPACE }).createRootKey({
    permissions: ["api.*.verify_key"],
  });
  const authorization = `Bearer ${rootKey}`;
  const verifier = createVerifier(store, { credits: LARGE_LEASES });
  await remember(verifier, KEYS);
  const service = createServer({ verifier, keyring: createKeyring(store, { workspaceId: WORKSPACE }) });
  const logging = createServer(
    { store, verifier, keyring: createKeyring(store, { workspaceId: WORKSPACE }) },
    { log: () => undefined, metrics: true },
  );
  const bare = createHttpServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const text = JSON.stringify(JSON.parse(Buffer.concat(chunks).toString()));
      response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(text) });
      response.end(text);
    });
  });
  await new Promise<void>((resolve) => bare.listen(0, "127.0.0.1", resolve));
  const client = fork(process.argv[1]!, ["--client"]);
  const order = (port: number, word: string) => (operations: number) =>
    new Promise<number>((resolve) => {
      client.once("message", resolve as (right: unknown) => void);
      client.send({ port, authorization, word, operations } satisfies Order);
    });
  const side = (name: string, port: number, word: string, over: Partial<Side> = {}): Side => ({
    name,
    run: order(port, word),
    ...over,
  });
  const sides = [
    side(FLOOR, (bare.address() as AddressInfo).port, ECHOED),
    side("verifyKey: query, limit, credit from a lease", (await service.listen()).port, VALID, {
      floor: FLOOR,
      goal: "≤ 1.43 (0.7 × its rate)",
    }),
    side("the same with log lines and metrics", (await logging.listen()).port, VALID, { floor: FLOOR, goal: "≤ 2" }),
  ];
  // The client's process starts and its connections open before anything is timed.
  for (const { run } of sides) await run(scaled(5_000, CONNECTIONS));
  const rows = await measure(sides);
  client.disconnect();
  await Promise.all([service.close(), logging.close()]);
  bare.closeAllConnections();
  bare.close();
  await verifier.close();
  await store.close();
  report({
    question: "How does POST /v2/keys.verifyKey compare with a bare node:http server that only parses and echoes JSON?",
    rows,
  });
}

/** The client's process: cheap enough that the server is what is measured. */
function serveOrders(): void {
  const lines = new Map<number, Promise<Line[]>>();
  process.on("message", ({ port, authorization, word, operations }: Order) => {
    if (!lines.has(port)) lines.set(port, Promise.all(Array.from({ length: CONNECTIONS }, () => dial(port))));
    void lines.get(port)!.then(async (all) => {
      const requests = Array.from({ length: 256 }, (_, n) => toRequest(n % KEYS, authorization));
      let begun = 0;
      let right = 0;
      const work = async (line: Line): Promise<void> => {
        while (begun < operations) if ((await line(requests[begun++ % requests.length]!)).includes(word)) right++;
      };
      await Promise.all(all.map(work));
      process.send!(right);
    });
  });
}

/** Sends a request, answers its response. */
type Line = (request: string) => Promise<string>;

async function dial(port: number): Promise<Line> {
  const socket = await new Promise<Socket>((resolve, reject) => {
    const made = connect({ port, host: "127.0.0.1", noDelay: true }, () => resolve(made));
    made.once("error", reject);
  });
  let text = "";
  let done: (response: string) => void = () => undefined;
  socket.setEncoding("latin1");
  socket.on("data", (chunk: string) => {
    text += chunk;
    const head = text.indexOf("\r\n\r\n");
    const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? NaN);
    if (head < 0 || text.length < head + 4 + length) return;
    const response = text;
    text = "";
    done(response);
  });
  return (request) =>
    new Promise((resolve) => {
      done = resolve;
      socket.write(request, "latin1");
    });
}

function toRequest(n: number, authorization: string): string {
  const body = JSON.stringify(requestFor(n));
  const headers = [
    "host: 127.0.0.1",
    `authorization: ${authorization}`,
    "content-type: application/json",
    `content-length: ${body.length}`,
  ];
  return `POST /v2/keys.verifyKey HTTP/1.1\r\n${headers.join("\r\n")}\r\n\r\n${body}`;
}
