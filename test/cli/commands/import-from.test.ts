import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { generateAPIKey } from "prefixed-api-key";
import { describe, expect, it } from "vitest";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import { folder, run } from "../support.js";

const FOLDER = folder();
const DAY = 86_400_000;
let files = 0;

/** A database file with an API, and the command line that imports into it. */
async function database() {
  const db = join(FOLDER, `${++files}.db`);
  const store = sqliteStore(db);
  const { apiId } = await createKeyring(store).createApi({ name: "documents" });
  await store.close();
  return {
    db,
    import: (...more: readonly string[]) => run(["import", "--db", db, "--api-id", apiId, ...more]),
    create: (algorithm: string, id: string) =>
      run(["migrations", "create", "--db", db, "--algorithm", algorithm, "--id", id]),
    /** @param act with a keyring and a verifier of the file */
    async open<T>(
      act: (keyring: ReturnType<typeof createKeyring>, verifier: ReturnType<typeof createVerifier>) => Promise<T>,
    ): Promise<T> {
      const store = sqliteStore(db);
      const verifier = createVerifier(store);
      try {
        return await act(createKeyring(store), verifier);
      } finally {
        await verifier.close();
        await store.close();
      }
    },
  };
}

/** The table as @better-auth/api-key 1.7.5 makes it in SQLite. */
const TABLE = `CREATE TABLE "apikey" ("id" text not null primary key, "configId" text not null, "name" text, "start" text,
  "referenceId" text not null, "prefix" text, "key" text not null, "refillInterval" integer, "refillAmount" integer,
  "lastRefillAt" date, "enabled" integer, "rateLimitEnabled" integer, "rateLimitTimeWindow" integer,
  "rateLimitMax" integer, "requestCount" integer, "remaining" integer, "lastRequest" date, "expiresAt" date,
  "createdAt" date not null, "updatedAt" date not null, "permissions" text, "metadata" text)`;

/** Its `defaultKeyHasher`. */
const hashOf = (key: string) => createHash("sha256").update(key).digest("base64url");
const keyOf = (i: number) => `acme_zPZOpChjhvsAPVEHJtveVvtyqzciQQPJprUOozzRWqYRKlNrndxIkSFZAKpb${i}`;
const NOW = Date.now();
const iso = (time: number) => new Date(time).toISOString();

/** A row as the plugin writes it. */
const rowOf = (i: number, more: Record<string, unknown> = {}) => ({
  id: `id${i}`,
  configId: "default",
  referenceId: "user_1",
  start: "acme_z",
  prefix: "acme_",
  key: hashOf(keyOf(i)),
  enabled: 1,
  rateLimitEnabled: 1,
  rateLimitTimeWindow: 60_000,
  rateLimitMax: 5,
  requestCount: 0,
  createdAt: iso(NOW - 10 * DAY),
  updatedAt: iso(NOW),
  metadata: "null",
  ...more,
});

const ROWS = [
  rowOf(0, {
    name: "first",
    remaining: 10,
    refillAmount: 100,
    refillInterval: DAY,
    lastRefillAt: iso(NOW - 1_000),
    expiresAt: iso(NOW + DAY),
    permissions: '{"documents":["read","write"],"reports":["*"]}',
    metadata: '{"plan":"pro"}',
  }),
  rowOf(1, { enabled: 0, rateLimitEnabled: 0 }),
  rowOf(2, {
    remaining: 1,
    refillAmount: 5,
    refillInterval: 7_200_000,
    lastRefillAt: iso(NOW),
    prefix: "sk-",
    start: null,
  }),
  rowOf(3, { remaining: 0, refillAmount: 50, refillInterval: 30 * DAY, createdAt: iso(NOW - 31 * DAY) }),
  rowOf(4, { rateLimitTimeWindow: 100 }),
  rowOf(5, { key: keyOf(5) }),
];

function betterAuthFile(rows: readonly object[], mode = "delete"): string {
  const path = join(FOLDER, `auth-${++files}.db`);
  const database = new Database(path);
  database.pragma(`journal_mode = ${mode}`);
  database.exec(TABLE);
  for (const row of rows) {
    const names = Object.keys(row);
    database
      .prepare(`INSERT INTO apikey ("${names.join('", "')}") VALUES (${names.map(() => "?").join()})`)
      .run(...(Object.values(row) as string[]));
  }
  database.close();
  return path;
}

const FROM = ["--from", "better-auth"];

describe("import --from better-auth", () => {
  it("keys verify as they are, with limits, credits, permissions and meta; what does not carry over is counted", async () => {
    const { open, ...file } = await database();
    const { code, stdout, stderr } = await file.import(...FROM, "--source", betterAuthFile(ROWS));
    expect([code, JSON.parse(stdout)]).toEqual([1, { migrated: 4, failed: 2 }]);
    expect(stderr).toContain("row 5: INVALID_KEY: ratelimits[0].duration: must be in milliseconds, 1000 at least");
    expect(stderr).toContain("row 6: INVALID_HASH: ");
    expect(stderr).toMatch(/ 1 {2}refillInterval: no hour, day, week or month/);
    expect(stderr).toMatch(/ 1 {2}permissions: one has a \*/);
    for (const { key } of ROWS) expect(stdout + stderr).not.toContain(key);
    await open(async (keyring, verifier) => {
      // Before any is verified: the first verification of a key completes its start, in the background.
      const starts = (await keyring.searchKeys({})).data.map(({ start }) => start);
      expect(starts.sort()).toEqual(["...", "acme_z...", "acme_z...", "acme_z..."]);
      const verify = (i: number, permissions?: string) =>
        verifier.verify({ key: keyOf(i), ...(permissions !== undefined && { permissions }) });
      expect(await verify(0, "documents.read AND documents.write")).toMatchObject({
        code: "VALID",
        name: "first",
        credits: 9,
        expires: NOW + DAY,
        meta: { plan: "pro" },
        identity: { externalId: "user_1" },
        ratelimits: [{ name: "requests", limit: 5, duration: 60_000, remaining: 4 }],
      });
      expect((await verify(0, "reports.read")).code).toBe("INSUFFICIENT_PERMISSIONS");
      expect((await verify(1)).code).toBe("DISABLED");
      // Its refill was due.
      expect(await verify(3)).toMatchObject({ code: "VALID", credits: 49 });
      expect([await verify(2), await verify(2)]).toMatchObject([{ credits: 0 }, { code: "USAGE_EXCEEDED" }]);
      const keys = (await keyring.searchKeys({})).data;
      const withRefill = keys.find(({ credits }) => credits?.refill?.interval === "monthly");
      expect(withRefill?.credits?.refill).toMatchObject({
        amount: 50,
        refillDay: new Date(NOW - 31 * DAY).getUTCDate(),
        rollover: 0,
      });
      expect(keys.every(({ createdAt }) => createdAt < NOW - DAY)).toBe(true);
    });
  });

  it.each(["delete", "wal"])("--dry-run tells by count and field, and makes and changes no file: %s", async (mode) => {
    const source = betterAuthFile(ROWS, mode);
    const { db, ...file } = await database();
    const before = [readdirSync(FOLDER), readFileSync(db, "latin1"), readFileSync(source, "latin1")];
    const argv = [...FROM, "--source", source, "--dry-run"];
    const { code, stdout, stderr } = await file.import(...argv, "--failures", join(FOLDER, "never"));
    expect([code, stderr]).toEqual([1, expect.stringContaining("row 6: INVALID_HASH: ")]);
    expect(stdout).toMatch(/^4 keys would go in, 2 would fail; nothing was written\n/);
    expect(stdout).toMatch(
      / 4 {2}key → hash\n[^]* 1 {2}metadata → meta\n[^]* does not carry over\n[^]* 4 {2}requestCount: /,
    );
    const asJson = JSON.parse((await file.import(...argv, "--output", "json")).stdout) as object;
    expect(asJson).toMatchObject({ ready: 4, failed: 2, carried: { hash: 4, credits: 3 } });
    expect([readdirSync(FOLDER), readFileSync(db, "latin1"), readFileSync(source, "latin1")]).toEqual(before);
    for (const { key } of ROWS) expect(stdout + stderr).not.toContain(key);
  });

  it.each([
    ["ndjson", ROWS.map((row) => JSON.stringify(row)).join("\n")],
    ["json", JSON.stringify(ROWS.map(({ requestCount: _, ...row }) => ({ ...row, enabled: row.enabled === 1 })))],
    [
      "csv",
      toCsv(
        ROWS.map(({ referenceId, rateLimitMax, ...row }) => ({
          reference_id: referenceId,
          rate_limit_max: rateLimitMax,
          ...row,
        })),
      ),
    ],
  ])("the table as %s, with columns in snake case too, and run again", async (form, text) => {
    const path = join(FOLDER, `${++files}.${form}`);
    writeFileSync(path, text);
    const { open, ...file } = await database();
    expect((await file.import(...FROM, "--keys", `@${path}`)).stdout).toContain('"migrated": 4');
    const again = await file.import(...FROM, "--keys", `@${path}`);
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining("0 migrated, 6 failed")]);
    const answer = await open((_, verifier) => verifier.verify({ key: keyOf(0), permissions: "documents.read" }));
    expect(answer).toMatchObject({ code: "VALID", credits: 9, ratelimits: [{ limit: 5 }] });
  });

  it.each([
    ["hourly", 3_600_000, {}],
    ["daily", DAY, {}],
    // The last refill was on a Sunday.
    ["weekly", 7 * DAY, { refillDay: 7 }],
    ["monthly", 28 * DAY, { refillDay: 25 }],
  ])("a refill sets the balance there, and starts anew here: %s", async (interval, refillInterval, more) => {
    const { open, ...file } = await database();
    const refill = { remaining: 1, refillAmount: 5, refillInterval, lastRefillAt: "2099-01-25T12:00:00.000Z" };
    expect((await file.import(...FROM, "--source", betterAuthFile([rowOf(0, refill)]))).code).toBe(0);
    const { data } = await open((keyring) => keyring.searchKeys({}));
    expect(data[0]?.credits).toEqual({ remaining: 1, refill: { interval, amount: 5, rollover: 0, ...more } });
  });

  it("a million rows are paged: of 2,500 each goes in once", async () => {
    const { open, ...file } = await database();
    const rows = Array.from({ length: 2_500 }, (_, i) => rowOf(i));
    const { stdout } = await file.import(...FROM, "--source", betterAuthFile(rows));
    expect(JSON.parse(stdout)).toEqual({ migrated: 2_500, failed: 0 });
    expect((await open((_, verifier) => verifier.verify({ key: keyOf(2_499) }))).code).toBe("VALID");
  });

  it("refuses a migration of another algorithm, by which no key would be found", async () => {
    const file = await database();
    await file.create("sha512", "old");
    const { code, stderr } = await file.import(...FROM, "--source", betterAuthFile(ROWS), "--migration-id", "old");
    expect([code, stderr]).toEqual([2, "error: --migration-id: is of sha512; these keys are of sha256\n"]);
  });

  it.each([
    [[], "--keys or --source: give one of them"],
    [["--keys", "[]", "--source", "x"], "--keys or --source: give one of them"],
    [["--keys", "[]"], "--migration-id: is required"],
    [["--source", "x"], "--source: is for --from better-auth"],
    [[...FROM, "--source", join(FOLDER, "absent.db")], "unable to open database file"],
    [[...FROM, "--source", import.meta.filename], "file is not a database"],
    [["--from", "csv", "--keys", "a,b", "--migration-id", "old"], "CSV comes as @file or -"],
  ])("refuses %j", async (argv, message) => {
    const { code, stderr } = await (await database()).import(...argv);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });

  it("refuses a file without the table", async () => {
    const { db, ...file } = await database();
    const { code, stderr } = await file.import(...FROM, "--source", db);
    expect([code, stderr]).toEqual([2, expect.stringContaining("no such table: apikey")]);
  });
});

/** Every cell quoted, NULL as an empty one. */
function toCsv(rows: readonly object[]): string {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cell = (value?: string | number | null) =>
    value === undefined || value === null ? "" : `"${String(value).replaceAll('"', '""')}"`;
  const lines = rows.map((row) => names.map((name) => cell((row as Record<string, string>)[name])).join(","));
  return [names.join(","), ...lines].join("\r\n");
}

describe("import --dry-run", () => {
  it("of keys in this package's own form refuses what the import refuses", async () => {
    const keys = JSON.stringify([
      { hash: hashOf("a") },
      { hash: hashOf("b"), name: null },
      { hash: hashOf("c"), name: "" },
    ]);
    const file = await database();
    await file.create("sha256", "old");
    const argv = ["--migration-id", "old", "--keys", keys];
    const dry = await file.import(...argv, "--dry-run", "--output", "json");
    const { stdout } = await file.import(...argv);
    expect(JSON.parse(dry.stdout)).toMatchObject({ ready: 1, failed: 2, carried: { hash: 1 } });
    expect(JSON.parse(stdout)).toEqual({ migrated: 1, failed: 2 });
  });

  it("fails the rows that the import fails, for the same reasons, and creates nothing", async () => {
    const { open, ...file } = await database();
    const there = [{ hash: hashOf("there") }];
    const rows = [
      ...[{ hash: hashOf("a"), permissions: ["new"] }, { hash: hashOf("a") }, { hash: keyOf(1) }],
      ...[{ hash: `\\x${hashOf("b")}` }, { hash: "$2b$12$salted" }, { hash: hashOf("c"), roles: ["nobody"] }, ...there],
    ];
    const argv = (...more: string[]) => ["--migration-id", "old", "--keys", JSON.stringify(rows), ...more];
    expect((await file.import(...argv("--dry-run"))).code).toBe(1);
    await file.create("sha256", "old");
    await file.import("--migration-id", "old", "--keys", JSON.stringify(there));
    const dry = await file.import(...argv("--dry-run"));
    expect([dry.code, dry.stdout]).toEqual([1, expect.stringMatching(/^1 keys would go in, 6 would fail;/)]);
    await open(async (keyring) => {
      expect((await keyring.searchKeys()).data).toHaveLength(1);
      expect((await keyring.listPermissions()).data).toEqual([]);
      expect((await keyring.listAudit()).data.map(({ operation }) => operation)).not.toContain("createPermission");
    });
    const { stderr } = await file.import(...argv());
    const failures = (text: string) => text.split("\n").filter((line) => /item \d|failed as/.test(line));
    expect(failures(dry.stderr)).toEqual(failures(stderr));
    expect(failures(stderr).length).toBeGreaterThan(5);
  });

  it("makes no migration, though the import would", async () => {
    const { open, ...file } = await database();
    await file.import(...FROM, "--source", betterAuthFile(ROWS), "--dry-run");
    await open(async (keyring) => expect((await keyring.listAudit()).data[0]?.operation).toBe("createApi"));
  });
});

describe("import --from csv", () => {
  it("takes columns named like fields, dotted where nested, and says line and field of what is wrong", async () => {
    const { open, ...file } = await database();
    await file.create("sha256", "old");
    const path = join(FOLDER, "keys.csv");
    const text = [
      "hash,name,enabled,expires,permissions,credits.remaining,credits.refill.interval,credits.refill.amount,meta.plan,meta.a.b,ratelimits.0.name,ratelimits.0.limit,ratelimits.0.duration,ratelimits.0.autoApply",
      `${hashOf("old_1")},"Ann, first",true,2089-01-01T00:00:00Z,"documents.read, documents.write",10,daily,5,pro,1,requests,5,60000,true`,
      `${hashOf("old_2")},,,,,ten,,,,,,,,`,
      `${hashOf("old_3")},"a"b,,,,,,,,,,,,`,
      `${hashOf("old_4")},,,,,null,,,,,,,,`,
    ];
    writeFileSync(path, text.join("\n"));
    const argv = ["--from", "csv", "--migration-id", "old", "--keys", `@${path}`];
    const dry = await file.import(...argv, "--dry-run");
    expect([dry.code, dry.stdout]).toEqual([1, expect.stringContaining("1 keys would go in, 3 would fail")]);
    const { code, stdout, stderr } = await file.import(...argv);
    expect([code, JSON.parse(stdout)]).toEqual([1, { migrated: 1, failed: 3 }]);
    expect(stderr).toContain("line 5: INVALID_KEY: credits.remaining: must be an integer");
    expect(stderr).toContain("line 3: INVALID_KEY: credits.remaining: must be an integer");
    expect(stderr).toMatch(/line 4: INVALID_KEY: column \d+: there is text after the closing quotation mark/);
    await open(async (keyring, verifier) => {
      expect(await verifier.verify({ key: "old_1", permissions: "documents.write" })).toMatchObject({
        code: "VALID",
        name: "Ann, first",
        expires: Date.UTC(2089, 0, 1),
        credits: 9,
        meta: { plan: "pro", a: { b: "1" } },
        ratelimits: [{ name: "requests", limit: 5, remaining: 4 }],
      });
      expect((await keyring.searchKeys({})).data.some(({ credits }) => credits?.refill?.amount === 5)).toBe(true);
    });
  });

  it("a date is read where a field is a time, and is no number of anything else", async () => {
    const file = await database();
    await file.create("sha256", "old");
    const path = join(FOLDER, `${++files}-dates.csv`);
    const date = "2089-01-01 00:00:00";
    const rows = [
      `${hashOf("a")},${date},5`,
      `${hashOf("b")},,${date}`,
      `${hashOf("c")},1900000000,5`,
      `${hashOf("d")},1900000000000000,5`,
      `${hashOf("e")},1900000000000,5`,
      `${hashOf("f")},null,5`,
      `${hashOf("g")},,null`,
    ];
    writeFileSync(path, ["hash,expires,credits.remaining", ...rows].join("\n"));
    const { stdout, stderr } = await file.import("--from", "csv", "--migration-id", "old", "--keys", `@${path}`);
    expect(JSON.parse(stdout)).toEqual({ migrated: 2, failed: 5 });
    expect(stderr).toContain("line 3: INVALID_KEY: credits.remaining: must be an integer");
    expect(stderr).toContain("line 4: INVALID_KEY: expires must be in milliseconds, not seconds");
    expect(stderr).toContain(
      "line 5: INVALID_KEY: expires must be in milliseconds, not microseconds; did you mean 1900000000000?",
    );
    expect(stderr).toContain("line 7: INVALID_KEY: expires: must be");
    expect(stderr).toContain("line 8: INVALID_KEY: credits.remaining: must be an integer");
  });

  it("a field and a part of it: a row that has both is refused, in any order, as it would lose one of them", async () => {
    const file = await database();
    await file.create("sha256", "old");
    const path = join(FOLDER, `${++files}-parts.csv`);
    const cells = [
      `${hashOf("a")},5,"{""remaining"":7}",,`,
      `${hashOf("b")},,"{""remaining"":7}",,`,
      `${hashOf("c")},5,,"[]",requests`,
      `${hashOf("d")},5,,,`,
    ];
    const header = "hash,credits.remaining,credits,ratelimits,ratelimits.0.name";
    writeFileSync(path, [header, ...cells].join("\n"));
    const { stdout, stderr } = await file.import("--from", "csv", "--migration-id", "old", "--keys", `@${path}`);
    expect(JSON.parse(stdout)).toEqual({ migrated: 2, failed: 2 });
    expect(stderr).toContain("line 2: INVALID_KEY: has credits and credits.remaining, a part of it: give one of them");
    expect(stderr).toContain("line 4: INVALID_KEY: has ratelimits and ratelimits.0.name, a part of it");
  });

  it.each(["colour", "credits.left", "__proto__", "meta.", "ratelimits.100.name", "hash.length"])(
    "column %j fails each row that has a value in it",
    async (name) => {
      const file = await database();
      await file.create("sha256", "old");
      const path = join(FOLDER, `${++files}.csv`);
      writeFileSync(path, `hash,${name}\n${hashOf("old_1")},x\n${hashOf("old_2")},\n`);
      const { code, stdout, stderr } = await file.import(
        "--from",
        "csv",
        "--migration-id",
        "old",
        "--keys",
        `@${path}`,
      );
      expect([code, JSON.parse(stdout)]).toEqual([1, { migrated: 1, failed: 1 }]);
      expect(stderr).toContain(`line 2: INVALID_KEY: has fields that are not known, and could bound the key: ${name}`);
    },
  );
});

describe("import --from prefixed-api-key", () => {
  it("takes what generateAPIKey returned, without its secrets; the key verifies, with its migration the first time", async () => {
    const { open, ...file } = await database();
    const { token = "", longToken = "", longTokenHash, shortToken } = await generateAPIKey({ keyPrefix: "acme" });
    const given = { keyPrefix: "acme", longTokenHash, shortToken, token, longToken, name: "first" };
    const path = join(FOLDER, "prefixed.ndjson");
    writeFileSync(path, `${JSON.stringify(given)}\n`);
    const { code, stdout, stderr } = await file.import("--from", "prefixed-api-key", "--keys", `@${path}`);
    expect([code, JSON.parse(stdout)]).toEqual([0, { migrated: 1, failed: 0 }]);
    for (const name of ["token: a secret", "longToken: a secret"]) expect(stderr).toContain(name);
    expect(stderr).not.toContain(longToken);
    await open(async (keyring, verifier) => {
      expect((await keyring.searchKeys({})).data).toMatchObject([{ name: "first", start: `acme_${shortToken}...` }]);
      expect((await verifier.verify({ key: token, migrationId: "prefixed-api-key" })).code).toBe("VALID");
      expect((await verifier.verify({ key: token })).code).toBe("VALID");
    });
  });
});

describe("import --from better-auth and unkey: values that bound a key, and cannot be read", () => {
  const lastRefillAt = iso(NOW);
  const fields = { remaining: 5, refillAmount: 10, refillInterval: DAY, lastRefillAt, expiresAt: iso(NOW + DAY) };

  it.each([
    ["expiresAt", "expires: must be", ["31/12/2030", "2030-12-31", "never", 1.5]],
    ["enabled", "enabled: must be true or false", ["FALSE", "no", 2]],
    ["rateLimitMax", "ratelimits[0].limit: must be", ["five", 1.5]],
    ["rateLimitTimeWindow", "ratelimits[0].duration: must be", ["1m", 60_000.5]],
    ["remaining", "credits.remaining: must be", ["many", 0.5]],
    ["refillAmount", "credits.refill.amount: must be", ["ten", 1.5]],
    ["refillInterval", "credits.refill.interval: must be", ["1d", "monthly", "daily"]],
  ])("%s: the key is refused, rather than imported without the bound", async (column, message, values) => {
    const file = await database();
    const rows = values.map((value, i) => rowOf(i, { ...fields, [column]: value }));
    const { stdout, stderr } = await file.import(...FROM, "--source", betterAuthFile([rowOf(99, fields), ...rows]));
    expect(JSON.parse(stdout)).toEqual({ migrated: 1, failed: values.length });
    for (let i = 0; i < values.length; i++) expect(stderr).toContain(`row ${i + 2}: INVALID_KEY: ${message}`);
  });

  it.each([
    ["better-auth", { ...rowOf(0), expires_on: iso(NOW + DAY) }, "expiresOn (here: expires)"],
    ["better-auth", { ...rowOf(0), expiry: null, Remaining: 5 }, "Remaining"],
    ["prefixed-api-key", { longTokenHash: hashOf("a"), credit: 5 }, "credit (here: credits)"],
    ["csv", "hash,creditz\nabc,5\n", "creditz (here: credits)"],
    ["unkey", { plaintext: "sk_8", creditz: { remaining: 5 } }, "creditz (here: credits)"],
    [
      "unkey",
      { id: "key_12345678", plaintext: "sk_8", remaining: 5, ratelimit: { limit: 5 }, ownerId: "u", refill: {} },
      "id (here: keyId), remaining (here: credits.remaining), ratelimit (here: ratelimits, a list), " +
        "ownerId (here: externalId), refill (here: credits.refill)",
    ],
    ["unkey", { plaintext: "sk_8", identity: { externalId: "u", disabled: true } }, "identity.disabled"],
  ])("%s: a field that is not known may bound the key, which is refused: %j", async (from, row, said) => {
    const file = await database();
    await file.create("sha256", "mended");
    const [path, failed] = [
      join(FOLDER, `${++files}.${from === "csv" ? "csv" : "ndjson"}`),
      join(FOLDER, `${++files}`),
    ];
    writeFileSync(path, typeof row === "string" ? row : JSON.stringify(row));
    const argv = ["--from", from, "--keys", `@${path}`, ...(from === "csv" ? ["--migration-id", "mended"] : [])];
    const dry = await file.import(...argv, "--dry-run");
    expect([dry.code, dry.stdout]).toEqual([1, expect.stringContaining("0 keys would go in, 1 would fail")]);
    const { code, stdout } = await file.import(...argv, "--failures", failed);
    expect([code, JSON.parse(stdout)]).toMatchObject([1, { migrated: 0, failed: 1 }]);
    const kept = readFileSync(failed, "utf8");
    expect(JSON.parse(kept)).toMatchObject({
      reason: "INVALID_KEY",
      message: `has fields that are not known, and could bound the key: ${said}; rename them, or leave them out`,
    });
    // Given again as it is, it fails again: the fields are still there.
    const again = await file.import("--migration-id", "mended", "--keys", `@${failed}`);
    expect([again.code, JSON.parse(again.stdout)]).toEqual([1, { migrated: 0, failed: 1 }]);
  });

  it("a createdAt that is no time is told of, and takes nothing from the key", async () => {
    const file = await database();
    const path = join(FOLDER, `${++files}-made.json`);
    writeFileSync(path, JSON.stringify([rowOf(0, { createdAt: "soon" })]));
    const dry = await file.import(...FROM, "--keys", `@${path}`, "--dry-run", "--output", "json");
    expect(JSON.parse(dry.stdout)).toMatchObject({
      ready: 1,
      lost: { "createdAt: no time; the time of the import": 1, "id: keys get new ids": 1 },
    });
  });

  it("a true or false of any database is read", async () => {
    const file = await database();
    const enabled = [true, 1, "1", "t", "true", false, 0, "0", "f", "false"];
    const path = join(FOLDER, `${++files}-booleans.json`);
    writeFileSync(path, JSON.stringify(enabled.map((value, i) => ({ ...rowOf(i), enabled: value }))));
    expect(JSON.parse((await file.import(...FROM, "--keys", `@${path}`)).stdout)).toEqual({ migrated: 10, failed: 0 });
    await file.open(async (keyring) => {
      const { data } = await keyring.searchKeys({});
      expect(data.filter((key) => key.enabled).length).toBe(5);
    });
  });

  it("of Unkey an identity or a refill that is none refuses the key", async () => {
    const file = await database();
    const key = { keyId: "key_12345678", hash: createHash("sha256").update("k").digest("hex"), enabled: true };
    const path = join(FOLDER, `${++files}-unkey.json`);
    const odd = [
      { identity: "acme" },
      { identity: ["acme"] },
      { credits: { remaining: 5, refill: "monthly" } },
      { credits: { remaining: 5, refill: [] } },
    ];
    writeFileSync(path, JSON.stringify(odd.map((more) => ({ ...key, ...more }))));
    const { stdout, stderr } = await file.import("--from", "unkey", "--keys", `@${path}`);
    expect(JSON.parse(stdout)).toEqual({ migrated: 0, failed: 4 });
    expect(stderr).toContain("item 1: INVALID_KEY: identity: must be an object");
    expect(stderr).toContain("item 3: INVALID_KEY: credits.refill: must be an object");
  });
});

describe("import --from unkey", () => {
  const hash = (text: string) => createHash("sha256").update(text).digest("base64");
  const identity = {
    id: "id_3Q7aUm4Xh2",
    externalId: "acme",
    meta: { plan: "pro" },
    ratelimits: [{ id: "rl_shared1", name: "shared", limit: 2, duration: 60_000, autoApply: true }],
  };
  /** As the reference of its v2 API shows it. */
  const full = {
    keyId: "key_3ZXaUm4Xh2vPq9Yt",
    start: "sk_prod_1",
    enabled: true,
    name: "Production",
    meta: { region: "eu" },
    createdAt: 1_701_425_400_000,
    updatedAt: 1_701_425_500_000,
    lastUsedAt: 1_701_425_600_000,
    expires: 4_000_000_000_000,
    permissions: ["documents.read", "billing.*"],
    roles: ["editor"],
    credits: { remaining: 10, refill: { interval: "monthly", amount: 1_000 } },
    identity,
    plaintext: "sk_prod_1_secretOfACustomer",
    ratelimits: [{ id: "rl_own1", name: "requests", limit: 100, duration: 60_000, autoApply: true }],
  };
  const bare = { keyId: "key_bare00001", start: "sk_b", enabled: false, createdAt: 1_701_425_400_000 };
  const PAGES = [
    { meta: { requestId: "req_1" }, data: [full, { ...bare, hash: hash("second") }], pagination: { hasMore: true } },
    {
      meta: { requestId: "req_2" },
      data: [
        { ...bare, keyId: "key_nothing01" },
        { ...bare, keyId: "key_credits01", hash: hash("c"), identity: { ...identity, credits: { remaining: 5 } } },
        {
          ...bare,
          keyId: "key_yearly001",
          hash: hash("y"),
          credits: { remaining: 1, refill: { interval: "yearly", amount: 1 } },
        },
        { ...bare, keyId: full.keyId, hash: hash("same id") },
        { ...bare, keyId: "key_third0001", enabled: true, plaintext: "third", identity, credits: { remaining: null } },
      ],
      pagination: { hasMore: false },
    },
  ];
  const write = (name: string, text: string) => {
    const path = join(FOLDER, `${++files}-${name}`);
    writeFileSync(path, text);
    return `@${path}`;
  };
  const withRole = async () => {
    const file = await database();
    await file.open((keyring) => keyring.createRole({ name: "editor" }));
    return file;
  };
  const argv = (keys: string, ...more: string[]) => ["--from", "unkey", "--keys", keys, ...more];

  it("keys keep their ids, names, rights, limits, credits and owners, and verify as they are", async () => {
    const { open, ...file } = await withRole();
    const pages = write("pages.ndjson", PAGES.map((page) => JSON.stringify(page)).join("\n"));
    const { code, stdout, stderr } = await file.import(...argv(pages));
    expect([code, JSON.parse(stdout)]).toEqual([1, { migrated: 3, failed: 4 }]);
    expect(stderr).toContain("item 3: INVALID_KEY: has neither plaintext nor hash: list the keys with decrypt: true");
    expect(stderr).toContain("item 4: INVALID_KEY: its identity has credits, which an import does not give");
    expect(stderr).toContain('item 5: INVALID_KEY: credits.refill.interval: must be "hourly"');
    expect(stderr).toContain("item 6: ALREADY_EXISTS: this hash or keyId exists already");
    expect(stderr).toMatch(/ 3 {2}updatedAt|1 {2}updatedAt: the time of the import/);
    expect(stdout + stderr).not.toMatch(/secretOfACustomer|third/);
    await open(async (keyring, verifier) => {
      expect(await keyring.getIdentity({ identity: "acme" })).toMatchObject({
        meta: { plan: "pro" },
        ratelimits: [{ name: "shared", limit: 2, duration: 60_000, autoApply: true }],
      });
      expect(await keyring.getKey({ keyId: full.keyId })).toMatchObject({
        createdAt: full.createdAt,
        start: "sk_prod_1...",
        credits: { remaining: 10, refill: { interval: "monthly", amount: 1_000, refillDay: 1, rollover: 0 } },
        roles: ["editor"],
      });
      const answer = await verifier.verify({ key: full.plaintext, permissions: "documents.read AND billing.view" });
      expect(answer).toMatchObject({
        code: "VALID",
        keyId: full.keyId,
        name: "Production",
        meta: { region: "eu" },
        expires: full.expires,
        credits: 9,
        identity: { externalId: "acme", meta: { plan: "pro" } },
      });
      expect(answer).toMatchObject({
        ratelimits: expect.arrayContaining([expect.objectContaining({ name: "shared" })]),
      });
      expect(await verifier.verify({ key: "second" })).toMatchObject({ code: "DISABLED", keyId: "key_bare00001" });
      expect((await verifier.verify({ key: "third" })).code).toBe("VALID");
      // The owner's limit is of 2 calls, whatever key makes them.
      expect((await verifier.verify({ key: "third" })).code).toBe("RATE_LIMITED");
    });
    const again = await file.import(...argv(pages));
    expect(again.stderr).toContain("0 migrated, 7 failed");
  });

  it.each([
    ["one page as .json", "page.json", JSON.stringify(PAGES[0], null, 2)],
    ["pages in an array", "pages.json", JSON.stringify([PAGES[0]])],
    ["keys in an array", "keys.json", JSON.stringify(PAGES[0]?.data)],
    ["one key a line", "keys.ndjson", PAGES[0]?.data.map((key) => JSON.stringify(key)).join("\n") ?? ""],
  ])("takes %s", async (_what, name, text) => {
    const { stdout } = await (await withRole()).import(...argv(write(name, text)));
    expect(JSON.parse(stdout)).toEqual({ migrated: 2, failed: 0 });
  });

  it("--dry-run fails what the import fails, and writes nothing", async () => {
    const { open, ...file } = await withRole();
    const pages = write("pages.json", JSON.stringify(PAGES));
    const dry = await file.import(...argv(pages, "--dry-run"));
    expect([dry.code, dry.stdout]).toEqual([
      1,
      expect.stringMatching(/^3 keys would go in, 4 would fail; nothing was/),
    ]);
    expect(dry.stdout).toMatch(/ 3 {2}keyId\n/);
    expect(dry.stdout + dry.stderr).not.toContain("secretOfACustomer");
    await open(async (keyring) => expect((await keyring.listIdentities()).data).toEqual([]));
    const { stderr } = await file.import(...argv(pages));
    const failures = (text: string) => text.split("\n").filter((line) => /item \d/.test(line));
    expect(failures(dry.stderr)).toEqual(failures(stderr));
  });

  it("a plaintext that is empty is none; one beside a hash must be the key of that hash", async () => {
    const { open, ...file } = await withRole();
    const sha = (encoding: "hex" | "base64url") => createHash("sha256").update("k").digest(encoding);
    const keys = [
      { ...bare, keyId: "key_empty001", plaintext: "" },
      { ...bare, keyId: "key_empty002", plaintext: "", hash: hash("e") },
      { ...bare, keyId: "key_other001", plaintext: "a secret text", hash: hash("k") },
      { ...bare, keyId: "key_other002", plaintext: "a secret text", hash: "" },
      { ...bare, keyId: "key_same0001", plaintext: "k", hash: sha("hex") },
      { ...bare, keyId: "key_same0002", plaintext: "k", hash: sha("base64url") },
    ];
    const failed = join(FOLDER, `${++files}-failed.ndjson`);
    const given = write("keys.json", JSON.stringify(keys));
    const { stdout, stderr } = await file.import(...argv(given, "--failures", failed));
    expect(JSON.parse(stdout)).toMatchObject({ migrated: 2, failed: 4 });
    expect(stderr).toContain("item 1: INVALID_KEY: has neither plaintext nor hash");
    for (const item of [3, 4]) expect(stderr).toContain(`item ${item}: INVALID_KEY: its plaintext is not that of its`);
    expect(stderr).toContain("item 6: ALREADY_EXISTS");
    expect(readFileSync(failed, "utf8")).not.toContain("a secret text");
    await open(async (keyring) => {
      const { data } = await keyring.searchKeys({});
      expect(data.map(({ keyId }) => keyId).sort()).toEqual(["key_empty002", "key_same0001"]);
    });
  });

  it("an owner that exists keeps its limits and its metadata", async () => {
    const { open, ...file } = await withRole();
    await open((keyring) => keyring.createIdentity({ externalId: "acme", meta: { own: true } }));
    await file.import(...argv(write("keys.json", JSON.stringify([full]))));
    const owner = await open((keyring) => keyring.getIdentity({ identity: "acme" }));
    expect([owner.meta, owner.ratelimits ?? []]).toEqual([{ own: true }, []]);
  });

  it("what failed is kept in --failures without the text of a key, and goes in once it is mended", async () => {
    const { open, ...file } = await withRole();
    const failed = join(FOLDER, `${++files}-failed.ndjson`);
    await file.import(
      ...argv(write("keys.json", JSON.stringify([{ ...full, roles: ["nobody"] }, bare])), "--failures", failed),
    );
    const text = readFileSync(failed, "utf8");
    expect(text).not.toContain("secretOfACustomer");
    writeFileSync(
      failed,
      text.replace("nobody", "editor").replace(`"keyId":"${bare.keyId}"`, `$&,"hash":"${hash("b")}"`),
    );
    const { stdout } = await file.import("--migration-id", "unkey", "--keys", `@${failed}`);
    expect(JSON.parse(stdout)).toEqual({ migrated: 2, failed: 0 });
    expect((await open((_, verifier) => verifier.verify({ key: full.plaintext }))).keyId).toBe(full.keyId);
  });
});
