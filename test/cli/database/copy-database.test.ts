/** A database file copied to PostgreSQL: everything is there, and behaves as it did. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, describe, expect, it } from "vitest";
import { copyDatabase } from "../../../src/cli/database/copy-database.js";
import { createKeyring, createRatelimits, createVerifier } from "../../../src/index.js";
import { postgresStore } from "../../../src/stores/postgres/index.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { pglite } from "../../stores/postgres/support.js";

const { server, newSchema } = pglite();
const folder = mkdtempSync(join(tmpdir(), "copy-"));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;

/** A file with rows of every table: a replaced key, a deleted one, leases that were never returned, idempotency keys, an audit trail. */
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
  const verifier = createVerifier(store);
  await verifier.verify({ key: made[2]!.key, credits: { cost: 7 } }, { idempotencyKey: "once" });
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
      ].sort(),
    );
    const [before, after] = [sqliteStore(file), postgresStore(server, { schema })];
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

  it("goes on with a copy that was interrupted, and refuses a finished one, another source's, and a target in use", async () => {
    const { file } = await filled();
    const schema = newSchema();
    const losing = {
      query: (text: string, values: (string | null)[]) =>
        text.startsWith("INSERT INTO") && text.includes(".accounts (number")
          ? Promise.reject(new Error("lost"))
          : server.query(text, values),
    };
    const failing = copyDatabase(file, losing, { schema, onProgress: () => undefined });
    await expect(failing).rejects.toMatchObject({ code: "STORE_UNAVAILABLE", outcomeUnknown: true });
    const copied = await copy(file, schema);
    expect([...copied.values()].every(({ isSame }) => isSame)).toBe(true);
    await expect(copy(file, schema)).rejects.toMatchObject({ code: "CONFLICT" });
    await expect(copy((await filled()).file, schema)).rejects.toMatchObject({ code: "CONFLICT" });
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
          text.startsWith("INSERT INTO") && text.includes(".accounts (number")
            ? text.replace("ON CONFLICT", "WHERE (r ->> 'remaining')::bigint <> 106 ON CONFLICT")
            : text,
          values,
        ),
    };
    const copied = await copyDatabase(file, forgetting, { schema, onProgress: () => undefined });
    expect([...copied].filter(([, { isSame }]) => !isSame).map(([kind]) => kind)).toEqual(["keys"]);
    expect([...(await copy(file, schema)).values()].every(({ isSame }) => isSame)).toBe(true);
  });
});
