/** The programs of docs/recipes, each a process of its own, and its promises tried on it. */
import { execFile } from "node:child_process";
import { generateKeyPairSync, sign } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { build } from "esbuild";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { WebSocket } from "ws";
import { createAnalytics, createKeyring, createVerifier, type Keyring, type Store } from "../../src/index.js";
import { postgresStore } from "../../src/stores/postgres/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { noPostgres, startPostgres, type TestPostgres } from "../servers/postgres.js";
import { noRedis, startRedis, type TestRedis } from "../servers/redis.js";
import { blocksOf } from "../structure/readme.js";
import { ROOT } from "../structure/source.js";
import { buildPrograms, EXAMPLES, type Program, PROGRAMS, type Programs, RECIPES } from "./programs.js";

let built: Programs;
let folder: string;
const running: Program[] = [];
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "keystile-recipes-"));
  built = await buildPrograms(RECIPES, "recipes");
});
afterAll(async () => {
  await Promise.all(running.map((program) => program.stop()));
  rmSync(folder, { recursive: true, force: true });
});

async function start(file: string, env?: NodeJS.ProcessEnv): Promise<Program> {
  const program = await built.start(file, env);
  running.push(program);
  return program;
}

/** Starts a program with its keys in a file, and opens the file beside it. */
async function startWithFile(file: string): Promise<{ program: Program; keyring: Keyring; store: Store }> {
  const path = join(folder, `${file}.db`);
  const program = await start(file, { KEYS_DB: path });
  const store = sqliteStore(path);
  return { program, store, keyring: createKeyring(store) };
}

const keyOf = (authorization = ""): string => authorization.replace("Bearer ", "");

describe("recipes: MCP", () => {
  let program: Program;
  beforeAll(async () => {
    program = await start("mcp.ts");
  });
  const post = async (authorization: string, body: unknown) => {
    const headers = {
      authorization,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
    };
    const response = await fetch(program.url, { method: "POST", headers, body: JSON.stringify(body) });
    return [response.status, await response.json()] as const;
  };
  const call = (id: number, name: string) => ({
    jsonrpc: "2.0",
    id,
    method: "tools/call",
    params: { name, arguments: {} },
  });
  const connect = async (authorization: string) => {
    const client = new Client({ name: "test", version: "1.0.0" });
    const requestInit = { headers: { authorization } };
    await client.connect(new StreamableHTTPClientTransport(new URL(program.url), { requestInit }));
    return client;
  };

  it("a client of the SDK sees the tools that its key may use, calls them, and is refused another's", async () => {
    const client = await connect(program.keys.get("may read")!);
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(["search", "publish"]);
    expect(await client.callTool({ name: "search", arguments: {} })).toMatchObject({
      content: [{ type: "text", text: expect.stringMatching(/^search by key_/) }],
    });
    await expect(client.callTool({ name: "purge", arguments: {} })).rejects.toThrow("INSUFFICIENT_PERMISSIONS");
    await client.close();
    const stranger = await connect(program.keys.get("may not")!);
    expect(stranger.getServerCapabilities()?.tools).toBeUndefined();
    await stranger.close();
    await expect(connect("Bearer nobody")).rejects.toThrow("KEY_INVALID");
  });

  it("an array of calls is charged for each of them, and refused as a whole", async () => {
    const [status, body] = await post(program.keys.get("may read")!, [call(1, "search"), call(2, "publish")]);
    expect([status, body]).toEqual([200, [expect.objectContaining({ id: 1 }), expect.objectContaining({ id: 2 })]]);
    // Three a minute: one of the client above, and these two.
    expect(await post(program.keys.get("may read")!, call(3, "search"))).toEqual([
      429,
      expect.objectContaining({ code: "RATE_LIMITED" }),
    ]);
    expect(await post(program.keys.get("may not")!, [call(1, "search")])).toEqual([
      403,
      expect.objectContaining({ code: "INSUFFICIENT_PERMISSIONS" }),
    ]);
  });
});

describe("recipes: WebSockets", () => {
  const open = async (url: string, authorization: string) => {
    const socket = new WebSocket(url, { headers: { authorization } });
    const closed = once(socket, "close").then(([code, reason]) => `${code as number} ${String(reason)}`);
    await once(socket, "open");
    return { socket, closed };
  };

  it("an upgrade is refused as HTTP, and a socket is closed at the message that its key may not send", async () => {
    const { url, keys } = await start("websocket.ts");
    for (const [authorization, status] of [
      ["Bearer nobody", 401],
      [keys.get("may not")!, 403],
    ] as const) {
      const socket = new WebSocket(url, { headers: { authorization } });
      socket.on("error", () => {});
      const [, response] = (await once(socket, "unexpected-response")) as [unknown, IncomingMessage];
      expect(response.statusCode).toBe(status);
      expect(await text(response)).toContain('"code":');
    }
    const { socket, closed } = await open(url, keys.get("may read")!);
    const messages: string[] = [];
    socket.on("message", (data: Buffer) => messages.push(data.toString()));
    for (let i = 0; i < 3; i++) socket.send("list");
    expect(await closed).toBe("1008 RATE_LIMITED");
    expect(messages).toEqual([expect.stringMatching(/"keyId":"key_\w+"/), expect.stringMatching(/"keyId":"key_\w+"/)]);
  });

  it("a key that another process disables or deletes ends its open socket, though nothing is sent", async () => {
    const { program, keyring, store } = await startWithFile("websocket.ts");
    const { keyId } = await keyring.whoami({ key: keyOf(program.keys.get("may read")) });
    const one = await open(program.url, program.keys.get("may read")!);
    await keyring.updateKey({ keyId, enabled: false });
    expect(await one.closed).toBe("1008 disabled");
    await keyring.updateKey({ keyId, enabled: true });
    const two = await open(program.url, program.keys.get("may read")!);
    await keyring.deleteKey({ keyId });
    expect(await two.closed).toBe("1008 deleted");
    await store.close();
  });
});

describe("recipes: GraphQL", () => {
  it("an operation costs its fields, times the rows that it asks for, and is refused before it runs", async () => {
    const { program, keyring, store } = await startWithFile("graphql.ts");
    const { keyId } = await keyring.whoami({ key: keyOf(program.keys.get("may read")) });
    await keyring.updateKey({ keyId, ratelimits: [] });
    const ask = async (query: string, variables = {}, authorization = program.keys.get("may read")!) => {
      const headers = { authorization, "content-type": "application/json" };
      const body = JSON.stringify({ query, variables });
      const response = await fetch(program.url, { method: "POST", headers, body });
      const { errors } = (await response.json()) as { errors?: { extensions: { code: string } }[] };
      return [response.status, errors?.[0]?.extensions.code];
    };
    const left = async () => (await keyring.getBalance({ keyId })).remaining;
    expect(await ask("{ documents(first: 2) { id } }")).toEqual([200, undefined]);
    expect(await left()).toBe(99);
    expect(
      await ask("query ($n: Int!) { documents(first: $n) { ...f } } fragment f on Document { text }", { n: 5 }),
    ).toEqual([200, undefined]);
    expect(await left()).toBe(88);
    // An alias is another field; what stands inside a list is multiplied twice.
    expect(await ask("{ a: documents(first: 2) { related(first: 3) { text } } b: documents { id } }")).toEqual([
      200,
      undefined,
    ]);
    expect(await left()).toBe(74);
    expect(await ask("{ documents(first: -50) { text } }")).toEqual([200, undefined]);
    expect(await left()).toBe(71);
    expect(await ask("{ documents(first: 100) { text } }")).toEqual([429, "USAGE_EXCEEDED"]);
    expect(await ask("{ documents { id } }", {}, program.keys.get("may not"))).toEqual([
      403,
      "INSUFFICIENT_PERMISSIONS",
    ]);
    expect(await ask("{ documents { id } }", {}, "Bearer nobody")).toEqual([401, "KEY_INVALID"]);
    expect(await left()).toBe(71);
    await store.close();
  });
});

describe("recipes: secret scanning", () => {
  const PATTERN = /acme_[1-9A-HJ-NP-Za-km-z]{28}/;

  it("the pattern of the page finds every key of its prefix", async () => {
    expect(readFileSync(join(EXAMPLES, "secret-scanning.ts"), "utf8")).toContain(String(PATTERN));
    const store = sqliteStore(":memory:");
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    for (let i = 0; i < 200; i++) {
      const { key } = await keyring.createKey({ apiId, prefix: "acme" });
      expect(new RegExp(`^${PATTERN.source}$`).test(key)).toBe(true);
    }
    await store.close();
  });

  it("a key that GitHub reports is disabled; what it did not sign, and what is no key, changes nothing", async () => {
    const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
    const listed = { key_identifier: "k1", key: publicKey.export({ type: "spki", format: "pem" }), is_current: true };
    const github = createServer((_, response) => response.end(JSON.stringify({ public_keys: [listed] })));
    github.listen(0, "127.0.0.1");
    await once(github, "listening");
    const { port } = github.address() as { port: number };
    const path = join(folder, "secret-scanning.db");
    const program = await start("secret-scanning.ts", { KEYS_DB: path, GITHUB_KEYS_URL: `http://127.0.0.1:${port}/` });
    const store = sqliteStore(path);
    const keyring = createKeyring(store);
    const key = keyOf(program.keys.get("may read"));
    const report = async (tokens: readonly string[], signedAs?: string, id = "k1") => {
      const body = JSON.stringify(
        tokens.map((token) => ({ token, type: "acme_key", url: "https://…", source: "commit" })),
      );
      const signature = sign("sha256", Buffer.from(signedAs ?? body), privateKey).toString("base64");
      const headers = { "github-public-key-identifier": id, "github-public-key-signature": signature };
      const response = await fetch(program.url, { method: "POST", headers, body });
      return response.ok ? ((await response.json()) as unknown[]) : response.status;
    };
    expect(await report([key], "something else")).toBe(401);
    expect(await report([key], undefined, "k2")).toBe(401);
    expect((await keyring.whoami({ key })).enabled).toBe(true);
    const label = (token: string, says: string) => ({ token_raw: token, token_type: "acme_key", label: says });
    const typo = `${key.slice(0, -1)}${key.endsWith("1") ? "2" : "1"}`;
    expect(await report([typo, key])).toEqual([label(typo, "false_positive"), label(key, "true_positive")]);
    expect((await keyring.whoami({ key })).enabled).toBe(false);
    github.close();
    await store.close();
  });
});

describe("recipes: Stripe", () => {
  it("an hour that is sent twice is counted once, and the events add up to what was spent", async () => {
    const events = new Map<string, Record<string, string>>();
    let sent = 0;
    const stripe = createServer((request, response) => {
      void text(request).then((body) => {
        sent++;
        const event = Object.fromEntries(new URLSearchParams(body));
        const id = event["identifier"] ?? "";
        const isKnown = events.has(id);
        if (!isKnown) events.set(id, event);
        const message = `An event already exists with identifier ${id}.`;
        response.statusCode = isKnown ? 400 : 200;
        response.end(JSON.stringify(isKnown ? { error: { type: "invalid_request_error", message } } : event));
      });
    });
    stripe.listen(0, "127.0.0.1");
    await once(stripe, "listening");
    const { port } = stripe.address() as { port: number };
    const env = { STRIPE_URL: `http://127.0.0.1:${port}`, STRIPE_KEY: "sk_test" };
    expect(await built.run("stripe.ts", env)).toEqual(["2026-11-28T10:00:00.000Z", "2026-11-28T11:00:00.000Z"]);
    stripe.close();
    expect(sent).toBe(3);
    expect(
      [...events.values()].map((event) => [event["payload[stripe_customer_id]"], event["payload[value]"]]),
    ).toEqual([
      ["cus_1", "35"],
      ["cus_1", "7"],
    ]);
  });
});

describe("sell a plan: tokens", () => {
  const FILE = "saas/tokens.ts";
  let tokens: Programs;
  const env = () => ({ DATABASE: join(folder, "tokens.db"), MAILS: join(folder, "tokens.txt"), CUSTOMER: "cus_1" });
  const monthNow = () => new Date().toISOString().slice(0, 7);
  beforeAll(async () => {
    tokens = await buildPrograms([FILE], "tokens");
  });

  it("a stream pays for the tokens that it had, also where its client goes away; one mail; one item of the invoice", async () => {
    await tokens.run(FILE, env(), ["addCustomer", "cus_1"]);
    for (let times = 0; times < 2; times++) await tokens.run(FILE, env(), ["addPack", "cus_1", "order_1"]);
    const program = await tokens.start(FILE, env());
    running.push(program);
    const store = sqliteStore(env().DATABASE);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.getOrCreateApi({ apiId: "api_complete", name: "complete" });
    // With a cap, which raises alerts of its own.
    const { key, keyId } = await keyring.createKey({ apiId, externalId: "cus_1", credits: { remaining: 5_000 } });
    const accounts = async () => {
      const { accounts } = await keyring.getBalance({ identity: "cus_1" });
      return accounts.map(({ remaining, reserved = 0 }) => [remaining, reserved]);
    };
    const ask = (body: unknown, signal: AbortSignal | null = null) => {
      const headers = { "x-api-key": key, "content-type": "application/json" };
      return fetch(`${program.url}/complete`, { method: "POST", headers, body: JSON.stringify(body), signal });
    };
    expect(await (await ask({ tokens: 20 })).text()).toBe("token ".repeat(20));
    const rest = [
      [5_000, 0],
      [50_000, 0],
    ];
    await expect.poll(accounts).toEqual([[9_980, 0], ...rest]);
    const leaving = new AbortController();
    const cut = await ask({ tokens: 1e9 }, leaving.signal);
    await cut.body!.getReader().read();
    expect(await accounts()).toEqual([[5_980, 4_000], ...rest]);
    leaving.abort();
    await expect.poll(async () => (await accounts())[0]?.[1]).toBe(0);
    // The answer would have had 4,000.
    expect((await accounts())[0]?.[0]).toBeGreaterThan(9_000);
    expect(await (await fetch(`${program.url}/account/`)).text()).toContain("Beyond the plan");

    const months = new Set([monthNow()]);
    const verifier = createVerifier(store, { analytics: true });
    await keyring.updateIdentityCredits({ identity: "cus_1", operation: "set", value: 0 });
    const ofCap = (await keyring.getKey({ keyId })).credits!.remaining! - 100;
    await verifier.spend({ keyId }, { cost: ofCap });
    await verifier.spend({ identity: "cus_1" }, { cost: 5_500 - ofCap });
    await verifier.close();
    months.add(monthNow());
    expect((await accounts()).at(-1)).toEqual([49_500, 0]);
    await expect
      .poll(() => readFileSync(env().MAILS, { encoding: "utf8", flag: "a+" }))
      .toMatch(/^To: cus_1\nOf your tokens \d+ are left\.\n\n$/);

    const items = new Map<unknown, Record<string, string>>();
    let sent = 0;
    const stripe = createServer((request, response) => {
      void text(request).then((body) => {
        sent++;
        items.set(request.headers["idempotency-key"], Object.fromEntries(new URLSearchParams(body)));
        response.end("{}");
      });
    });
    stripe.listen(0, "127.0.0.1");
    await once(stripe, "listening");
    const { port } = stripe.address() as { port: number };
    const payment = { ...env(), STRIPE_URL: `http://127.0.0.1:${port}`, STRIPE_KEY: "sk_test" };
    for (const month of [...months, ...months]) await tokens.run(FILE, payment, ["invoice", month]);
    stripe.close();
    expect(sent).toBe(2);
    expect([...items.values()]).toMatchObject([{ customer: "cus_1", amount: "10", currency: "usd" }]);
    await store.close();
  });
});

describe.skipIf(noRedis !== undefined)("recipes: with servers", () => {
  let redis: TestRedis;
  let postgres: TestPostgres | undefined;
  beforeAll(async () => {
    redis = await startRedis();
    if (noPostgres === undefined) postgres = await startPostgres();
  });
  afterAll(async () => {
    await redis.close();
    await postgres?.close();
  });

  it("jobs: one that is tried again pays once; one that fails for good gives back; one that is too dear takes nothing", async () => {
    expect(await built.run("jobs.ts", { REDIS_URL: redis.url })).toEqual([
      "attempt 1 of 1 pages: 99 left",
      "attempt 2 of 1 pages: 99 left",
      "1 pages: 99 left",
      "attempt 1 of 2 pages: 97 left",
      "attempt 2 of 2 pages: 97 left",
      "2 pages: 99 left",
      "1000 pages: 99 left",
    ]);
  });

  /** A new database with its tables. */
  const newStore = async () => {
    const url = await postgres!.newDatabase();
    const pool = new pg.Pool({ connectionString: url, max: 4 });
    const store = postgresStore(pool);
    await store.setUp();
    return { url, pool, store, keyring: createKeyring(store) };
  };

  it.skipIf(noPostgres !== undefined)(
    "serverless: instances share limits and credits, hold few connections, see a revocation after a pause, and end in order",
    async () => {
      const { url, pool, store, keyring } = await newStore();
      const { apiId } = await keyring.createApi({ name: "documents" });
      const ratelimits = [{ name: "requests", limit: 20, duration: 3_600_000, autoApply: true }];
      const permissions = ["documents.read"];
      const { key, keyId } = await keyring.createKey({ apiId, permissions, ratelimits, credits: { remaining: 100 } });
      const env = { DATABASE_URL: `${url}?application_name=function`, REDIS_URL: redis.url, API_ID: apiId };
      const [one, two] = await Promise.all([start("serverless.ts", env), start("serverless.ts", env)]);
      const status = async ({ url }: Program) => (await fetch(url, { headers: { "x-api-key": key } })).status;
      const connections = async () => {
        const { rows } = await pool.query<{ count: string }>(
          "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'function'",
        );
        return Number(rows[0]?.count);
      };
      const statuses = await Promise.all(Array.from({ length: 30 }, (_, i) => status(i % 2 === 0 ? one : two)));
      expect(await connections()).toBeLessThanOrEqual(4);
      expect(statuses.filter((code) => code === 200)).toHaveLength(20);
      expect(statuses.filter((code) => code === 429)).toHaveLength(10);
      expect((await keyring.getBalance({ keyId })).remaining).toBe(80);

      // By themselves they would be written after a minute.
      const counted = async () => {
        const day = Math.floor(Date.now() / 86_400_000) * 86_400_000;
        const times = { from: day, to: day + 86_400_000 };
        const query = { ...times, level: "day", workspaceId: "ws_default", by: ["keyId"], maxRows: 9 } as const;
        const rows = await store.readOutcomes(query);
        return rows.reduce((sum, { counts }) => sum + counts.reduce((all, count) => all + count, 0), 0);
      };
      await vi.waitFor(async () => expect(await counted()).toBe(30), { timeout: 20_000, interval: 50 });

      two.process.kill("SIGSTOP");
      await keyring.deleteKey({ keyId });
      two.process.kill("SIGCONT");
      await vi.waitFor(async () => expect(await status(two)).toBe(401), { timeout: 20_000, interval: 50 });

      for (const program of [one, two]) program.process.kill("SIGTERM");
      expect(await Promise.all([one.ended, two.ended])).toEqual([0, 0]);
      await vi.waitFor(async () => expect(await connections()).toBe(0), { timeout: 20_000, interval: 50 });
      await store.close();
      await pool.end();
    },
  );

  it.skipIf(noPostgres !== undefined)(
    "Next on Vercel: the route charges and refuses, and what was counted is written after the response",
    async () => {
      const { url, pool, store, keyring } = await newStore();
      const { apiId } = await keyring.createApi({ apiId: "api_documents", name: "documents" });
      const ratelimits = [{ name: "requests", limit: 1, duration: 3_600_000, autoApply: true }];
      const permissions = ["documents.read"];
      const { key, keyId } = await keyring.createKey({ apiId, permissions, ratelimits, credits: { remaining: 100 } });
      // In place of Next: what a route gives to `after` runs once its response was read.
      const { outputFiles } = await build({
        stdin: { contents: CALLS, resolveDir: join(EXAMPLES, "vercel"), loader: "ts" },
        plugins: [
          {
            name: "next",
            setup: (builder) => {
              builder.onResolve({ filter: /^next\/server$/ }, ({ path }) => ({ path, namespace: "stub" }));
              builder.onLoad({ filter: /./, namespace: "stub" }, () => ({
                contents: "export const after = (act) => void (globalThis.afterwards = act);",
              }));
            },
          },
        ],
        ...{ bundle: true, packages: "external", platform: "node", format: "esm", write: false },
        tsconfig: join(EXAMPLES, "tsconfig.json"),
      });
      const program = join(ROOT, ".cache", "recipes", "vercel.mjs");
      writeFileSync(program, outputFiles[0]!.text);
      const env = { ...process.env, DATABASE_URL: url, REDIS_URL: redis.url, KEY: key };
      const { stdout } = await promisify(execFile)(process.execPath, [program], { env, timeout: 60_000 });
      const [first, second] = stdout.trim().split("\n");
      expect(first).toBe('200 {"id":"7","credits":98}');
      expect(second).toMatch(/^429 .*RATE_LIMITED/);
      const [from, to] = [Date.now() - 86_400_000, Date.now() + 60_000];
      const { rows } = await createAnalytics(store).query({ by: ["outcome"], where: { keyId: [keyId] }, from, to });
      expect(rows.map(({ outcome, count }) => [outcome, count]).sort()).toEqual([
        ["RATE_LIMITED", 1],
        ["VALID", 1],
      ]);
      await store.close();
      await pool.end();
    },
  );
});

/** Two calls of the route of examples/vercel. */
const CALLS = `
import { GET } from "./app/documents/[id]/route";
for (let i = 0; i < 2; i++) {
  const headers = { "x-api-key": process.env.KEY };
  const request = new Request("http://localhost/documents/7", { headers });
  const response = await GET(request, { params: Promise.resolve({ id: "7" }) });
  console.log(response.status, await response.text());
  await globalThis.afterwards();
}
process.exit();
`;

describe("recipes: pages", () => {
  const pages = readdirSync(join(ROOT, "docs", "recipes")).map((name) => join("docs", "recipes", name));

  it.each(pages)("%s: at most 60 lines, and each program on it stands in examples/", (page) => {
    const markdown = readFileSync(join(ROOT, page), "utf8");
    expect(markdown.trimEnd().split("\n").length).toBeLessThanOrEqual(60);
    for (const { mark, code } of blocksOf(markdown))
      if (mark !== "run" && mark !== "part") expect(readFileSync(join(EXAMPLES, `${mark}.ts`), "utf8")).toContain(code);
  });

  it("each program of examples/ stands on a page", () => {
    const marks = ["docs/middleware.md", ...pages].flatMap((page) =>
      blocksOf(readFileSync(join(ROOT, page), "utf8")).map(({ mark, code }) => [mark, code] as const),
    );
    const named = marks.filter(([mark]) => !["part", "run"].includes(mark));
    expect(PROGRAMS.filter((file) => !named.some(([mark]) => `${mark}.ts` === file))).toEqual([]);
    for (const [mark, code] of named) expect(readFileSync(join(EXAMPLES, `${mark}.ts`), "utf8")).toContain(code);
  });
});
