/** examples/service: what its files start is a command that serves, and what its dashboard asks for are metrics that exist. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DEFAULT_PORT } from "../../src/cli/client/settings.js";
import { ROOT } from "../structure/source.js";
import { bundleCommandLine, startServer } from "./support.js";

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

  it("the port of image and compose file is the one that serve listens on", () => {
    const port = /^EXPOSE (\d+)$/m.exec(read("Dockerfile"))?.[1];
    expect(read("compose.yaml")).toContain(`"127.0.0.1:${port}:${port}"`);
    expect(read("Dockerfile")).toContain(`http://127.0.0.1:${port}/ready`);
    expect(port).toBe(String(DEFAULT_PORT));
  });
});
