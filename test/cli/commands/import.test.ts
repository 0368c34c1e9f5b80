import { createHash } from "node:crypto";
import { existsSync, linkSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import { folder, run, type RunOptions } from "../support.js";

const FOLDER = folder();
const hashOf = (i: number) => createHash("sha256").update(`old_${i}`).digest("hex");
let files = 0;

/** A database file with an API and a migration, and the command line that imports into it. */
async function database() {
  const db = join(FOLDER, `${++files}.db`);
  const store = sqliteStore(db);
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
  await store.close();
  const argv = ["import", "--db", db, "--migration-id", migrationId, "--api-id", apiId];
  return {
    ...{ db, argv },
    keys: async () => {
      const open = sqliteStore(db);
      const { data } = await createKeyring(open).listKeys({ apiId });
      const valid = (await createVerifier(open).verify({ key: "old_1" })).valid;
      await open.close();
      return { data, valid };
    },
    import: (rows: readonly unknown[], more: readonly string[] = [], options: RunOptions = {}) => {
      const path = join(FOLDER, `${++files}.ndjson`);
      writeFileSync(path, rows.map((row) => `${typeof row === "string" ? row : JSON.stringify(row)}\n`).join(""));
      return run([...argv, "--keys", `@${path}`, ...more], options);
    },
  };
}

const rowsOf = (path: string) =>
  readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { readonly reason?: string });

describe("import into a database file", () => {
  it("takes createdAt and prefix, which the service does not, and the keys verify", async () => {
    const { keys, ...file } = await database();
    const { code, stdout, stderr } = await file.import([
      { hash: hashOf(1), createdAt: 1_500_000_000_000, prefix: "sk" },
    ]);
    expect([code, JSON.parse(stdout), stderr]).toEqual([0, { migrated: 1, failed: 0 }, ""]);
    const { data, valid } = await keys();
    expect(data).toMatchObject([{ createdAt: 1_500_000_000_000, start: expect.stringMatching(/^sk_/) }]);
    expect(valid).toBe(true);
  });

  it.each([
    ["ndjson", (rows: readonly object[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join("")],
    ["json", (rows: readonly object[]) => JSON.stringify(rows)],
    ["txt", (rows: readonly object[]) => rows.map((row) => JSON.stringify(row)).join("\n")],
  ])("takes a file that begins with a byte order mark (.%s), also by stdin", async (ending, write) => {
    const { argv, keys } = await database();
    const path = join(FOLDER, `marked.${ending}`);
    writeFileSync(path, `\ufeff${write([{ hash: hashOf(1) }])}`);
    expect(await run([...argv, "--keys", `@${path}`])).toMatchObject({ code: 0, stderr: "" });
    expect((await keys()).valid).toBe(true);
    const { stdout } = await run([...argv, "--keys", "-"], { stdin: `\ufeff${write([{ hash: hashOf(2) }])}` });
    expect(JSON.parse(stdout)).toEqual({ migrated: 1, failed: 0 });
  });

  it("fails the rows that have a time in seconds, and says the same in milliseconds", async () => {
    const { keys, ...file } = await database();
    const [late, early] = [1_900_000_000, 1_500_000_000];
    const rows = [{ hash: hashOf(1) }, { hash: hashOf(2), expires: late }, { hash: hashOf(3), createdAt: early }];
    const { code, stdout, stderr } = await file.import(rows);
    expect([code, JSON.parse(stdout)]).toEqual([1, { migrated: 1, failed: 2 }]);
    for (const [line, name, time] of [
      [2, "expires", late],
      [3, "createdAt", early],
    ] as const)
      expect(stderr).toContain(
        `line ${line}: INVALID_KEY: ${name} must be in milliseconds, not seconds; did you mean ${time}000?`,
      );
    expect((await keys()).data).toHaveLength(1);
  });

  it("puts what fails aside with its line and the very reason, and lists what went in", async () => {
    const file = await database();
    const [failures, successes] = [join(FOLDER, "failed"), join(FOLDER, "taken")];
    const rows = [
      ...Array.from({ length: 600 }, (_, i) => ({ hash: hashOf(i) })),
      "{",
      { hash: hashOf(700), name: "" },
      { hash: hashOf(701), prefix: "no prefix" },
      { hash: hashOf(1) },
      { hash: "no hash" },
      { hash: hashOf(702), roles: ["nobody knows this role"] },
      { hash: hashOf(703) },
    ];
    const argv = ["--failures", failures, "--successes", successes, "--output", "json"];
    const { code, stdout, stderr } = await file.import(rows, argv);
    expect([code, JSON.parse(stdout)]).toEqual([1, { migrated: 601, failed: 6, failures, successes }]);
    expect(stderr).toContain("607 keys: 601 migrated, 6 failed; 2 batches, ");
    expect(stderr).toContain("line 602: INVALID_KEY: name: ");
    expect(rowsOf(failures)).toMatchObject([
      { line: 601, reason: "INVALID_KEY", text: "{" },
      { line: 602, reason: "INVALID_KEY", key: { hash: hashOf(700) } },
      { line: 603, reason: "INVALID_KEY" },
      { line: 604, reason: "ALREADY_EXISTS", key: { hash: hashOf(1) } },
      { line: 605, reason: "INVALID_HASH" },
      { line: 606, reason: "UNKNOWN_ROLE" },
    ]);
    expect(rowsOf(successes).length).toBe(601);
  });

  it.runIf(existsSync("/dev/full"))(
    "a report that cannot be written is named, and a device stays as it is",
    async () => {
      const file = await database();
      const before = statSync("/dev/full").mode;
      const { code, stderr } = await file.import([{ hash: hashOf(1) }], ["--successes", "/dev/full"]);
      expect(code).toBe(3);
      expect(stderr).toContain(
        "error: --successes: /dev/full: cannot be written (ENOSPC); the keys of the last batch are not in it\n",
      );
      expect(statSync("/dev/full").mode).toBe(before);
    },
  );

  it("--failures and --successes: refuse the database, and what belongs to it, by any name, and leave it whole", async () => {
    const { db, keys, ...file } = await database();
    const [soft, hard] = [`${db}.soft`, `${db}.hard`];
    symlinkSync(FOLDER, soft);
    const others = ["", "-wal", "-shm", "-journal", "-limits", "-limits-wal", "-limits-journal", ".root-key"];
    writeFileSync(`${db}.root-key`, "a secret\n");
    linkSync(`${db}.root-key`, hard);
    for (const flag of ["--failures", "--successes"])
      for (const path of [
        ...others.map((end) => `${db}${end}`),
        `${soft}/${basename(db)}`,
        `${soft}/${basename(db)}-limits`,
        hard,
      ]) {
        const { code, stderr } = await file.import([{ hash: hashOf(1) }, "{"], [flag, path]);
        expect([path, code, stderr]).toEqual([path, 2, `error: ${flag}: is a file of the database\n`]);
      }
    expect([(await keys()).data, readFileSync(hard, "utf8"), existsSync(`${db}-limits`)]).toEqual([
      [],
      "a secret\n",
      false,
    ]);
  });

  it.each(["line", "item"])(
    "reports a key that is nested 50,000 deep, as it was given, and goes on: %s",
    async (unit) => {
      const { keys, ...file } = await database();
      const [failures, path] = [join(FOLDER, `deep-${unit}`), join(FOLDER, "deep.json")];
      const meta = `{"a":${"[".repeat(50_000)}"é",1.5,null,{"__proto__":{},"b":[true]}${"]".repeat(50_000)}}`;
      const deep = `{"hash":"${hashOf(2)}","meta":${meta}}`;
      const rows = [JSON.stringify({ hash: hashOf(1) }), deep, JSON.stringify({ hash: hashOf(3) })];
      writeFileSync(path, `[${rows.join()}]`);
      // Twice, since what was reported before is read like any other.
      for (const given of [unit === "line" ? [] : ["--keys", `@${path}`], ["--keys", `@${failures}.1`]]) {
        const { code, stdout, stderr } = await file.import(rows, ["--failures", failures, ...given]);
        expect([code, stderr]).toEqual([1, expect.stringContaining(" 1 failed; 1 batch")]);
        expect(JSON.parse(stdout)).toMatchObject({ failed: 1 });
        const text = readFileSync(failures, "utf8");
        expect(text).toMatch(/^\{"(line|item)":\d,"reason":"INVALID_KEY","message":"[^"]+","key":/);
        expect(text.slice(text.indexOf('"key":'))).toBe(`"key":${deep}}\n`);
        writeFileSync(`${failures}.1`, text);
      }
      expect((await keys()).data).toHaveLength(2);
    },
  );

  it("ends at the batch under way when it is to stop, and a second run does the rest", async () => {
    const file = await database();
    const rows = Array.from({ length: 1_000 }, (_, i) => ({ hash: hashOf(i) }));
    let stop: () => void = () => undefined;
    const stdin = {
      *[Symbol.iterator]() {
        for (const [i, row] of rows.entries()) {
          if (i === 250) stop();
          yield new TextEncoder().encode(`${JSON.stringify(row)}\n`);
        }
      },
    } as unknown as Uint8Array[];
    const onStop = (listener: () => void) => ((stop = listener), () => undefined);
    const first = await file.import([], ["--batch-size", "100", "--keys", "-"], { stdin, onStop });
    expect(first.code).toBe(1);
    expect(first.stderr).toContain("200 keys: 200 migrated, 0 failed; 2 batches");
    expect(first.stderr).toContain("run the same command again to go on");
    const again = await file.import(rows, ["--batch-size", "100"]);
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining("800 migrated, 200 failed; 10 batches")]);
    const all = await file.import(rows);
    expect(all.stderr).toContain("1,000 keys: 0 migrated, 1,000 failed");
    expect(all.stderr).toContain("line 1: ALREADY_EXISTS: ");
  });

  it.each([
    [["--migration-id", "mig_none"], 1],
    [["--api-id", "api_none"], 1],
    [["--api-id", "ap"], 2],
    [["--keys", "[]"], 2],
    [["--db", join(FOLDER, "absent.db")], 2],
  ])("refuses %j as a whole", async (more, code) => {
    const file = await database();
    const ran = await file.import([{ hash: hashOf(1) }], more);
    expect([ran.code, ran.stdout]).toEqual([code, ""]);
    expect((await file.keys()).data).toEqual([]);
  });
});
