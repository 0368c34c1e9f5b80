/** A database file copied to PostgreSQL: everything is there, and behaves as it did. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, describe, expect, it } from "vitest";
import { copyDatabase } from "../../../src/cli/database/copy-database.js";
import { createAnalytics, createKeyring, createRatelimits, createVerifier, type Store } from "../../../src/index.js";
import { postgresStore } from "../../../src/stores/postgres/index.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { pglite } from "../../stores/postgres/support.js";

const { server, newSchema } = pglite();
const folder = mkdtempSync(join(tmpdir(), "copy-"));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;

/**
 * A file with rows of every table: a replaced key, a deleted one, leases that were never returned, idempotency keys, an
 * audit trail.
 */
async function filled() {
  const file = join(folder, `${++files}.db`);
  const store = sqliteStore(file);
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "docs" });
  await keyring.createPermission({ name: "read", slug: "documents.read" });
  await keyring.createRole({ name: "reader" });
  await keyring.createIdentity({ externalId: "user_1", meta: { plan: "pro", __proto__x: ["ü"] } });
  const made = [];
  for (let i = 0; i < 30; i++)
    made.push(
      await keyring.createKey({
        apiId,
        name: `ключ ${i}`,
        ...(i % 3 === 0 && { externalId: "user_1", roles: ["reader"] }),
        ...(i % 2 === 0 && { credits: { remaining: 100 + i, refill: { interval: "daily" as const, amount: 5 } } }),
      }),
    );
  await createRatelimits(store).setOverride({
    namespace: "sends",
    identifier: "premium_*",
    limit: 5,
    duration: 60_000,
  });
  const replaced = await keyring.rerollKey({ keyId: made[0]!.keyId, expiration: 60_000 });
  await keyring.deleteKey({ keyId: made[1]!.keyId });
  await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
  const verifier = createVerifier(store, { analytics: true });
  await verifier.verify({ key: made[2]!.key, credits: { cost: 7 } }, { idempotencyKey: "once" });
  await verifier.verify({ key: made[6]!.key, tags: ["plan=pro", "ü"] });
  await verifier.verify({ key: "unknown" });
  await verifier.close();
  const found = (await store.findKey(digest(file, made[4]!.keyId)))!;
  const lease = { holder: "dead", spent: 0, cost: 10, step: 10, size: 40, period: 0 };
  await store.drawCredits(found.ref, { ...lease, period: 32_000_000_000 + 20_000, now: 0, until: 1_000 });
  await store.close();
  return { file, made, replaced };
}

/** The digest of a key by its id. */
function digest(file: string, keyId: string): string {
  const handle = new Database(file, { readonly: true });
  const row = handle.prepare("SELECT digest FROM keystile_keys WHERE id = ?").get(keyId) as { digest: string };
  handle.close();
  return row.digest;
}

const copy = (file: string, schema: string) => copyDatabase(file, server, { schema, onProgress: () => undefined });

/** A client whose server refuses the statements that match. */
const failingAt = (statement: RegExp) => ({
  query: (text: string, values: (string | null)[]) =>
    statement.test(text)
      ? Promise.reject(Object.assign(new Error("refused"), { code: "42501" }))
      : server.query(text, values),
});

/** Matches the statement of a copy that writes rows of a table. */
const writing = (table: string) => new RegExp(`^INSERT INTO "\\w+"\\.${table} \\(`);

describe("copyDatabase", () => {
  it("copies every row and balance, and keys verify in the copy as before", async () => {
    const { file, made, replaced } = await filled();
    const schema = newSchema();
    const copied = await copy(file, schema);
    expect([...copied.values()].every(({ isSame }) => isSame)).toBe(true);
    expect(copied.get("keys")?.rows).toBe(31);
    expect([...copied.keys()].sort()).toEqual(
      [
        "apis",
        "audit",
        "idempotency",
        "identities",
        "keys",
        "namespaces",
        "overrides",
        "permissions",
        "roles",
        "rootKeys",
        ...["credit_days", "outcomes_day", "outcomes_hour", "subjects", "tag_sets"],
      ].sort(),
    );
    const [before, after] = [sqliteStore(file), postgresStore(server, { schema })];
    const countsOf = async (store: Store) => {
      const analytics = createAnalytics(store);
      const period = { from: Date.now() - 86_400_000, to: Date.now() };
      const { rows } = await analytics.query({ ...period, by: ["hour", "keyId", "outcome", "tag:plan"] });
      return [rows, await analytics.statement({ externalId: "user_1" }, new Date().toISOString().slice(0, 7))];
    };
    expect(await countsOf(after)).toEqual(await countsOf(before));
    expect((await countsOf(after))[0]).toHaveLength(3);
    const [old, here] = [createVerifier(before), createVerifier(after)];
    for (const [i, { key }] of [...made, replaced].entries()) {
      const result = await here.verify({ key });
      const expected = await old.verify({ key });
      // The reserve of a lease comes back at once; of 104 credits only the 10 that its node held are forfeited.
      expect(result, `key ${i}`).toEqual(i === 4 ? { ...expected, credits: 104 - 10 - 1 } : expected);
    }
    // A call that was made before the copy is not charged again.
    const repeated = await here.verify({ key: made[2]!.key, credits: { cost: 7 } }, { idempotencyKey: "once" });
    expect(repeated.credits).toBe(102 - 7 - 1);
    const keyring = createKeyring(after);
    await keyring.createKey({ apiId: (await keyring.listApis({})).data[0]!.id });
    for (const one of [old, here]) await one.close();
    for (const one of [before, after]) await one.close();
  });

  it("copies the credits of identities: keys go on drawing on them, and those that get some later have their own", async () => {
    const file = join(folder, `${++files}.db`);
    const store = sqliteStore(file);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "docs" });
    for (const externalId of ["ada", "bob"]) await keyring.createIdentity({ externalId });
    await keyring.updateIdentityCredits({ identity: "ada", operation: "set", value: 20 });
    const keys = await Promise.all(["ada", "bob"].map((externalId) => keyring.createKey({ apiId, externalId })));
    const verifier = createVerifier(store);
    await verifier.verify({ key: keys[0]!.key, credits: { cost: 7 } });
    await verifier.close();
    await store.close();
    const schema = newSchema();
    const copied = await copy(file, schema);
    expect([...copied.values()].every(({ isSame }) => isSame)).toBe(true);
    const after = postgresStore(server, { schema });
    const there = createVerifier(after);
    const creditsOf = async (i: number) => (await there.verify({ key: keys[i]!.key })).credits;
    expect([await creditsOf(0), await creditsOf(1)]).toEqual([12, undefined]);
    await createKeyring(after).updateIdentityCredits({ identity: "bob", operation: "set", value: 5 });
    await after.pollChanges("anew");
    expect([await creditsOf(0), await creditsOf(1)]).toEqual([11, 4]);
    await there.close();
    await after.close();
  });

  it("begins an interrupted copy again, and refuses a finished one, another source's, and a target in use", async () => {
    const { file } = await filled();
    const schema = newSchema();
    const losing = {
      query: (text: string, values: (string | null)[]) =>
        writing("accounts").test(text) ? Promise.reject(new Error("lost")) : server.query(text, values),
    };
    const failing = copyDatabase(file, losing, { schema, onProgress: () => undefined });
    await expect(failing).rejects.toMatchObject({ code: "STORE_UNAVAILABLE", outcomeUnknown: true });
    const copied = await copy(file, schema);
    expect([...copied.values()].every(({ isSame }) => isSame)).toBe(true);
    await expect(copy(file, schema)).rejects.toMatchObject({ code: "CONFLICT" });
    await expect(copy((await filled()).file, schema)).rejects.toMatchObject({ code: "CONFLICT" });
  });

  it("begins again from nothing where the source changed after the interruption", async () => {
    const { file } = await filled();
    const schema = newSchema();
    const failing = copyDatabase(file, failingAt(/SELECT kind, pg_catalog\.count/), {
      schema,
      onProgress: () => undefined,
    });
    await expect(failing).rejects.toMatchObject({ code: "STORE_FAILED" });
    const store = sqliteStore(file);
    const keyring = createKeyring(store);
    // A name that another id has now, a key that is gone for good, and an idempotency key that was forgotten.
    await keyring.deleteRole({ role: "reader" });
    const { roleId } = await keyring.createRole({ name: "reader" });
    const { data: apis } = await keyring.listApis({});
    const { data: keys } = await keyring.listKeys({ apiId: apis[0]!.id });
    await keyring.deleteKey({ keyId: keys[0]!.keyId, permanent: true });
    await store.close();
    const handle = new Database(file);
    handle.exec("DELETE FROM keystile_idempotency");
    handle.close();
    const copied = await copy(file, schema);
    expect([...copied].filter(([, { isSame }]) => !isSame)).toEqual([]);
    expect(copied.get("keys")?.rows).toBe(30);
    expect(copied.has("idempotency")).toBe(false);
    const after = postgresStore(server, { schema });
    expect((await createKeyring(after).getRole({ role: "reader" })).id).toBe(roleId);
    await after.close();
    await expect(copy(file, schema)).rejects.toMatchObject({ code: "CONFLICT" });
  });

  it("leaves nothing where the commit fails", async () => {
    const { file } = await filled();
    const schema = newSchema();
    const failing = copyDatabase(file, failingAt(/^COMMIT/), { schema, onProgress: () => undefined });
    await expect(failing).rejects.toMatchObject({ code: "STORE_FAILED" });
    expect((await server.query(`SELECT FROM ${schema}.keys`)).rows).toEqual([]);
    expect([...(await copy(file, schema)).values()].every(({ isSame }) => isSame)).toBe(true);
  });

  it("waits for statements that take longer than calls of a store may: counting millions of keys does", async () => {
    const { file } = await filled();
    const slow = {
      async query(text: string, values: (string | null)[]) {
        if (text.includes("count(*)::text AS n")) await new Promise((resolve) => setTimeout(resolve, 5_500));
        return server.query(text, values);
      },
    };
    const copied = await copyDatabase(file, slow, { schema: newSchema(), onProgress: () => undefined });
    expect([...copied.values()].every(({ isSame }) => isSame)).toBe(true);
  });

  it("says what differs, and is not finished then", async () => {
    const { file } = await filled();
    const schema = newSchema();
    const forgetting = {
      query: (text: string, values: (string | null)[]) =>
        server.query(
          writing("accounts").test(text)
            ? text.replace("ON CONFLICT", "WHERE (r ->> 'remaining')::bigint <> 105 ON CONFLICT")
            : text,
          values,
        ),
    };
    const copied = await copyDatabase(file, forgetting, { schema, onProgress: () => undefined });
    expect([...copied].filter(([, { isSame }]) => !isSame).map(([kind]) => kind)).toEqual(["keys"]);
    expect([...(await copy(file, schema)).values()].every(({ isSame }) => isSame)).toBe(true);
  });

  it.each([
    ["audit", "actor", "somebody"],
    ["audit", "time", "2000-01-01T00:00:00.001Z"],
    ["audit", "fields", ["another"]],
    ["idempotency", "body", "{}"],
    ["idempotency", "expires", 1],
    ["tag_sets", "day", 1],
  ])("reads back the rows of %s: what is stored for %s is compared", async (kind, column, wrong) => {
    const { file } = await filled();
    let changed = 0;
    const binding = {
      query(text: string, values: (string | null)[]) {
        if (!new RegExp(`^INSERT INTO "\\w+"\\.${kind} `).test(text)) return server.query(text, values);
        changed++;
        const [first, ...rows] = JSON.parse(values[0]!) as object[];
        return server.query(text, [JSON.stringify([{ ...first, [column]: wrong }, ...rows])]);
      },
    };
    const copied = await copyDatabase(file, binding, { schema: newSchema(), onProgress: () => undefined });
    expect(changed).toBe(1);
    expect([...copied].filter(([, { isSame }]) => !isSame).map(([differs]) => differs)).toEqual([kind]);
  });

  it("takes texts of the audit trail that PostgreSQL cannot hold for the same without what it cannot", async () => {
    const { file } = await filled();
    const handle = new Database(file);
    handle
      .prepare("UPDATE keystile_audit SET actor = 'a' || char(0) || 'b', ids = ? WHERE number = 1")
      .run('["x\\u0000y"]');
    handle.close();
    const copied = await copy(file, newSchema());
    expect(copied.get("audit")?.isSame).toBe(true);
  });
});
