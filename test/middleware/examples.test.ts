/**
 * Each program of examples/ as a process of its own: its route passes, refuses and limits over real HTTP. Their types
 * are checked by `npm run check`.
 */
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import { beforeAll, describe, expect, it } from "vitest";
import { blocksOf, bundlePrograms } from "../structure/readme.js";
import { ROOT } from "../structure/source.js";

const FOLDER = join(ROOT, "examples");
const programs = readdirSync(FOLDER).filter((file) => file.endsWith(".ts") && file !== "keys.ts");
/** They speak no plain HTTP, and have tests of their own. */
const PROTOCOLS = ["mcp.ts", "websocket.ts"];
const LINE = /^(may read|may not): +\S.* -H "Authorization: (Bearer \S+)" (?:.* )?(\S+)$/;

let builtOf: (file: string) => string;

/** Starts a program, and returns what its two lines tell. */
async function start(file: string) {
  const child = spawn(process.execPath, [builtOf(join(FOLDER, file))], {
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
  beforeAll(async () => {
    const files = programs.map((file) => join(FOLDER, file));
    builtOf = await bundlePrograms(files, join(FOLDER, "tsconfig.json"), join(ROOT, ".cache", "examples"));
  });

  it("there is one for each framework and protocol", () => {
    const frameworks = ["elysia", "express", "fastify", "h3", "hono", "koa", "nest", "trpc", "web"];
    expect(programs.sort()).toEqual([...frameworks.map((name) => `${name}.ts`), ...PROTOCOLS].sort());
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
});
