/**
 * examples/service: what its files start is a command that serves, and what its dashboard asks for are metrics that
 * exist.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DEFAULT_PORT } from "../../src/cli/client/settings.js";
import { noPostgres, startPostgres } from "../servers/postgres.js";
import { noRedis, startRedis } from "../servers/redis.js";
import { ROOT } from "../structure/source.js";
import { bundleCommandLine, type ServerProcess, startServer } from "./support.js";

const read = (name: string): string => readFileSync(join(ROOT, "examples", "service", name), "utf8");
const FOLDER = mkdtempSync(join(tmpdir(), "keystile-deploy-"));
let cli = "";

/** The arguments after `keystile`, on a file of ours and a free port. */
const tried = (argv: readonly string[]): string[] => [
  ...argv.map((text) => (text.startsWith("/") ? join(FOLDER, "keys.db") : text)),
  "--port",
  "0",
];

describe("examples/service", () => {
  beforeAll(async () => {
    cli = await bundleCommandLine("service-deploy");
  });
  afterAll(() => rmSync(FOLDER, { recursive: true, force: true }));

  it("the Dockerfile and the systemd unit start a server that is ready, and every metric of the dashboard is served", async () => {
    const [, cmd = "[]"] = /^CMD (\[.*\])$/m.exec(read("Dockerfile")) ?? [];
    const [, unit = ""] = /^ExecStart=\S+ (.*)$/m.exec(read("keystile.service")) ?? [];
    for (const [program, ...argv] of [JSON.parse(cmd) as string[], unit.split(" ")]) {
      expect([program, argv[0]]).toEqual(["keystile", "serve"]);
      const server = await startServer(cli, tried(argv.slice(1)), FOLDER);
      try {
        const url = server.url.replace("0.0.0.0", "127.0.0.1");
        expect((await fetch(`${url}/ready`)).status).toBe(200);
        const metrics = await (await fetch(`${url}/metrics`)).text();
        const asked = new Set([...read("grafana.json").matchAll(/keystile_\w+/g)].map(([name]) => name));
        expect(asked.size).toBeGreaterThan(10);
        expect([...asked].filter((name) => !metrics.includes(name.replace(/_bucket$/, "")))).toEqual([]);
      } finally {
        expect(await server.stop("SIGTERM")).toBe(0);
      }
    }
  });

  it.skipIf((noPostgres ?? noRedis) !== undefined)(
    "compose.many.yaml starts two nodes that share keys, credits and limits",
    async () => {
      const text = read("compose.many.yaml");
      const [, command = "[]"] = /^ {2}command: (\[.*\])$/m.exec(text) ?? [];
      const [program, verb, ...argv] = JSON.parse(command) as string[];
      expect([program, verb]).toEqual(["keystile", "serve"]);
      const [, variables = ""] = /^ {2}environment:\n((?: {4}.*\n)*)/m.exec(text) ?? [];
      const given = new Map([...variables.matchAll(/^ {4}(\w+): (.*)$/gm)].map(([, name, value]) => [name, value]));
      expect([...given.keys()]).toEqual(["KEYSTILE_STORE", "KEYSTILE_LIMITER", "KEYSTILE_NODES", "PGPASSWORD"]);

      const [postgres, redis] = await Promise.all([startPostgres(), startRedis()]);
      const nodes: ServerProcess[] = [];
      try {
        const database = new URL(await postgres.newDatabase());
        // The hosts are services of the file, and the user is the one that its PostgreSQL makes.
        const store = new URL(given.get("KEYSTILE_STORE")!);
        expect(text).toContain(`\n  ${store.hostname}:\n`);
        expect(text).toContain(`POSTGRES_USER: ${store.username}\n      POSTGRES_DB: ${store.pathname.slice(1)}\n`);
        expect(text).toContain(`\n  ${new URL(given.get("KEYSTILE_LIMITER")!).hostname}:\n`);
        store.host = database.host;
        store.pathname = database.pathname;
        const KEYSTILE_NODES = JSON.parse(given.get("KEYSTILE_NODES")!) as string;
        expect(text.match(/^ {2}node-\d+:$/gm)).toHaveLength(Number(KEYSTILE_NODES));
        const shared = { KEYSTILE_STORE: store.href, KEYSTILE_LIMITER: redis.url, PGPASSWORD: database.password };
        const env = { ...shared, KEYSTILE_NODES };
        const folder = mkdtempSync(join(FOLDER, "many-"));
        nodes.push(...(await Promise.all([1, 2].map(() => startServer(cli, tried(argv), folder, env)))));
        const urls = nodes.map(({ url }) => url.replace("0.0.0.0", "127.0.0.1"));
        const rootKey = readFileSync(join(folder, "keystile.root-key"), "utf8").trim();
        const ask = async (node: number, operation: string, body: object) => {
          const headers = { authorization: `Bearer ${rootKey}`, "content-type": "application/json" };
          const response = await fetch(`${urls[node]}/v2/${operation}`, {
            method: "POST",
            headers,
            body: JSON.stringify(body),
          });
          return ((await response.json()) as { data: Record<string, unknown> }).data;
        };
        const { apiId } = await ask(0, "apis.createApi", { name: "shared" });
        const ratelimits = [{ name: "requests", limit: 2, duration: 3_600_000, autoApply: true }];
        const { key } = await ask(0, "keys.createKey", { apiId, ratelimits, credits: { remaining: 9 } });
        const outcomes = [];
        for (const node of [1, 0, 1]) {
          const { code, credits } = await ask(node, "keys.verifyKey", { key });
          outcomes.push([code, credits]);
        }
        expect(outcomes).toEqual([
          ["VALID", 8],
          ["VALID", 7],
          ["RATE_LIMITED", 7],
        ]);
        for (const url of urls) expect((await fetch(`${url}/ready`)).status).toBe(200);
      } finally {
        for (const node of nodes) expect(await node.stop("SIGTERM")).toBe(0);
        await postgres.close();
        await redis.close();
      }
    },
  );

  it("the port of image and compose file is the one that serve listens on", () => {
    const port = /^EXPOSE (\d+)$/m.exec(read("Dockerfile"))?.[1];
    for (const file of ["compose.yaml", "compose.many.yaml"])
      expect(read(file)).toContain(`"127.0.0.1:${port}:${port}"`);
    expect(read("Dockerfile")).toContain(`http://127.0.0.1:${port}/ready`);
    expect(port).toBe(String(DEFAULT_PORT));
  });
});
