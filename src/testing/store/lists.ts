/** Lists, workspaces and deleted rows: clauses 16, 17 and 18. */
import type { ListQuery, Store, Table } from "../../contracts/store.js";
import { expect, faultOf } from "../expect.js";
import type { Clause } from "./bed.js";
import { api, identity, insert, keyRow, override, permission, role, WS } from "./rows.js";
import { change } from "./shared-steps.js";

const numberIn = (id: string) => Number(id.slice(4));
type Query = Partial<ListQuery>;

/** The ids of a page, of at most 100. */
const idsOf = async (store: Store, table: Table, query: Query) =>
  (await store.list(table, { workspaceId: WS, limit: 100, ...query })).map(({ id }) => id);

/** Those of all pages. */
async function idsOfAll(store: Store, table: Table, query: Query): Promise<string[]> {
  const listed: string[] = [];
  for (let after: string | undefined, pages = 0; pages < 100; pages++) {
    const ids = await idsOf(store, table, { ...query, ...(after !== undefined && { after }) });
    after = ids.at(-1);
    if (after === undefined) return listed;
    listed.push(...ids);
  }
  throw new Error("the list does not end");
}

export function listsClauses(clause: Clause): void {
  clause("clause 16: lists are ordered by id, start after the cursor and are bounded", async (store) => {
    await store.write([{ table: "apis", row: api({ id: "api_2" }) }]);
    await store.write([{ table: "identities", row: identity("user") }]);
    const rows = [5, 3, 1, 4, 2].map((n) => keyRow(n, n === 3 ? { identityId: "id_user" } : {}));
    await store.insertKeys([...rows, keyRow(6, { apiId: "api_2" })].map((row) => ({ row })));
    const ids = async (query: Query) => (await idsOf(store, "keys", query)).map(numberIn);
    expect(await ids({})).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await ids({ apiId: "api_1", limit: 2 })).toEqual([1, 2]);
    expect(await ids({ apiId: "api_1", limit: 2, after: "key_000002" })).toEqual([3, 4]);
    expect(await ids({ apiId: "api_1", after: "key_000005" })).toEqual([]);
    expect(await ids({ apiId: "api_2" })).toEqual([6]);
    expect(await ids({ identityId: "id_user" })).toEqual([3]);
    expect(await ids({ apiId: "api_2", identityId: "id_user" })).toEqual([]);
    for (const n of [2, 1, 3])
      await store.write([{ table: "permissions", row: permission(`slug ${3 - n}`, { id: `perm_${n}` }) }]);
    await store.write([{ table: "permissions", remove: "perm_2", version: 1 }]);
    await store.write([{ table: "permissions", row: permission("slug new", { id: "perm_0" }) }]);
    // The last of those that are looked at is there even if it does not hold the text: the next slice begins after it.
    for (const among of [1, 2, 10]) {
      const found = await idsOfAll(store, "permissions", { limit: 10, mayHold: { text: "SLUG 2", among } });
      expect(found.includes("perm_1")).toBe(true);
    }
    expect(await idsOf(store, "permissions", {})).toEqual(["perm_0", "perm_1", "perm_3"]);
  });

  clause("clause 16: lists are in the order of code units, so that their pages hold every row once", async (store) => {
    const ids = ["1", "2a", "B", "Bz", "Z", "_", "a", "aB", "aZ", "aa", "b", "z", "é", "日"].map((id) => `k${id}`);
    const mixed = ids.map((_, i) => ids[(i * 5) % ids.length]!);
    await store.insertKeys(mixed.map((id, n) => ({ row: keyRow(n, { id }) })));
    for (const id of mixed) await store.write([{ table: "roles", row: role(id, [], { id }) }]);
    for (const limit of [1, 3, 100]) {
      expect(await idsOfAll(store, "keys", { limit }), `keys by ${limit}`).toEqual(ids);
      expect(await idsOfAll(store, "keys", { apiId: "api_1", limit }), `keys of an API by ${limit}`).toEqual(ids);
      expect(await idsOfAll(store, "roles", { limit }), `roles by ${limit}`).toEqual(ids);
    }
  });

  clause("clause 16: lists leave deleted keys and APIs out, and show them again once they are not", async (store) => {
    await store.write([{ table: "identities", row: identity("user") }]);
    await store.write([{ table: "apis", row: api({ id: "api_2", deleted: true }) }]);
    const rows = Array.from({ length: 6 }, (_, i) => keyRow(i, { identityId: "id_user", deleted: i % 2 === 1 }));
    await store.insertKeys(rows.map((row) => ({ row })));
    const ids = async (query: Query) => (await idsOf(store, "keys", query)).map(numberIn);
    const queries = [{}, { apiId: "api_1" }, { identityId: "id_user" }, { apiId: "api_1", identityId: "id_user" }];
    for (const query of queries) expect(await ids(query)).toEqual([0, 2, 4]);
    for (const query of queries) expect(await ids({ ...query, limit: 2, after: "key_000000" })).toEqual([2, 4]);
    for (const n of [2, 3]) await change(store, "keys", keyRow(n).id, { deleted: n === 2 });
    for (const query of queries) expect(await ids(query)).toEqual([0, 3, 4]);
    expect((await store.findKey("digest-3"))?.identity?.externalId).toBe("user");
    await store.write([{ table: "keys", remove: keyRow(1).id, version: 1 }]);
    expect(await insert(store, keyRow(9, { digest: "digest-1" }))).toBe(true);
    expect(await idsOf(store, "apis", {})).toEqual(["api_1"]);
  });

  clause("clause 17: names of one workspace are unknown in another", async (store) => {
    await store.write([{ table: "roles", row: role("admin", []) }]);
    expect(await store.readNames("roles", "ws_2", ["admin"])).toEqual([]);
    const theirs = role("admin", [], { id: "role_2", workspaceId: "ws_2" });
    expect(await store.write([{ table: "roles", row: theirs }])).toBe("written");
    expect(await store.readNames("roles", "ws_2", ["admin"])).toMatchObject([{ id: "role_2" }]);
    expect(await store.list("roles", { workspaceId: "ws_2", limit: 10 })).toHaveLength(1);
    expect(await store.list("keys", { workspaceId: "ws_2", limit: 10 })).toEqual([]);
  });

  clause("clause 18: deleted keys, and keys of deleted APIs, are not found", async (store) => {
    await store.insertKeys([1, 2].map((n) => ({ row: keyRow(n, { foreignDigest: `f${n}`, migrationId: "m" }) })));
    await change(store, "keys", keyRow(1).id, { deleted: true });
    expect(await store.findKey("digest-1")).toBeUndefined();
    expect(await store.findForeignKey("m", "f1")).toBeUndefined();
    expect((await store.findKey("digest-2"))?.keyId).toBe("key_000002");
    await store.write([{ table: "apis", row: api({ version: 1, deleted: true }) }]);
    expect(await store.findKey("digest-2")).toBeUndefined();
    expect(await store.findForeignKey("m", "f2")).toBeUndefined();
  });

  clause("clause 18: a deleted API takes no more keys, however many they are", async (store) => {
    await store.write([
      { table: "apis", row: api({ version: 1, deleted: true }) },
      { table: "apis", row: api({ id: "api_2" }) },
    ]);
    const rows = Array.from({ length: 200 }, (_, n) => keyRow(n));
    rows[0] = { ...rows[0]!, apiId: "api_2" };
    for (const count of [2, rows.length]) {
      const fault = await faultOf(() => store.insertKeys(rows.slice(0, count).map((row) => ({ row }))));
      expect(fault, `of ${count}`).toMatchObject({ code: "NOT_FOUND" });
    }
    expect((await store.readMany("keys", [keyRow(0).id, keyRow(1).id])).every((row) => row === undefined)).toBe(true);
    expect(await store.insertKeys([{ row: rows[0] }])).toEqual([true]);
  });

  clause("clause 16: overrides are listed by namespace, whatever stands in their identifiers", async (store) => {
    const rows = [
      override("ns_1", "a", { id: "ov_2" }),
      override("ns_1", "ns_2 a", { id: "ov_1" }),
      override("ns_2", "a", { id: "ov_4" }),
      override("ns_2", "", { id: "ov_3" }),
      override("ns_1", "a", { id: "ov_5", workspaceId: "ws_2" }),
    ];
    for (const row of rows) expect(await store.write([{ table: "overrides", row }]), row.id).toBe("written");
    expect(await store.write([{ table: "overrides", row: override("ns_1", "a", { id: "ov_6" }) }])).toBe("taken");
    const ids = (query: Query) => idsOf(store, "overrides", query);
    expect(await ids({})).toEqual(["ov_1", "ov_2", "ov_3", "ov_4"]);
    expect(await ids({ namespaceId: "ns_1" })).toEqual(["ov_1", "ov_2"]);
    expect(await ids({ namespaceId: "ns_2", limit: 1 })).toEqual(["ov_3"]);
    expect(await ids({ namespaceId: "ns_2", after: "ov_3" })).toEqual(["ov_4"]);
    expect(await ids({ namespaceId: "ns" })).toEqual([]);
    expect(await ids({ namespaceId: "ns_1", workspaceId: "ws_2" })).toEqual(["ov_5"]);
    const named = await store.readNames("overrides", WS, ["ns_2 a", "ns_1 ns_2 a", "ns_9 a"]);
    expect(named).toMatchObject([{ id: "ov_4" }, { id: "ov_1" }]);
  });
}
