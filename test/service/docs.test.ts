/**
 * The commands of docs/http-service.md and docs/command-line.md, run as written; what serve printed stands in for
 * `root_…`, `api_…` and `sk_…`.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROOT } from "../structure/source.js";
import { rootKeyOf } from "../cli/support.js";
import { bundleCommandLine, type Ended, type ServerProcess, startServer } from "./support.js";

const TEXT = ["http-service", "command-line"]
  .map((page) => readFileSync(join(ROOT, "docs", `${page}.md`), "utf8"))
  .join("\n");
const blocks = (language: string): string[] =>
  [...TEXT.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, "gm"))].map(([, code = ""]) => code.trim());
const [SERVE = "", ...LATER] = blocks("sh");

const FOLDER = mkdtempSync(join(tmpdir(), "keystile-readme-"));
const env: NodeJS.ProcessEnv = { ...process.env, HOME: FOLDER };
const printed = new Map<string, string>();
let cli = "";
let server: ServerProcess | undefined;

/** One line of a shell block, with `npx keystile` as the bundle. */
function runLine(line: string): Promise<Ended> {
  let text = line;
  for (const [placeholder, value] of printed) text = text.replaceAll(placeholder, value);
  const script = `npx() { shift; "$NODE" "$CLI" "$@"; }\n${text}`;
  return new Promise((resolve) => {
    const options = { cwd: FOLDER, env: { ...env, NODE: process.execPath, CLI: cli }, timeout: 30_000 };
    const child = execFile("sh", ["-c", script], options, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}

describe("docs: the service and its commands", () => {
  beforeAll(async () => {
    cli = await bundleCommandLine("service-readme");
  });
  afterAll(async () => {
    await server?.stop("SIGKILL");
    rmSync(FOLDER, { recursive: true, force: true });
  });

  it("serves on the port that the commands know, and prints what they need", async () => {
    const [program, name, command, ...argv] = SERVE.split(" ");
    expect([program, name, command]).toEqual(["npx", "keystile", "serve"]);
    server = await startServer(cli, argv, FOLDER);
    printed.set("root_…", rootKeyOf(server.banner));
    printed.set("api_…", /^API +(api_\w+)$/m.exec(server.banner)?.[1] ?? "");
    expect([...printed.values()]).not.toContain("");
  });

  it("runs every other command, line by line", async () => {
    const [example = "", older = ""] = blocks("ndjson");
    writeFileSync(join(FOLDER, "old-keys.ndjson"), example);
    writeFileSync(join(FOLDER, "older-keys.ndjson"), older);
    // For the commands that stop an owner: one without keys is exit code 1.
    await runLine("npx keystile keys create --db keys.db --api-id api_… --external-id acme");
    const lines = LATER.flatMap((block) => block.split("\n"));
    expect(lines.length).toBeGreaterThan(5);
    for (const line of lines) {
      const exported = /^export (\w+)=(.*)$/.exec(line);
      if (exported) env[exported[1] ?? ""] = printed.get(exported[2] ?? "");
      const { code, stdout, stderr } = await runLine(line);
      expect([line, code, stderr.includes("error")]).toEqual([line, 0, false]);
      const key = /"key": "(sk_\w+)"/.exec(stdout)?.[1];
      if (key !== undefined) printed.set("sk_…", key);
      if (line.includes("verify-key ")) expect(stdout).toContain('"code": "VALID"');
    }
  });

  it("stops without a fault", async () => {
    expect(await server?.stop("SIGTERM")).toBe(0);
  });
});
