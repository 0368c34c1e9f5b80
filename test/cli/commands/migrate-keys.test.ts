import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, linkSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Writable } from "node:stream";
import { describe, expect, it } from "vitest";
import { drawProgress } from "../../../src/cli/import/progress.js";
import { fakeServer, folder, ROOT_KEY, runAs, type Reply, type RunOptions } from "../support.js";

const FOLDER = folder();
const IDS = ["--migration-id", "mig_2019", "--api-id", "api_12345"];
const MIGRATE = ["api", "keys", "migrate-keys", ...IDS];

const hashOf = (i: number) => createHash("sha256").update(`old_${i}`).digest("hex");
const keys = (count: number, more: object = {}) =>
  Array.from({ length: count }, (_, i) => ({ hash: hashOf(i), ...more }));
const file = (name: string, text: string) => {
  const path = join(FOLDER, name);
  writeFileSync(path, text);
  return path;
};
const ndjson = (name: string, rows: readonly unknown[]) =>
  file(name, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));

interface Body {
  readonly migrationId: string;
  readonly apiId: string;
  readonly keys: readonly { readonly hash: string }[];
}
interface Data {
  readonly migrated: { hash: string; keyId: string }[];
  readonly failed: string[];
}

/** Takes in each hash once, as a service does. */
function service(before: (count: number) => Reply | Error | undefined = () => undefined) {
  const known = new Set<string>();
  const data = (body: unknown): Data => {
    const answer: Data = { migrated: [], failed: [] };
    for (const { hash } of (body as Body).keys) {
      if (known.has(hash)) answer.failed.push(hash);
      else answer.migrated.push({ hash, keyId: `key_${known.size}` });
      known.add(hash);
    }
    return answer;
  };
  const server = fakeServer(({ body }, count) => before(count) ?? { data: data(body) });
  return { ...server, known, sizes: () => server.seen.map(({ body }) => (body as Body).keys.length) };
}

const migrate = (
  server: { readonly fetch: RunOptions["fetch"] & {} },
  more: readonly string[],
  options: RunOptions = {},
) => runAs(ROOT_KEY, [...MIGRATE, ...more], { ...options, fetch: server.fetch });

describe("migrate-keys: a small import", () => {
  it("contract 4.2: is one request, and its answer as it came", async () => {
    const server = service();
    const given = [{ hash: hashOf(1), name: "one", credits: { remaining: null } }, { hash: hashOf(2) }];
    const { code, stdout, stderr } = await migrate(server, ["--keys", JSON.stringify(given), "--output", "json"]);
    expect(server.seen).toMatchObject([
      {
        url: "http://127.0.0.1:5397/v2/keys.migrateKeys",
        body: { migrationId: "mig_2019", apiId: "api_12345", keys: given },
      },
    ]);
    expect([code, stderr]).toEqual([0, ""]);
    expect(JSON.parse(stdout)).toEqual({
      meta: { requestId: "req_1" },
      data: {
        migrated: [
          { hash: hashOf(1), keyId: "key_0" },
          { hash: hashOf(2), keyId: "key_1" },
        ],
        failed: [],
      },
    });
  });

  it("prints the request id and then the data by default, and answers 1 when some failed", async () => {
    const server = service();
    const { code, stdout } = await migrate(server, ["--keys", JSON.stringify([...keys(2), ...keys(1)])]);
    const [id, ...rest] = stdout.split("\n");
    expect([code, id, (JSON.parse(rest.join("\n")) as Data).failed]).toEqual([1, "req_1", [hashOf(0)]]);
  });

  it("comes from a JSON file, a file with a key a line, or stdin in either form", async () => {
    const server = service();
    const rows = keys(2);
    const array = JSON.stringify(rows, undefined, 2);
    const lines = `\r\n${rows.map((row) => JSON.stringify(row)).join("\r\n\n")}`;
    await migrate(server, ["--keys", `@${file("small.json", array)}`]);
    await migrate(server, ["--keys", `@${ndjson("small.ndjson", rows)}`]);
    await migrate(server, ["--keys", `@${ndjson("small.txt", rows)}`]);
    await migrate(server, ["--keys", "-"], { stdin: `  ${array}` });
    await migrate(server, ["--keys", "-"], { stdin: lines });
    await migrate(
      server,
      ["--body", JSON.stringify({ migrationId: "mig_2019", apiId: "api_12345", keys: rows })].slice(0, 2),
    );
    expect(server.seen.slice(0, 5).map(({ body }) => (body as Body).keys)).toEqual(Array(5).fill(rows));
  });

  it("comes through a pipe that has a path, which can be read once", async () => {
    const server = service();
    const pipe = join(FOLDER, "pipe");
    execFileSync("mkfifo", [pipe]);
    const ran = migrate(server, ["--keys", `@${pipe}`]);
    await writeFile(pipe, JSON.stringify(keys(1)[0]));
    expect([(await ran).code, server.sizes()]).toEqual([0, [1]]);
  });

  it("contract 4.2: --body is the whole request", async () => {
    const server = service();
    const body = JSON.stringify({ migrationId: "mig_2019", apiId: "api_12345", keys: keys(1) });
    const argv = ["api", "keys", "migrate-keys", "--body", body];
    expect((await runAs(ROOT_KEY, argv, server)).code).toBe(0);
    expect((await runAs(ROOT_KEY, [...argv, "--api-id", "api_12345"], server)).code).toBe(2);
    expect(server.seen.length).toBe(1);
  });

  it("puts texts that are cut anywhere between bytes together again", async () => {
    const server = service();
    const text = new TextEncoder().encode(JSON.stringify({ hash: hashOf(1), name: "Łódź 😀" }));
    await migrate(server, ["--keys", "-"], { stdin: [...text].map((byte) => new Uint8Array([byte])) });
    expect((server.seen[0]?.body as Body).keys).toEqual([{ hash: hashOf(1), name: "Łódź 😀" }]);
  });
});

describe("hostile A201: migrate-keys refuses before anything is sent", () => {
  const HASH = '[{"hash":"abc123"}]';
  it.each([
    [["--migration-id", "mig_1", "--api-id", "api_1", "--keys", "{not json"], "--keys: not JSON"],
    [
      ["--migration-id", "mig_1", "--api-id", "api_1", "--keys", "old.ndjson"],
      "to read a file, write @ before its name",
    ],
    [["--migration-id", "mig_1", "--api-id", "api_1", "--keys", '{"hash":"abc"}'], "--keys: must be a JSON array"],
    [
      ["--migration-id", "mig_1", "--api-id", "api_1", "--keys", "[]"],
      "body.keys (--keys): must be an array of at least 1",
    ],
    [["--api-id", "api_1", "--keys", HASH], "body.migrationId (--migration-id): is required"],
    [["--migration-id", "mig_1", "--keys", HASH], "body.apiId (--api-id): is required"],
    [["--migration-id", "mig_1", "--api-id", "ap", "--keys", HASH], "body.apiId (--api-id)"],
    [["--migration-id", "mig_1", "--api-id", "a".repeat(256), "--keys", HASH], "body.apiId (--api-id)"],
    [["--migration-id", "mi", "--api-id", "api_1", "--keys", HASH], "body.migrationId (--migration-id)"],
    [["--migration-id", "mig_1", "--api-id", "api_1"], "body.keys (--keys): is required"],
    [
      ["--body", '{"migrationId":"mig_1","apiId":"api_1","keys":[{"hash":"abc"},{"hash":"ab"}]}'],
      "body.keys[1].hash (--keys)",
    ],
    [
      ["--body", '{"migrationId":"mig_1","apiId":"api_1","keys":[{"hash":"abc","colour":1}]}'],
      "body.keys[0].colour (--keys)",
    ],
    [
      ["--migration-id", "mig_1", "--api-id", "api_1", "--keys", HASH, "--successes", "/no/such/folder/f"],
      "--successes",
    ],
    [["--migration-id", "mig_1", "--api-id", "api_1", "--keys", "@/no/such/file.json"], "there is no such file"],
    [["--migration-id", "mig_1", "--api-id", "api_1", "--keys", HASH, "--batch-size", "0"], "--batch-size"],
    [["--migration-id", "mig_1", "--api-id", "api_1", "--keys", HASH, "--failures", "/no/such/folder/f"], "--failures"],
    [["--body", HASH, "--keys", HASH], "--body cannot be combined"],
    [["--body", HASH], "body: must be an object"],
  ])("%j", async (argv, message) => {
    const server = service();
    const { code, stdout, stderr } = await runAs(ROOT_KEY, ["api", "keys", "migrate-keys", ...argv], server);
    expect([code, stdout, server.seen.length]).toEqual([2, "", 0]);
    expect(stderr).toContain(message);
  });
});

const rowsOf = (path: string) =>
  readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { line?: number; item?: number; reason: string; message: string });

describe("migrate-keys: a row that is no valid key", () => {
  it("stops nothing: it fails with its line and the reason, wherever it is", async () => {
    const server = service();
    const failures = join(FOLDER, "bad-rows.ndjson");
    const good = keys(1_500).map((key) => JSON.stringify(key));
    const lines: (string | Buffer)[] = [...good];
    lines.splice(2, 0, `{"hash":"${hashOf(9_001)}","name":""}`, "", '{"hash":', "null");
    lines.splice(900, 0, `{"hash":"x","colour":1}`, Buffer.from([0x7b, 0xff, 0x7d]));
    lines.splice(1_000, 0, `{"hash":"${"a".repeat(1_200_000)}"}`);
    lines.push(`{"hash":"${hashOf(9_002)}","createdAt":1}`, `{"hash":"${"b".repeat(1_040_000)}"}`);
    const path = join(FOLDER, "bad-rows-source.ndjson");
    writeFileSync(path, Buffer.concat(lines.flatMap((line) => [Buffer.from(line), Buffer.from("\n")])));
    const { code, stdout, stderr } = await migrate(server, ["--keys", `@${path}`, "--failures", failures]);
    expect([code, server.known.size]).toEqual([1, 1_500]);
    expect(JSON.parse(stdout.slice(stdout.indexOf("\n")))).toEqual({ migrated: 1_500, failed: 8, failures });
    expect(stderr).toContain("1,508 keys: 1,500 migrated, 8 failed; ");
    expect(stderr).toContain("line 3: INVALID_KEY: name: must be ");
    expect(stderr).toContain("\nand 3 more\n");
    expect(stderr).not.toContain("keys[");
    const rows = rowsOf(failures);
    expect(rows.map(({ line, reason }) => [line, reason])).toEqual(
      [3, 5, 6, 901, 902, 1_001, 1_508, 1_509].map((line) => [line, "INVALID_KEY"]),
    );
    expect(rows).toMatchObject([
      { key: { hash: hashOf(9_001), name: "" } },
      { message: expect.stringMatching(/^not JSON/), text: '{"hash":' },
      { message: expect.stringMatching(/^must be an object/), key: null },
      { message: expect.stringMatching(/^hash: must .*; colour: /), key: { hash: "x", colour: 1 } },
      { message: "not UTF-8" },
      { message: "more than 1 MiB; write one key a line" },
      { message: expect.stringContaining("createdAt: ") },
      { message: expect.stringContaining("longer than a request"), key: { hash: "b".repeat(1_040_000) } },
    ]);
  });

  it("fails by its place in an array, and nothing is sent if no key is valid", async () => {
    const server = service();
    const failures = join(FOLDER, "bad-items.ndjson");
    const given = JSON.stringify([{ hash: "abc" }, { hash: "ab" }, 7]);
    const some = await migrate(server, ["--keys", given, "--failures", failures]);
    expect([some.code, server.sizes()]).toEqual([1, [1]]);
    expect(rowsOf(failures).map(({ item, reason }) => [item, reason])).toEqual([
      [2, "INVALID_KEY"],
      [3, "INVALID_KEY"],
    ]);
    expect(some.stderr).toContain("item 2: INVALID_KEY: hash: must be ");
    const none = await migrate(server, ["--keys", '[{"hash":"ab"}]', "--output", "json"]);
    expect([none.code, server.sizes(), JSON.parse(none.stdout)]).toEqual([
      1,
      [1],
      { meta: {}, data: { migrated: 0, failed: 1 } },
    ]);
    expect(none.stderr).toMatch(/1 failed; .*\nitem 1: INVALID_KEY: hash: .*\n$/);
  });

  it("a file of failures is mended and given again as it is", async () => {
    const server = service();
    const failures = join(FOLDER, "to-mend.ndjson");
    const path = file("mend.ndjson", `{"hash":"${hashOf(1)}","name":""}\n{"hash":"${hashOf(2)}"\n`);
    expect((await migrate(server, ["--keys", `@${path}`, "--failures", failures])).code).toBe(1);
    const again = join(FOLDER, "still-failing.ndjson");
    await migrate(server, ["--keys", `@${failures}`, "--failures", again]);
    expect(readFileSync(again, "utf8")).toBe(readFileSync(failures, "utf8"));
    const mended = readFileSync(failures, "utf8").replace('"name":""', '"name":"n"').replace('\\"}', "}");
    const text = mended.replace(/("text":".*)"\}/, '$1}"}');
    const { code } = await migrate(server, ["--keys", `@${file("mended.ndjson", text)}`]);
    expect([code, server.seen.map(({ body }) => (body as Body).keys)]).toEqual([
      0,
      [[{ hash: hashOf(1), name: "n" }, { hash: hashOf(2) }]],
    ]);
  });
});

describe("migrate-keys: a large import", () => {
  it("goes in batches, and its keys are counted, not printed", async () => {
    const server = service();
    const path = ndjson("large.ndjson", [...keys(1_200), ...keys(30)]);
    const { code, stdout, stderr } = await migrate(server, ["--keys", `@${path}`, "--output", "json"]);
    expect([code, server.sizes()]).toEqual([1, [500, 500, 230]]);
    expect(JSON.parse(stdout)).toEqual({ meta: { requestId: "req_1" }, data: { migrated: 1_200, failed: 30 } });
    expect(stderr).toMatch(/^1,230 keys: 1,200 migrated, 30 failed; 3 requests, /);
    const again = await migrate(server, ["--keys", `@${path}`]);
    expect([again.code, again.stdout]).toEqual([1, 'req_4\n{\n  "migrated": 0,\n  "failed": 1230\n}\n']);
    const large = await migrate(service(), ["--keys", `@${path}`, "--batch-size", "10000", "--output", "json"]);
    expect(large.stdout.length).toBeLessThan(200);
  });

  it("--successes: lists the keys that went in, adds those of a second run, follows no link, and is its owner's", async () => {
    const server = service((count) => (count === 2 ? { status: 400, error: { title: "t", detail: "d" } } : undefined));
    const [path, successes] = [ndjson("listed.ndjson", keys(700)), join(FOLDER, "successes.ndjson")];
    const argv = ["--keys", `@${path}`, "--successes", successes, "--output", "json"];
    const torn = await migrate(server, argv);
    expect([torn.code, JSON.parse(torn.stdout)]).toMatchObject([2, { data: { migrated: 500, failed: 0, successes } }]);
    expect((await migrate(server, argv)).code).toBe(1);
    expect(rowsOf(successes)).toEqual(keys(700).map(({ hash }, i) => ({ hash, keyId: `key_${i}` })));
    expect(statSync(successes).mode & 0o777).toBe(0o600);
    const link = join(FOLDER, "link-of-successes");
    symlinkSync(successes, link);
    for (const [more, why] of [
      [["--successes", link], "is a symbolic link"],
      [["--successes", path], "is the file that the keys come from"],
      [["--failures", successes, "--successes", successes], "is the file of --failures"],
    ] as const) {
      const { code, stderr } = await migrate(server, ["--keys", `@${path}`, ...more]);
      expect([code, stderr]).toEqual([2, expect.stringContaining(why)]);
    }
    expect((await migrate(server, ["--keys", JSON.stringify(keys(1)), "--successes", join(FOLDER, "one")])).code).toBe(
      1,
    );
  });

  it("lets nothing of a server's steer the terminal, as text and as an envelope", async () => {
    const server = service((count) =>
      count % 2 === 1 ? { requestId: "\u001b[2Jreq", data: { migrated: [], failed: ["\u009b31m"] } } : undefined,
    );
    const path = ndjson("steered.ndjson", keys(600));
    const plain = await migrate(server, ["--keys", `@${path}`]);
    const envelope = await migrate(server, ["--keys", `@${path}`, "--output", "json"]);
    expect(plain.stdout).toMatch(/^\?\[2Jreq\n/);
    expect(plain.stdout + envelope.stdout).not.toMatch(/[\u001b\u009b]/);
  });

  it("lists nothing on a terminal, where hundreds of lines would say nothing", async () => {
    const { code, stdout, stderr } = await migrate(service(), ["--keys", "-"], {
      stdin: keys(1_200)
        .map((row) => JSON.stringify(row))
        .join("\n"),
      isTTY: true,
    });
    expect([code, stdout]).toEqual([0, ""]);
    expect(stderr).toContain("1,200 keys: 1,200 migrated, 0 failed; 3 requests");
  });

  it("draws a bar on a terminal, and on nothing else", async () => {
    let drawn = "";
    const terminal = Object.assign(
      new Writable({
        write(bytes: Buffer, _encoding, done) {
          drawn += bytes.toString();
          done();
        },
      }),
      { isTTY: true, columns: 100 },
    );
    const path = ndjson("drawn.ndjson", keys(1_200));
    await migrate(service(), ["--keys", `@${path}`], { terminal });
    expect(drawn).toBe("");
    await migrate(service(), ["--keys", `@${path}`], { terminal, isTTY: true });
    expect(drawn).toContain("migrating");
    expect(drawn).toContain("0/1200 0%");
  });

  it("draws how far it is and how long it will take, at most ten times a second, and leaves the line empty", async () => {
    let drawn = "";
    let now = 0;
    const terminal = Object.assign(
      new Writable({ write: (bytes: Buffer, _encoding, done) => ((drawn += bytes.toString()), done()) }),
      {
        columns: 60,
      },
    );
    const progress = drawProgress(terminal, "migrating", 1_000, () => now);
    progress.update(1);
    expect(drawn).not.toContain("1/1000");
    now = 2_000;
    progress.update(250);
    expect(drawn).toContain(`migrating ${"█".repeat(10)}${"░".repeat(30)} 250/10`);
    expect(
      Math.max(...drawn.split("\u001b[1G").map((line) => line.replace(/\u001b\[0K/, "").length)),
      "never wraps",
    ).toBe(59);
    Object.assign(terminal, { columns: 100 });
    now = 4_000;
    progress.update(500);
    expect(drawn).toContain("500/1000 50%, 4 s left");
    progress.stop();
    expect(drawn).toMatch(/\u001b\[1G\u001b\[0K$/);
  });

  it("no request is larger than a server takes", async () => {
    const server = service();
    const rows = keys(120, { meta: { text: "é".repeat(20_000) } });
    expect((await migrate(server, ["--keys", `@${file("fat.json", JSON.stringify(rows))}`])).code).toBe(0);
    const sizes = server.seen.map(({ body }) => Buffer.byteLength(JSON.stringify(body)));
    expect(Math.max(...sizes)).toBeLessThanOrEqual(1_000_000);
    expect(server.sizes().reduce((sum, size) => sum + size)).toBe(120);
  });

  it("writes the keys that failed, as they were given, so that they can be given again", async () => {
    const server = service();
    server.known.add(hashOf(7));
    const failures = join(FOLDER, "failures.ndjson");
    const rows = keys(700, { name: "n" });
    const doubled = { hash: hashOf(3), name: "the same again" };
    rows.splice(10, 0, doubled);
    const path = ndjson("some.ndjson", rows);
    expect((await migrate(server, ["--keys", `@${path}`, "--failures", failures])).code).toBe(1);
    const why = { reason: "NOT_MIGRATED", message: expect.stringContaining("exists already") };
    expect(rowsOf(failures)).toEqual([
      { line: 8, ...why, key: { hash: hashOf(7), name: "n" } },
      { line: 11, ...why, key: doubled },
    ]);
    expect(statSync(failures).mode & 0o777).toBe(0o600);
    expect((await migrate(server, ["--keys", `@${failures}`, "--failures", failures])).stderr).toContain(
      "is the file that the keys come from",
    );
    expect(readFileSync(failures, "utf8")).not.toBe("");
  });

  it("--failures: refuses the file of the keys by any other name, and of --body, and leaves it whole", async () => {
    const server = service();
    const list = file("named.json", JSON.stringify(keys(3)));
    const body = file("body.json", JSON.stringify({ migrationId: "mig_2019", apiId: "api_12345", keys: keys(3) }));
    const [soft, hard] = [join(FOLDER, "soft.json"), join(FOLDER, "hard.json")];
    symlinkSync(list, soft);
    linkSync(list, hard);
    const lines = [
      [...MIGRATE, "--keys", `@${list}`, "--failures", soft],
      [...MIGRATE, "--keys", `@${list}`, "--failures", hard],
      ["api", "keys", "migrate-keys", "--body", `@${body}`, "--failures", body],
    ];
    for (const line of lines) {
      const { code, stderr } = await runAs(ROOT_KEY, line, { fetch: server.fetch });
      expect([code, stderr]).toEqual([2, "error: --failures: is the file that the keys come from\n"]);
    }
    expect([readFileSync(list, "utf8"), readFileSync(body, "utf8")]).not.toContain("");
    expect(server.seen).toEqual([]);
  });

  it("S9: --failures follows no link, and its file is for its owner alone, also if it was there", async () => {
    const [target, link, wide] = [file("target", "precious"), join(FOLDER, "link"), file("wide", "old text\n")];
    symlinkSync(target, link);
    chmodSync(wide, 0o666);
    const server = service();
    server.known.add(hashOf(1));
    const list = ndjson("three.ndjson", keys(3));
    const refused = await migrate(server, ["--keys", `@${list}`, "--failures", link]);
    expect([refused.code, refused.stderr]).toEqual([
      2,
      `error: --failures: ${link}: is a symbolic link; name the file itself\n`,
    ]);
    expect([readFileSync(target, "utf8"), server.seen]).toEqual(["precious", []]);
    expect((await migrate(server, ["--keys", `@${list}`, "--failures", wide])).code).toBe(1);
    expect(statSync(wide).mode & 0o777).toBe(0o600);
    expect(rowsOf(wide)).toMatchObject([{ line: 2, key: { hash: hashOf(1) } }]);
  });

  it("--keys: a path that cannot be one is a usage error, like a file that is not there", async () => {
    const path = file("plain", "");
    for (const name of [join(path, "below"), join(FOLDER, "a".repeat(5_000)), join(FOLDER, "absent"), FOLDER]) {
      const { code, stderr } = await migrate(service(), ["--keys", `@${name}`]);
      expect([code, stderr.startsWith("error: --keys: ")]).toEqual([2, true]);
    }
  });

  it("contract 7: tries again after 429 as long as it was asked to wait, and after 5xx and lost connections with growing waits", async () => {
    const busy: Reply = {
      status: 429,
      headers: { "retry-after": "7" },
      error: { title: "Too Many Requests", detail: "wait", status: 429, type: "x" },
    };
    const lost = Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNRESET" } });
    const down: Reply = { status: 503, text: "<html>" };
    const server = service((count) => [undefined, busy, lost, down][count]);
    const waits: number[] = [];
    const path = ndjson("patient.ndjson", keys(1_000));
    const { code, stderr } = await migrate(server, ["--keys", `@${path}`], {
      onSleep: (milliseconds) => waits.push(milliseconds),
    });
    expect([code, server.sizes(), waits]).toEqual([0, [500, 500, 500, 500, 500], [7_000, 750, 1_500]]);
    expect(stderr).toContain("ECONNRESET");
    expect(server.known.size).toBe(1_000);
  });

  it("gives up after so many tries, says what was done, and leaves whole JSON behind", async () => {
    const server = service((count) => (count > 1 ? { status: 500, text: "" } : undefined));
    const argv = ["--keys", `@${ndjson("broken.ndjson", keys(1_500))}`, "--retries", "2", "--output", "json"];
    const { code, stdout, stderr } = await migrate(server, argv);
    expect([code, server.seen.length]).toEqual([3, 4]);
    expect((JSON.parse(stdout) as { data: object }).data).toEqual({ migrated: 500, failed: 0 });
    expect(stderr).toContain("500 of 1,500 keys: 500 migrated, 0 failed; 1 request");
    expect(stderr).toContain("run the same command again to go on");
  });

  it("says that keys may have gone in where a request had to be sent twice", async () => {
    const lost = { known: new Set<string>() };
    // The server did its work, and the answer was lost.
    const server = service((count) => {
      if (count !== 2) return undefined;
      keys(1_000)
        .slice(500)
        .forEach(({ hash }) => lost.known.add(hash));
      return new TypeError("fetch failed");
    });
    lost.known = server.known;
    const { code, stderr } = await migrate(server, ["--keys", `@${ndjson("twice.ndjson", keys(1_000))}`]);
    expect(code).toBe(1);
    expect(stderr).toContain("some of the failed keys may have gone in the first time");
  });

  it.each([
    [400, 2],
    [401, 3],
    [403, 3],
    [404, 1],
    [413, 2],
  ])("does not try again after %i", async (status, code) => {
    const server = service((count) =>
      count === 2 ? { status, error: { title: "t", detail: "d", status, type: "x" } } : undefined,
    );
    expect((await migrate(server, ["--keys", `@${ndjson("refused.ndjson", keys(1_500))}`])).code).toBe(code);
    expect(server.seen.length).toBe(2);
  });

  it("a wish to stop lets the request under way finish, and a second run does the rest", async () => {
    let stop: () => void = () => undefined;
    const server = service((count) => void (count === 2 && stop()));
    const path = ndjson("stopped.ndjson", keys(5_000));
    const stopped = await migrate(server, ["--keys", `@${path}`], {
      onStop: (listener) => {
        stop = listener;
        return () => undefined;
      },
    });
    expect([stopped.code, server.sizes(), server.known.size]).toEqual([1, [500, 500], 1_000]);
    expect(stopped.stderr).toContain("1,000 of 5,000 keys: 1,000 migrated, 0 failed");
    expect(stopped.stderr).toContain("run the same command again to go on");
    const again = await migrate(server, ["--keys", `@${path}`]);
    expect([again.code, server.known.size]).toEqual([1, 5_000]);
    expect(again.stderr).toContain("5,000 keys: 4,000 migrated, 1,000 failed");
  });

  it("a wish to stop ends a wait before the next try", async () => {
    let stop: () => void = () => undefined;
    const server = service((count) => (count === 2 ? { status: 503, text: "" } : undefined));
    const { code } = await migrate(server, ["--keys", `@${ndjson("wait.ndjson", keys(1_500))}`], {
      onStop: (listener) => {
        stop = listener;
        return () => undefined;
      },
      onSleep: () => stop(),
    });
    expect([code, server.seen.length]).toEqual([3, 2]);
  });

  it("reads lines as they are wanted", async () => {
    let ahead = 0;
    let most = 0;
    const server = service(() => {
      most = Math.max(most, ahead);
      ahead = 0;
      return undefined;
    });
    const stdin = {
      *[Symbol.iterator]() {
        for (let i = 0; i < 20_000; i++, ahead++) yield new TextEncoder().encode(`{"hash":"${hashOf(i)}"}\n`);
      },
    } as unknown as Uint8Array[];
    await migrate(server, ["--keys", "-", "--batch-size", "100"], { stdin });
    expect(server.known.size).toBe(20_000);
    // The first two batches are read before the first is sent.
    expect(most).toBeLessThanOrEqual(201);
  });
});
