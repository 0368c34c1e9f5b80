/** The first start of a file, as processes: several at once, and before a reader that has left. */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bundleCommandLine, post, runCommand, startServer } from "./support.js";

const FOLDER = mkdtempSync(join(tmpdir(), "keystile-first-"));
const PROCESSES = 4;

let cli = "";
beforeAll(async () => {
  cli = await bundleCommandLine("first-start");
});
afterAll(() => rmSync(FOLDER, { recursive: true, force: true }));

/** Runs the command line with a pipe as standard output that nobody reads any more. @returns exit code and stderr */
async function runUnread(argv: readonly string[]): Promise<{ code: number | null; errors: string }> {
  const script = 'exec 3>&1; { sleep 0.5; "$@" 2>&3; echo "code $?" >&3; } | true';
  const child = spawn("sh", ["-c", script, "sh", process.execPath, cli, ...argv], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let errors = "";
  child.stdout.on("data", (bytes: Buffer) => (errors += bytes.toString()));
  await new Promise((resolve) => child.once("close", resolve));
  return { code: Number(/code (\d+)/.exec(errors)?.[1]), errors };
}

const rootKeysOf = async (db: string): Promise<unknown[]> =>
  JSON.parse((await runCommand(cli, ["root-keys", "list", "--db", db, "--output", "json"])).stdout) as unknown[];

describe("serve: the first start", () => {
  it("of several processes at once makes one API and one root key, and none says that there is none", async () => {
    for (let round = 0; round < 5; round++) {
      const db = join(FOLDER, `together-${round}.db`);
      const servers = await Promise.all(
        Array.from({ length: PROCESSES }, () => startServer(cli, ["--db", db, "--port", "0"], FOLDER)),
      );
      const first = servers.filter(({ banner }) => banner.includes("root key"));
      expect(first.length).toBe(1);
      // Into a pipe no root key is written: it is in a file.
      const keyFile = /^root key +(\S+)$/m.exec(first[0]!.banner)?.[1] ?? "";
      const rootKey = readFileSync(join(FOLDER, keyFile.replace(`${FOLDER}/`, "")), "utf8").trim();
      const apiId = /^API +(api_\w+)$/m.exec(first[0]!.banner)?.[1] ?? "";
      for (const { url } of servers) expect((await post(url, "apis.getApi", rootKey, { apiId })).status).toBe(200);
      await Promise.all(servers.map((server) => server.stop()));
      for (const { errors } of servers) expect(errors()).not.toContain("no root key");
      expect((await rootKeysOf(db)).length).toBe(1);
    }
  });

  it("root-keys create before a reader that has left: fails, and keeps no root key that nobody saw", async () => {
    const db = join(FOLDER, "unread.db");
    await (await startServer(cli, ["--db", db, "--port", "0"], FOLDER)).stop();
    const { code, errors } = await runUnread(["root-keys", "create", "--db", db, "--all"]);
    expect([code, errors]).toEqual([3, expect.stringContaining("standard output cannot be written (EPIPE)")]);
    expect((await rootKeysOf(db)).length).toBe(1);
  });
});
