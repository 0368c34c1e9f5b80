/**
 * Ruling G4 on SQLite files that fail: whatever the driver or a damaged row says, no error shows a key, a hash or a
 * parameter.
 */
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import Database from "better-sqlite3";
import { afterAll, describe, expect, it } from "vitest";
import { createKeyring, createVerifier } from "../src/index.js";
import { sqliteStore } from "../src/stores/sqlite/index.js";

const folder = mkdtempSync(join(tmpdir(), "keystile-secrets-"));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;
const path = () => join(folder, `${++files}.db`);

const IMPORTED = "CANARY_live_4f9Qz7Lw1XkP0vRt83";
const digest = (text: string, encoding: "hex" | "base64" = "hex", algorithm = "sha256") =>
  createHash(algorithm).update(text).digest(encoding);
const PENDING_HASH = digest(IMPORTED, "hex", "sha512");
const WINDOW = 8;

/** A file with keys, its handle, and calls of every kind upon it. */
async function planted(file: string = path()) {
  const db = new Database(file);
  const store = sqliteStore(db, { busyTimeout: 0 });
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 1_000 }, meta: { plan: "pro" } });
  await keyring.createMigration({ id: "native", algorithm: "sha256" });
  await keyring.createMigration({ id: "pending", algorithm: "sha512" });
  const { migrated } = await keyring.migrateKeys({ migrationId: "native", apiId, keys: [{ hash: digest(IMPORTED) }] });
  await keyring.migrateKeys({ migrationId: "pending", apiId, keys: [{ hash: PENDING_HASH }] });
  const calls = () => {
    const [exact, leased] = [
      createVerifier(store),
      createVerifier(store, { credits: { mode: "leased", firstStep: 250 } }),
    ];
    return [
      () => exact.verify({ key }),
      () => leased.verify({ key }),
      () => exact.verify({ key: IMPORTED }),
      () => exact.verify({ key: `${IMPORTED}!`, migrationId: "pending" }),
      () => keyring.getKey({ keyId: migrated[0]!.keyId }),
      () => keyring.listKeys({ apiId }),
      () => keyring.whoami({ key }),
      () => keyring.createKey({ apiId, meta: { much: "x".repeat(60_000) } }),
      () => keyring.rerollKey({ keyId, expiration: 0 }),
      () => keyring.migrateKeys({ migrationId: "pending", apiId, keys: [{ hash: digest(key, "hex", "sha512") }] }),
    ];
  };
  const secrets = [
    key.slice(4),
    digest(key),
    digest(key, "base64"),
    digest(key, "hex", "sha512"),
    IMPORTED,
    PENDING_HASH,
  ];
  secrets.push(digest(IMPORTED), digest(IMPORTED, "base64"));
  return { file, db, store, calls, secrets };
}

/** @returns how many of the calls failed; none may have shown a secret, not even a part of one */
async function failuresOf(calls: readonly (() => unknown)[], secrets: readonly string[]): Promise<number> {
  const windows = secrets.flatMap((secret) =>
    Array.from({ length: secret.length - WINDOW + 1 }, (_, i) => secret.slice(i, i + WINDOW)),
  );
  let failures = 0;
  for (const call of calls) {
    const error: unknown = await (async () => call())().then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    if (error === undefined) continue;
    failures++;
    const said = inspect(error, { depth: Infinity, showHidden: true, maxStringLength: Infinity });
    expect(
      windows.filter((window) => said.includes(window)),
      said,
    ).toEqual([]);
  }
  return failures;
}

const FAULTS: readonly (readonly [what: string, breakIt: (db: Database.Database) => unknown])[] = [
  ["full", (db) => db.exec("VACUUM").pragma(`max_page_count = ${String(db.pragma("page_count", { simple: true }))}`)],
  ["read-only", (db) => db.pragma("query_only = ON")],
  ["closed by its owner", (db) => db.close()],
  [
    "without a table",
    (db) => db.exec("PRAGMA foreign_keys = OFF; DROP TABLE keystile_accounts; DROP TABLE keystile_changes"),
  ],
  [
    "refusing by a trigger",
    (db) => {
      for (const table of ["keystile_keys", "keystile_accounts", "keystile_leases"]) {
        for (const event of ["INSERT", "UPDATE"])
          db.exec(
            `CREATE TRIGGER ${event}_${table} BEFORE ${event} ON ${table} BEGIN SELECT RAISE(ABORT, 'refused'); END`,
          );
      }
    },
  ],
  [
    "with balances that are none",
    (db) => db.exec("PRAGMA ignore_check_constraints = ON; UPDATE keystile_accounts SET remaining = -5"),
  ],
];

describe("an SQLite file, with its log", () => {
  it("has no text of a key or a root key, of each the first characters, and of keys that were imported the hash", async () => {
    const file = path();
    const store = sqliteStore(file);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { key } = await keyring.createKey({ apiId, prefix: "sk", credits: { remaining: 9 } });
    const root = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
    const { migrationId } = await keyring.createMigration({ algorithm: "sha512" });
    await keyring.migrateKeys({ migrationId, apiId, keys: [{ hash: PENDING_HASH }] });
    const verifier = createVerifier(store, { analytics: true });
    for (const text of [key, key, IMPORTED])
      await verifier.verify({ key: text, migrationId, tags: [`key=${text}`], permissions: "a.b" });
    await verifier.close();
    const bytes = [file, `${file}-wal`].map((name) => readFileSync(name, "latin1")).join();
    for (const text of [key, root.key, IMPORTED]) expect(bytes).not.toContain(text.slice(WINDOW));
    for (const text of [key.slice(0, 7), PENDING_HASH]) expect(bytes).toContain(text);
    await store.close();
  });
});

describe("ruling G4: an SQLite file that fails", () => {
  it("is no database, or one of a later keystile", async () => {
    const { db, secrets } = await planted();
    const text = path();
    writeFileSync(text, `${IMPORTED}\n${PENDING_HASH}\n`.repeat(100));
    const newer = await planted();
    newer.db.exec("UPDATE keystile_schema SET version = 999");
    expect(
      await failuresOf(
        [() => sqliteStore(text), () => sqliteStore(newer.file), () => sqliteStore(join(folder, "no", "folder"))],
        secrets,
      ),
    ).toBe(3);
    for (const one of [db, newer.db]) one.close();
  });

  it.each(FAULTS)("is %s", async (_what, breakIt) => {
    const { db, calls, secrets } = await planted();
    breakIt(db);
    expect(await failuresOf(calls(), secrets)).toBeGreaterThan(0);
    db.close();
  });

  it("is held by another connection", async () => {
    const { file, db, calls, secrets } = await planted();
    const other = new Database(file);
    other.exec("BEGIN IMMEDIATE");
    expect(await failuresOf(calls(), secrets)).toBeGreaterThan(3);
    for (const one of [other, db]) one.close();
  });

  // JSON.parse quotes what it could not read, and a key's row holds the hash that was imported: the quotation must not
  // go out as the cause.
  it("has rows that are damaged", async () => {
    const { db, calls, secrets } = await planted();
    // They read the bodies that are written.
    db.exec("DROP INDEX keystile_keys_expires; DROP INDEX keystile_keys_ending");
    db.exec(`UPDATE keystile_keys SET body = replace(body, '"hash":"', '"hash"="')`);
    expect(await failuresOf(calls(), secrets)).toBeGreaterThan(2);
    db.close();
  });
});
