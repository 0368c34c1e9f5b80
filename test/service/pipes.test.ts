/** The command line before readers that leave, on real pipes, and its end at a second Ctrl-C. */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { rootKeyOf } from "../cli/support.js";
import { bundleCommandLine, post, runCommand, type ServerProcess, startServer } from "./support.js";

const FOLDER = mkdtempSync(join(tmpdir(), "keystile-pipes-"));
const TEMPORARY = join(FOLDER, "tmp");
const KEYS = 2_000;

let cli = "";
let server: ServerProcess;
let rootKey = "";
let apiId = "";

/** `shell` gets the command line as `"$@"`. Node's own children would talk over sockets. */
function pipe(shell: string, argv: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const code = join(mkdtempSync(join(FOLDER, "run-")), "code");
  const script = `run() { sh -c 'echo $$ > "$CODE.pid"; exec "$@"' sh "$@"; echo $? > "$CODE"; }\n${shell}`;
  const own = { CODE: code, TMPDIR: TEMPORARY, KEYSTILE_ROOT_KEY: rootKey, ...env };
  const child = spawn("sh", ["-c", script, "sh", process.execPath, cli, ...argv], {
    env: { ...process.env, ...own },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let stdout = "";
  child.stdout.on("data", (bytes: Buffer) => (stdout += bytes.toString()));
  return {
    stdout: () => stdout,
    pid: () => Number(readFileSync(`${code}.pid`, "utf8")),
    /** The exit code of the command line itself, once the whole pipe has ended. */
    ended: new Promise<number>((resolve) => child.once("close", () => resolve(Number(readFileSync(code, "utf8"))))),
  };
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 20));
}

function keysFile(name: string): string {
  const path = join(FOLDER, name);
  const hashOf = (i: number): string => i.toString(16).padStart(64, "0");
  writeFileSync(path, Array.from({ length: KEYS }, (_, i) => JSON.stringify({ hash: hashOf(i) })).join("\n"));
  return `@${path}`;
}

beforeAll(async () => {
  mkdirSync(TEMPORARY);
  cli = await bundleCommandLine("pipes");
  const db = join(FOLDER, "keys.db");
  server = await startServer(cli, ["--db", db, "--port", "0"], FOLDER);
  rootKey = rootKeyOf(server.banner);
  apiId = /^API +(api_\w+)$/m.exec(server.banner)?.[1] ?? "";
  await runCommand(cli, ["migrations", "create", "--db", db, "--algorithm", "sha256", "--id", "mig_1"]);
});
afterAll(async () => {
  await server?.stop("SIGKILL");
  rmSync(FOLDER, { recursive: true, force: true });
});

describe("a reader that leaves", () => {
  it("does not cut an import short: every key goes in, the exit code is the import's, no file is left", async () => {
    const frame = [
      "api",
      "keys",
      "migrate-keys",
      "--migration-id",
      "mig_1",
      "--api-id",
      apiId,
      "--api-url",
      server.url,
    ];
    const argv = [...frame, "--batch-size", "100", "--keys", keysFile("keys.ndjson")];
    const first = pipe('run "$@" 2>&1 | head -n 1', argv);
    expect(await first.ended).toBe(0);
    expect(first.stdout()).toMatch(/^req_\S+\n$/);
    const again = pipe('run "$@" 2> /dev/null | cat', [...argv, "--output", "json"]);
    expect(await again.ended).toBe(1);
    const { data } = JSON.parse(again.stdout()) as { data: { failed: number } };
    expect(data.failed).toBe(KEYS);
    expect(readdirSync(TEMPORARY)).toEqual([]);
  });

  it("does not turn a no into a yes", async () => {
    const verify = ["api", "keys", "verify-key", "--key", "nobody's", "--api-url", server.url];
    expect(await pipe('run "$@" 2>&1 | true', verify).ended).toBe(1);
  });

  it("does not end a server at its next line", async () => {
    const served = pipe('run "$@" 2>&1 | head -n 1', [
      "serve",
      "--db",
      join(FOLDER, "other.db"),
      "--port",
      "0",
      "--log",
    ]);
    await until(() => served.stdout().includes("\n"));
    const url = /http:\S+/.exec(served.stdout())?.[0] ?? "";
    for (let i = 0; i < 5; i++) expect((await post(url, "keys.verifyKey", "root_nobody", {})).status).toBe(401);
    process.kill(served.pid(), "SIGTERM");
    expect(await served.ended).toBe(0);
  });

  it.runIf(existsSync("/dev/full"))("is another thing than a full disk, which is a failure", async () => {
    expect(await pipe('run "$@" > /dev/full', ["--version"]).ended).toBe(3);
  });
});

describe.runIf(existsSync("/dev/full"))("a full disk", () => {
  it("below the log does not end a server: it goes on answering, and stops as asked", async () => {
    const argv = ["serve", "--db", join(FOLDER, "logged.db"), "--port", "0", "--log"];
    const served = pipe('run "$@" 2> /dev/full', argv);
    await until(() => served.stdout().includes("\n"));
    const url = /http:\S+/.exec(served.stdout())?.[0] ?? "";
    for (let i = 0; i < 5; i++) expect((await post(url, "keys.verifyKey", "root_nobody", {})).status).toBe(401);
    process.kill(served.pid(), "SIGTERM");
    expect(await served.ended).toBe(0);
  });

  it("below standard output: a first start fails and keeps no root key that nobody saw", async () => {
    const argv = ["serve", "--db", join(FOLDER, "unseen.db"), "--port", "0"];
    const unseen = pipe('run "$@" 2>&1 > /dev/full', argv);
    expect(await unseen.ended).toBe(3);
    expect(unseen.stdout()).toContain("standard output cannot be written (ENOSPC)");
    const again = await startServer(cli, argv.slice(1), FOLDER);
    expect(rootKeyOf(again.banner)).toMatch(/^root_/);
    await again.stop();
  });
});

describe("a second Ctrl-C", () => {
  let silent: Server;
  let asked = 0;
  beforeAll(async () => {
    // Takes in the first request, and never answers the second.
    silent = createServer((_request, response) => {
      if (++asked === 1)
        response.end(JSON.stringify({ meta: { requestId: "req_1" }, data: { migrated: [], failed: ["x"] } }));
    });
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  });
  afterAll(() => void silent.close().closeAllConnections());

  it("ends an import at once and leaves no file of it", async () => {
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const frame = ["api", "keys", "migrate-keys", "--migration-id", "mig_1", "--api-id", "api_123", "--api-url", url];
    const running = pipe('run "$@" 2> /dev/null | cat', [
      ...frame,
      "--keys",
      keysFile("more.ndjson"),
      "--batch-size",
      "100",
    ]);
    await until(() => asked === 2);
    process.kill(running.pid(), "SIGINT");
    await new Promise((resolve) => setTimeout(resolve, 500));
    process.kill(running.pid(), "SIGINT");
    expect(await running.ended).toBe(130);
    expect(readdirSync(TEMPORARY)).toEqual([]);
  });
});
