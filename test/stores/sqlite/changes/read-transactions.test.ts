import Database from "better-sqlite3";
import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { createSharedReads } from "../../../../src/stores/sqlite/connection/transaction.js";
import { sqliteStore, type SqliteStore, type SqliteStoreOptions } from "../../../../src/stores/sqlite/index.js";
import { runs } from "../../../runs.js";
import { keyRow } from "../../suite.js";
import { addKeys, change, inspect, nextTurn, temporaryPaths, totalIn, withApi } from "../support.js";

const path = temporaryPaths();
const opened: { close(): unknown }[] = [];
const keep = <T extends { close(): unknown }>(one: T): T => {
  opened.push(one);
  return one;
};
const open = (place: string, options?: SqliteStoreOptions): SqliteStore => keep(sqliteStore(place, options));
afterEach(async () => {
  vi.useRealTimers();
  for (const one of opened.splice(0)) await one.close();
});

/** Shared reads over a handle that writes down what is run. */
function logged(fail: (sql: string) => boolean = () => false) {
  const ran: string[] = [];
  const statement = (sql: string) => ({
    get: () => undefined,
    all: () => [],
    run: () => {
      ran.push(sql);
      if (fail(sql)) throw new Error("cannot");
      return { changes: 0, lastInsertRowid: 0 };
    },
  });
  const reads = createSharedReads({ prepare: statement, exec: () => undefined }, false);
  const find = (name: string): string => {
    reads.join();
    ran.push(name);
    if (name !== "bad") return name;
    reads.end();
    throw new Error("disk");
  };
  const act = (name: string): void => {
    reads.end();
    ran.push(name);
  };
  return { ran, find, act };
}

describe("createSharedReads", () => {
  it("the first find of a turn is alone, the others share a transaction that ends with the turn", async () => {
    const { ran, find } = logged();
    expect(["a", "b", "c"].map(find)).toEqual(["a", "b", "c"]);
    await nextTurn();
    find("d");
    await nextTurn();
    expect(ran).toEqual(["a", "BEGIN", "b", "c", "COMMIT", "d"]);
  });

  it("the microtasks of a turn are part of it, and every callback is a turn", async () => {
    const { ran, find } = logged();
    for (const name of ["a", "b", "c"]) {
      find(name);
      await Promise.resolve();
    }
    await new Promise<void>((resolve) => {
      setImmediate(() => (find("d"), find("e")));
      setImmediate(() => (find("f"), find("g"), resolve()));
    });
    await nextTurn();
    expect(ran).toEqual(["a", "BEGIN", "b", "c", "COMMIT", "d", "BEGIN", "e", "COMMIT", "f", "BEGIN", "g", "COMMIT"]);
  });

  it("anything else ends it first, and the next find is alone again", async () => {
    const { ran, find, act } = logged();
    for (const name of ["a", "b"]) find(name);
    act("write");
    act("read");
    for (const name of ["c", "d"]) find(name);
    await nextTurn();
    expect(ran).toEqual(["a", "BEGIN", "b", "COMMIT", "write", "read", "c", "BEGIN", "d", "COMMIT"]);
  });

  it("a turn without end has it for at most 256 finds", async () => {
    const { ran, find } = logged();
    for (let i = 0; i < 1_000; i++) {
      find("a");
      await Promise.resolve();
    }
    const lengths = ran
      .join(" ")
      .split("COMMIT")
      .map((part) => part.split(" ").filter((one) => one === "a").length);
    expect(lengths).toEqual([256, 256, 256, 232]);
    await nextTurn();
    expect(ran.filter((sql) => sql === "BEGIN")).toHaveLength(4);
    expect(ran.at(-1)).toBe("COMMIT");
  });

  it("a find that fails ends it, and so does a commit that fails, whether something is still open or not", async () => {
    const { ran, find } = logged((sql) => sql === "COMMIT");
    find("a");
    find("b");
    expect(() => find("bad")).toThrow("disk");
    for (const name of ["c", "d"]) find(name);
    await nextTurn();
    expect(ran).toEqual(["a", "BEGIN", "b", "bad", "COMMIT", "ROLLBACK", "c", "BEGIN", "d", "COMMIT", "ROLLBACK"]);
  });

  it("over a handle of its owner every find stays alone: the owner may begin a transaction at any time", async () => {
    const db = keep(new Database(path()));
    const store = await withApi(sqliteStore(db));
    await store.insertKeys([{ row: keyRow(1) }]);
    await nextTurn();
    for (let i = 0; i < 3; i++) await store.findKey("digest-1");
    expect(db.inTransaction).toBe(false);
  });

  it("shows what a find outside of a transaction shows, or what stood when it was last ended (property)", async () => {
    const step = fc.constantFrom("find", "find", "find", "other", "own", "ask", "microtask", "turn");
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const place = path();
        const [db, other] = [new Database(place), new Database(place)];
        db.exec("PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (0)");
        const [sql, add] = ["SELECT n FROM t", "UPDATE t SET n = n + 1"];
        const reads = createSharedReads(db, false);
        const read = db.prepare(sql).pluck();
        const referenceQuery = other.prepare(sql).pluck();
        const [ownAdd, otherAdd] = [db.prepare(add), other.prepare(add)];
        const find = () => (reads.join(), Number(read.get()));
        const write = () => (reads.end(), ownAdd.run());
        let least = 0;
        try {
          for (const one of steps) {
            if (one === "find") {
              const shown = find();
              expect(shown).toBeGreaterThanOrEqual(least);
              expect(shown).toBeLessThanOrEqual(Number(referenceQuery.get()));
              least = shown;
            } else if (one === "other") otherAdd.run();
            else if (one === "microtask") await Promise.resolve();
            else {
              if (one === "own") write();
              else if (one === "ask") reads.end();
              else await nextTurn();
              // Whatever was committed until here must be seen from here on.
              least = Number(referenceQuery.get());
              expect(db.inTransaction).toBe(false);
            }
          }
        } finally {
          db.close();
          other.close();
        }
      }),
      { numRuns: runs(60) },
    );
  });
});

describe("sqliteStore: finds that share a transaction", () => {
  const FINDS = 5;
  const findSome = async (store: SqliteStore): Promise<boolean[]> => {
    const enabled: boolean[] = [];
    for (let i = 0; i < FINDS; i++) enabled.push((await store.findKey("digest-1"))?.enabled === true);
    return enabled;
  };

  it("a revocation is seen in the same turn once 1 ms has passed, and else by the next turn", async () => {
    const place = path();
    const writer = await withApi(open(place));
    await addKeys(writer, 1);
    const row = (await writer.readMany("keys", ["key_000001"]))[0]!;
    const reader = open(place);
    await nextTurn();
    vi.useFakeTimers({ toFake: ["performance", "Date"], now: 1_000 });
    await reader.pollChanges(1_000);
    expect(await findSome(reader)).toEqual(Array(FINDS).fill(true));
    void writer.write([{ table: "keys", row: { ...row, enabled: false } }]);
    await reader.pollChanges(1_000);
    expect(await findSome(reader)).toEqual(Array(FINDS).fill(true));
    await reader.pollChanges(1_001);
    expect(await findSome(reader)).toEqual(Array(FINDS).fill(false));
    void writer.write([{ table: "keys", row: { ...row, version: row.version + 1 } }]);
    await nextTurn();
    expect(await findSome(reader)).toEqual(Array(FINDS).fill(true));
  });

  it("what this store writes is seen by its next find, and what it answers is durable, between finds of one turn", async () => {
    const place = path();
    const store = await withApi(open(place));
    const [ref] = await addKeys(store, 1, 10);
    await nextTurn();
    expect(await findSome(store)).toEqual(Array(FINDS).fill(true));
    const spending = store.spendCredits(ref!, 4, 0, 0);
    await findSome(store);
    expect(await spending).toEqual({ ok: true, remaining: 6 });
    expect(inspect(place, totalIn)).toBe(6);
    await findSome(store);
    const row = (await store.readMany("keys", ["key_000001"]))[0]!;
    await findSome(store);
    void store.write([{ table: "keys", row: { ...row, enabled: false } }]);
    expect(await findSome(store)).toEqual(Array(FINDS).fill(false));
    expect(
      inspect(place, (db) =>
        db.prepare("SELECT count(*) FROM keystile_keys WHERE body LIKE '%disabled%'").pluck().get(),
      ),
    ).toBe(1);
  });

  it("after the turn nothing keeps the log from being checkpointed, and nothing is left to do when it closes", async () => {
    const place = path();
    const store = await withApi(open(place));
    await addKeys(store, 1);
    await nextTurn();
    await findSome(store);
    await change(store, "key_000001", { name: "other" });
    await findSome(store);
    await nextTurn();
    const checkpoint = inspect(place, (db) => db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()) as { busy: number };
    expect(checkpoint.busy).toBe(0);
    await findSome(store);
    await store.close();
    await nextTurn();
    expect(inspect(place, (db) => db.prepare("PRAGMA quick_check").pluck().get())).toBe("ok");
  });
});
