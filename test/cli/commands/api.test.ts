import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { OPERATIONS } from "../../../src/http/operations/index.js";
import { toKebab } from "../../../src/cli/io/failures.js";
import { writeKeyCursor } from "../../../src/keyring/schemas/cursor.js";
import { fakeServer, folder, ROOT_KEY, run, runAs, type Reply, type Seen, serve } from "../support.js";

const FOLDER = folder();
const VERIFY = ["api", "keys", "verify-key"];
const VALID: Reply = { data: { valid: true, code: "VALID", keyId: "key_1" } };
const file = (name: string, text: string | Uint8Array) => {
  const path = join(FOLDER, name);
  writeFileSync(path, text);
  return path;
};
const always = (reply: Reply | Error) => fakeServer(() => reply);

describe("api: requests", () => {
  it("builds the request from flags, by the types of the schema", async () => {
    const server = always(VALID);
    const argv = [
      ...VERIFY,
      "--key",
      "sk_1",
      "--credits",
      '{"cost":0}',
      "--tags",
      '["a=b"]',
      "--migration-id",
      "mig_1",
    ];
    expect((await runAs(ROOT_KEY, argv, server)).code).toBe(0);
    expect(server.seen).toEqual<Seen[]>([
      {
        url: "http://127.0.0.1:5397/v2/keys.verifyKey",
        method: "POST",
        authorization: `Bearer ${ROOT_KEY}`,
        body: { key: "sk_1", credits: { cost: 0 }, tags: ["a=b"], migrationId: "mig_1" },
      },
    ]);
  });

  it("reads integers by value, booleans bare or said, and null where it clears", async () => {
    const server = always({});
    const argv = [
      "api",
      "keys",
      "update-key",
      "--key-id",
      "key_1",
      "--expires",
      "1.9e12",
      "--name",
      "null",
      "--enabled",
    ];
    await runAs(ROOT_KEY, argv, server);
    await runAs(ROOT_KEY, ["api", "keys", "update-key", "--key-id", "key_1", "--enabled", "false"], server);
    expect(server.seen.map(({ body }) => body)).toEqual([
      { keyId: "key_1", expires: 1_900_000_000_000, name: null, enabled: true },
      { keyId: "key_1", enabled: false },
    ]);
  });

  it("takes JSON from @file and from stdin, which keeps a key out of the process list", async () => {
    const server = always(VALID);
    const path = file("tags.json", '["from a file"]');
    await runAs(ROOT_KEY, [...VERIFY, "--key", "sk_1", "--tags", `@${path}`], server);
    await runAs(ROOT_KEY, [...VERIFY, "--body", "-"], { ...server, stdin: '{"key":"sk_2"}' });
    expect(server.seen.map(({ body }) => body)).toEqual([{ key: "sk_1", tags: ["from a file"] }, { key: "sk_2" }]);
  });

  it("gives stdin to one flag only, since it can be read once", async () => {
    const server = always(VALID);
    const { code, stderr } = await runAs(ROOT_KEY, [...VERIFY, "--key", "k", "--tags", "-", "--credits", "-"], {
      ...server,
      stdin: "[]",
    });
    expect([code, server.seen.length]).toEqual([2, 0]);
    expect(stderr).toMatch(/^error: stdin \(-\) can be given to one flag only: --tags, --credits$/m);
    for (const two of [
      ["--key", "-", "--tags", "-"],
      ["--key", "-", "--root-key", "-"],
      ["--body", "-", "--root-key", "-"],
    ]) {
      const ran = await runAs(ROOT_KEY, [...VERIFY, ...two], { ...server, stdin: "k" });
      expect([two, ran.code, ran.stderr.includes("one flag only"), server.seen.length]).toEqual([two, 2, true, 0]);
    }
    const ran = await run(["api", "keys", "migrate-keys", "--keys", "-", "--root-key", "-"], {
      ...server,
      stdin: "[]",
    });
    expect([ran.code, ran.stderr]).toEqual([2, "error: stdin (-) can be given to one flag only: --root-key, --keys\n"]);
  });

  it.each([
    [VERIFY, ["--key", "sk"], "valid"],
    [
      ["api", "ratelimit", "limit"],
      ["--namespace", "n", "--identifier", "i", "--limit", "1", "--duration", "1000"],
      "success",
    ],
  ])("T11: %j that is answered without a verdict fails", async (command, flags, field) => {
    const server = fakeServer(() => ({ data: {} }));
    const { code, stdout, stderr } = await runAs(ROOT_KEY, [...command, ...flags], { fetch: server.fetch });
    expect([code, stdout]).toEqual([3, ""]);
    expect(stderr).toContain(`the server answered without \`${field}\``);
  });

  it("keys change-keys: is 1 where no key was found, or not every one, unless it went on after a batch", async () => {
    const filter = ["--external-id", "acme"];
    const cursor = writeKeyCursor({ order: "made", phase: 0, id: "key_1" });
    const rows = (...outcomes: string[]) => outcomes.map((outcome) => ({ keyId: "key_1", outcome }));
    for (const [flags, data, hasMore, code] of [
      [filter, [], false, 1],
      [filter, [], true, 0],
      [[...filter, "--cursor", cursor], [], false, 0],
      [filter, rows("unchanged", "changed"), false, 0],
      [["--key-ids", '["key_12345678"]'], rows("changed", "notFound"), false, 1],
    ] as const) {
      const { fetch } = fakeServer(() => ({ data, pagination: { hasMore, ...(hasMore && { cursor: "abc" }) } }));
      for (const more of [[], ["--output", "json"]]) {
        const argv = ["api", "keys", "change-keys", "--action", "disable", ...flags, ...more];
        const ran = await runAs(ROOT_KEY, argv, { fetch });
        expect([flags, data, ran.code, ran.stderr.includes("no key was found")]).toEqual([
          ...[flags, data, code],
          code === 1 && data.length === 0,
        ]);
      }
    }
    const { fetch } = fakeServer(() => ({ data: [], pagination: { hasMore: false } }));
    expect((await runAs(ROOT_KEY, ["api", "apis", "list-keys", "--api-id", "api_1"], { fetch })).code).toBe(0);
  });

  it.each(["verify-key", "whoami"])(
    "%s: takes the key from @file and from stdin, without the line break at its end",
    async (verb) => {
      const server = always(VALID);
      const argv = ["api", "keys", verb, "--key"];
      for (const [i, text] of ["sk_1", "sk_1\n", "sk_1\r\n"].entries()) {
        expect((await runAs(ROOT_KEY, [...argv, `@${file(`key-${i}.txt`, text)}`], server)).code).toBe(0);
        expect((await runAs(ROOT_KEY, [...argv, "-"], { ...server, stdin: text })).code).toBe(0);
      }
      expect(server.seen.map(({ body }) => body)).toEqual(Array.from({ length: 6 }, () => ({ key: "sk_1" })));
      const { stdout } = await run(["api", "keys", verb, "--help"]);
      expect(stdout.replace(/\s+/g, " ")).toContain("@file or - keeps it out of process lists");
      // Ruling G4: it may be a key that begins with @.
      const missing = await runAs(ROOT_KEY, [...argv, "@sk_1"], server);
      expect([missing.code, missing.stderr]).toEqual([2, "error: --key: the file after @: there is no such file\n"]);
    },
  );

  it("takes one line break off a key and no more, and none off what the command line says", async () => {
    const server = always(VALID);
    await runAs(ROOT_KEY, [...VERIFY, "--key", "-"], { ...server, stdin: " sk_1 \n\n" });
    await runAs(ROOT_KEY, [...VERIFY, "--key", "sk_1\n"], server);
    expect(server.seen.map(({ body }) => body)).toEqual([{ key: " sk_1 \n" }, { key: "sk_1\n" }]);
  });

  it("takes the root key from @file and from stdin too", async () => {
    const server = always(VALID);
    const argv = [...VERIFY, "--key", "sk_1", "--root-key"];
    await run([...argv, `@${file("root.txt", `${ROOT_KEY}\n`)}`], server);
    await run([...argv, "-"], { ...server, stdin: `${ROOT_KEY}\n` });
    expect(server.seen.map(({ authorization }) => authorization)).toEqual([`Bearer ${ROOT_KEY}`, `Bearer ${ROOT_KEY}`]);
  });

  it("takes @ and - in other texts as they stand", async () => {
    const server = always({});
    await runAs(
      ROOT_KEY,
      ["api", "keys", "update-key", "--key-id", "key_1", "--name", "@me", "--external-id", "-"],
      server,
    );
    await runAs(ROOT_KEY, ["api", "identities", "list-identities", "--search", "@example.com"], server);
    await runAs(ROOT_KEY, [...VERIFY, "--key", "sk_1", "--migration-id", "@mig"], server);
    expect(server.seen.map(({ body }) => body)).toEqual([
      { keyId: "key_1", name: "@me", externalId: "-" },
      { search: "@example.com" },
      { key: "sk_1", migrationId: "@mig" },
    ]);
  });

  it("contract 4.2: --body is the whole request, and goes with none of the flags that build it", async () => {
    const server = always(VALID);
    expect((await runAs(ROOT_KEY, [...VERIFY, "--body", '{"key":"sk_1","credits":{"cost":2}}'], server)).code).toBe(0);
    expect(server.seen[0]?.body).toEqual({ key: "sk_1", credits: { cost: 2 } });
    const { code, stderr } = await runAs(
      ROOT_KEY,
      [...VERIFY, "--body", '{"key":"sk_1"}', "--key", "sk_1", "--tags", "[]"],
      server,
    );
    expect([code, server.seen.length]).toEqual([2, 1]);
    expect(stderr).toContain("--body cannot be combined with the flags that build the request: --key, --tags");
  });

  it.each([
    [["--key", "sk_1", "--permissions", ""], "body.permissions (--permissions)"],
    [["--key", "sk_1", "--permissions", "a AND"], "body.permissions (--permissions): found the end of the query"],
    [["--permissions", "a"], "body.key (--key)"],
    [["--key", ""], "body.key (--key)"],
    [["--key", "😀".repeat(513)], "body.key (--key)"],
    [["--key", "sk_1", "--credits", '{"cost":1.5}'], "body.credits.cost (--credits)"],
    [["--key", "sk_1", "--ratelimits", '[{"name":"ok!"},{"name":"x"}]'], "body.ratelimits[1].name (--ratelimits)"],
    [["--key", "sk_1", "--credits", "{cost:1}"], "--credits: not JSON"],
    [["--key", "sk_1", "--credits", "@/no/such/file"], "--credits: /no/such/file: there is no such file"],
    [["--body", '{"key":"k","apiId":"api_1"}'], "body.apiId (--api-id)"],
    [["--body", "[]"], "body: "],
  ])("%j: names the field, exits 2, and sends nothing", async (more, message) => {
    const { code, stdout, stderr } = await runAs(ROOT_KEY, [...VERIFY, ...more]);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain(message);
  });

  it("512 emoji are 512 characters", async () => {
    const server = always({ data: { valid: false, code: "NOT_FOUND" } });
    expect((await runAs(ROOT_KEY, [...VERIFY, "--key", "😀".repeat(512)], server)).code).toBe(1);
  });

  it.each([
    [["update-key", "--key-id", "key_1", "--enabled", "maybe"], "--enabled: must be true or false"],
    [["update-key", "--key-id", "key_1", "--expires", "soon"], "--expires: must be an integer"],
    [["update-key", "--key-id", "key_1", "--expires", "1.5"], "--expires: must be an integer"],
    [["update-key", "--key-id", "key_1", "--expires", "1e999"], "--expires: must be an integer"],
    [["update-key", "--key-id", "key_1", "--expires", "9007199254740993"], "--expires: must be an integer"],
    [["update-key", "--key-id", "key_1", "--expires", "12abc"], "--expires: not JSON"],
    [["update-key", "--key-id", "key_1", "--expires", "-1"], "body.expires (--expires)"],
    [["update-credits", "--key-id", "key_1", "--operation", "increment", "--value", "null"], "body.value (--value)"],
    [["update-key", "--body", `@${FOLDER}`], "cannot be read (EISDIR)"],
  ])("%j: a value that has not the form of its flag", async (argv, message) => {
    const { code, stderr } = await runAs(ROOT_KEY, ["api", "keys", ...argv]);
    expect([code, stderr.includes(message), stderr]).toEqual([2, true, stderr]);
  });

  it("a request that is no object comes by --body, and its answer counts like any other", async () => {
    const argv = ["api", "ratelimit", "multi-limit"];
    const server = always({ data: { passed: false, limits: [] } });
    const checks = [{ namespace: "emails", identifier: "user_17", limit: 10, duration: 60_000 }];
    expect((await runAs(ROOT_KEY, [...argv, "--body", JSON.stringify(checks)], server)).code).toBe(1);
    expect(server.seen[0]?.body).toEqual(checks);
    expect(await runAs(ROOT_KEY, argv)).toMatchObject({ code: 2, stdout: "" });
  });

  it("hostile A021: a byte order mark at the start is left out, as over HTTP; bytes that are not UTF-8 are refused", async () => {
    const server = always(VALID);
    const marked = file("bom.json", '\ufeff{"key":"k"}');
    const root = file("bom.key", `\ufeff${ROOT_KEY}\n`);
    const sent = await run([...VERIFY, "--root-key", `@${root}`, "--body", `@${marked}`], server);
    expect(sent).toMatchObject({ code: 0 });
    expect(server.seen).toMatchObject([{ body: { key: "k" }, authorization: `Bearer ${ROOT_KEY}` }]);
    const twice = file("twice.json", '\ufeff\ufeff{"key":"k"}');
    expect((await runAs(ROOT_KEY, [...VERIFY, "--body", `@${twice}`])).stderr).toContain("not JSON");
    const latin = file("latin.json", new Uint8Array([0x22, 0xe9, 0x22]));
    expect((await runAs(ROOT_KEY, [...VERIFY, "--body", `@${latin}`])).stderr).toContain("not UTF-8");
  });

  it("has every operation of the table, with an example in its help that its own judge accepts", async () => {
    for (const [name, { permissions, also }] of Object.entries(OPERATIONS)) {
      const path = name.split(".").map((part) => part.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`));
      const { code, stdout } = await run(["api", ...path, "--help"]);
      const asked = [...permissions, ...also.map(({ permission }) => permission)];
      expect([name, code, stdout.includes(`POST /v2/${name}`)]).toEqual([name, 0, true]);
      expect(
        asked.filter((permission) => !stdout.includes(permission)),
        name,
      ).toEqual([]);
      const example = /\n {2}\$ keystile (.*)/.exec(stdout)?.[1] ?? "";
      const argv = [...example.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
        ([, single, double, bare]) => single ?? double ?? bare ?? "",
      );
      if (argv.some((word) => word.startsWith("@"))) continue;
      const server = always({ data: { migrated: [], failed: [], valid: true, success: true, passed: true } });
      const ran = await runAs(ROOT_KEY, argv, server);
      expect([example, ran.code, ran.stderr, server.seen.length]).toEqual([example, 0, "", 1]);
    }
  });

  it("liveness needs no root key, and sends none", async () => {
    const server = always({ data: { message: "OK" } });
    expect((await runAs(ROOT_KEY, ["api", "liveness"], server)).code).toBe(0);
    expect(server.seen[0]).toMatchObject({
      url: "http://127.0.0.1:5397/v2/liveness",
      method: "GET",
      authorization: undefined,
    });
    const { code, stderr } = await runAs(ROOT_KEY, ["api", "liveness", "--body", "{}"], server);
    expect([code, stderr, server.seen.length]).toEqual([2, "error: --body: liveness takes no request\n", 1]);
  });
});

describe("api: plans", () => {
  it("an idempotency key is sent as the header, as a structured-field string", async () => {
    const server = always(VALID);
    await runAs(ROOT_KEY, [...VERIFY, "--key", "sk_1", "--idempotency-key", 'evt "1" \\ 2'], server);
    await runAs(ROOT_KEY, [...VERIFY, "--body", '{"key":"sk_1"}', "--idempotency-key", "evt_2"], server);
    await runAs(ROOT_KEY, [...VERIFY, "--key", "sk_1"], server);
    const sent = server.seen.map(({ idempotencyKey, body }) => [idempotencyKey, body]);
    const body = { key: "sk_1" };
    expect(sent).toEqual([
      ['"evt \\"1\\" \\\\ 2"', body],
      ['"evt_2"', body],
      [undefined, body],
    ]);
  });

  it.each(["", "é", "a\nb", "x".repeat(256)])(
    "the idempotency key %j is refused before anything is sent",
    async (text) => {
      const server = always(VALID);
      const { code, stderr } = await runAs(ROOT_KEY, [...VERIFY, "--key", "k", "--idempotency-key", text], server);
      expect([code, server.seen]).toEqual([2, []]);
      expect(stderr).toContain("must be 1 to 255 characters of printable ASCII");
    },
  );

  it("an operation that honours no idempotency key has no flag for one", async () => {
    for (const { name, headers } of Object.values(OPERATIONS)) {
      const { stdout } = await run(["api", ...name.split(".").map(toKebab), "--help"]);
      expect([name, stdout.includes("--idempotency-key")]).toEqual([name, headers?.["Idempotency-Key"] !== undefined]);
    }
  });

  it("help names the parts of a JSON flag, and which may be left out", async () => {
    const helpOf = async (...path: string[]) => (await run(["api", ...path, "--help"])).stdout.replace(/\s+/g, " ");
    const refill = "{interval, amount, refillDay?, timeZone?, rollover?}";
    expect(await helpOf("identities", "change-plan")).toContain(`(required; JSON, @file or -: ${refill})`);
    expect(await helpOf("keys", "create-key")).toContain(`JSON, @file or -: {remaining, refill?: ${refill}})`);
    expect(await helpOf("identities", "update-identity")).toContain(": [{name, limit, duration, autoApply?}])");
    expect(await helpOf("keys", "get-keys")).toContain("The ids of the keys (required; JSON, @file or -)");
  });

  it("a plan is made, topped up, changed once by a webhook that comes twice, and suspended, by a real service", async () => {
    const server = await serve(join(folder(), "plans.db"));
    const call = async (line: string, json?: string) => {
      const argv = ["api", "--api-url", server.url, "--output", "json", "identities", ...line.split(" ")];
      const ran = await runAs(server.rootKey, json === undefined ? argv : [...argv, "--refill", json], { fetch });
      const { data, error } = JSON.parse(ran.stdout) as { data: unknown; error?: { status: number } };
      return [ran.code, data ?? error?.status];
    };
    try {
      const refill = { interval: "weekly", amount: 1_000, refillDay: 1, timeZone: "Europe/Berlin", rollover: 0 };
      const credits = JSON.stringify({ remaining: 1_000, refill });
      await call(`create-identity --external-id ann --credits ${credits}`);
      const more = "--grant-id order_1 --amount 50 --expires 4000000000000 --priority 7 --reason bonus";
      for (const created of [true, false]) {
        const granted = { grantId: "order_1", amount: 50, remaining: 50, expires: 4e12, created };
        expect(await call(`grant-credits --identity ann ${more}`)).toEqual([0, expect.objectContaining(granted)]);
      }
      expect(await call("list-grants --identity ann")).toMatchObject([
        0,
        { grants: [{ grantId: "order_1", priority: 7, reason: "bonus", remaining: 50 }] },
      ]);
      const plan = JSON.stringify({ ...refill, amount: 10_000 });
      const change = "change-plan --identity ann --now difference --idempotency-key evt_1";
      expect(await call(change, plan)).toMatchObject([0, { remaining: 10_000 }]);
      expect(await call(change, plan)).toMatchObject([0, { remaining: 10_000, repeated: true }]);
      expect(await call(change, JSON.stringify({ ...refill, amount: 5 }))).toEqual([2, 422]);
      expect(await call("update-identity --identity ann --enabled false --expires 4000000000000")).toMatchObject([
        0,
        { enabled: false, expires: 4e12 },
      ]);
      const read = "update-credits --identity ann --operation increment --value 0";
      expect(await call(read)).toEqual([0, { remaining: 10_000, refill: { ...refill, amount: 10_000 } }]);
    } finally {
      await server.stop();
    }
  });
});

describe("api: answers", () => {
  it("hostile A203: the request id and then the data, or with --output json the full envelope", async () => {
    const server = always(VALID);
    const plain = await runAs(ROOT_KEY, [...VERIFY, "--key", "sk_1"], server);
    const [id, ...rest] = plain.stdout.split("\n");
    expect([id, JSON.parse(rest.join("\n"))]).toEqual(["req_1", VALID.data]);
    const json = await runAs(ROOT_KEY, [...VERIFY, "--key", "sk_1", "--output", "json"], server);
    expect(JSON.parse(json.stdout)).toEqual({ meta: { requestId: "req_2" }, data: VALID.data });
    expect([plain.stderr, json.stderr]).toEqual(["", ""]);
  });

  it("shows on stderr how a list goes on", async () => {
    const server = always({ data: [], pagination: { cursor: "abc", hasMore: true } });
    const { stdout, stderr } = await runAs(ROOT_KEY, ["api", "apis", "list-keys", "--api-id", "api_12345"], server);
    expect([stdout, stderr]).toEqual(["req_1\n[]\n", "there is more: --cursor abc\n"]);
  });

  it.each([
    [VALID, 0],
    [{ data: { valid: false, code: "A_CODE_OF_THE_FUTURE" } }, 1],
    [{ status: 400, error: { title: "Bad Request", detail: "no", status: 400, type: "x", errors: [] } }, 2],
    [{ status: 401, error: { title: "Unauthorized", detail: "no", status: 401, type: "x" } }, 3],
    [{ status: 403, error: { title: "Forbidden", detail: "no", status: 403, type: "x" } }, 3],
    [{ status: 404, error: { title: "Not Found", detail: "no", status: 404, type: "x" } }, 1],
    [{ status: 409, error: { title: "Conflict", detail: "no", status: 409, type: "x" } }, 1],
    [{ status: 429, error: { title: "Too Many Requests", detail: "no", status: 429, type: "x" } }, 3],
    [{ status: 500, error: { title: "Internal Server Error", detail: "no", status: 500, type: "x" } }, 3],
    [{ status: 404, text: "<html>not here</html>" }, 3],
    [{ status: 200, text: "{}" }, 3],
    [{ status: 302, text: "", headers: { location: "https://elsewhere.example" } }, 3],
    [Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNREFUSED" } }), 3],
  ] as (readonly [Reply | Error, number])[])("%j ends with exit code %i, asked once", async (reply, code) => {
    const server = always(reply);
    const ran = await runAs(ROOT_KEY, [...VERIFY, "--key", "sk_1"], server);
    expect([ran.code, server.seen.length]).toEqual([code, 1]);
    expect(ran.stdout === "").toBe(!(reply as Reply).data);
    expect(ran.stderr === "").toBe(Boolean((reply as Reply).data));
  });

  it("prints the faults that the server found, and with --output json its envelope", async () => {
    const errors = [{ location: "body.limit", message: "is too high", fix: "lower it" }];
    const server = always({
      status: 400,
      error: { title: "Bad Request", detail: "one fault", status: 400, type: "x", errors },
    });
    const { stdout, stderr } = await runAs(ROOT_KEY, [...VERIFY, "--key", "sk_1", "--output", "json"], server);
    expect(stderr).toBe("error: Bad Request (400): one fault [req_1]\n  body.limit: is too high; lower it\n");
    expect(JSON.parse(stdout)).toMatchObject({ meta: { requestId: "req_1" }, error: { errors } });
  });

  it("lets nothing of a server's steer the terminal", async () => {
    const evil = "\u001b[2J\u009b31m\u202eoops";
    const answers = [
      always({ data: { valid: true, code: "VALID", name: evil } }),
      always({ status: 403, error: { title: evil, detail: evil, status: 403, type: "x" } }),
      always({ requestId: evil, data: { valid: true } }),
      always({ data: { valid: true }, pagination: { hasMore: true, cursor: evil } }),
    ];
    for (const server of answers) {
      const { stdout, stderr } = await runAs(ROOT_KEY, [...VERIFY, "--key", "sk_1"], server);
      expect(stdout + stderr).toContain("oops");
      expect(stdout + stderr).not.toMatch(/[\u001b\u009b\u202e]/);
    }
  });
});

describe("api: settings", () => {
  const asked = async (argv: readonly string[], options: Parameters<typeof run>[1] = {}) => {
    const server = always(VALID);
    const ran = await run([...VERIFY, "--key", "sk_1", ...argv], { ...options, fetch: server.fetch });
    return { ...ran, url: server.seen[0]?.url, authorization: server.seen[0]?.authorization };
  };
  const HOME = join(FOLDER, "home");
  const config = (value: unknown, mode = 0o600) => {
    const path = file("config.json", JSON.stringify(value));
    chmodSync(path, mode);
    return path;
  };

  it("contract 4.2: a flag goes before the environment, and that before the config file", async () => {
    const path = config({ rootKey: "root_file", apiUrl: "https://keys.example.com/base/" });
    const env = { KEYSTILE_ROOT_KEY: "root_env" };
    expect(await asked(["--config", path])).toMatchObject({
      authorization: "Bearer root_file",
      url: "https://keys.example.com/base/v2/keys.verifyKey",
    });
    expect(await asked(["--config", path], { env })).toMatchObject({ authorization: "Bearer root_env" });
    const address = { ...env, KEYSTILE_API_URL: "http://localhost:2/" };
    expect(await asked(["--config", path], { env: address })).toMatchObject({
      url: "http://localhost:2/v2/keys.verifyKey",
    });
    for (const KEYSTILE_API_URL of ["", "keys.example.com"])
      expect(await asked(["--config", path], { env: { ...env, KEYSTILE_API_URL } })).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("KEYSTILE_API_URL: must be an http or https address"),
      });
    const flags = ["--config", path, "--root-key", "root_flag", "--api-url", "http://localhost:1"];
    expect(await asked(flags, { env: address })).toMatchObject({
      authorization: "Bearer root_flag",
      url: "http://localhost:1/v2/keys.verifyKey",
    });
  });

  it("contract 4.2: the default config file is in the home directory; it may be missing, one that was named may not", async () => {
    mkdirSync(HOME, { recursive: true });
    writeFileSync(join(HOME, ".keystile.json"), '{"rootKey":"root_home"}', { mode: 0o600 });
    expect(await asked([], { home: HOME })).toMatchObject({ code: 0, authorization: "Bearer root_home" });
    expect(await asked([], {})).toMatchObject({ code: 2, url: undefined });
    expect(await asked(["--config", join(FOLDER, "none.json")])).toMatchObject({ code: 2, url: undefined });
  });

  it.each([["{"], ["[]"], ['{"rootkey":"root_1"}'], ['{"rootKey":5}'], ['{"rootKey":""}'], ['{"apiUrl":"ftp://x"}']])(
    "refuses the config %s without repeating it",
    async (text) => {
      const { code, stderr, url } = await asked(["--config", file("bad.json", text)], {
        env: { KEYSTILE_ROOT_KEY: ROOT_KEY },
      });
      expect([code, url]).toEqual([2, undefined]);
      expect(stderr).not.toContain("root_1");
    },
  );

  it("warns of a config file with a root key that others can read, and of plain HTTP over a network", async () => {
    expect((await asked(["--config", config({ rootKey: "root_1" }, 0o644)])).stderr).toContain("run: chmod 600");
    expect((await asked(["--config", config({ rootKey: "root_1" })])).stderr).toBe("");
    const open = ["--root-key", "root_1", "--api-url"];
    expect((await asked([...open, "http://10.0.0.1"])).stderr).toContain("plain HTTP");
    expect((await asked([...open, "http://[::1]:80"])).stderr).toBe("");
    expect((await asked([...open, "https://10.0.0.1"])).stderr).toBe("");
  });

  it.each([["nonsense"], ["ftp://x"], ["http://user:hunter2@x"], ["http://x/?a=b"], ["http://x/#a"]])(
    "refuses the address %s",
    async (url) => {
      const ran = await asked(["--root-key", "root_1", "--api-url", url]);
      expect([ran.code, ran.url]).toEqual([2, undefined]);
      expect(ran.stderr).not.toContain("hunter2");
    },
  );

  it.each([["root key"], ["root\nx: y"], ["röot"], [""]])(
    "refuses the root key %j before it reaches a header",
    async (rootKey) => {
      expect(await asked(["--root-key", rootKey])).toMatchObject({ code: 2, url: undefined });
    },
  );

  it("no root key in any text, whatever goes wrong", async () => {
    const refused = always({ status: 401, error: { title: "Unauthorized", detail: "no", status: 401, type: "x" } });
    const broken = always(
      Object.assign(new TypeError(`Bearer ${ROOT_KEY} is an invalid header value`), { cause: new Error(ROOT_KEY) }),
    );
    const runs = [
      await runAs(ROOT_KEY, [...VERIFY, "--key", "sk_1"], refused),
      await runAs(ROOT_KEY, [...VERIFY, "--key", "sk_1"], broken),
      await run([...VERIFY, `--rootkey=${ROOT_KEY}`]),
      await run([...VERIFY, "--root-key", `${ROOT_KEY} `]),
      await run([...VERIFY, "--root-key", ROOT_KEY, "--body", `{"key": ${ROOT_KEY}}`]),
      await run(["api", "--root-key", ROOT_KEY, "nothing"]),
    ];
    expect(runs.map(({ code }) => code)).toEqual([3, 3, 2, 2, 2, 2]);
    for (const { stdout, stderr } of runs) expect(stdout + stderr).not.toContain(ROOT_KEY);
  });
});
