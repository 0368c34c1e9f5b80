import { chmodSync, existsSync, linkSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { allPermissions } from "../../../src/cli/database/database.js";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { createRatelimits } from "../../../src/keyring/ratelimits/create-ratelimits.js";
import { sqliteLimiter, sqliteStore } from "../../../src/stores/sqlite/index.js";
import { folder, run, serve } from "../support.js";

const FOLDER = folder();

async function database(name: string): Promise<string> {
  const db = join(FOLDER, name);
  const store = sqliteStore(db);
  await createKeyring(store).createApi({ name: "documents" });
  await store.close();
  chmodSync(db, 0o600);
  return db;
}

interface Check {
  readonly level: string;
  readonly check: string;
  readonly text: string;
}
async function doctor(
  db: string,
  now?: () => number,
): Promise<{ readonly code: number; readonly checks: Readonly<Record<string, Check>> }> {
  const { code, stdout } = await run(["doctor", "--db", db, "--output", "json"], now && { now });
  const { ok, checks } = JSON.parse(stdout) as { ok: boolean; checks: Check[] };
  expect(ok).toBe(code === 0);
  return { code, checks: Object.fromEntries(checks.map((check) => [check.check, check])) };
}

describe("migrations create", () => {
  it("makes a migration in the file and prints its id alone", async () => {
    const db = await database("migrations.db");
    const made = await run(["migrations", "create", "--db", db, "--algorithm", "sha256", "--id", "mig_2019"]);
    expect(made).toEqual({ code: 0, stdout: "mig_2019\n", stderr: "" });
    const other = await run(["migrations", "create", "--db", db, "--algorithm", "sha512", "--output", "json"]);
    expect((JSON.parse(other.stdout) as { migrationId: string }).migrationId).toMatch(/^mig_/);
  });

  it("refuses an algorithm that cannot be looked up, at its flag", async () => {
    const db = await database("bcrypt.db");
    const { code, stdout, stderr } = await run(["migrations", "create", "--db", db, "--algorithm", "bcrypt"]);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain("body.algorithm (--algorithm): is a slow salted hash");
  });

  it("answers 1 for an id that is taken", async () => {
    const db = await database("taken.db");
    const argv = ["migrations", "create", "--db", db, "--algorithm", "sha256", "--id", "mig_once"];
    expect((await run(argv)).code).toBe(0);
    expect((await run(argv)).code).toBe(1);
  });
});

describe("namespaces list", () => {
  it("shows each namespace with its id", async () => {
    const db = await database("namespaces.db");
    expect(await run(["namespaces", "list", "--db", db])).toEqual({ code: 0, stdout: "", stderr: "there are none\n" });
    const store = sqliteStore(db);
    const { namespaceId } = await createRatelimits(store).createNamespace({ name: "mail out" });
    await store.close();
    const shown = async () => (await run(["namespaces", "list", "--db", db])).stdout.split("\n");
    expect(await shown()).toEqual([expect.stringMatching(/^NAMESPACE +NAME$/), `${namespaceId}  mail out`, ""]);
    const { stdout } = await run(["namespaces", "list", "--db", db, "--output", "json"]);
    expect(JSON.parse(stdout)).toEqual([{ id: namespaceId, name: "mail out" }]);
    const older = sqliteStore(db);
    const [row] = await older.readMany("namespaces", [namespaceId]);
    await older.write([{ table: "namespaces", row: { ...row!, name: "a\nns_forged\tb\u2028c" } }]);
    await older.close();
    expect((await shown()).slice(1)).toEqual([`${namespaceId}  a?ns_forged?b?c`, ""]);
  });
});

describe("root-keys", () => {
  it("S12: a name with line breaks, as older files may hold it, forges no line of the list", async () => {
    const db = await database("forged.db");
    const store = sqliteStore(db);
    const name = "a\nrk_forged  root_xyz…  enabled\tb\u2028c\u2029d\re";
    await store.write([
      {
        table: "rootKeys",
        row: {
          id: "rk_forger",
          version: 0,
          workspaceId: "ws_default",
          digest: "d",
          start: "root_abcd",
          name,
          permissions: [],
          enabled: true,
          createdAt: 0,
        },
      },
    ]);
    await store.close();
    const { stdout } = await run(["root-keys", "list", "--db", db]);
    expect(stdout.split(/[\n\r\u2028\u2029]/).filter((line) => line !== "")).toHaveLength(2);
    expect(stdout).toContain("a?rk_forged");
    expect(stdout).not.toContain("\t");
  });

  it("create shows the key once; list does not; revoke ends it", async () => {
    const db = await database("root-keys.db");
    const made = await run([
      "root-keys",
      "create",
      "--db",
      db,
      "--name",
      "gateway",
      "--permission",
      "api.*.verify_key",
    ]);
    const [id = "", key = ""] = made.stdout.trim().split("\n");
    expect([made.code, id.slice(0, 3), key.slice(0, 5)]).toEqual([0, "rk_", "root_"]);
    const listed = await run(["root-keys", "list", "--db", db]);
    expect(listed.stdout).toContain(id);
    expect(listed.stdout).toContain("api.*.verify_key");
    expect(listed.stdout + listed.stderr).not.toContain(key);
    expect((await run(["root-keys", "revoke", "--db", db, id])).code).toBe(0);
    expect((await run(["root-keys", "list", "--db", db, "--output", "json"])).stdout).toBe("[\n]\n");
    expect((await run(["root-keys", "revoke", "--db", db, id])).code).toBe(1);
  });

  it("create --all grants the permissions of every operation, and none twice", async () => {
    const db = await database("all.db");
    await run(["root-keys", "create", "--db", db, "--all"]);
    const { stdout } = await run(["root-keys", "list", "--db", db, "--output", "json"]);
    const [{ permissions } = { permissions: [] }] = JSON.parse(stdout) as { permissions: string[] }[];
    expect(permissions).toEqual(
      expect.arrayContaining([
        "api.*.verify_key",
        "api.*.create_key",
        "identity.*.create_identity",
        "rbac.*.create_role",
      ]),
    );
    // Named by no operation as the one that suffices.
    expect(permissions).toEqual(
      expect.arrayContaining(["ratelimit.*.create_namespace", "rbac.*.remove_permission_from_role"]),
    );
    expect(new Set(permissions).size).toBe(permissions.length);
  });

  it("create refuses what grants nothing, nothing at all, and both ways at once", async () => {
    const db = await database("nothing.db");
    const create = (...more: string[]) => run(["root-keys", "create", "--db", db, ...more]);
    const malformed = await create("--permission", "everything");
    expect([malformed.code, malformed.stderr.includes("body.permissions[0] (--permission): ")]).toEqual([2, true]);
    const nobody = await run(["root-keys", "revoke", "--db", db, ""]);
    expect([nobody.code, nobody.stderr.includes("body.rootKeyId (<rootKeyId>): ")]).toEqual([2, true]);
    expect((await create()).code).toBe(2);
    expect((await create("--all", "--permission", "api.*.verify_key")).code).toBe(2);
    expect((await create("--all", "--expires", "soon")).code).toBe(2);
    expect((await run(["root-keys", "list", "--db", db, "--output", "json"])).stdout).toBe("[\n]\n");
  });

  it.each([
    ["api.*.verifykey", "; did you mean verify_key?"],
    ["api.api_1.Verify_Key", "; did you mean verify_key?"],
    ["api.*.limit", ""],
    ["ratelimit.*.limits", "; did you mean limit?"],
    ["svc:v1:ws_default:keyspaces/*/keys/*#verifykey", "; did you mean verify_key?"],
    ["api.*.nothing_like_it", ""],
  ])("create refuses %s, an action that no operation asks for", async (permission, fix) => {
    const db = await database("asked.db");
    const argv = ["root-keys", "create", "--db", db, "--permission", "api.*.read_key", "--permission", permission];
    const { code, stdout, stderr } = await run(argv);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain(
      `body.permissions[1] (--permission): its action is one that no operation asks for${fix}\n`,
    );
  });

  it("create takes every action that an operation asks for, on one resource and by name", async () => {
    const db = await database("taken.db");
    const names = [...allPermissions(), "api.api_1.verify_key", "svc:v1:ws_default:**#*"];
    const argv = names.flatMap((name) => ["--permission", name]);
    expect(await run(["root-keys", "create", "--db", db, ...argv])).toMatchObject({ code: 0 });
  });

  it("create refuses a key that would be dead at birth, by its flag", async () => {
    const db = await database("dead.db");
    const now = () => Date.UTC(2026, 2, 10, 12);
    const create = (expires: string) =>
      run(["root-keys", "create", "--db", db, "--all", "--expires", expires], { now });
    for (const expires of ["2026-03-10T12:00Z", "2026-03-09", "0"]) {
      const { code, stdout, stderr } = await create(expires);
      expect([code, stdout, stderr]).toEqual([
        2,
        "",
        "error: --expires: must be in the future; the root key would let nobody in\n",
      ]);
    }
    expect((await create("2026-03-10T12:00:00.001Z")).code).toBe(0);
  });

  it("list tells expired keys from enabled ones", async () => {
    const db = await database("expired.db");
    await run(["root-keys", "create", "--db", db, "--all", "--expires", "2027-01-31T00:00:00Z"], {
      now: () => Date.UTC(2026, 2, 10),
    });
    const at = (text: string) => run(["root-keys", "list", "--db", db], { now: () => Date.parse(text) });
    expect((await at("2027-01-31T00:00:00.000Z")).stdout).toContain("  enabled until 2027-01-31T00:00:00.000Z  ");
    expect((await at("2027-01-31T00:00:00.001Z")).stdout).toContain("  expired until 2027-01-31T00:00:00.000Z  ");
  });
});

describe("a file that is not there", () => {
  it.each([
    ["migrations", "create", "--algorithm", "sha256"],
    ["root-keys", "create", "--all"],
    ["root-keys", "list"],
    ["root-keys", "revoke", "rk_123"],
  ])("%s %s: is an error, not a new file", async (...argv) => {
    const db = join(FOLDER, "absent.db");
    const { code, stderr } = await run([...argv, "--db", db]);
    expect([code, existsSync(db)]).toEqual([2, false]);
    expect(stderr).toContain(
      `there is no such file; \`npx keystile serve --db ${db}\` makes one, or \`apis create\` without a server`,
    );
  });

  it.each([
    ["root-keys", "list"],
    ["migrations", "create", "--algorithm", "sha256"],
  ])("%s %s: a folder is said to be one", async (...argv) => {
    const { code, stderr } = await run([...argv, "--db", FOLDER]);
    expect([code, stderr]).toEqual([2, `error: --db: ${FOLDER}: is a folder; name a file in it\n`]);
  });

  it.each([["root-keys", "list"], ["doctor"]])(
    "%s %s: a path with spaces at its ends is refused: another file would be opened",
    async (...words) => {
      const db = `${await database("blank.db")} `;
      writeFileSync(db, "");
      const { code, stdout, stderr } = await run([...words.filter((word) => word !== undefined), "--db", db]);
      expect([code, stdout]).toEqual([2, ""]);
      expect(stderr).toContain("must be a path without spaces at its ends");
    },
  );

  it("doctor: a file shorter than a header, and one of several names, fail as files", async () => {
    const [short, one] = [join(FOLDER, "short.db"), join(FOLDER, "one.db")];
    for (const text of ["", "x"]) {
      writeFileSync(short, text);
      expect((await doctor(short)).checks["file"]).toMatchObject({ level: "fail" });
    }
    await sqliteStore(one).close();
    linkSync(one, join(FOLDER, "two.db"));
    expect((await doctor(one)).checks["file"]?.text).toMatch(/has 2 names \(hard links\)/);
  });

  it("doctor: a path that leads through a file, and a folder, fail as files", async () => {
    const file = join(FOLDER, "through.db");
    writeFileSync(file, "");
    for (const db of [join(file, "below"), FOLDER]) expect((await doctor(db)).checks["file"]?.level).toBe("fail");
  });

  it("doctor: fails, and makes none", async () => {
    const db = join(FOLDER, "absent.db");
    const { code, checks } = await doctor(db);
    expect([code, checks["file"]?.level, existsSync(db)]).toEqual([1, "fail", false]);
  });
});

describe("doctor", () => {
  it("finds nothing wrong with a file that serve could use but for its missing root key", async () => {
    const db = await database("fit.db");
    const { code, checks } = await doctor(db);
    const levels = Object.values(checks).map(({ check, level }) => `${check} ${level}`);
    // Which file system the tests run on is the machine's affair.
    expect(levels.filter((text) => !text.startsWith("disk"))).toEqual([
      "node ok",
      "file ok",
      "driver ok",
      "schema ok",
      "integrity ok",
      "durability ok",
      "root keys warn",
      "clock ok",
    ]);
    expect(code).toBe(0);
  });

  it("prints a line a check, without colours where there is no terminal", async () => {
    const db = await database("lines.db");
    const { stdout } = await run(["doctor", "--db", db]);
    expect(stdout).toMatch(/^ok {4}integrity {3}whole$/m);
    expect(stdout).not.toContain("\u001b");
    expect((await run(["doctor", "--db", db], { isTTY: true })).stdout).toContain("\u001b[32mok  \u001b[39m");
    const quiet = await run(["doctor", "--db", db], { isTTY: true, env: { NO_COLOR: "1" } });
    expect(quiet.stdout).not.toContain("\u001b");
  });

  it("warns of a file that others can use", async () => {
    const db = await database("open.db");
    chmodSync(db, 0o644);
    expect((await doctor(db)).checks["file"]?.level).toBe("warn");
  });

  it("fails for damage, for what is no database, and for a database without keystile's tables", async () => {
    const damaged = await database("damaged.db");
    truncateSync(damaged, 40_960);
    const torn = await doctor(damaged);
    expect(torn.code).toBe(1);
    const text = join(FOLDER, "text.db");
    writeFileSync(text, "this is no database at all, only a text of some length".repeat(100));
    const { checks: ofText } = await doctor(text);
    expect([ofText["file"], ofText["driver"]?.level]).toEqual([
      { level: "fail", check: "file", text: `${text}: is no SQLite database` },
      "ok",
    ]);
    const empty = join(FOLDER, "empty.db");
    writeFileSync(empty, "");
    const { code, checks } = await doctor(empty);
    expect([code, checks["schema"]?.level]).toEqual([1, "fail"]);
  });

  it("warns of a clock behind the file, and fails for one that was never set", async () => {
    const db = await database("clock.db");
    const hour = 3_600_000;
    expect((await doctor(db, () => Date.now() - hour)).checks["clock"]?.level).toBe("warn");
    expect((await doctor(db, () => 0)).checks["clock"]?.level).toBe("fail");
  });

  it("examines the rate limits beside a database, if there are any", async () => {
    const db = await database("limits.db");
    expect((await doctor(db)).checks["limits"]).toBeUndefined();
    const limiter = sqliteLimiter({ path: db });
    const now = Date.now();
    await limiter.take([{ bucket: "b", limit: 10, duration: 1_000, cost: 1 }], now);
    await limiter.close();
    const limits = `${db}-limits`;
    expect((await doctor(db)).checks["limits"]).toEqual({
      level: "ok",
      check: "limits",
      text: `${limits}, 1 buckets`,
    });
    expect((await doctor(db, () => now - 60_000)).checks["limits"]).toMatchObject({
      level: "warn",
      text: expect.stringContaining("a clock was 60 s ahead") as string,
    });
    const file = new Database(limits);
    file.exec("UPDATE keystile_limits SET buckets = 7");
    expect((await doctor(db)).checks["limits"]?.text).toContain("counts 7 buckets and has 1");
    file.exec("UPDATE keystile_limits SET version = 0");
    expect((await doctor(db)).checks["limits"]).toMatchObject({
      level: "fail",
      text: expect.stringContaining("of an earlier keystile; remove it while no process has it open") as string,
    });
    file.exec("UPDATE keystile_limits SET version = 9");
    file.close();
    expect((await doctor(db)).checks["limits"]).toMatchObject({ level: "fail" });
    writeFileSync(limits, "no database ".repeat(100));
    const { code, checks } = await doctor(db);
    expect([code, checks["limits"]?.level]).toEqual([1, "fail"]);
  });

  it("examines a file that a server has open", async () => {
    const db = join(FOLDER, "busy.db");
    const server = await serve(db);
    const { code, checks } = await doctor(db);
    expect([code, checks["integrity"]?.level, checks["root keys"]]).toEqual([
      0,
      "ok",
      { level: "ok", check: "root keys", text: "1" },
    ]);
    await server.stop();
  });

  it("changes nothing", async () => {
    const db = await database("still.db");
    const before = readFileSync(db);
    await doctor(db);
    expect(readFileSync(db).equals(before)).toBe(true);
  });
});
