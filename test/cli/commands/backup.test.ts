import { copyFileSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { SCHEMA_VERSION } from "../../../src/stores/sqlite/connection/schema.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import { folder, run } from "../support.js";

const FOLDER = folder();
let made = 0;
const path = () => join(FOLDER, `${++made}.db`);

async function database(
  remaining = 10,
): Promise<{ readonly db: string; readonly key: string; readonly keyId: string }> {
  const db = path();
  const store = sqliteStore(db);
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining } });
  await store.close();
  return { db, key, keyId };
}

async function spend(db: string, key: string): Promise<unknown> {
  const store = sqliteStore(db);
  const { credits } = await createVerifier(store).verify({ key });
  await store.close();
  return credits;
}

const json = (text: string) => JSON.parse(text) as unknown;

describe("keystile schema sqlite", () => {
  it("goes back to the version that the file has, and to none before 0.1.0", async () => {
    const { db } = await database();
    const to = String(SCHEMA_VERSION);
    expect(await run(["schema", "sqlite", "--db", db, "--to", to])).toMatchObject({
      code: 0,
      stdout: `${db}: version ${to} before, ${to} now\n`,
    });
    const refused = await run(["schema", "sqlite", "--db", db, "--to", "9"]);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("there is no way back from version")]);
    expect((await run(["doctor", "--db", db])).code).toBe(0);
  });

  it("the examples of its help run", async () => {
    const { db } = await database();
    const { stdout } = await run(["schema", "--help"]);
    const examples = [...stdout.matchAll(/^ {2}\$ keystile (.*?)(?: \|.*)?$/gm)].map(([, text = ""]) => text);
    expect(examples).toHaveLength(2);
    for (const example of examples)
      expect(await run(example.split(" ").map((word) => (word === "keys.db" ? db : word))), example).toMatchObject({
        code: 0,
        stderr: "",
      });
  });

  it("needs a file and a version; postgres refuses what it has no way back to", async () => {
    const { db } = await database();
    for (const flags of [
      ["sqlite"],
      ["sqlite", "--db", db],
      ["sqlite", "--db", `${db}-none`, "--to", "12"],
      ["postgres", "--to", "1"],
      ["postgres", "--to", "999"],
      ["mysql"],
    ])
      expect((await run(["schema", ...flags])).code, flags.join(" ")).toBe(2);
  });
});

describe("keystile backup and restore", () => {
  it("what was spent after the backup is there again after the restore, and the old file is kept", async () => {
    const { db, key } = await database();
    const to = path();
    expect(await spend(db, key)).toBe(9);
    const backup = await run(["backup", "--db", db, "--to", to]);
    expect(backup).toEqual({ code: 0, stdout: expect.stringMatching(/: [\d,]+ bytes, 1 accounts\n$/), stderr: "" });
    expect(await spend(db, key)).toBe(8);
    expect((await run(["restore", "--from", to, "--db", db])).code).toBe(1);
    const now = () => Date.UTC(2027, 0, 31, 12);
    const restored = await run(["restore", "--from", to, "--db", db, "--force"], { now });
    const aside = `${db}.before-restore-20270131T120000Z`;
    expect([restored.code, restored.stdout]).toEqual([0, expect.stringContaining(`\nmoved aside: ${aside}\n`)]);
    expect(await spend(db, key)).toBe(8);
    expect(await spend(aside, key)).toBe(7);
    for (const file of [db, to]) expect((await run(["doctor", "--reconcile", "--db", file])).code).toBe(0);
  });

  it("--output json says the same to programs", async () => {
    const { db } = await database();
    const [to, place] = [path(), path()];
    const backup = await run(["backup", "--db", db, "--to", to, "--output", "json"]);
    const bytes = statSync(to).size;
    const figures = { bytes, accounts: 1, leases: 0, forfeited: 0 };
    expect(json(backup.stdout)).toEqual({ database: db, backup: to, ...figures, broken: 0 });
    const restored = await run(["restore", "--from", to, "--db", place, "--output", "json"]);
    expect(json(restored.stdout)).toEqual({ database: place, backup: to, ...figures, movedAside: [] });
  });

  it("shows on a terminal what is being done, and says how many leases are void", async () => {
    const { db, keyId } = await database(100);
    const store = sqliteStore(db);
    const ref = new Database(db).prepare("SELECT number FROM keystile_keys WHERE id = ?").pluck().get(keyId) as number;
    await store.drawCredits(ref, { holder: "a", cost: 5, step: 5, size: 20, spent: 0, period: 0, now: 0, until: 9e12 });
    await store.close();
    const to = path();
    const { stdout, stderr } = await run(["backup", "--db", db, "--to", to], { isTTY: true });
    expect(stdout).toContain("; 1 leases are void in it, which held 20 credits");
    expect(stderr).toMatch(/^\rcopying [\d,]+ bytes +\rchecked 1 accounts +\n$/);
    const restored = await run(["restore", "--from", to, "--db", path()], { isTTY: true });
    expect(restored.stderr).toMatch(/^\rcopied [\d,]+ bytes +\rchecked 0 accounts +\rchecked 1 accounts +\n$/);
  });

  it("exit codes: 1 for a file that is there, 2 for a mistake, 3 for what cannot be used", async () => {
    const { db } = await database();
    const to = path();
    writeFileSync(to, "precious");
    const taken = await run(["backup", "--db", db, "--to", to]);
    expect([taken.code, taken.stdout, readFileSync(to, "utf8")]).toEqual([1, "", "precious"]);
    expect((await run(["backup", "--db", path(), "--to", path()])).code).toBe(2);
    expect((await run(["backup", "--db", db])).code).toBe(2);
    expect((await run(["backup", "--db", db, "--to", join(path(), "none.db")])).code).toBe(3);
    expect((await run(["restore", "--from", path(), "--db", path()])).code).toBe(2);
    expect((await run(["restore", "--from", db, "--db", db, "--force"])).code).toBe(2);
    const damaged = await run(["restore", "--from", to, "--db", path()]);
    expect([damaged.code, damaged.stdout]).toEqual([3, ""]);
    expect(damaged.stderr).toContain("not an SQLite database");
  });

  it("a backup takes no place that belongs to the database, though nothing is there yet", async () => {
    const { db, key } = await database();
    for (const end of ["-wal", "-shm", "-journal", "-limits", ".root-key"]) {
      const to = `${db}${end}`;
      const { code, stderr } = await run(["backup", "--db", db, "--to", to]);
      expect([code, stderr]).toEqual([2, `error: --to: ${to}: is a file of the database\n`]);
      expect([end, existsSync(to)]).toEqual([end, false]);
    }
    expect(await spend(db, key)).toBe(9);
  });

  it("backup answers 1 when credits do not add up, and still makes the file", async () => {
    const { db } = await database();
    const handle = new Database(db);
    handle.pragma("ignore_check_constraints = ON");
    handle.exec("UPDATE keystile_accounts SET spent = 1");
    handle.close();
    const to = path();
    const { code, stderr } = await run(["backup", "--db", db, "--to", to]);
    expect([code, stderr]).toEqual([1, `1 accounts do not add up; run: npx keystile doctor --reconcile --db ${db}\n`]);
    expect((await run(["restore", "--from", to, "--db", path()])).code).toBe(3);
  });
});

describe("keystile doctor: logs", () => {
  const check = async (db: string) => {
    const { code, stdout } = await run(["doctor", "--db", db, "--output", "json"]);
    const { checks } = json(stdout) as { checks: { level: string; check: string; text: string }[] };
    return [code, ...checks.filter((each) => each.check === "file").map(({ level, text }) => `${level} ${text}`)];
  };

  it("fails for a log of another file, and changes nothing", async () => {
    const { db, key } = await database();
    const [to, live] = [path(), path()];
    await run(["backup", "--db", db, "--to", to]);
    const store = sqliteStore(db);
    await createVerifier(store).verify({ key });
    copyFileSync(to, live);
    copyFileSync(`${db}-wal`, `${live}-wal`);
    await store.close();
    const before = readFileSync(`${live}-wal`);
    expect(await check(live)).toEqual([1, expect.stringMatching(/^fail .*another file's; move it/)]);
    expect([readFileSync(live), readFileSync(`${live}-wal`)]).toEqual([readFileSync(to), before]);
  });

  it("warns of a log that is missing although its index is there", async () => {
    const { db } = await database();
    const store = sqliteStore(db);
    await store.readMany("keys", ["key_1"]);
    const copy = path();
    for (const end of ["", "-shm"]) copyFileSync(`${db}${end}`, `${copy}${end}`);
    await store.close();
    expect(await check(copy)).toEqual([0, expect.stringMatching(/^warn .*-shm is there and its -wal is not/)]);
  });
});
