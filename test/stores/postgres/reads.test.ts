/** What is particular to how keys and rows are read from PostgreSQL and written to it. */
import { expect, it } from "vitest";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { postgresStore } from "../../../src/stores/postgres/index.js";
import { api, identity, insert, keyRow, permission, role, WS } from "../../../src/testing/store/rows.js";
import { pglite } from "./support.js";

const { server, open, newSchema } = pglite();

it("a key whose row cannot be read fails its own finds, and no others of the same turn", async () => {
  const schema = newSchema();
  const store = postgresStore(server, { schema });
  await store.setUp();
  await store.write([{ table: "apis", row: api() }]);
  for (let n = 0; n < 4; n++) await insert(store, keyRow(n));
  await store.write([{ table: "roles", row: role("broken", []) }]);
  await insert(store, keyRow(4, { roles: ["role_broken"] }));
  await server.exec(`UPDATE ${schema}.keys SET body = '{}' WHERE id = '${keyRow(1).id}';
    UPDATE ${schema}.keys SET grants = '[[' WHERE id = '${keyRow(2).id}';
    UPDATE ${schema}.entities SET body = '{}' WHERE kind = 'roles'`);
  const finds = [0, 1, 2, 3, 4, 5, 0].map(async (n) => (await store.findKey(`digest-${n}`))?.keyId);
  expect((await Promise.allSettled(finds)).map((one) => (one.status === "rejected" ? "failed" : one.value))).toEqual([
    keyRow(0).id,
    "failed",
    "failed",
    keyRow(3).id,
    "failed",
    undefined,
    keyRow(0).id,
  ]);
  await store.close();
});

it("an actor in the audit trail that PostgreSQL cannot store keeps nobody from a change", async () => {
  const schema = newSchema();
  const store = postgresStore(server, { schema });
  await store.setUp();
  for (const actor of ["nul\0", "half\ud800"]) {
    const keyring = createKeyring(store, { actor });
    const { apiId } = await keyring.createApi({ name: "docs" });
    await keyring.createKey({ apiId });
  }
  const { rows } = await server.query(`SELECT DISTINCT actor FROM ${schema}.audit ORDER BY 1`);
  expect(rows).toEqual([{ actor: "half\ufffd" }, { actor: "nul" }]);
  await store.close();
});

it("every time that a date of JavaScript has is stored", async () => {
  const [store] = await open(1);
  await store!.write([{ table: "apis", row: api() }]);
  const times = [-8_640_000_000_000_000, -210_866_803_200_001, -210_866_803_200_000, -1, 8_640_000_000_000_000];
  for (const [n, time] of times.entries()) {
    expect(await insert(store!, keyRow(n, { createdAt: time, expires: time }))).toBe(true);
    expect((await store!.readMany("keys", [keyRow(n).id]))[0]).toMatchObject({ createdAt: time, expires: time });
  }
  await store!.close();
});

it("a search returns rows that may hold the text, and the last that it looked at", async () => {
  const [store] = await open(1);
  const slugs = ["one", "Two SEARCHED", "three", "\u212Aelvin", 'quoted "searched"', "last", "next searched"];
  for (const [n, slug] of slugs.entries())
    await store!.write([
      { table: "permissions", row: permission(slug, { id: `perm_${n}`, description: `Größe ${n}` }) },
    ]);
  for (let n = 0; n < 3; n++) await store!.write([{ table: "identities", row: identity(`user ${n}`) }]);
  const found = async (table: "permissions" | "identities", text: string, among: number, limit = 10) =>
    (await store!.list(table, { workspaceId: WS, limit, mayHold: { text, among } })).map(({ id }) => id);
  expect(await found("permissions", "SEARCHED", 6)).toEqual(["perm_1", "perm_4", "perm_5"]);
  expect(await found("permissions", "SEARCHED", 6, 1)).toEqual(["perm_1"]);
  expect(await found("permissions", "größe 3", 7)).toEqual(["perm_3", "perm_6"]);
  // A text that other forms of a letter hold too is looked for without that letter.
  expect(await found("permissions", "kelvin", 7)).toEqual(["perm_3", "perm_6"]);
  expect(await found("permissions", "%", 7)).toEqual(["perm_6"]);
  expect(await found("permissions", "\0", 2)).toEqual(["perm_0", "perm_1"]);
  expect(await found("identities", "R 1", 3)).toEqual(["id_user 1", "id_user 2"]);
  const keyring = createKeyring(store!, { workspaceId: WS });
  const all = await keyring.listPermissions({ search: "KELVIN" });
  expect(all.data.map(({ id }) => id)).toEqual(["perm_3"]);
  await store!.close();
});
