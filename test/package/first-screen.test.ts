/**
 * The stopwatch: from an empty folder to a guarded route, word by word as the README has it, with the packed tarball.
 * Ends with a 200, a 401, a 403 and a 429 over real HTTP, for each framework, as ESM and as CommonJS.
 *
 * The blocks are found by their headings: where one is renamed or goes, this says so. Frameworks are those of this
 * repository, linked.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { blockAt, FIRST, INSTALL, type Place, toJavaScript } from "./blocks.js";
import { createStranger, type Stranger } from "./packed.js";

const ROOT = process.cwd();
const route = (heading: string, block: string): Place => ({
  page: "docs/middleware.md",
  heading,
  block: `ts ${block}`,
});

/** What stands around the block of a route: the lines that its framework's own guide begins with. */
const FRAMEWORKS = {
  express: {
    at: route("Express", "express"),
    packages: ["express"],
    before: `import express from "express";\nimport { apiKey, verifiedKey } from "keystile/express";\nconst app = express();`,
    after: `const server = app.listen(0, "127.0.0.1", () => console.log("port " + server.address().port));`,
  },
  hono: {
    at: route("Hono", "hono"),
    packages: ["hono", "@hono/node-server"],
    before: `import { Hono } from "hono";\nimport { serve } from "@hono/node-server";\nimport { getConnInfo } from "@hono/node-server/conninfo";\nimport { apiKey, verifiedKey } from "keystile/hono";\nconst app = new Hono();`,
    after: `serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, ({ port }) => console.log("port " + port));`,
  },
  fastify: {
    at: route("Fastify", "fastify"),
    packages: ["fastify"],
    before: `import fastify from "fastify";\nimport { apiKey, verifiedKey } from "keystile/fastify";\nconst app = fastify();`,
    after: `await app.listen({ port: 0, host: "127.0.0.1" });\nconsole.log("port " + app.server.address().port);`,
  },
  web: {
    at: route("Web: Next, Bun, Deno, workers", "web"),
    packages: ["hono", "@hono/node-server"],
    before: `import { serve } from "@hono/node-server";\nimport { apiKey } from "keystile/web";`,
    after: `serve({ fetch: (request) => GET(request), port: 0, hostname: "127.0.0.1" }, ({ port }) => console.log("port " + port));`,
  },
} as const;

/** Keys as the reader of the first screen has them: one that may read, with a limit, and one that may not. */
const KEYS = `
import { createKeyring, createVerifier } from "keystile";
import { sqliteStore } from "keystile/sqlite";
const store = sqliteStore("keys.db");
const keyring = createKeyring(store);
const verifier = createVerifier(store);
const { apiId } = await keyring.getOrCreateApi({ apiId: "api_documents", name: "documents" });
const ratelimits = [{ name: "requests", limit: 1, duration: 60_000, autoApply: true }];
const reader = await keyring.createKey({ apiId, permissions: ["documents.*"], ratelimits });
const other = await keyring.createKey({ apiId });
console.log("keys " + JSON.stringify([reader.key, other.key]));
`;

/** A program as CommonJS: its imports become require, and what awaits stands in a function. */
const FORMATS = {
  ESM: { file: "mjs", write: (program: string) => toJavaScript(program) },
  CommonJS: {
    file: "cjs",
    write(program: string) {
      const imports = program.match(/^import .*$/gm) ?? [];
      const rest = program.replace(/^import .*$/gm, "").replace(/^export const/gm, "const");
      const required = imports.map((line) =>
        line
          .replace(/^import (\{.*\}) from ("[^"]+");$/, "const $1 = require($2);")
          .replace(/^import (\w+) from ("[^"]+");$/, "const $1 = require($2);"),
      );
      return `${required.join("\n")}\n(async () => {\n${toJavaScript(rest)}\n})();\n`;
    },
  },
} as const;

let stranger: Stranger | undefined;
const running = new Set<ChildProcess>();
beforeAll(async () => {
  const { folder } = (stranger = await createStranger());
  // The README's own command, with the tarball in place of the registry; the driver and the frameworks are linked.
  expect(blockAt(INSTALL)).toBe("npm install keystile express");
  const packages = ["better-sqlite3", "bindings", "file-uri-to-path", "@types/node"];
  for (const name of [...packages, ...Object.values(FRAMEWORKS).flatMap((one) => [...one.packages])]) {
    const to = join(folder, "node_modules", name);
    mkdirSync(join(to, ".."), { recursive: true });
    try {
      symlinkSync(join(ROOT, "node_modules", name), to);
    } catch (error) {
      if ((error as { code?: string }).code !== "EEXIST") throw error;
    }
  }
});
afterAll(async () => {
  for (const child of running) child.kill();
  await stranger?.remove();
});

/** Starts a program, and reads what it tells of itself. */
async function start(file: string, text: string) {
  const folder = join(stranger!.folder, file.replace(/\W/g, "-"));
  mkdirSync(folder);
  writeFileSync(join(folder, file), text);
  const child = spawn(process.execPath, [file], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
  running.add(child);
  const told: string[] = [];
  let keys: string[] = [];
  let port = "";
  for await (const line of createInterface(child.stdout)) {
    told.push(line);
    if (line.startsWith("keys ")) keys = JSON.parse(line.slice("keys ".length)) as string[];
    if (line.startsWith("port ")) port = line.slice("port ".length);
    if (keys.length > 0 && port !== "") break;
  }
  const stop = () => {
    running.delete(child);
    child.kill();
  };
  return { told, keys, url: `http://127.0.0.1:${port}/documents`, stop };
}

describe("from an empty folder", () => {
  it.each(Object.keys(FORMATS) as (keyof typeof FORMATS)[])(
    "the first screen runs as it stands: %s",
    async (format) => {
      const { file, write } = FORMATS[format];
      const { told, stop } = await start(`first.${file}`, write(blockAt(FIRST)));
      stop();
      const promised = /\/\/ → (.*)$/m.exec(blockAt(FIRST))?.[1];
      expect(told).toContain(promised);
    },
  );

  const cases = (Object.keys(FRAMEWORKS) as (keyof typeof FRAMEWORKS)[]).flatMap((framework) =>
    (Object.keys(FORMATS) as (keyof typeof FORMATS)[]).map((format) => [framework, format] as const),
  );
  it.each(cases)("a guarded route of %s as %s: 200, 401, 403 and 429", async (framework, format) => {
    const { at, before, after } = FRAMEWORKS[framework];
    const { file, write } = FORMATS[format];
    const began = performance.now();
    const program = `${before}\n${KEYS}\n${blockAt(at)}\n${after}\n`;
    const { keys, url, stop } = await start(`${framework}.${file}`, write(program));
    try {
      const call = async (key?: string) =>
        (await fetch(url, key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } })).status;
      expect([await call(keys[0]), await call(), await call(keys[1]), await call(keys[0])]).toEqual([
        200, 401, 403, 429,
      ]);
    } finally {
      stop();
    }
    // Told, not judged: machines differ.
    console.log(`${framework} as ${format}: ${Math.round(performance.now() - began)} ms from the file to a 429`);
  });
});
