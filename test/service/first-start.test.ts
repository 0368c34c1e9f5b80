/** The first start of a file, as processes: several at once, and before a reader that has left. */
import { spawn } from "node:child_process";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKeyring } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
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

/**
 * Loaded before the command line: kills the process, for real, before or after the n-th call of the file system that
 * makes, moves or removes a file of a root key. The write to the database lies between two of these.
 */
const KILLER = `
  import fs from "node:fs";
  import { syncBuiltinESMExports } from "node:module";
  let left = Number(process.env.KILL_AT);
  const open = new Set();
  const names = ["openSync", "writeSync", "fsyncSync", "closeSync", "linkSync", "rmSync"];
  for (const name of names) {
    const real = fs[name];
    fs[name] = (...given) => {
      const isOurs = typeof given[0] === "string" ? given[0].includes(".root-key") : open.has(given[0]);
      if (!isOurs) return real(...given);
      const die = () => left-- === 0 && process.kill(process.pid, "SIGKILL");
      die();
      const result = real(...given);
      if (name === "openSync") open.add(result);
      if (name === "closeSync") open.delete(given[0]);
      die();
      return result;
    };
  }
  syncBuiltinESMExports();
`;

/** A first start that is killed at a point. @returns whether it was, or got as far as its banner */
async function killedStart(killer: string, db: string, point: number): Promise<boolean> {
  const child = spawn(process.execPath, ["--import", killer, cli, "serve", "--db", db, "--port", "0"], {
    cwd: FOLDER,
    env: { ...process.env, KILL_AT: `${point}` },
    stdio: ["ignore", "pipe", "inherit"],
  });
  child.stdout.once("data", () => child.kill("SIGTERM"));
  const signal = await new Promise((resolve) => child.once("exit", (_code, by) => resolve(by)));
  return signal === "SIGKILL";
}

/** Read here: a process for each would take most of the time. */
async function rootKeysOf(db: string): Promise<readonly unknown[]> {
  const store = sqliteStore(db, { mustExist: true });
  try {
    return (await createKeyring(store).listRootKeys()).data;
  } finally {
    await store.close();
  }
}

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

  it("killed at any point leaves no root key, or one whose text is in a file", async () => {
    const killer = join(FOLDER, "killer.mjs");
    writeFileSync(killer, KILLER);
    const left = { none: 0, staged: 0, placed: 0 };
    for (let point = 0; ; point++) {
      const db = join(FOLDER, `killed-${point}.db`);
      const keyFile = `${db}.root-key`;
      const staged = () => readdirSync(FOLDER).filter((name) => name.startsWith(`killed-${point}.db.root-key.`));
      if (!(await killedStart(killer, db, point))) {
        expect([staged(), statSync(keyFile).mode & 0o777]).toEqual([[], 0o600]);
        break;
      }
      const made = (await rootKeysOf(db)).length;
      left[made === 0 ? "none" : existsSync(keyFile) ? "placed" : "staged"]++;
      const wasStaged = made > 0 && !existsSync(keyFile);
      // A minute later nobody is starting any more.
      for (const name of staged()) utimesSync(join(FOLDER, name), 0, 0);
      const server = await startServer(cli, ["--db", db, "--port", "0"], FOLDER);
      const rootKey = readFileSync(keyFile, "utf8").trim();
      expect((await post(server.url, "apis.createApi", rootKey, { name: "second" })).status).toBe(200);
      await server.stop();
      expect([staged(), (await rootKeysOf(db)).length, statSync(keyFile).mode & 0o777]).toEqual([[], 1, 0o600]);
      expect(server.errors().includes(`the first root key is in ${keyFile}`)).toBe(wasStaged);
    }
    // Each kind of point was met, so the kills are where they should be.
    expect(Object.values(left).every((count) => count > 0)).toBe(true);
  }, 120_000);

  it("that could not show the root key takes back all it has made, and the next one is the first again", async () => {
    const db = join(FOLDER, "shown.db");
    // As after a kill between the two steps of taking it back: the root key is deleted, and its file still there.
    const first = await startServer(cli, ["--db", db, "--port", "0"], FOLDER);
    const rootKey = readFileSync(`${db}.root-key`, "utf8");
    const [{ rootKeyId }] = (await rootKeysOf(db)) as [{ rootKeyId: string }];
    const apiId = /^API +(api_\w+)$/m.exec(first.banner)?.[1] ?? "";
    expect((await post(first.url, "apis.deleteApi", rootKey.trim(), { apiId })).status).toBe(200);
    await first.stop();
    expect((await runCommand(cli, ["root-keys", "revoke", rootKeyId, "--db", db])).code).toBe(0);
    const second = await startServer(cli, ["--db", db, "--port", "0"], FOLDER);
    const other = readFileSync(`${db}.root-key`, "utf8");
    expect(other).not.toBe(rootKey);
    expect((await post(second.url, "apis.createApi", other.trim(), { name: "again" })).status).toBe(200);
    await second.stop();
  });
});
