/** Each program of examples/ as a process of its own: its route passes, refuses and limits over real HTTP. */
import { execFile, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { blocksOf, layOut } from "../structure/readme.js";
import { ROOT } from "../structure/source.js";

const FOLDER = join(ROOT, "examples");
const programs = readdirSync(FOLDER).filter((file) => file.endsWith(".ts") && file !== "keys.ts");
/** They speak no plain HTTP, and have tests of their own. */
const PROTOCOLS = ["mcp.ts", "websocket.ts"];
const LINE = /^(may read|may not): +\S.* -H "Authorization: (Bearer \S+)" (?:.* )?(\S+)$/;

/** Starts a program, and returns what its two lines tell. */
async function start(file: string) {
  const tsx = join(ROOT, "node_modules", "tsx", "dist", "cli.mjs");
  const argv = [tsx, "--tsconfig", join(FOLDER, "tsconfig.json"), join(FOLDER, file)];
  const child = spawn(process.execPath, argv, {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, PORT: "0" },
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const keys = new Map<string, string>();
  let url = "";
  for await (const line of createInterface(child.stdout)) {
    const [, who = "", authorization = "", at = ""] = LINE.exec(line) ?? [];
    if (who !== "") keys.set(who, authorization);
    url = at;
    if (keys.size === 2) break;
  }
  return { keys, url, stop: () => (child.kill(), ended) };
}

describe("examples", () => {
  it("there is one for each framework and protocol, and all type-check", async () => {
    const frameworks = ["elysia", "express", "fastify", "h3", "hono", "koa", "nest", "trpc", "web"];
    expect(programs.sort()).toEqual([...frameworks.map((name) => `${name}.ts`), ...PROTOCOLS].sort());
    const tsc = join(ROOT, "node_modules", "typescript", "bin", "tsc");
    await promisify(execFile)(process.execPath, [tsc, "-p", FOLDER]);
  });

  it.each(programs.filter((file) => !PROTOCOLS.includes(file)))("%s: 200, 401, 403 and 429", async (file) => {
    const { keys, url, stop } = await start(file);
    try {
      const call = (authorization?: string) =>
        fetch(url, authorization === undefined ? {} : { headers: { authorization } });
      const first = await call(keys.get("may read"));
      expect([first.status, await first.text()]).toEqual([200, expect.stringMatching(/"keyId":"key_\w+"/)]);
      expect((await call()).status).toBe(401);
      expect((await call(keys.get("may not"))).status).toBe(403);
      expect((await call(keys.get("may read"))).status).toBe(200);
      expect((await call(keys.get("may read"))).status).toBe(200);
      const limited = await call(keys.get("may read"));
      expect([limited.status, Number(limited.headers.get("retry-after"))]).toEqual([429, expect.closeTo(19, -1)]);
    } finally {
      await stop();
    }
  });

  it("mcp.ts: a tool has its own price and permission, and the list those that the key may use", async () => {
    const { keys, url, stop } = await start("mcp.ts");
    try {
      const call = async (who: string, method: string, name?: string) => {
        const headers = { authorization: keys.get(who) ?? "Bearer nobody" };
        const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { name } });
        const response = await fetch(url, { method: "POST", headers, body });
        return [response.status, await response.json()] as const;
      };
      const tools = (...names: string[]) => ({ tools: names.map((name) => expect.objectContaining({ name })) });
      const [, listed] = await call("may read", "tools/list");
      expect(listed).toEqual({ jsonrpc: "2.0", id: 1, result: tools("search", "publish") });
      expect(await call("may not", "tools/list")).toEqual([200, expect.objectContaining({ result: tools() })]);
      expect(await call("may read", "tools/call", "search")).toEqual([
        200,
        expect.objectContaining({ result: { content: [{ type: "text", text: expect.stringMatching(/^by key_/) }] } }),
      ]);
      expect((await call("may read", "tools/call", "purge"))[0]).toBe(403);
      expect((await call("may not", "tools/call", "search"))[0]).toBe(403);
      expect((await call("nobody", "tools/list"))[0]).toBe(401);
      expect((await call("may read", "other"))[1]).toMatchObject({ error: { code: -32601 } });
      expect((await call("may read", "tools/call", "search"))[0]).toBe(429);
    } finally {
      await stop();
    }
  });

  it("websocket.ts: refuses an upgrade as HTTP, and closes a socket whose key is limited", async () => {
    const { keys, url, stop } = await start("websocket.ts");
    try {
      expect(await upgrade(url, "Bearer nobody")).toEqual({
        status: 401,
        body: expect.stringContaining('"code":"KEY_INVALID"') as string,
      });
      expect(await upgrade(url, keys.get("may not")!)).toMatchObject({ status: 403 });
      const { status, socket } = await upgrade(url, keys.get("may read")!);
      expect(status).toBe(101);
      const frames = framesOf(socket!);
      for (let i = 0; i < 3; i++) socket!.write(Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0x68, 0x69]));
      for (let i = 0; i < 2; i++) expect((await frames.next()).value).toMatch(/^text: .*"keyId":"key_\w+"/);
      expect((await frames.next()).value).toBe("close: 1008 RATE_LIMITED");
      socket!.destroy();
    } finally {
      await stop();
    }
  });
});

/** Asks for a WebSocket. */
function upgrade(url: string, authorization: string): Promise<{ status: number; body?: string; socket?: Duplex }> {
  const headers = {
    ...{ authorization, connection: "Upgrade", upgrade: "websocket" },
    ...{ "sec-websocket-version": "13", "sec-websocket-key": Buffer.alloc(16).toString("base64") },
  };
  return new Promise((resolve, reject) => {
    const asked = request(url.replace(/^ws/, "http"), { headers });
    asked.on("upgrade", ({ statusCode: status = 0 }, socket) => resolve({ status, socket }));
    asked.on("response", (response) => {
      text(response).then((body) => resolve({ status: response.statusCode ?? 0, body }), reject);
    });
    asked.on("error", reject).end();
  });
}

/** Short frames of a server: text, and the one that closes with code and reason. */
async function* framesOf(socket: Duplex): AsyncGenerator<string> {
  let read = Buffer.alloc(0);
  for await (const chunk of socket) {
    read = Buffer.concat([read, chunk as Buffer]);
    while (read.length >= 2 && read.length >= 2 + read[1]!) {
      const body = read.subarray(2, 2 + read[1]!);
      const isClose = read[0] === 0x88;
      yield isClose ? `close: ${body.readUInt16BE()} ${body.subarray(2).toString()}` : `text: ${body.toString()}`;
      read = read.subarray(2 + read[1]!);
    }
  }
}

describe("documentation", () => {
  it("each piece of docs/middleware.md stands in the example of its framework", () => {
    const all = blocksOf(readFileSync(join(ROOT, "docs", "middleware.md"), "utf8"));
    const blocks = all.filter(({ mark }) => mark !== "part");
    expect(blocks.map(({ mark }) => `${mark}.ts`).sort()).toEqual(programs.sort());
    for (const { mark, code } of blocks) expect(readFileSync(join(FOLDER, `${mark}.ts`), "utf8")).toContain(code);
  });

  it("README: A guarded route, on a port of the system's choice, answers 200, 401 and 403", async () => {
    const section = readFileSync(join(ROOT, "README.md"), "utf8")
      .split(/^## /m)
      .find((text) => /^A guarded route/.test(text));
    const [block] = blocksOf(section ?? "");
    const { code = "", ...rest } = block ?? {};
    const calls = `
      const mayNot = await keyring.createKey({ apiId });
      const { port } = server.address() as import("node:net").AddressInfo;
      for (const text of [key, "nobody", mayNot.key]) {
        const response = await fetch(\`http://127.0.0.1:\${port}/documents\`, { headers: { "x-api-key": text } });
        console.log(response.status, response.ok ? JSON.stringify(await response.json()) : "");
      }
      process.exit();
    `;
    const program = {
      mark: "run",
      line: 1,
      ...rest,
      code: code.replace("app.listen(3000)", "const server = app.listen(0)") + calls,
    };
    const run = await layOut("readme-guard", [program]);
    expect(await run(program)).toEqual([
      expect.stringMatching(/^curl .*\/documents$/),
      '200 {"documents":[],"owner":"customer_1"}',
      "401",
      "403",
    ]);
  });
});
