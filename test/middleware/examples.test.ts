/** Each program of examples/ as a process of its own: its route passes, refuses and limits over real HTTP. */
import { execFile, spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
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
