import { fork } from "node:child_process";
import Database from "better-sqlite3";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { KeyRow } from "../../../../src/contracts/store.js";
import { type SqliteStore } from "../../../../src/stores/sqlite/index.js";
import { createKeyedHash } from "../../../../src/stores/sqlite/keys/keyed-hash.js";
import { decodeFullKey, encodeBody, encodeGrants } from "../../../../src/stores/codec/key-codec.js";
import { rowFields } from "../../../records.js";
import { keyRow } from "../../suite.js";
import { api, change, inspect, openStores, temporaryPaths, withApi } from "../support.js";

const path = temporaryPaths();
const openStore = openStores();
const open = (place = path()) => openStore(place);
const imported = (n: number, foreignDigest: string, over: Partial<KeyRow> = {}): KeyRow => {
  const { digest: _, ...row } = keyRow(n, { foreignDigest, migrationId: "m", hash: foreignDigest, ...over });
  return row;
};

describe("createKeyedHash", () => {
  const hashesOf = (secret: string) => {
    const db = new Database(":memory:");
    db.exec("CREATE TABLE keystile_secrets (name, secret)");
    db.prepare("INSERT INTO keystile_secrets VALUES ('key_index', unhex(?))").run(secret);
    return createKeyedHash(db);
  };

  it("is part of the form of the file: the numbers of a secret never change", () => {
    expect(["", "a", "digest-1", "é"].map(hashesOf("0".repeat(64)))).toEqual([
      53258364704970, 66809306448650, 32378561773343, 35077783528196,
    ]);
  });

  it("is a whole number below 2^47, rarely the same for two texts, and another with another secret", () => {
    const [one, other] = [hashesOf("1".repeat(64)), hashesOf("2".repeat(64))];
    const seen = new Set<number>();
    for (let i = 0; i < 100_000; i++) {
      const hash = one(`digest-${i}`);
      if (!(Number.isInteger(hash) && hash >= 0 && hash < 2 ** 47)) throw new Error(`${hash}`);
      seen.add(hash);
      seen.add(other(`digest-${i}`));
    }
    expect(seen.size).toBeGreaterThan(199_998);
  });
});

describe("sqliteStore: keys", () => {
  it("clause 2: two digests that share a hash are two keys", async () => {
    const place = path();
    const store = await withApi(open(place));
    await store.insertKeys([{ row: keyRow(1) }, { row: imported(2, "f2") }]);
    // As if the second text had the hash of the first.
    inspect(place, (db) => {
      const hash = createKeyedHash(db);
      db.exec(`UPDATE keystile_key_index SET hash = ${hash("twin")} WHERE hash = ${hash("digest-1")}`);
      db.exec(`UPDATE keystile_key_index SET hash = ${hash("twin-f")} WHERE hash = ${hash("f2")}`);
    });
    expect(await store.findKey("twin")).toBeUndefined();
    expect(await store.findForeignKey("m", "twin-f")).toBeUndefined();
    expect(await store.insertKeys([{ row: keyRow(3, { digest: "twin" }) }, { row: imported(4, "twin-f") }])).toEqual([
      true,
      true,
    ]);
    expect((await store.findKey("twin"))?.keyId).toBe("key_000003");
    expect((await store.findForeignKey("m", "twin-f"))?.keyId).toBe("key_000004");
  });

  it("a key that would share its hash with eight others is refused, and the others stay found", async () => {
    const place = path();
    const store = await withApi(open(place));
    await store.insertKeys(Array.from({ length: 9 }, (_, i) => ({ row: keyRow(i + 1) })));
    inspect(place, (db) => {
      const hash = createKeyedHash(db);
      db.exec(`UPDATE keystile_key_index SET hash = ${hash("digest-20")}`);
    });
    expect(await store.insertKeys([{ row: keyRow(20) }, { row: keyRow(21) }])).toEqual([false, true]);
    expect(await store.write([{ table: "keys", row: keyRow(20) }])).toBe("taken");
  });

  it("a hash that is also the native digest is found both ways, and taken both ways", async () => {
    const place = path();
    const store = await withApi(open(place));
    const both = (n: number, text: string) => keyRow(n, { digest: text, foreignDigest: text, migrationId: "m" });
    expect(await store.insertKeys([{ row: both(1, "d1") }])).toEqual([true]);
    expect((await store.findKey("d1"))?.keyId).toBe("key_000001");
    expect((await store.findForeignKey("m", "d1"))?.keyId).toBe("key_000001");
    expect(await store.findForeignKey("other", "d1")).toBeUndefined();
    expect(inspect(place, (db) => db.prepare("SELECT count(*) FROM keystile_key_index").pluck().get())).toBe(1);
    expect(await store.insertKeys([{ row: imported(2, "d1") }, { row: keyRow(3, { digest: "d1" }) }])).toEqual([
      false,
      false,
    ]);
    expect(await store.insertKeys([{ row: imported(4, "d4") }, { row: both(5, "d4") }])).toEqual([true, false]);
    // The digest leaves, the hash stays.
    const row = (await store.readMany("keys", ["key_000001"]))[0]!;
    await store.write([{ table: "keys", row: { ...row, digest: "d1-new" } }]);
    expect(await store.findKey("d1")).toBeUndefined();
    expect((await store.findForeignKey("m", "d1"))?.keyId).toBe("key_000001");
    expect(await store.insertKeys([{ row: keyRow(6, { digest: "d1" }) }])).toEqual([true]);
  });

  it("clause 13: a change that takes another key's digest or hash is refused", async () => {
    const store = await withApi(open());
    await store.insertKeys([
      { row: keyRow(1) },
      { row: keyRow(2) },
      { row: imported(3, "f3") },
      { row: imported(4, "f4") },
    ]);
    const attempt = async (id: string, over: Partial<KeyRow>) =>
      store.write([{ table: "keys", row: { ...(await store.readMany("keys", [id]))[0]!, ...over } }]);
    expect(await attempt("key_000001", { digest: "digest-2" })).toBe("taken");
    expect(await attempt("key_000003", { foreignDigest: "f4" })).toBe("taken");
    expect(await attempt("key_000001", { digest: "digest-1", name: "same" })).toBe("written");
    expect(await attempt("key_000003", { digest: "digest-3" })).toBe("written");
    expect(await store.adoptDigest((await store.findForeignKey("m", "f4"))!.ref, "digest-3")).toBe(false);
    expect(await store.write([{ table: "keys", row: keyRow(9, { digest: "digest-2" }) }])).toBe("taken");
    expect(await store.write([{ table: "keys", row: keyRow(9) }])).toBe("written");
    expect(await attempt("key_unknown", {})).toBe("conflict");
    expect(await store.write([{ table: "keys", remove: "unknown", version: 1 }])).toBe("conflict");
    expect(await store.write([{ table: "identities", remove: "unknown", version: 1 }])).toBe("conflict");
    expect(await store.insertKeys([{ row: keyRow(1, { digest: "another" }) }])).toEqual([false]);
    expect(await store.findKey("another")).toBeUndefined();
    const unknown = { id: "id_unknown", workspaceId: "ws_1", version: 1, externalId: "x", ratelimits: [] };
    expect(await store.write([{ table: "identities", row: unknown }])).toBe("conflict");
    // A digest and a hash of the same text are two things, though they share a place.
    expect(await store.insertKeys([{ row: imported(20, "digest-1") }, { row: keyRow(21, { digest: "f4" }) }])).toEqual([
      true,
      true,
    ]);
    expect((await store.findKey("digest-1"))?.keyId).toBe("key_000001");
    expect((await store.findForeignKey("m", "digest-1"))?.keyId).toBe("key_000020");
  });

  it("adopting counts as a change: an older row is refused afterwards", async () => {
    const store = await withApi(open());
    await store.insertKeys([{ row: imported(1, "f") }]);
    const before = (await store.readMany("keys", ["key_000001"]))[0]!;
    await store.adoptDigest((await store.findForeignKey("m", "f"))!.ref, "native");
    expect(await store.write([{ table: "keys", row: { ...before, name: "late" } }])).toBe("conflict");
    expect((await store.readMany("keys", ["key_000001"]))[0]).toEqual({ ...before, digest: "native", version: 2 });
    expect((await store.findForeignKey("m", "f"))?.unadopted).toBe(false);
  });

  it("clause 4: a batch of any length goes in, in transactions that leave the event loop its turns", async () => {
    const store = await withApi(open());
    let turns = 0;
    let isDone = false;
    const count = () => {
      turns++;
      if (!isDone) setImmediate(count);
    };
    setImmediate(count);
    const keys = Array.from({ length: 2_500 }, (_, i) => ({ row: keyRow(i % 2_400) }));
    const inserted = await store.insertKeys(keys);
    isDone = true;
    expect(inserted.filter(Boolean)).toHaveLength(2_400);
    expect(turns).toBeGreaterThanOrEqual(2);
    expect(await store.insertKeys([])).toEqual([]);
  });

  it("keys of large batches are found wherever their places are, and listed once", async () => {
    const place = path();
    const store = await withApi(open(place));
    const identities = ["few", "many"].map((id) => ({
      id,
      workspaceId: "ws_1",
      version: 0,
      externalId: id,
      ratelimits: [],
    }));
    await store.write(identities.map((row) => ({ table: "identities" as const, row })));
    const ofMany = (n: number) => n % 100 !== 0;
    const row = (n: number) => ({ ...imported(n, `f-${n}`), digest: `d-${n}`, identityId: ofMany(n) ? "many" : "few" });
    const counts = () =>
      inspect(place, (db) =>
        ["key_index", "key_index_recent"].map(
          (table) => db.prepare(`SELECT count(*) FROM keystile_${table}`).pluck().get() as number,
        ),
      );
    const BATCH = 1_000;
    const BATCHES = 56;
    for (let i = 0; i < BATCHES; i++) {
      const keys = Array.from({ length: BATCH }, (_, k) => ({ row: row(i * BATCH + k) }));
      expect((await store.insertKeys(keys)).every(Boolean)).toBe(true);
      // Three entries a key; the small table stops growing, but for where the carrying over begins anew.
      const [settled = 0, fresh = 0] = counts();
      expect(settled + fresh).toBe(3 * BATCH * (i + 1));
      expect(fresh).toBeLessThanOrEqual(48_000 + 4_096);
    }
    expect(counts()[0]).toBeGreaterThan(0);
    for (let n = 0; n < BATCH * BATCHES; n += 7) {
      if (
        (await store.findKey(`d-${n}`))?.keyId !== row(n).id ||
        (await store.findForeignKey("m", `f-${n}`))?.keyId !== row(n).id
      )
        throw new Error(`key ${n} was lost`);
    }
    expect(await store.insertKeys([{ row: row(5) }, { row: { ...row(6), id: "key_other" } }])).toEqual([false, false]);
    const few = await store.list("keys", { workspaceId: "ws_1", identityId: "few", limit: 1_000 });
    expect(few.map(({ id }) => id)).toEqual(Array.from({ length: BATCHES * 10 }, (_, i) => row(i * 100).id).sort());
    expect(await store.list("keys", { workspaceId: "ws_1", identityId: "many", limit: 100_000 })).toHaveLength(
      BATCH * BATCHES - BATCHES * 10,
    );
    const notified: unknown[] = [];
    store.subscribe((one) => notified.push(one));
    await store.write([{ table: "identities", row: { ...identities[0]!, version: 1 } }]);
    expect(new Set(notified.splice(0).map((one) => (one as { digest: string }).digest)).size).toBe(BATCHES * 10);

    // Whatever leaves, leaves no place behind.
    const last = BATCH * BATCHES - 1;
    await change(store, row(last - 1).id, { name: "changed" });
    for (const n of [0, 100, last]) await store.write([{ table: "keys", remove: row(n).id, version: 1 }]);
    await change(store, row(200).id, { digest: "d-200-new", identityId: "many" });
    await store.write([{ table: "identities", remove: "many", version: 1 }]);
    expect(await store.findKey("d-100")).toBeUndefined();
    expect(await store.findKey("d-200")).toBeUndefined();
    expect((await store.findKey("d-200-new"))?.identity).toBeUndefined();
    const [settled = 0, fresh = 0] = counts();
    expect(settled + fresh).toBe(2 * (BATCH * BATCHES - 3) + BATCHES * 10 - 3);
  });

  it("clause 10: nothing that a find answers is the store's own", async () => {
    const store = await withApi(open());
    await restricted(store);
    const first = (await store.findKey("digest-1"))! as unknown as Record<string, unknown[]>;
    for (const list of [first["permissions"]!, first["roles"]!, first["ipAllowlists"]![0] as unknown[]]) {
      expect(() => list.push("x")).toThrow(TypeError);
    }
    const own = (await store.readMany("keys", ["key_000001"]))[0]! as unknown as Record<string, unknown[]>;
    own["permissions"]!.push("perm_2");
    expect((await store.findKey("digest-1"))?.permissions).toEqual(["docs.read"]);
    expect((await store.readMany("keys", ["key_000001"]))[0]?.permissions).toEqual(["perm_1"]);
  });

  it("clause 3: any row is read back as it was written", () => {
    const columns = ["id", "version", "workspaceId", "apiId", "digest", "foreignDigest", "identityId", "lastUsedAt"];
    const arbitrary = rowFields(columns as (keyof KeyRow)[]);
    fc.assert(
      fc.property(arbitrary, (fields) => {
        const row: KeyRow = { ...keyRow(1), ...fields };
        const raw = {
          n: 1,
          id: row.id,
          api: 1,
          version: row.version,
          digest: row.digest!,
          foreignDigest: null,
          body: encodeBody(row),
          grants: encodeGrants(row),
          identityId: null,
          externalId: null,
          identityBody: null,
          identityAccount: null,
          account: null,
          lastUsedAt: null,
        };
        const read = decodeFullKey(raw, api());
        expect(read).toEqual(row);
        expect(JSON.stringify(read.meta)).toBe(JSON.stringify(row.meta));
      }),
    );
  });

  it("clause 16: lists by identity and API together, in the order of ids, from the cursor on", async () => {
    const store = await withApi(open());
    const identity = { id: "id_1", workspaceId: "ws_1", version: 0, externalId: "user", ratelimits: [] };
    await store.write([
      { table: "identities", row: identity },
      { table: "apis", row: api({ id: "api_2" }) },
      { table: "apis", row: api({ id: "api_other", workspaceId: "ws_2" }) },
    ]);
    const rows = [9, 4, 7, 1].map((n) => keyRow(n, { identityId: "id_1", apiId: n === 7 ? "api_2" : "api_1" }));
    await store.insertKeys(
      [...rows, keyRow(2), keyRow(3, { apiId: "api_other", workspaceId: "ws_2" })].map((row) => ({ row })),
    );
    const ids = async (query: object) =>
      (await store.list("keys", { workspaceId: "ws_1", limit: 10, ...query })).map(({ id }) => Number(id.slice(4)));
    expect(await ids({ identityId: "id_1" })).toEqual([1, 4, 7, 9]);
    expect(await ids({ identityId: "id_1", apiId: "api_1", after: "key_000001" })).toEqual([4, 9]);
    expect(await ids({ identityId: "id_1", limit: 2 })).toEqual([1, 4]);
    expect(await ids({})).toEqual([1, 2, 4, 7, 9]);
    expect(await ids({ apiId: "api_other" })).toEqual([]);
    expect(await ids({ workspaceId: "ws_2" })).toEqual([3]);
    expect(await store.list("apis", { workspaceId: "ws_1", limit: 10 })).toHaveLength(2);
  });

  it("a key whose identity was deleted meanwhile goes in without one", async () => {
    const store = await withApi(open());
    expect(await store.insertKeys([{ row: keyRow(1, { identityId: "id_gone" }) }])).toEqual([true]);
    expect((await store.readMany("keys", ["key_000001"]))[0]?.identityId).toBeUndefined();
  });

  it("more roles than are remembered still flatten", async () => {
    const store = await withApi(open());
    const names = Array.from({ length: 10_050 }, (_, i) => `r${i}`);
    await store.write(
      names.map((name) => ({
        table: "roles" as const,
        row: { id: name, workspaceId: "ws_1", version: 0, name, permissions: [] },
      })),
    );
    await store.insertKeys([{ row: keyRow(1, { roles: names }) }]);
    expect((await store.findKey("digest-1"))?.roles).toHaveLength(10_050);
    await change(store, "key_000001", { roles: ["r7", "r7", "r3"] });
    expect((await store.findKey("digest-1"))?.roles).toEqual(["r3", "r7"]);
  });

  it("processes that open a new file together make one set of tables", async () => {
    const place = path();
    const program = new URL("open-and-insert.ts", import.meta.url).pathname;
    const exits = Array.from({ length: 4 }, (_, i) => {
      const child = fork(program, [place, String(i)], { execArgv: ["--import", "tsx"] });
      return new Promise<number | null>((resolve) => child.on("exit", resolve));
    });
    expect(await Promise.all(exits)).toEqual([0, 0, 0, 0]);
    const store = open(place);
    expect(await store.list("keys", { workspaceId: "ws_1", limit: 10 })).toHaveLength(4);
  });
});

/** Adds a key with a permission behind an API with an allow-list. */
async function restricted(store: SqliteStore): Promise<void> {
  await store.write([
    { table: "permissions", row: { id: "perm_1", workspaceId: "ws_1", version: 0, name: "p", slug: "docs.read" } },
    { table: "apis", row: api({ version: 1, ipAllowlist: ["10.0.0.0/8"] }) },
  ]);
  await store.insertKeys([{ row: keyRow(1, { permissions: ["perm_1"] }) }]);
}
