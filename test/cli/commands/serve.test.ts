import { execFile, spawnSync } from "node:child_process";
import { chmodSync, existsSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { toKebab } from "../../../src/cli/io/failures.js";
import { OPERATIONS } from "../../../src/http/operations/index.js";
import { folder, run, runAs, serve } from "../support.js";

const FOLDER = folder();
const SHELL = promisify(execFile);
const HAS_CURL = spawnSync("curl", ["--version"]).status === 0;
const db = (name: string) => join(FOLDER, name);

describe("serve", () => {
  // Small images have no curl; what the line asks for is asked by fetch in test/service.
  it.skipIf(!HAS_CURL)(
    "first start: makes file, API and root key, and prints the key and a line that works when pasted",
    async () => {
      const file = db("first.db");
      const server = await serve(file);
      // Neither in a log nor, once it is pasted, in a process list.
      expect(server.banner).not.toContain(server.rootKey);
      const lines = /^read .*\nprintf .*$/m.exec(server.banner)?.[0] ?? "";
      const pasted = await SHELL("sh", ["-c", `${lines} --silent`]);
      const { data } = JSON.parse(pasted.stdout) as { data: { keyId: string; key: string } };
      const verified = await runAs(
        server.rootKey,
        ["api", "keys", "verify-key", "--key", data.key, "--api-url", server.url],
        { fetch },
      );
      expect(verified.code).toBe(0);
      expect(await server.stop()).toMatchObject({ code: 0 });
      expect(statSync(file).mode & 0o777).toBe(0o600);
    },
  );

  it("S10: on a terminal the first root key is shown, once, and in no file", async () => {
    const file = db("terminal.db");
    const server = await serve(file, [], { isTTY: true });
    expect(server.banner.split(server.rootKey)).toHaveLength(2);
    expect(server.banner).toContain("shown this once");
    expect(existsSync(`${file}.root-key`)).toBe(false);
    await server.stop();
  });

  it("S10: elsewhere it goes to a file for its owner alone, and a first start that cannot make it stays the first", async () => {
    const file = db("log-only.db");
    symlinkSync(db("elsewhere"), `${file}.root-key`);
    const refused = await run(["serve", "--db", file, "--port", "0"]);
    expect([refused.code, refused.stdout, existsSync(db("elsewhere"))]).toEqual([3, "", false]);
    expect(refused.stderr).toContain("for the first root key: is there already");
    rmSync(`${file}.root-key`);
    const server = await serve(file);
    expect(server.rootKey).toMatch(/^root_/);
    expect(statSync(`${file}.root-key`).mode & 0o777).toBe(0o600);
    const { stdout, stderr } = await server.stop();
    expect(stdout + stderr).not.toContain(server.rootKey);
  });

  it("S9: warns about a file that others can use, and of no other", async () => {
    const file = db("wide.db");
    const first = await serve(file);
    expect((await first.stop()).stderr).not.toContain("warning");
    chmodSync(file, 0o640);
    const later = await serve(file);
    expect((await later.stop()).stderr).toContain(`warning: others than its owner can use ${file}; run: chmod 600`);
  });

  it("environment variables stand for flags, which go before", async () => {
    const file = db("environment.db");
    const env = {
      KEYSTILE_DB: file,
      KEYSTILE_PORT: "0",
      KEYSTILE_LOG: "1",
      KEYSTILE_METRICS: "0",
      KEYSTILE_REQUEST_LIMIT: "1/60",
      KEYSTILE_TRUSTED_PROXY: "10.0.0.0/8, 127.0.0.1",
      KEYSTILE_DOCS_BASE: "https://docs.example.com",
      KEYSTILE_CREDITS: "leased",
    };
    const server = await serve(undefined, [], { env });
    expect(existsSync(file)).toBe(true);
    expect((await fetch(`${server.url}/metrics`)).status).toBe(404);
    const ask = () =>
      fetch(`${server.url}/v2/keys.verifyKey`, {
        method: "POST",
        headers: { authorization: `Bearer ${server.rootKey}` },
      });
    const types = [await ask(), await ask()].map(
      async (answer) => ((await answer.json()) as { error: { type: string } }).error.type,
    );
    expect((await Promise.all(types))[1]).toMatch(/^https:\/\/docs\.example\.com\/errors\//);
    expect((await ask()).status).toBe(429);
    expect((await server.stop()).stderr).toContain('"operation":"keys.verifyKey"');
    const flagged = await serve(db("flagged.db"), ["--port", "0"], { env: { ...env, KEYSTILE_PORT: "1" } });
    expect(existsSync(db("flagged.db"))).toBe(true);
    await flagged.stop();
  });

  it("keeps as many entries of the audit trail as the flag or the variable says, and no fewer for other commands", async () => {
    const file = db("audited.db");
    const entries = () => {
      const handle = new Database(file, { readonly: true });
      const count = handle.prepare("SELECT count(*) FROM keystile_audit").pluck().get();
      handle.close();
      return count;
    };
    let rootKey = "";
    const serving = async (flags: readonly string[], env: Record<string, string>, calls: number) => {
      const server = await serve(file, flags, { env });
      if (rootKey === "") rootKey = server.rootKey;
      const argv = ["api", "apis", "create-api", "--name", "audited", "--api-url", server.url];
      for (let i = 0; i < calls; i++) expect((await runAs(rootKey, argv, { fetch })).code).toBe(0);
      await server.stop();
    };
    await serving(["--audit-rows", "10"], {}, 12);
    expect(entries()).toBe(10);
    expect((await run(["root-keys", "create", "--db", file, "--all"])).code).toBe(0);
    expect(entries()).toBe(11);
    await serving([], { KEYSTILE_AUDIT_ROWS: "0" }, 1);
    expect(entries()).toBe(11);
    await serving(["--audit-rows", "5"], { KEYSTILE_AUDIT_ROWS: "0" }, 1);
    expect(entries()).toBe(5);
  });

  it.each([
    [{ KEYSTILE_AUDIT_ROWS: "10000001" }, "KEYSTILE_AUDIT_ROWS: must be an integer from 0 to 10000000"],
    [{ KEYSTILE_PORT: "http" }, "KEYSTILE_PORT: must be an integer from 0 to 65535"],
    [{ KEYSTILE_LOG: "maybe" }, "KEYSTILE_LOG: must be 1 or 0"],
    [{ KEYSTILE_DURABILITY: "none" }, "KEYSTILE_DURABILITY: Allowed choices are power, process, replicated."],
    [{ KEYSTILE_TRUSTED_PROXY: "10.0.0.1,everyone" }, "KEYSTILE_TRUSTED_PROXY: must be an IP address"],
    [{ KEYSTILE_DB: " " }, "KEYSTILE_DB: must"],
    [{ KEYSTILE_DOCS_BASE: "/docs" }, "KEYSTILE_DOCS_BASE: must be absolute"],
  ])("refuses %j", async (env, message) => {
    const { code, stdout, stderr } = await run(["serve", "--host", "127.0.0.1"], {
      env: { KEYSTILE_DB: db("never.db"), ...env },
    });
    expect([code, stdout, existsSync(db("never.db"))]).toEqual([2, "", false]);
    expect(stderr).toContain(message);
  });

  describe("a file and a PostgreSQL at once are refused, wherever each is named", () => {
    const [file, address] = [db("ignored.db"), "postgres://keystile:canary@127.0.0.1:1/app"];
    it.each([
      [["--store", address, "--db", file], {}, "--db", "--store"],
      [["--store", address], { KEYSTILE_DB: file }, "KEYSTILE_DB", "--store"],
      [["--db", file], { KEYSTILE_STORE: address }, "--db", "KEYSTILE_STORE"],
      [[], { KEYSTILE_DB: file, KEYSTILE_STORE: address }, "KEYSTILE_DB", "KEYSTILE_STORE"],
      // The default, which somebody wrote out.
      [["--db", "keys.db", "--store", address], {}, "--db", "--store"],
    ])("%j %j", async (flags, env, named, other) => {
      const { code, stdout, stderr } = await run(["serve", "--port", "0", ...flags], { env });
      expect([code, stdout, existsSync(file)]).toEqual([2, "", false]);
      expect(stderr).toContain(
        `${named} and ${other}: leave out ${named} to serve the PostgreSQL, or ${other} to serve the file`,
      );
      expect(stderr).not.toContain("canary");
    });
  });

  it("the first root key may do whatever the service does", async () => {
    const server = await serve(db("everything.db"));
    for (const name of Object.keys(OPERATIONS)) {
      const path = name.split(".").map(toKebab);
      const { stdout } = await run(["api", ...path, "--help"]);
      const example = /\n {2}\$ keystile (.*)/.exec(stdout)?.[1] ?? "";
      const argv = [...example.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
        ([, single, double, bare]) => single ?? double ?? bare ?? "",
      );
      if (argv.includes("--body")) continue;
      const { code, stderr } = await runAs(server.rootKey, [...argv, "--api-url", server.url], { fetch });
      // What the examples name does not exist: that is a no, and not a refusal.
      expect([example, code < 2, stderr]).toEqual([example, true, stderr]);
      // It makes the namespace, which takes a right of its own.
      if (name === "ratelimit.limit") expect(code).toBe(0);
    }
    await server.stop();
  });

  it("later starts: print no key, and the first one goes on working", async () => {
    const file = db("later.db");
    const first = await serve(file);
    await first.stop();
    const later = await serve(file);
    expect([later.rootKey, later.banner]).toEqual(["", `keystile serves ${file} at ${later.url}\n`]);
    const asked = await runAs(
      first.rootKey,
      ["api", "keys", "list-keys", "--api-id", first.apiId, "--api-url", later.url],
      { fetch },
    );
    expect(asked.code).toBe(0);
    await later.stop();
  });

  it("makes no new root key once the last one was revoked, and says what to run", async () => {
    const file = db("revoked.db");
    const first = await serve(file);
    await first.stop();
    const { stdout } = await run(["root-keys", "list", "--db", file, "--output", "json"]);
    for (const { rootKeyId } of JSON.parse(stdout) as { rootKeyId: string }[])
      await run(["root-keys", "revoke", "--db", file, rootKeyId]);
    const later = await serve(file);
    const { stderr } = await later.stop();
    expect(later.rootKey).toBe("");
    expect(stderr).toContain("keystile root-keys create --db");
  });

  it("a root key revoked on the file lets nobody in at a server that runs", async () => {
    const file = db("revoke.db");
    const server = await serve(file);
    const ask = () =>
      runAs(server.rootKey, ["api", "keys", "list-keys", "--api-id", server.apiId, "--api-url", server.url], { fetch });
    expect((await ask()).code).toBe(0);
    const { stdout } = await run(["root-keys", "list", "--db", file, "--output", "json"]);
    const [{ rootKeyId } = { rootKeyId: "" }] = JSON.parse(stdout) as { rootKeyId: string }[];
    await run(["root-keys", "revoke", "--db", file, rootKeyId]);
    const refused = await ask();
    expect([refused.code, refused.stderr.includes("401")]).toEqual([3, true]);
    await server.stop();
  });

  it("--log and --metrics: a line a request and counts, without any key in them", async () => {
    const server = await serve(db("log.db"), ["--log", "--metrics"]);
    const key = "sk_canary_9fK2pQ7x";
    await runAs(server.rootKey, ["api", "keys", "verify-key", "--key", key, "--api-url", server.url], { fetch });
    await run(["api", "keys", "verify-key", "--key", key, "--root-key", "root_canary_8dM3", "--api-url", server.url], {
      fetch,
    });
    const metrics = await (await fetch(`${server.url}/metrics`)).text();
    const { stderr } = await server.stop();
    const lines = stderr
      .split("\n")
      .filter((line) => line.startsWith("{"))
      .map((line) => JSON.parse(line) as { operation: string; status: number });
    expect(lines.slice(0, 2)).toMatchObject([
      { operation: "keys.verifyKey", status: 200 },
      { operation: "keys.verifyKey", status: 401 },
    ]);
    expect(metrics).toContain('operation="keys.verifyKey",status="200"');
    for (const text of [stderr, metrics]) {
      expect(text).not.toContain("canary");
      expect(text).not.toContain(server.rootKey);
    }
  });

  it("without --log and --metrics there is neither", async () => {
    const server = await serve(db("quiet.db"));
    expect((await fetch(`${server.url}/metrics`)).status).toBe(404);
    expect((await server.stop()).stderr).not.toContain("{");
  });

  it("--limiter file: two servers on one database share its rate limits, and a restart keeps them", async () => {
    const file = db("shared-limits.db");
    const first = await serve(file, ["--limiter", "file"]);
    const { apiId, rootKey } = first;
    const second = await serve(file, ["--limiter", "file"]);
    const ask = async (url: string, operation: string, body: object) => {
      const headers = { authorization: `Bearer ${rootKey}`, "content-type": "application/json" };
      const answer = await fetch(`${url}/v2/${operation}`, { method: "POST", headers, body: JSON.stringify(body) });
      return ((await answer.json()) as { data: Record<string, unknown> }).data;
    };
    const ratelimits = [{ name: "calls", limit: 3, duration: 3_600_000, autoApply: true }];
    const { key } = await ask(first.url, "keys.createKey", { apiId, ratelimits });
    const codeAt = async (url: string) => (await ask(url, "keys.verifyKey", { key }))["code"];
    expect([await codeAt(first.url), await codeAt(second.url), await codeAt(first.url)]).toEqual(
      Array(3).fill("VALID"),
    );
    for (const { url } of [first, second]) expect(await codeAt(url)).toBe("RATE_LIMITED");
    await Promise.all([first.stop(), second.stop()]);
    const again = await serve(file, ["--limiter", "file"]);
    expect(await codeAt(again.url)).toBe("RATE_LIMITED");
    await again.stop();
    const alone = await serve(file);
    expect(await codeAt(alone.url)).toBe("VALID");
    await alone.stop();
  });

  it("--request-limit answers 429 with Retry-After", async () => {
    const server = await serve(db("limited.db"), ["--request-limit", "2/60"]);
    const ask = () =>
      runAs(server.rootKey, ["api", "keys", "list-keys", "--api-id", server.apiId, "--api-url", server.url], { fetch });
    expect([(await ask()).code, (await ask()).code]).toEqual([0, 0]);
    const refused = await ask();
    expect([refused.code, refused.stderr.includes("429")]).toEqual([3, true]);
    await server.stop();
  });

  it("--credits leased: a clean stop returns what was leased", async () => {
    const file = db("leased.db");
    const first = await serve(file, ["--credits", "leased", "--durability", "process"]);
    const api = (url: string, argv: readonly string[]) =>
      runAs(first.rootKey, ["api", "keys", ...argv, "--output", "json", "--api-url", url], { fetch });
    const made = await api(first.url, ["create-key", "--api-id", first.apiId, "--credits", '{"remaining":1000}']);
    const { key, keyId } = (JSON.parse(made.stdout) as { data: { key: string; keyId: string } }).data;
    for (let i = 0; i < 3; i++) expect((await api(first.url, ["verify-key", "--key", key])).code).toBe(0);
    await first.stop();
    const later = await serve(file);
    const { stdout } = await api(later.url, ["get-key", "--key-id", keyId]);
    expect(JSON.parse(stdout)).toMatchObject({ data: { credits: { remaining: 997 } } });
    await later.stop();
  });

  it(":memory: serves without a file", async () => {
    const server = await serve(":memory:");
    expect([server.rootKey !== "", existsSync(":memory:")]).toEqual([true, false]);
    await server.stop();
  });

  it("says that a port is taken, and leaves the first start to come", async () => {
    const file = db("taken.db");
    const taken = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => taken.once("listening", resolve));
    const { port } = taken.address() as { port: number };
    const { code, stdout, stderr } = await run(["serve", "--db", file, "--port", String(port)]);
    expect([code, stdout]).toEqual([3, ""]);
    expect(stderr).toContain(`port ${port} of 127.0.0.1 is taken`);
    taken.close();
    const server = await serve(file);
    expect(server.rootKey).not.toBe("");
    await server.stop();
  });

  it.each([
    [["--port", "65536"], 2],
    [["--port", "http"], 2],
    [["--request-limit", "10"], 2],
    [["--request-limit", "10/2592001"], 2],
    [["--durability", "none"], 2],
    [["--limiter", "disk"], 2],
    [["--limiter", "file", "--db", ":memory:"], 2],
    [["--trusted-proxy", "everyone", "--db", join(FOLDER, "proxy.db")], 2],
    [["--db", join(FOLDER, "no", "such", "folder.db")], 2],
    [["--db", FOLDER], 2],
    [["--db", ""], 2],
    [["--db", " "], 2],
    [["--db", " :memory: "], 2],
    [["--db", join(FOLDER, "never.db ")], 2],
    [["--db", `\t${join(FOLDER, "never.db")}`], 2],
    [["--host", ""], 2],
    [["keys.db"], 2],
  ])("refuses %j", async (more, code) => {
    const ran = await run(["serve", ...(more.includes("--db") ? [] : ["--db", db("never.db")]), ...more]);
    expect([ran.code, ran.stdout, existsSync(db("never.db")), existsSync(db("never.db "))]).toEqual([
      code,
      "",
      false,
      false,
    ]);
    expect(ran.stderr).not.toBe("");
  });

  it("a link whose target is not there yet: makes the target, which nobody else can read", async () => {
    symlinkSync("target.db", db("link.db"));
    const server = await serve(db("link.db"));
    expect(server.rootKey).not.toBe("");
    await server.stop();
    expect(statSync(db("target.db")).mode & 0o777).toBe(0o600);
  });

  it("a link that leads to no folder, or to itself, is said to lead nowhere", async () => {
    symlinkSync(join("no", "target.db"), db("astray.db"));
    symlinkSync("circle.db", db("circle.db"));
    for (const [name, why] of [
      ["astray.db", "its folder, or that of what it links to, does not exist"],
      ["circle.db", "cannot be made (ELOOP)"],
    ] as const) {
      const { code, stderr } = await run(["serve", "--db", db(name), "--port", "0"]);
      expect([code, stderr]).toEqual([2, `error: --db: ${db(name)}: ${why}\n`]);
    }
  });

  it("refuses a file that is no database, and leaves it as it is", async () => {
    const file = db("text.db");
    const text = "a text of some length that nobody wants to lose\n".repeat(100);
    writeFileSync(file, text);
    const { code } = await run(["serve", "--db", file, "--port", "0"]);
    expect([code, readFileSync(file, "utf8") === text]).toEqual([3, true]);
  });
});
