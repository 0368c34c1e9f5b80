import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { cachedStore } from "../../../cache/cached-store.js";
import type { Change } from "../../../../src/contracts/store.js";
import { sqliteStore, type SqliteStoreOptions } from "../../../../src/stores/sqlite/index.js";
import { keyRow } from "../../suite.js";
import {
  addKeys,
  api,
  change,
  codeOf,
  foreignHandle,
  inspect,
  nextTurn,
  openStores,
  pollingOf,
  refOf,
  temporaryPaths,
  withApi,
} from "../support.js";

const path = temporaryPaths();
const openStore = openStores();
const open = (place: string, options?: SqliteStoreOptions) => openStore(place, { durability: "power", ...options });

/** Two stores on one file; `heard` answers what the second was notified of since the last time. */
async function pair(options: SqliteStoreOptions = { staleness: "call" }) {
  const place = path();
  const writer = await withApi(open(place));
  const reader = open(place, options);
  const notified: Change[] = [];
  reader.subscribe((one) => notified.push(one));
  const heard = async () => {
    await reader.pollChanges();
    return notified.splice(0);
  };
  return { place, writer, reader, heard };
}
const identity = { id: "id_1", workspaceId: "ws_1", version: 0, externalId: "user", ratelimits: [] };
const permission = { id: "perm_1", workspaceId: "ws_1", version: 0, name: "p", slug: "docs.read" };
const role = { id: "role_1", workspaceId: "ws_1", version: 0, name: "reader", permissions: ["perm_1"] };

describe("sqliteStore: changes of other processes", () => {
  it("clause 8: a changed key is notified by its digest, and found changed", async () => {
    const { writer, reader, heard } = await pair();
    await addKeys(writer, 2);
    expect(await heard()).toEqual([{ digest: "digest-1" }, { digest: "digest-2" }]);
    await change(writer, "key_000001", { enabled: false });
    expect(await heard()).toEqual([{ digest: "digest-1" }]);
    expect((await reader.findKey("digest-1"))?.enabled).toBe(false);
    await change(writer, "key_000001", { digest: "digest-new" });
    expect(await heard()).toEqual([{ digest: "digest-1" }, { digest: "digest-new" }]);
    await writer.write([{ table: "keys", remove: "key_000002", version: 1 }]);
    expect(await heard()).toEqual([{ digest: "digest-2" }]);
    expect(await heard()).toEqual([]);
  });

  it("clause 19: a root key that another process makes, changes or removes is notified by its digest, and found as it stands", async () => {
    const { writer, reader, heard } = await pair();
    const row = {
      id: "root_1",
      workspaceId: "ws_1",
      version: 0,
      digest: "root",
      start: "root_abcd",
      permissions: ["*"],
      enabled: true,
      createdAt: 0,
    };
    await heard();
    await writer.write([{ table: "rootKeys", row }]);
    expect(await heard()).toEqual([{ digest: "root" }]);
    expect((await reader.findRootKey("root"))?.enabled).toBe(true);
    await writer.write([{ table: "rootKeys", row: { ...row, version: 1, enabled: false } }]);
    expect(await heard()).toEqual([{ digest: "root" }]);
    expect((await reader.findRootKey("root"))?.enabled).toBe(false);
    await writer.write([{ table: "rootKeys", remove: "root_1", version: 2 }]);
    expect(await heard()).toEqual([{ digest: "root" }]);
    expect(await reader.findRootKey("root")).toBeUndefined();
    const namespace = { id: "ns_1", workspaceId: "ws_1", version: 0, name: "mails", createdAt: 0 };
    await writer.write([{ table: "namespaces", row: namespace }]);
    await writer.write([{ table: "namespaces", remove: "ns_1", version: 1 }]);
    expect(await heard()).toEqual([]);
  });

  it("hostile A119: spends, draws and returns of another process flush nothing here", async () => {
    const { writer, heard } = await pair();
    const [ref] = await addKeys(writer, 1);
    await heard();
    await writer.spendCredits(ref!, 1, 0, 0);
    await writer.drawCredits(ref!, { holder: "h", spent: 0, cost: 1, step: 5, size: 20, period: 0, now: 0, until: 1 });
    await writer.returnCredits(ref!, { holder: "h", spent: 0 });
    expect(await heard()).toEqual([]);
    await change(writer, "key_000001", { name: "after" });
    expect(await heard()).toEqual([{ digest: "digest-1" }]);
  });

  it("clause 15: many new keys are notified as created, few by digest, pending ones as created", async () => {
    const { writer, heard } = await pair();
    const rows = (from: number, count: number) => Array.from({ length: count }, (_, i) => ({ row: keyRow(from + i) }));
    await writer.insertKeys(rows(1, 16));
    expect(await heard()).toHaveLength(16);
    await writer.insertKeys(rows(100, 17));
    expect(await heard()).toEqual(["created"]);
    await writer.insertKeys(rows(100, 17));
    expect(await heard()).toEqual([]);
    const { digest: _, ...pending } = keyRow(200, { foreignDigest: "f", migrationId: "m" });
    await writer.insertKeys([{ row: keyRow(201) }, { row: pending }]);
    expect(await heard()).toEqual([{ digest: "digest-201" }, "created"]);
    const { ref } = (await writer.findForeignKey("m", "f"))!;
    await writer.adoptDigest(ref, "native");
    expect(await heard()).toEqual([{ digest: "native" }]);
    await writer.adoptDigest(ref, "again");
    expect(await heard()).toEqual([]);
  });

  it("a change of an API, workspace, role or permission is notified as all, once, and is seen; a new one is not notified", async () => {
    const { writer, reader, heard } = await pair();
    await writer.write([
      { table: "permissions", row: permission },
      { table: "roles", row: role },
      { table: "identities", row: identity },
      { table: "migrations", row: { id: "m", workspaceId: "ws_1", version: 0, algorithm: "sha256" } },
      { table: "apis", row: api({ id: "api_2" }) },
    ]);
    await writer.insertKeys([{ row: keyRow(1, { roles: ["role_1"], permissions: ["perm_1"] }) }]);
    expect(await heard()).toEqual([{ digest: "digest-1" }]);
    await writer.write([{ table: "migrations", remove: "m", version: 1 }]);
    expect(await heard()).toEqual([]);
    expect(await reader.findKey("digest-1")).toMatchObject({
      roles: ["reader"],
      permissions: ["docs.read"],
      parentDisabled: false,
    });
    await writer.write([
      { table: "permissions", row: { ...permission, version: 1, slug: "docs.write" } },
      { table: "roles", row: { ...role, version: 1, name: "writer" } },
    ]);
    expect(await reader.findKey("digest-1")).toMatchObject({ roles: ["reader"] });
    expect(await heard()).toEqual(["all"]);
    expect(await reader.findKey("digest-1")).toMatchObject({ roles: ["writer"], permissions: ["docs.write"] });
    await writer.write([{ table: "workspaces", row: { id: "ws_1", version: 0, enabled: false } }]);
    expect(await heard()).toEqual(["all"]);
    expect((await reader.findKey("digest-1"))?.parentDisabled).toBe(true);
    await writer.write([{ table: "apis", row: api({ version: 1, deleted: true }) }]);
    expect(await heard()).toEqual(["all"]);
    expect(await reader.findKey("digest-1")).toBeUndefined();
    await writer.write([{ table: "roles", remove: "role_1", version: 2 }]);
    expect(await heard()).toEqual(["all"]);
  });

  it("an id of a role or permission that did not exist is not remembered as absent", async () => {
    const store = await withApi(open(path()));
    await store.insertKeys([{ row: keyRow(1, { roles: ["role_1"], permissions: ["perm_1"] }) }]);
    expect(await store.findKey("digest-1")).toMatchObject({ roles: [], permissions: [] });
    await store.write([{ table: "permissions", row: permission }]);
    expect(await store.findKey("digest-1")).toMatchObject({ roles: [], permissions: ["docs.read"] });
    await store.write([{ table: "roles", row: role }]);
    expect(await store.findKey("digest-1")).toMatchObject({ roles: ["reader"], permissions: ["docs.read"] });
  });

  it("an identity tells the digests of its keys, and all when they are many", async () => {
    const { writer, heard } = await pair();
    await writer.write([{ table: "identities", row: identity }]);
    const { digest: _, ...pending } = keyRow(3, { foreignDigest: "f", migrationId: "m", identityId: "id_1" });
    const rows = [keyRow(1, { identityId: "id_1" }), keyRow(2), pending];
    await writer.insertKeys(rows.map((row) => ({ row })));
    await heard();
    await writer.write([{ table: "identities", row: { ...identity, version: 1, meta: { plan: "pro" } } }]);
    expect(await heard()).toEqual([{ digest: "digest-1" }]);
    expect((await writer.findKey("digest-1"))?.identity?.meta).toEqual({ plan: "pro" });
    await writer.write([{ table: "identities", remove: "id_1", version: 2 }]);
    expect(await heard()).toEqual([{ digest: "digest-1" }]);
    expect((await writer.findKey("digest-1"))?.identity).toBeUndefined();
    expect((await writer.readMany("keys", ["key_000001"]))[0]?.identityId).toBeUndefined();

    await writer.write([{ table: "identities", row: { ...identity, id: "id_2" } }]);
    await writer.insertKeys(Array.from({ length: 1_001 }, (_, i) => ({ row: keyRow(10 + i, { identityId: "id_2" }) })));
    await heard();
    await writer.write([{ table: "identities", row: { ...identity, id: "id_2", version: 1 } }]);
    expect(await heard()).toEqual(["all"]);
  });

  it("changes of this process may be notified twice, changes of others are never missed", async () => {
    const { writer, reader, heard } = await pair();
    await addKeys(writer, 2);
    await heard();
    await change(writer, "key_000001", { name: "by the writer" });
    await change(reader, "key_000002", { name: "by the reader" });
    expect(await heard()).toContainEqual({ digest: "digest-1" });
    await change(reader, "key_000001", { name: "by the reader" });
    await change(writer, "key_000001", { name: "by the writer again" });
    await heard();
    expect((await reader.findKey("digest-1"))?.name).toBe("by the writer again");
    await change(reader, "key_000001", { name: "own" });
    expect(await heard()).toEqual([{ digest: "digest-1" }]);
    expect(await heard()).toEqual([]);
  });

  it("a log that was pruned past what was seen, or went back, is notified as all", async () => {
    const { place, writer, heard } = await pair();
    await addKeys(writer, 1);
    await heard();
    inspect(place, (db) => db.exec("UPDATE keystile_changes SET seq = seq + 50000"));
    expect(await heard()).toEqual(["all"]);
    expect(await heard()).toEqual([]);
    inspect(place, (db) => db.exec("UPDATE keystile_changes SET seq = seq - 50000"));
    expect(await heard()).toEqual(["all"]);
    await change(writer, "key_000001", { name: "x" });
    expect(await heard()).toContainEqual({ digest: "digest-1" });
  });

  it("the log keeps its last 10,000 entries", async () => {
    const { place, writer, heard } = await pair();
    await addKeys(writer, 1);
    await heard();
    inspect(place, (db) => db.exec("INSERT INTO keystile_changes (seq, what) VALUES (20000, '=x')"));
    await change(writer, "key_000001", { name: "y" });
    expect(inspect(place, (db) => db.prepare("SELECT min(seq), max(seq) FROM keystile_changes").raw().get())).toEqual([
      20_000, 20_001,
    ]);
    expect(await heard()).toEqual(["all"]);
  });

  it("a listener that throws keeps the change from nobody, and its fault rises by itself", async () => {
    const store = await withApi(open(path()));
    const notified: Change[] = [];
    const rises = new Promise((resolve) => {
      const before = process.listeners("uncaughtException");
      process.removeAllListeners("uncaughtException");
      process.once("uncaughtException", (error) => {
        for (const listener of before) process.on("uncaughtException", listener);
        resolve(error);
      });
    });
    const fault = new Error("listener");
    store.subscribe(() => {
      throw fault;
    });
    store.subscribe((one) => notified.push(one));
    expect(await store.insertKeys([{ row: keyRow(1) }])).toEqual([true]);
    expect(notified).toEqual([{ digest: "digest-1" }]);
    expect(await rises).toBe(fault);
  });

  it("two stores on one handle hear of each other, and spend from one balance", async () => {
    const db = new Database(path());
    const one = await withApi(sqliteStore(db));
    const two = cachedStore(sqliteStore(db, { staleness: "call" }));
    const [ref] = await addKeys(one, 1, 10);
    expect((await two.findKey("digest-1"))?.enabled).toBe(true);
    await change(one, "key_000001", { enabled: false });
    expect((await two.findKey("digest-1"))?.enabled).toBe(false);
    for (let i = 0; i < 5; i++) {
      expect((await one.spendCredits(ref!, 1, 0, 0))?.remaining).toBe(9 - 2 * i);
      expect((await two.spendCredits(ref!, 1, 0, 0))?.remaining).toBe(8 - 2 * i);
    }
    expect((await one.spendCredits(ref!, 1, 0, 0))?.ok).toBe(false);
    db.close();
  });
});

describe("sqliteStore: when other processes are asked for", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["performance", "Date"] }));
  afterEach(() => void vi.useRealTimers());

  it("turn: at the first call of a turn, and again once 1 ms has passed inside it", async () => {
    const ask = vi.fn();
    const { pollChanges } = pollingOf(ask, "turn");
    await nextTurn();
    for (let i = 0; i < 5; i++) pollChanges();
    expect(ask).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(0.9);
    pollChanges();
    expect(ask).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(0.1);
    pollChanges();
    pollChanges();
    expect(ask).toHaveBeenCalledTimes(2);
    await nextTurn();
    pollChanges();
    expect(ask).toHaveBeenCalledTimes(3);
  });

  it("turn: every callback is a turn, of the check phase and of timers too", async () => {
    const ask = vi.fn();
    const { pollChanges } = pollingOf(ask, "turn");
    const turns = 6;
    await new Promise<void>((resolve) => {
      for (let i = 0; i < turns; i++) {
        setImmediate(() => {
          pollChanges();
          pollChanges();
          if (i === turns - 1) resolve();
        });
      }
    });
    expect(ask).toHaveBeenCalledTimes(turns);
    await Promise.all(
      Array.from({ length: 3 }, () => new Promise((resolve) => setTimeout(resolve, 0)).then(() => pollChanges())),
    );
    expect(ask.mock.calls.length).toBeGreaterThanOrEqual(turns + 3);
  });

  it("turn: the microtasks of one callback share an answer", async () => {
    const ask = vi.fn();
    const { pollChanges } = pollingOf(ask, "turn");
    await nextTurn();
    for (let i = 0; i < 100; i++) {
      pollChanges();
      await Promise.resolve();
    }
    expect(ask).toHaveBeenCalledTimes(1);
  });

  it("turn: by the caller's reading of the system's time, and a clock set back asks again", async () => {
    const ask = vi.fn();
    const { pollChanges } = pollingOf(ask, "turn");
    await nextTurn();
    for (const [now, asked] of [
      [1_000, 1],
      [1_000, 1],
      [1_001, 2],
      [1_001, 2],
      [999, 3],
      [999, 3],
    ] as const) {
      vi.setSystemTime(now);
      pollChanges(now);
      expect(ask).toHaveBeenCalledTimes(asked);
      // The other clock stands still.
      pollChanges();
      expect(ask).toHaveBeenCalledTimes(asked);
    }
  });

  it("a number: at most once in so many milliseconds", async () => {
    const ask = vi.fn();
    const { pollChanges } = pollingOf(ask, 250);
    pollChanges();
    await nextTurn();
    vi.advanceTimersByTime(249);
    pollChanges();
    expect(ask).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(1);
    pollChanges();
    expect(ask).toHaveBeenCalledTimes(2);
  });

  it("call: every time", () => {
    const ask = vi.fn();
    const { pollChanges } = pollingOf(ask, "call");
    pollChanges();
    pollChanges();
    expect(ask).toHaveBeenCalledTimes(2);
  });

  it.each(["turn", "call", 1000] as const)("%s: asking that fails counts as not asked", (staleness) => {
    const ask = vi.fn(() => {
      throw new Error("disk");
    });
    const { pollChanges } = pollingOf(ask, staleness);
    for (let i = 0; i < 3; i++) expect(() => pollChanges()).toThrow("disk");
    expect(ask).toHaveBeenCalledTimes(3);
  });

  it("each option bounds what a cached store believes", async () => {
    for (const [staleness, isStale] of [
      ["call", false],
      ["turn", true],
      [1000, true],
    ] as const) {
      const place = path();
      const writer = await withApi(open(place));
      await addKeys(writer, 1);
      const reader = cachedStore(open(place, { staleness }));
      await nextTurn();
      const row = (await writer.readMany("keys", ["key_000001"]))[0]!;
      expect((await reader.findKey("digest-1"))?.enabled).toBe(true);
      void writer.write([{ table: "keys", row: { ...row, enabled: false } }]);
      expect((await reader.findKey("digest-1"))?.enabled).toBe(isStale);
      await nextTurn();
      expect((await reader.findKey("digest-1"))?.enabled).toBe(staleness === 1000);
    }
  });

  it("asking that fails fails the call: nothing remembered is trusted", async () => {
    const db = new Database(":memory:");
    let broken = false;
    const handle = foreignHandle(db, (sql) => {
      if (broken && sql === "PRAGMA data_version") throw new Error("disk");
    });
    const store = await withApi(sqliteStore(handle, { staleness: "call" }));
    const cached = cachedStore(store);
    await addKeys(store, 1);
    expect(await refOf(cached, "digest-1")).toBe(1);
    broken = true;
    expect(await codeOf(() => cached.findKey("digest-1"))).toBe("STORE_FAILED");
    broken = false;
    expect(await refOf(cached, "digest-1")).toBe(1);
    db.close();
  });
});
