/**
 * The whole service as its users meet it: one story, told by the real server, the real command line and plain fetch.
 */
import { rootKeyOf } from "../cli/support.js";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKeyring } from "../../src/keyring/keyring.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import {
  type Answered,
  bundleCommandLine,
  type Ended,
  post,
  runCommand,
  type ServerProcess,
  startServer,
} from "./support.js";

const FOLDER = mkdtempSync(join(tmpdir(), "keystile-service-"));
const DB = join(FOLDER, "keys.db");
const KEYS = 5_000;
const textOf = (i: number): string => `old_system_key_${i}`;
const hashOf = (i: number): string => createHash("sha256").update(textOf(i)).digest("hex");

/** What the first keys are like; the others are plain. */
const SPECIAL: readonly object[] = [
  { credits: { remaining: 5 }, permissions: ["documents.*"], externalId: "user_1", name: "the first" },
  { enabled: false },
  { expires: 1_000 },
  { permissions: ["documents.read"] },
  { ratelimits: [{ name: "requests", limit: 1, duration: 3_600_000, autoApply: true }] },
  { credits: { remaining: 0 } },
  { credits: { remaining: 1_000_000 } },
];
const [LIMITED, DISABLED, EXPIRED, NARROW, SLOW, SPENT, BUSY] = [0, 1, 2, 3, 4, 5, 6];

let cli = "";
let server: ServerProcess;
const roots: Record<"first" | "verifier" | "stranger" | "reader", string> = {
  first: "",
  verifier: "",
  stranger: "",
  reader: "",
};
let apiId = "";

const command = (rootKey: string, ...argv: readonly string[]): Promise<Ended> =>
  runCommand(cli, argv, { KEYSTILE_ROOT_KEY: rootKey });
const api = (rootKey: string, ...argv: readonly string[]): Promise<Ended> =>
  command(rootKey, "api", ...argv, "--output", "json", "--api-url", server.url);
const ask = (rootKey: string, body: object): Promise<Answered> => post(server.url, "keys.verifyKey", rootKey, body);
const withoutId = ({ text, body }: Answered): string => text.replaceAll(body.meta.requestId, "req_");
const parsed = (ended: Ended) =>
  JSON.parse(ended.stdout) as { data: Record<string, unknown>; error?: Record<string, unknown> };

beforeAll(async () => {
  cli = await bundleCommandLine("service");
});
afterAll(async () => {
  await server?.stop("SIGKILL");
  rmSync(FOLDER, { recursive: true, force: true });
});

describe("keystile as a service", () => {
  it("starts on a file that is not there, and shows a root key once", async () => {
    server = await startServer(cli, ["--db", DB, "--port", "0", "--log"], FOLDER);
    roots.first = rootKeyOf(server.banner);
    apiId = /^API +(api_\w+)$/m.exec(server.banner)?.[1] ?? "";
    expect([roots.first.length > 30, apiId.length > 8, statSync(DB).mode & 0o777]).toEqual([true, true, 0o600]);
  });

  it("creates root keys on the file while the server runs", async () => {
    const create = async (permission: string): Promise<string> => {
      const { code, stdout } = await command(
        "",
        "root-keys",
        "create",
        "--db",
        DB,
        "--permission",
        permission,
        "--output",
        "json",
      );
      expect(code).toBe(0);
      return (JSON.parse(stdout) as { key: string }).key;
    };
    roots.verifier = await create(`api.${apiId}.verify_key`);
    roots.stranger = await create("api.api_of_somebody_else.verify_key");
    roots.reader = await create("identity.*.read_identity");
  });

  it("creates a migration and takes in 5,000 keys, those that fail apart", async () => {
    const made = await command("", "migrations", "create", "--db", DB, "--algorithm", "sha256", "--id", "mig_2019");
    expect(made.code).toBe(0);
    const keys = Array.from({ length: KEYS }, (_, i) => ({ hash: hashOf(i), ...SPECIAL[i] }));
    const wrong = [
      { hash: hashOf(KEYS), roles: ["nobody knows this role"] },
      { hash: "no hash of sha256" },
      { hash: hashOf(LIMITED), name: "the first again" },
    ];
    const source = join(FOLDER, "keys.ndjson");
    const failures = join(FOLDER, "failures.ndjson");
    writeFileSync(
      source,
      [...keys.slice(0, 2_000), ...wrong, ...keys.slice(2_000)].map((key) => JSON.stringify(key)).join("\n"),
    );
    const argv = ["keys", "migrate-keys", "--migration-id", "mig_2019", "--api-id", apiId, "--keys", `@${source}`];
    const ran = await api(roots.first, ...argv, "--failures", failures);
    expect([ran.code, parsed(ran).data]).toMatchObject([1, { migrated: KEYS, failed: 3 }]);
    const failed = readFileSync(failures, "utf8").trim().split("\n");
    expect(failed.map((line) => (JSON.parse(line) as { key: object }).key)).toEqual(wrong);

    const again = await api(roots.first, ...argv);
    expect([again.code, parsed(again).data["failed"]]).toEqual([1, KEYS + 3]);
  });

  it("verifies to all eight codes, by the command line with its exit code", async () => {
    const forbidden = parsed(
      await api(roots.first, "keys", "create-key", "--api-id", apiId, "--ip-allowlist", '["203.0.113.1"]'),
    ).data;
    const query = ["--permissions", "documents.read AND (billing.view OR documents.list)"];
    const verify = async (key: string, ...more: readonly string[]) => {
      const ran = await api(roots.verifier, "keys", "verify-key", "--key", key, ...more);
      return [parsed(ran).data["code"], ran.code];
    };
    expect((await ask(roots.verifier, { key: textOf(SLOW) })).body.data).toMatchObject({ code: "VALID" });
    const outcomes = await Promise.all([
      verify(textOf(LIMITED), ...query),
      verify("a key that nobody made"),
      verify(textOf(DISABLED)),
      verify(textOf(EXPIRED)),
      verify(String(forbidden["key"])),
      verify(textOf(NARROW), ...query),
      verify(textOf(SLOW)),
      verify(textOf(SPENT)),
    ]);
    expect(outcomes).toEqual([
      ["VALID", 0],
      ["NOT_FOUND", 1],
      ["DISABLED", 1],
      ["EXPIRED", 1],
      ["FORBIDDEN", 1],
      ["INSUFFICIENT_PERMISSIONS", 1],
      ["RATE_LIMITED", 1],
      ["USAGE_EXCEEDED", 1],
    ]);
  });

  it("contract 4.1-3, 4.1-4: another API's caller sees NOT_FOUND, one without the permission 403; nothing is consumed", async () => {
    const masked = await ask(roots.stranger, { key: textOf(LIMITED) });
    const unknown = await ask(roots.stranger, { key: "a key that nobody made" });
    expect([masked.status, masked.body.data]).toEqual([200, { valid: false, code: "NOT_FOUND" }]);
    expect(withoutId(masked)).toBe(withoutId(unknown));
    const refused = await ask(roots.reader, { key: textOf(LIMITED) });
    expect([refused.status, withoutId(refused)]).toEqual([
      403,
      withoutId(await ask(roots.reader, { key: "a key that nobody made" })),
    ]);
    expect((await api(roots.reader, "keys", "verify-key", "--key", textOf(LIMITED))).code).toBe(3);
    expect((await api(roots.verifier, "keys", "create-key", "--api-id", apiId)).code).toBe(3);
    expect((await ask(roots.verifier, { key: textOf(LIMITED) })).body.data).toMatchObject({
      code: "VALID",
      credits: 3,
    });
  });

  it("contract 7: a root key that is none is 401, an ordinary key in its place the same 401", async () => {
    const { data } = parsed(await api(roots.first, "keys", "create-key", "--api-id", apiId));
    const ordinary = await ask(String(data["key"]), { key: "k" });
    const unknown = await ask("root_nobody_made_this_one", { key: "k" });
    expect([unknown.status, ordinary.status, withoutId(ordinary)]).toEqual([401, 401, withoutId(unknown)]);
    expect((await api("root_nobody_made_this_one", "keys", "verify-key", "--key", "k")).code).toBe(3);
  });

  it("contract 4.1-5: a malformed permission query is 400 at body.permissions", async () => {
    const { status, body } = await ask(roots.verifier, { key: textOf(LIMITED), permissions: "documents.read AND" });
    expect([status, body.error]).toMatchObject([400, { errors: [{ location: "body.permissions" }] }]);
    const ran = await api(
      roots.verifier,
      "keys",
      "verify-key",
      "--key",
      textOf(LIMITED),
      "--permissions",
      "documents.read AND",
    );
    expect([ran.code, ran.stderr.includes("body.permissions")]).toEqual([2, true]);
  });

  it("contract 4.1-6: a workspace past its calls is answered 429, by a second server on the same file", async () => {
    const slow = await startServer(cli, ["--db", DB, "--port", "0", "--request-limit", "3/3600"], FOLDER);
    expect(slow.banner).not.toContain("root_");
    const statuses: number[] = [];
    let last: Answered | undefined;
    for (let i = 0; i < 4; i++)
      statuses.push((last = await post(slow.url, "keys.verifyKey", roots.verifier, { key: "k" })).status);
    expect(statuses).toEqual([200, 200, 200, 429]);
    expect(last?.headers.get("content-type")).toContain("application/problem+json");
    expect(Number(last?.headers.get("retry-after"))).toBeGreaterThan(0);
    const ran = await command(roots.verifier, "api", "keys", "verify-key", "--key", "k", "--api-url", slow.url);
    expect([ran.code, ran.stderr.includes("429")]).toEqual([3, true]);
    expect(await slow.stop("SIGINT")).toBe(0);
  });

  it("a second signal does not wait for what is in flight", async () => {
    const hurried = await startServer(cli, ["--db", DB, "--port", "0"], FOLDER);
    const { hostname, port } = new URL(hurried.url);
    const socket = connect(Number(port), hostname);
    socket.on("error", () => undefined);
    socket.write("POST /v2/keys.verifyKey HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n");
    await new Promise((resolve) => setTimeout(resolve, 100));
    const ended = hurried.stop("SIGINT");
    while (!hurried.errors().includes("stopping")) await new Promise((resolve) => setTimeout(resolve, 20));
    await new Promise((resolve) => setTimeout(resolve, 400));
    await Promise.all([ended, hurried.stop("SIGINT")]);
    expect(await ended).toBe(130);
    socket.destroy();
  });

  it("one Ctrl-C that comes twice, as npx and timeout pass it on, waits for what is in flight", async () => {
    const served = await startServer(cli, ["--db", DB, "--port", "0"], FOLDER);
    const { hostname, port } = new URL(served.url);
    const socket = connect(Number(port), hostname);
    let answered = "";
    socket.on("error", () => undefined).on("data", (bytes: Buffer) => (answered += bytes.toString()));
    socket.write("POST /v2/keys.verifyKey HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n");
    await new Promise((resolve) => setTimeout(resolve, 100));
    const ended = [served.stop("SIGTERM"), served.stop("SIGINT")];
    while (!served.errors().includes("stopping")) await new Promise((resolve) => setTimeout(resolve, 20));
    socket.write("\r\n{}");
    expect(await Promise.all(ended)).toEqual([0, 0]);
    expect(answered).toContain("HTTP/1.1 401");
  });

  it("shuts down under load with nothing lost: what was acknowledged is what is gone from the file", async () => {
    let acknowledged = 0;
    let other = 0;
    const load = async (): Promise<void> => {
      for (;;) {
        let answered: Answered;
        try {
          answered = await ask(roots.verifier, { key: textOf(BUSY) });
        } catch {
          return;
        }
        if ((answered.body.data as { valid?: boolean } | undefined)?.valid === true) acknowledged++;
        else other++;
      }
    };
    const clients = Array.from({ length: 32 }, load);
    while (acknowledged < 300) await new Promise((resolve) => setTimeout(resolve, 10));
    const before = acknowledged;
    const code = await server.stop("SIGTERM");
    await Promise.all(clients);
    expect([code, other, acknowledged >= before]).toEqual([0, 0, true]);

    const store = sqliteStore(DB, { mustExist: true });
    const { credits } = await createKeyring(store).whoami({ key: textOf(BUSY) });
    expect(1_000_000 - (credits?.remaining ?? 0)).toBe(acknowledged);
    await store.close();
  });

  it("ruling G4: no root key, key or hash is in the server's log", () => {
    const log = server.errors();
    expect(log.split("\n").length).toBeGreaterThan(100);
    for (const secret of [...Object.values(roots), "old_system_key", hashOf(LIMITED), hashOf(BUSY)])
      expect(log).not.toContain(secret);
  });

  it("leaves a file that the doctor finds whole", async () => {
    const { code, stdout } = await command("", "doctor", "--db", DB, "--output", "json");
    const { checks } = JSON.parse(stdout) as { checks: { check: string; level: string }[] };
    expect([code, checks.find(({ check }) => check === "integrity")?.level]).toEqual([0, "ok"]);
  });
});
