import { rmSync, writeFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { pathToFileURL } from "node:url";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { badRequest, isKeystileError, KeystileError } from "../../../../src/contracts/errors.js";
import { createKeyring, createVerifier } from "../../../../src/index.js";
import { memoryStore } from "../../../../src/stores/memory.js";
import { sqliteStore, type SqliteStoreOptions } from "../../../../src/stores/sqlite/index.js";
import { packError, unpackError } from "../../../../src/stores/sqlite/writer/messages.js";
import { buildWriter } from "../../../rigs/workers.js";
import { keyRow } from "../../suite.js";
import {
  addKeys,
  change,
  codeOf,
  inspect,
  nextTurn,
  openStores,
  temporaryPaths,
  totalIn,
  withApi,
} from "../support.js";

const path = temporaryPaths();
const program = await buildWriter();
const openStore = openStores();
const open = (place = path(), options: SqliteStoreOptions = {}) => openStore(place, { writer: program, ...options });
/** A thread of the test's own. */
const threadOf = (code: string) => {
  const place = `${path()}.mjs`;
  writeFileSync(place, `import { parentPort } from "node:worker_threads";\n${code}`);
  return pathToFileURL(place);
};

describe("sqliteStore: writer thread", () => {
  it("answers as the memory store does, whatever is in flight together", async () => {
    const [store, oracle] = [await withApi(open()), await withApi(memoryStore())];
    const refs = await addKeys(store, 3, 50, { amount: 7, period: 0 });
    await addKeys(oracle, 3, 50, { amount: 7, period: 0 });
    for (let round = 0; round < 20; round++) {
      const spends = Array.from({ length: 1 + ((round * 7) % 23) }, (_, i) => ({
        key: i % 3,
        cost: 1 + ((i * round) % 5),
        period: round >> 2,
      }));
      const answers = await Promise.all(
        spends.map(({ key, cost, period }) => store.spendCredits(refs[key]!, cost, period, 0)),
      );
      const expected = [];
      for (const { key, cost, period } of spends)
        expected.push(await oracle.spendCredits(`key_00000${key + 1}`, cost, period, 0));
      expect(answers).toEqual(expected);
    }
  });

  it("clause 4: of many keys each repeat is told, the first goes in, also while the file is locked", async () => {
    for (const isLocked of [false, true]) {
      const place = path();
      const [store, oracle] = [await withApi(open(place)), await withApi(memoryStore())];
      // Repeats within a transaction and of the one before.
      const keys = Array.from({ length: 2_300 }, (_, i) => {
        const { digest, ...row } = keyRow(i + 1);
        return { row: { ...row, digest: `digest-${i % 7 === 0 ? i % 1_100 : i}`, name: `key ${i}` } };
      });
      const lock = new Database(place);
      if (isLocked) lock.exec("BEGIN IMMEDIATE");
      const inserting = store.insertKeys(keys);
      if (isLocked) {
        await new Promise((resolve) => setTimeout(resolve, 150));
        lock.exec("COMMIT");
      }
      lock.close();
      expect(await inserting).toEqual(await oracle.insertKeys(keys));
      for (const n of [7, 1_099, 1_101, 2_299])
        expect((await store.findKey(`digest-${n}`))?.name).toBe((await oracle.findKey(`digest-${n}`))?.name);
      expect(await store.insertKeys([])).toEqual([]);
    }
  });

  it("a balance that is not a number fails its transaction, and what came before it stays", async () => {
    const store = await withApi(open());
    const keys = Array.from({ length: 1_500 }, (_, i) => ({
      row: keyRow(i + 1, { hasCredits: true }),
      balance: { remaining: i === 1_200 ? NaN : i, amount: 0, period: 0 },
    }));
    expect(await codeOf(() => store.insertKeys(keys))).toBe("STORE_FAILED");
    expect(await store.findKey("digest-1000")).toBeDefined();
    expect(await store.findKey("digest-1001")).toBeUndefined();
    expect(await store.insertKeys(keys.slice(1_000, 1_200))).toEqual(Array(200).fill(true));
  });

  it("answers only what is in the file, and the event loop goes on meanwhile", async () => {
    const place = path();
    const store = await withApi(open(place));
    const [ref] = await addKeys(store, 1, 100);
    const lock = new Database(place);
    lock.exec("BEGIN IMMEDIATE");
    let answered = 0;
    const spends = Array.from({ length: 10 }, async () => (await store.spendCredits(ref!, 1, 0, 0)) && answered++);
    let turns = 0;
    // A busy machine makes some of the times pass without this process, not all.
    for (let attempt = 0; attempt < 5 && turns <= 100; attempt++) {
      turns = 0;
      for (const until = performance.now() + 120; performance.now() < until; turns++) await nextTurn();
    }
    expect(answered).toBe(0);
    expect(turns).toBeGreaterThan(100);
    lock.exec("COMMIT");
    await Promise.all(spends);
    expect(totalIn(lock)).toBe(90);
    lock.close();
  });

  it("clauses 8, 15: what it changed is notified before the call resolves; spends are not notified", async () => {
    const store = await withApi(open());
    const [ref] = await addKeys(store, 1);
    const notified: unknown[] = [];
    store.subscribe((each) => notified.push(each));
    await store.spendCredits(ref!, 1, 0, 0);
    await store.pollChanges("anew");
    expect(notified).toEqual([]);
    await change(store, "key_000001", { enabled: false });
    expect(notified).toContainEqual({ digest: "digest-1" });
    expect(await store.findKey("digest-1")).toMatchObject({ enabled: false });
  });

  it("a revocation is seen by the next verification", async () => {
    const store = open();
    const keyring = createKeyring(store);
    const verifier = createVerifier(store);
    const { apiId } = await keyring.createApi({ name: "docs" });
    for (let i = 0; i < 20; i++) {
      const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 5 } });
      expect(await verifier.verify({ key })).toMatchObject({ valid: true, credits: 4 });
      await keyring.updateKey({ keyId, enabled: false });
      expect(await verifier.verify({ key })).toMatchObject({ code: "DISABLED", credits: 4 });
    }
    await verifier.close();
  });

  it("what is no cost throws at once, and takes nothing", async () => {
    const store = await withApi(open());
    const [ref] = await addKeys(store, 1);
    const wrong = [NaN, Infinity, 1.5, 2 ** 53, "5", 5n, null, { valueOf: () => 5 }] as number[];
    for (const value of [...wrong, -1])
      expect(() => store.spendCredits(ref!, value, 0, 0), String(value)).toThrow(RangeError);
    for (const value of wrong) expect(() => store.spendCredits(ref!, 1, value, 0), String(value)).toThrow(RangeError);
    await expect(
      store.drawCredits(ref!, { holder: "a", spent: 0, cost: NaN, step: 1, size: 1, period: 0, now: 0, until: 1 }),
    ).rejects.toThrow(RangeError);
    expect((await store.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]?.remaining).toBe(100);
  });

  it("an error keeps its code, and a balance that is none fails alone", async () => {
    const place = path();
    const store = await withApi(open(place));
    const refs = await addKeys(store, 2);
    inspect(place, (db) => {
      db.pragma("ignore_check_constraints = ON");
      db.prepare("UPDATE keystile_accounts SET remaining = -5 WHERE number = ?").run(refs[0]);
    });
    const [broken, whole] = await Promise.allSettled([
      store.spendCredits(refs[0]!, 1, 0, 0),
      store.spendCredits(refs[1]!, 1, 0, 0),
    ]);
    expect(broken).toMatchObject({ status: "rejected", reason: { code: "STORE_INVALID", status: 500 } });
    expect(whole).toEqual({ status: "fulfilled", value: { ok: true, remaining: 99 } });
    expect(await codeOf(() => store.write([{ table: "apis", remove: "api_1", version: 1 }]))).toBe("CONFLICT");
  });

  it("close answers what is in flight; afterwards every call is STORE_CLOSED", async () => {
    const place = path();
    const store = await withApi(open(place));
    const [ref] = await addKeys(store, 1, 100);
    const spends = Array.from({ length: 40 }, () => store.spendCredits(ref!, 1, 0, 0));
    const closed = store.close();
    expect(store.close()).toBe(closed);
    expect(await codeOf(() => store.spendCredits(ref!, 1, 0, 0))).toBe("STORE_CLOSED");
    expect(await codeOf(() => store.insertKeys([{ row: keyRow(9) }]))).toBe("STORE_CLOSED");
    expect(await codeOf(() => store.findKey("digest-1"))).toBe("STORE_CLOSED");
    expect((await Promise.all(spends)).every((spend) => spend?.ok)).toBe(true);
    await closed;
    expect(inspect(place, totalIn)).toBe(60);
  });
});

describe("sqliteStore: a writer thread that is closed or ends", () => {
  it("close answers writes that are in flight, however many transactions they take", async () => {
    const place = path();
    const store = await withApi(open(place));
    const keys = Array.from({ length: 2_500 }, (_, i) => ({ row: keyRow(i + 1) }));
    const [inserting, writing] = [store.insertKeys(keys), store.write([])];
    await store.close();
    expect(new Set(await inserting)).toEqual(new Set([true]));
    expect(await writing).toBe("written");
    expect(inspect(place, (db) => db.prepare("SELECT count(*) FROM keystile_keys").pluck().get())).toBe(keys.length);
  });

  it("writes the file that was opened, though the program goes to another folder", async () => {
    const place = path();
    const before = process.cwd();
    process.chdir(dirname(place));
    const store = open(basename(place));
    process.chdir(before);
    await withApi(store);
    expect(inspect(place, (db) => db.prepare("SELECT count(*) FROM keystile_apis").pluck().get())).toBe(1);
  });

  it("an answer that nobody waits for, as behind the news of a failure, does no harm", async () => {
    const answer =
      "if (close) process.exit(0); for (const each of [id + 1, id]) parentPort.postMessage({ id: each, answer: 'written' });";
    const store = open(path(), { writer: threadOf(`parentPort.on("message", ({ id, close }) => { ${answer} });`) });
    expect(await store.write([])).toBe("written");
  });

  it("rejects what is in flight and what comes later, and goes on reading", async () => {
    const place = path();
    const first = await withApi(sqliteStore(place));
    const [ref] = await addKeys(first, 1);
    await first.close();
    const store = open(place, { writer: threadOf('parentPort.on("message", () => process.exit(3));') });
    const inFlight = await Promise.allSettled([
      store.spendCredits(ref!, 1, 0, 0),
      store.spendCredits(ref!, 1, 0, 0),
      store.write([]),
    ]);
    for (const answer of inFlight)
      expect(answer).toMatchObject({ status: "rejected", reason: { code: "STORE_FAILED" } });
    expect(await codeOf(() => store.spendCredits(ref!, 1, 0, 0))).toBe("STORE_FAILED");
    expect(await codeOf(() => store.insertKeys([{ row: keyRow(9) }]))).toBe("STORE_FAILED");
    expect(await store.spendCredits(ref!, 0, 0, 0)).toEqual({ ok: true, remaining: 100 });
    expect(await store.findKey("digest-1")).toBeDefined();
    await store.close();
  });

  it("the same for one that throws, one that is not there, and one that cannot open the file", async () => {
    for (const [writer, code] of [
      [threadOf('parentPort.on("message", () => { throw new Error("no"); });'), "STORE_FAILED"],
      [pathToFileURL(`${path()}.mjs`), "STORE_FAILED"],
    ] as const) {
      const store = await open(path(), { writer });
      expect(await codeOf(() => store.write([]))).toBe(code);
      expect(await codeOf(() => store.write([]))).toBe(code);
    }
    const place = path();
    const store = open(place);
    for (const end of ["", "-wal", "-shm"]) rmSync(`${place}${end}`, { force: true });
    expect(await codeOf(() => store.write([]))).toBe("STORE_FAILED");
  });
});

describe("sqliteStore: the option writer", () => {
  it("is for files that the store opens itself", () => {
    expect(() => sqliteStore(":memory:", { writer: program })).toThrow(/options\.writer/);
    const db = new Database(":memory:");
    // @ts-expect-error nor does its type
    expect(() => sqliteStore(db, { writer: "thread" })).toThrow(/options\.writer is for paths/);
    db.close();
    for (const writer of ["worker", true, "./writer.mjs", null] as never[])
      expect(() => sqliteStore(path(), { writer })).toThrow(/options\.writer must be/);
  });
});

describe("errors between threads", () => {
  it("keep their class, words, codes and causes; what is no error says so", () => {
    const driver = Object.assign(new Error("disk I/O error"), { code: "SQLITE_IOERR" });
    const error = unpackError(
      structuredClone(packError(new KeystileError("STORE_FAILED", "it failed", { cause: driver }))),
    );
    expect(isKeystileError(error)).toBe(true);
    expect(error).toMatchObject({
      code: "STORE_FAILED",
      status: 500,
      message: "it failed",
      cause: { code: "SQLITE_IOERR", message: "disk I/O error" },
    });
    for (const given of [
      new KeystileError("STORE_UNAVAILABLE", "it may have been made", { outcomeUnknown: true }),
      badRequest([{ location: "body.key", message: "is required" }]),
    ]) {
      const { errors, outcomeUnknown } = given;
      expect(unpackError(structuredClone(packError(given)))).toMatchObject({ errors, outcomeUnknown });
    }
    for (const Kind of [RangeError, TypeError, Error]) {
      const back = unpackError(structuredClone(packError(new Kind("words"))));
      expect(back).toBeInstanceOf(Kind);
      expect(back.message).toBe("words");
    }
    expect(unpackError(packError("text")).message).not.toContain("text");
  });
});
