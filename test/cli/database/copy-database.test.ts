/** A database file copied to PostgreSQL: everything is there, and behaves as it did. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, describe, expect, it } from "vitest";
import { copyDatabase } from "../../../src/cli/database/copy-database.js";
import {
  createAnalytics,
  createKeyring,
  createRatelimits,
  createVerifier,
  type Keyring,
  type Store,
} from "../../../src/index.js";
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
const writing = (table: string) => new RegExp(`^WITH held[^]*INSERT INTO "\\w+"\\.${table} \\(`);

/** Begins a copy that ends before its first page is written. */
async function beginAgain(file: string, schema: string): Promise<void> {
  const stopped = copyDatabase(file, failingAt(writing("entities")), {
    schema,
    onProgress: () => undefined,
  });
  await expect(stopped).rejects.toMatchObject({ code: "STORE_FAILED" });
}

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

  it.each([
    ["changed a key", { rows: 0 }, 5, (keyring: Keyring, keyId: string) => keyring.updateKey({ keyId, name: "here" })],
    // The numbers are set once a copy is finished: until then a new row gets one that is taken.
    ["tried to make an API", {}, 0, (keyring: Keyring) => keyring.createApi({ name: "here" }).catch(() => undefined)],
    [
      "recorded an idempotency key",
      { rows: 0 },
      5,
      async (_keyring: Keyring, _keyId: string, used: Store, key: string) => {
        const verifier = createVerifier(used);
        await verifier.verify({ key }, { idempotencyKey: "here" });
        await verifier.close();
      },
    ],
  ])("refuses to begin again where something else %s in the unfinished copy", async (_what, audit, at, use) => {
    const { file, made } = await filled();
    const schema = newSchema();
    const failing = copyDatabase(file, failingAt(/SELECT kind, pg_catalog\.count/), {
      schema,
      onProgress: () => undefined,
    });
    await expect(failing).rejects.toMatchObject({ code: "STORE_FAILED" });
    const used = postgresStore(server, { schema, audit });
    await use(createKeyring(used), made[at]!.keyId, used, made[at]!.key);
    const before = await used.readMany("keys", [made[at]!.keyId]);
    await expect(copy(file, schema)).rejects.toMatchObject({
      code: "CONFLICT",
      detail: expect.stringContaining(`DROP SCHEMA "${schema}" CASCADE`),
    });
    expect(await used.readMany("keys", [made[at]!.keyId])).toEqual(before);
    await used.close();
    await server.exec(`DROP SCHEMA "${schema}" CASCADE`);
    expect([...(await copy(file, schema)).values()].every(({ isSame }) => isSame)).toBe(true);
  });

  it("begins again where the end was undone, as often as it takes", async () => {
    const { file } = await filled();
    const schema = newSchema();
    const undoing = {
      async query(text: string, values: (string | null)[]) {
        if (!/^WITH named/.test(text)) return server.query(text, values);
        await server.query("BEGIN");
        await server.query(text, values);
        await server.query("ROLLBACK");
        throw Object.assign(new Error("canceling statement"), { code: "57014" });
      },
    };
    for (const client of [undoing, undoing, failingAt(/SELECT kind, pg_catalog\.count/)]) {
      const failing = copyDatabase(file, client, { schema, onProgress: () => undefined });
      await expect(failing).rejects.toMatchObject({ code: expect.stringMatching(/^STORE_(BUSY|FAILED)$/) });
    }
    expect([...(await copy(file, schema)).values()].every(({ isSame }) => isSame)).toBe(true);
  });

  it("of two first copies at once refuses the one that comes later", async () => {
    const { file } = await filled();
    const schema = newSchema();
    const later = {
      async query(text: string, values: (string | null)[]) {
        if (text.includes("VALUES ('copy', 'copy'")) await copy(file, schema);
        return server.query(text, values);
      },
    };
    const refused = copyDatabase(file, later, { schema, onProgress: () => undefined });
    await expect(refused).rejects.toMatchObject({ code: "CONFLICT", detail: expect.stringContaining("at once") });
  });

  it("does not finish a copy after another one has begun again", async () => {
    const { file } = await filled();
    const schema = newSchema();
    let isFirst = true;
    const overtaken = {
      async query(text: string, values: (string | null)[]) {
        const result = await server.query(text, values);
        if (isFirst && /SELECT kind, pg_catalog\.count/.test(text)) {
          isFirst = false;
          await beginAgain(file, schema);
        }
        return result;
      },
    };
    const first = copyDatabase(file, overtaken, { schema, onProgress: () => undefined });
    await expect(first).rejects.toMatchObject({ code: "CONFLICT", detail: expect.stringContaining("begun again") });
    expect([...(await copy(file, schema)).values()].every(({ isSame }) => isSame)).toBe(true);
  });

  it("a copy that stalled writes nothing after another one has finished and is served", async () => {
    const { file, made } = await filled();
    const schema = newSchema();
    const [, , spent, revoked] = made;
    let isServed = false;
    const stalling = {
      async query(text: string, values: (string | null)[]) {
        if (!isServed && writing("keys").test(text)) {
          isServed = true;
          expect([...(await copy(file, schema)).values()].every(({ isSame }) => isSame)).toBe(true);
          const store = postgresStore(server, { schema });
          const verifier = createVerifier(store);
          const all = await verifier.verify({ key: spent!.key, credits: { cost: 102 - 7 } });
          expect(all).toMatchObject({ valid: true, credits: 0 });
          await createKeyring(store).deleteKey({ keyId: revoked!.keyId });
          await verifier.close();
          await store.close();
        }
        return server.query(text, values);
      },
    };
    const stalled = copyDatabase(file, stalling, { schema, onProgress: () => undefined });
    await expect(stalled).rejects.toMatchObject({ code: "CONFLICT", detail: expect.stringContaining("begun again") });
    const store = postgresStore(server, { schema });
    const verifier = createVerifier(store);
    expect(await verifier.verify({ key: spent!.key })).toMatchObject({ valid: false, code: "USAGE_EXCEEDED" });
    expect(await verifier.verify({ key: revoked!.key })).toMatchObject({ valid: false, code: "NOT_FOUND" });
    await verifier.close();
    await store.close();
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
            ? text.replace("ON CONFLICT", "AND (r ->> 'remaining')::bigint <> 105 ON CONFLICT")
            : text,
          values,
        ),
    };
    const copied = await copyDatabase(file, forgetting, { schema, onProgress: () => undefined });
    expect([...copied].filter(([, { isSame }]) => !isSame).map(([kind]) => kind)).toEqual(["keys"]);
    expect([...(await copy(file, schema)).values()].every(({ isSame }) => isSame)).toBe(true);
  });

  it.each([
    ["audit", "r ->> 'actor'::text,", "'somebody',"],
    ["audit", "(r ->> 'time'::text)::timestamptz", "(r ->> 'time')::timestamptz + interval '1 ms'"],
    ["audit", "jsonb_array_elements_text(r -> 'fields'::text)", "jsonb_array_elements_text(r -> 'ids')"],
    ["idempotency", "r ->> 'body'", "r ->> 'id'"],
    ["idempotency", "(r ->> 'until'::text)::bigint", "(r ->> 'until')::bigint + 1"],
  ])("reads back the rows of %s: what is stored for %s is compared", async (kind, right, wrong) => {
    const { file } = await filled();
    let changed = 0;
    const binding = {
      query(text: string, values: (string | null)[]) {
        const isMeant = writing(kind).test(text) && text.includes(right);
        if (isMeant) changed++;
        return server.query(isMeant ? text.replace(right, wrong) : text, values);
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
