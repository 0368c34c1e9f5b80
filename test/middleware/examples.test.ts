/** Each program of examples/ as a process of its own: its route passes, refuses and limits over real HTTP. */
import { execFile, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { blocksOf, layOut } from "../structure/readme.js";
import { ROOT } from "../structure/source.js";

const FOLDER = join(ROOT, "examples");
const programs = readdirSync(FOLDER).filter((file) => file.endsWith(".ts") && file !== "keys.ts");
const LINE = /^(may read|may not): +curl -i -H "Authorization: (Bearer \S+)" (\S+)$/;

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
  it("there is one for each framework, and all type-check", async () => {
    expect(programs.sort()).toEqual(["express.ts", "fastify.ts", "hono.ts", "nest.ts", "trpc.ts", "web.ts"]);
    const tsc = join(ROOT, "node_modules", "typescript", "bin", "tsc");
    await promisify(execFile)(process.execPath, [tsc, "-p", FOLDER]);
  });

  it.each(programs)("%s: 200, 401, 403 and 429", async (file) => {
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
});

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
