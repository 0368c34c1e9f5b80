/** What is particular to how keys and rows are read from PostgreSQL and written to it. */
import { expect, it } from "vitest";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { type PostgresClient, postgresStore } from "../../../src/stores/postgres/index.js";
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

it("the view has the state of the owner beside that of the key", async () => {
  const schema = newSchema();
  const store = postgresStore(server, { schema });
  await store.setUp();
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  await keyring.createIdentity({ externalId: "off", enabled: false, expires: Date.UTC(2100, 0, 1) });
  for (const externalId of ["off", "on", undefined])
    await keyring.createKey({ apiId, ...(externalId !== undefined && { externalId }) });
  const { rows } = await server.query(
    `SELECT external_id, enabled, owner_enabled, owner_expires FROM ${schema}.key_overview ORDER BY external_id`,
  );
  expect(rows.map((row) => Object.values(row as object))).toEqual([
    ["off", true, false, new Date(Date.UTC(2100, 0, 1))],
    ["on", true, true, null],
    [null, true, null, null],
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

it("audit rows: the workspaces above an equal share pay, and a trail that people empty is counted anew", async () => {
  const schema = newSchema();
  const store = postgresStore(server, { schema, audit: { rows: 12 } });
  await store.setUp();
  const counts = async () => {
    const { rows } = await server.query(
      `SELECT workspace_id AS id, count(*)::integer AS n FROM ${schema}.audit GROUP BY 1 ORDER BY 1`,
    );
    return Object.fromEntries((rows as { id: string; n: number }[]).map(({ id, n }) => [id, n]));
  };
  const change = async (workspaceId: string, times: number) => {
    const keyring = createKeyring(store, { workspaceId });
    for (let i = 0; i < times; i++) await keyring.updateWorkspace({ enabled: i % 2 === 0 });
  };
  await change("ws_a", 3);
  await change("ws_b", 20);
  expect(await counts()).toEqual({ ws_a: 3, ws_b: 9 });
  await change("ws_c", 10);
  expect(await counts()).toEqual({ ws_a: 3, ws_b: 4, ws_c: 5 });
  await Promise.all(["ws_d", "ws_e", "ws_f"].map((id) => change(id, 4)));
  const held = Object.values(await counts());
  expect(held.reduce((sum, n) => sum + n)).toBe(12);
  expect(Math.min(...held)).toBe(2);
  await server.query(`TRUNCATE ${schema}.audit`);
  await change("ws_a", 8);
  // It was enabled already.
  expect(await counts()).toEqual({ ws_a: 7 });
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

it("an import of which a statement fails sends no more, and settles once nothing of it is in flight", async () => {
  const schema = newSchema();
  const made = postgresStore(server, { schema });
  await made.setUp();
  await made.write([{ table: "apis", row: api() }]);
  let sent = 0;
  let answer: () => void = () => undefined;
  const held = new Promise<void>((resolve) => (answer = resolve));
  const client: PostgresClient = {
    async query(text, values) {
      if (text.includes("insert_keys_v1")) {
        if (++sent === 1) throw Object.assign(new Error(), { code: "57014" });
        await held;
      }
      return server.query(text, values);
    },
  };
  const store = postgresStore(client, { schema });
  await store.pollChanges("anew");
  const BATCH = 1_000;
  let isSettled = false;
  const keys = Array.from({ length: 4 * BATCH }, (_, n) => ({ row: keyRow(n) }));
  const importing = Promise.resolve(store.insertKeys(keys)).catch((error: unknown) => {
    isSettled = true;
    return error;
  });
  await new Promise(setImmediate);
  await server.query("SELECT 1");
  expect(isSettled).toBe(false);
  answer();
  expect(await importing).toMatchObject({ code: "STORE_BUSY" });
  await store.close();
  expect(sent).toBe(2);
  const { rows } = await server.query(`SELECT count(*)::int AS n FROM ${schema}.keys`);
  expect(rows).toEqual([{ n: BATCH }]);
  await made.close();
});

it("an import of which one statement has an unknown outcome says so, whatever else failed first", async () => {
  const schema = newSchema();
  const made = postgresStore(server, { schema });
  await made.setUp();
  let sent = 0;
  const client: PostgresClient = {
    async query(text, values) {
      if (!text.includes("insert_keys_v1")) return server.query(text, values);
      if (++sent === 1) throw Object.assign(new Error(), { code: "57014" });
      await new Promise(setImmediate);
      throw new Error("the connection was lost");
    },
  };
  const store = postgresStore(client, { schema });
  await store.pollChanges("anew");
  const keys = Array.from({ length: 2_000 }, (_, n) => ({ row: keyRow(n) }));
  await expect(store.insertKeys(keys)).rejects.toMatchObject({ code: "STORE_UNAVAILABLE", outcomeUnknown: true });
  await store.close();
  await made.close();
});

it("what counts idempotency records of a workspace goes once it has none", async () => {
  const schema = newSchema();
  const store = postgresStore(server, { schema });
  await store.setUp();
  const bounds = { maxRecords: 10, maxPerWorkspace: 10 };
  const once = (workspaceId: string, now: number, until: number) =>
    store.spendOnce(undefined, 0, {
      ...{ cost: 0, now },
      once: { record: { workspaceId, id: `of ${workspaceId}`, body: "b", until }, bounds },
    });
  await once("ws_gone", 0, 5);
  await once("ws_here", 0, 50);
  const counted = async () => {
    await server.query(`SELECT ${schema}.prune_v1('1 hour')`);
    const { rows } = await server.query<object>(
      `SELECT workspace_id, records::int FROM ${schema}.idempotency_counts ORDER BY 1`,
    );
    return rows;
  };
  const here = { workspace_id: "ws_here", records: 1 };
  expect(await counted()).toEqual([{ workspace_id: "ws_gone", records: 1 }, here]);
  await once("ws_later", 10, 50);
  expect(await counted()).toEqual([here, { workspace_id: "ws_later", records: 1 }]);
  expect(await once("ws_gone", 10, 50)).toMatchObject({ outcome: "done" });
  expect(await counted()).toHaveLength(3);
  await store.close();
});

it.each([
  ["idempotency_counts", "records = -1"],
  ["leases", "held = -1"],
])("a row of %s that does not keep the rules of its table is not said to be one of credits", async (table, change) => {
  const schema = newSchema();
  const store = postgresStore(server, { schema });
  await store.setUp();
  await store.write([{ table: "apis", row: api() }]);
  await store.insertKeys([{ row: keyRow(1, { hasCredits: true }), balance: { remaining: 9, amount: 0, period: 0 } }]);
  const { ref } = (await store.findKey("digest-1"))!;
  const draw = { holder: "h", spent: 0, cost: 1, step: 1, size: 1, period: 0, now: 0, until: 1_000 };
  await store.drawCredits(ref, draw);
  const bounds = { maxRecords: 10, maxPerWorkspace: 10 };
  const record = { workspaceId: "ws_1", id: "r", body: "b", until: 1_000 };
  await store.spendOnce(undefined, 0, { cost: 0, now: 0, once: { record, bounds } });
  await server.exec(`ALTER TABLE ${schema}.${table} DROP CONSTRAINT ${table}_${change.split(" ")[0]}_check;
    UPDATE ${schema}.${table} SET ${change};
    ALTER TABLE ${schema}.${table} ADD CONSTRAINT again CHECK (${change.split(" ")[0]} >= 0) NOT VALID;`);
  const call =
    table === "leases"
      ? store.drawCredits(ref, { ...draw, cost: 0 })
      : store.spendOnce(undefined, 0, { cost: 0, now: 0, once: { record: { ...record, id: "s" }, bounds } });
  const message = await Promise.resolve(call).then(String, (error: unknown) => (error as Error).message);
  expect(message).toContain("does not keep the rules of its table");
  await store.close();
});
