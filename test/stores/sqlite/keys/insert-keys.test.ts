import Database from "better-sqlite3";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { NewKey } from "../../../../src/contracts/store.js";
import { memoryStore } from "../../../../src/stores/memory.js";
import { sqliteStore } from "../../../../src/stores/sqlite/index.js";
import { createKeyedHash } from "../../../../src/stores/sqlite/keys/keyed-hash.js";
import { runs } from "../../../runs.js";
import { keyRow } from "../../suite.js";
import { codeOf, foreignHandle, inspect, openStores, temporaryPaths, withApi } from "../support.js";

const path = temporaryPaths();
const openStore = openStores();
const open = async (place = path()) => withApi(openStore(place));

/** Batches of at least 128 keys take the way of many. */
const MANY = 128;
const many = (from: number, count = MANY): NewKey[] =>
  Array.from({ length: count }, (_, i) => ({
    row: keyRow(from + i, { hasCredits: true }),
    balance: { remaining: from + i, amount: 1, period: 0 },
  }));
const IDENTITY = { id: "id_1", workspaceId: "ws_1", version: 0, externalId: "user", ratelimits: [] };

/** A few ids and texts, so that keys collide in every way. */
const aKey = fc
  .record({
    id: fc.nat(9),
    digest: fc.option(fc.nat(7), { nil: undefined }),
    foreign: fc.option(fc.nat(7), { nil: undefined }),
    identityId: fc.constantFrom(undefined, "id_1", "id_gone"),
    deleted: fc.boolean(),
    remaining: fc.option(fc.nat(100), { nil: undefined }),
    permissions: fc.constantFrom([], ["perm_1"], ["perm_1", "perm_2"]),
  })
  .map(({ id, digest, foreign, identityId, remaining, ...rest }): NewKey => {
    const { digest: _, ...bare } = keyRow(id);
    return {
      row: {
        ...bare,
        ...rest,
        hasCredits: remaining !== undefined,
        ...(digest !== undefined && { digest: `text-${digest}` }),
        ...(foreign !== undefined && { foreignDigest: `text-${foreign}`, migrationId: "m", hash: "h" }),
        ...(identityId !== undefined && { identityId }),
      },
      ...(remaining !== undefined && { balance: { remaining, amount: 3, period: 5 } }),
    };
  });

describe("sqliteStore.insertKeys: many at once", () => {
  it("clause 4: which keys go in, and what is found of them, is as in the memory store (property)", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(aKey, { maxLength: 40 }),
        fc.array(aKey, { maxLength: 10 }),
        fc.array(fc.nat(200), { maxLength: 40 }),
        async (clashing, before, positions) => {
          const batch = many(1_000);
          clashing.forEach((key, i) => batch.splice(positions[i] ?? 0, 0, key));
          const seen = [];
          for (const store of [await open(), memoryStore()]) {
            await withApi(store);
            await store.write([{ table: "identities", row: IDENTITY }]);
            const inserted = [await store.insertKeys(before), await store.insertKeys(batch)];
            const rows = [];
            for (const { row } of [...before, ...batch]) {
              const found = await store.findKey(row.digest ?? "");
              const foreign = await store.findForeignKey("m", row.foreignDigest ?? "");
              const read = (await store.readMany("keys", [row.id]))[0];
              rows.push(
                read?.identityId === "id_gone"
                  ? { ...read, identityId: undefined }
                  : { identityId: undefined, ...read },
              );
              rows.push(
                found?.keyId,
                found?.identity,
                foreign?.keyId,
                (await store.readBalances([{ keyId: row.id, period: 7 }], 0))[0],
              );
            }
            const listed = await store.list("keys", { workspaceId: "ws_1", identityId: "id_1", limit: 1_000 });
            seen.push({ inserted, rows, listed: listed.map(({ id }) => id) });
          }
          expect(seen[0]).toEqual(seen[1]);
        },
      ),
      { numRuns: runs(40) },
    );
  });

  it("clause 2: texts that share a hash are distinguished", async () => {
    const place = path();
    const store = await open(place);
    await store.insertKeys(many(1));
    // As if the texts of two new keys had the hashes of two old ones.
    inspect(place, (db) => {
      const hash = createKeyedHash(db);
      for (const [text, old] of [
        ["digest-501", "digest-1"],
        ["digest-510", "digest-9"],
      ] as const) {
        for (const table of ["keystile_key_index", "keystile_key_index_recent"])
          db.exec(`UPDATE ${table} SET hash = ${hash(text)} WHERE hash = ${hash(old)}`);
      }
    });
    expect((await store.insertKeys(many(500))).every(Boolean)).toBe(true);
    for (const n of [501, 510, 500, 627]) expect((await store.findKey(`digest-${n}`))?.keyId).toBe(keyRow(n).id);
    expect((await store.insertKeys(many(500))).some(Boolean)).toBe(false);
  });

  it("clause 10: lists that many keys share are written as they are at each call", async () => {
    const store = await open();
    const permissions = ["perm_1"];
    const roles: string[] = [];
    const sharing = (from: number) =>
      many(from).map(({ row }) => ({ row: { ...row, permissions, roles, hasCredits: false } }));
    await store.insertKeys(sharing(1));
    permissions.push("perm_2");
    roles.push("role_1");
    await store.insertKeys(sharing(500));
    expect((await store.readMany("keys", [keyRow(MANY).id]))[0]).toMatchObject({ permissions: ["perm_1"], roles: [] });
    expect((await store.readMany("keys", [keyRow(500).id]))[0]).toMatchObject({
      permissions: ["perm_1", "perm_2"],
      roles: ["role_1"],
    });
  });

  it("a balance that is not a number fails the transaction, and nothing of it went in", async () => {
    const store = await open();
    const keys = many(1);
    keys[3] = { ...keys[3]!, balance: { remaining: NaN, amount: 0, period: 0 } };
    expect(await codeOf(() => store.insertKeys(keys))).toBe("STORE_FAILED");
    expect(await store.findKey("digest-1")).toBeUndefined();
    keys[3] = { ...many(1)[3]!, row: keyRow(4, { apiId: "api_unknown" }) };
    expect(await codeOf(() => store.insertKeys(keys))).toBe("NOT_FOUND");
    expect((await store.insertKeys(many(1))).every(Boolean)).toBe(true);
    expect((await store.readBalances([{ keyId: keyRow(9).id, period: 0 }], 0))[0]?.remaining).toBe(9);
  });

  it("a fault of the disk is no key that is there already", async () => {
    const db = new Database(path());
    let isFull = false;
    const handle = foreignHandle(db, (sql) => {
      if (isFull && sql.startsWith("INSERT INTO keystile_keys"))
        throw Object.assign(new Error("full"), { code: "SQLITE_FULL" });
    });
    const store = await withApi(sqliteStore(handle));
    isFull = true;
    expect(await codeOf(() => store.insertKeys(many(1)))).toBe("STORE_FULL");
    isFull = false;
    expect((await store.insertKeys(many(1))).every(Boolean)).toBe(true);
    await store.close();
    db.close();
  });

  it("numbers go on where single keys left off, also once the last key is gone", async () => {
    const store = await open();
    const refs: number[] = [];
    const refOf = async (n: number) => refs.push((await store.findKey(`digest-${n}`))!.ref as number);
    await store.insertKeys([{ row: keyRow(1) }]);
    await refOf(1);
    await store.insertKeys(many(10));
    await refOf(10 + MANY - 1);
    await store.write([{ table: "keys", remove: keyRow(10 + MANY - 1).id, version: 1 }]);
    await store.insertKeys([{ row: keyRow(500) }]);
    await refOf(500);
    await store.insertKeys(many(1_000));
    await refOf(1_000);
    expect(refs).toEqual([1, 1 + MANY, 2 + MANY, 3 + MANY]);
  });

  it("more identities than are remembered, each with its keys", async () => {
    const store = await open();
    const COUNT = 10_100;
    const identityOf = (n: number) => ({ ...IDENTITY, id: `id_${n}`, externalId: `user_${n}` });
    await store.write(Array.from({ length: COUNT }, (_, n) => ({ table: "identities" as const, row: identityOf(n) })));
    const keys = Array.from({ length: COUNT + 200 }, (_, n) => ({ row: keyRow(n, { identityId: `id_${n % COUNT}` }) }));
    expect((await store.insertKeys(keys)).every(Boolean)).toBe(true);
    for (const n of [0, 1, 199, 5_000, COUNT - 1])
      expect((await store.findKey(`digest-${n}`))?.identity?.externalId).toBe(`user_${n}`);
    expect((await store.findKey(`digest-${COUNT + 7}`))?.identity?.externalId).toBe("user_7");
  });
});
