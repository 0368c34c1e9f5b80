/** Deleted keys: found by id, text and search, with who deleted them and when; nothing brings them back. */
import { describe, expect, it } from "vitest";
import type { Caller } from "../../../src/contracts/caller.js";
import type { Store } from "../../../src/contracts/store.js";
import { contextOfKeyring, createKeyring } from "../../../src/keyring/keyring.js";
import { deleteKey } from "../../../src/keyring/keys/update-key.js";
import { runCall } from "../../../src/keyring/operation.js";
import { forOwner } from "../../../src/keyring/owner/owner-keys.js";
import { memoryStore } from "../../../src/stores/memory.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { explain } from "../../../src/verify/explain.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import { pglite } from "../../stores/postgres/support.js";
import { changed, failure } from "../support.js";

const NOW = 1_700_000_000_000;
const postgres = pglite();
const STORES: readonly (readonly [string, () => Store | Promise<Store>])[] = [
  ["memory", memoryStore],
  ["SQLite", () => sqliteStore(":memory:")],
  ["PostgreSQL", async () => (await postgres.open(1))[0]!],
];

async function world(given: Store | Promise<Store>) {
  const store = await given;
  const keyring = createKeyring(store, { clock: () => NOW, actor: "support@acme" });
  const { apiId } = await keyring.createApi({ name: "docs" });
  const made = await keyring.createKey({ apiId, name: "Acme server", prefix: "sk_live", externalId: "acme" });
  const kept = await keyring.createKey({ apiId, name: "Acme client", externalId: "acme" });
  await keyring.deleteKey({ keyId: made.keyId });
  return { store, keyring, apiId, made, kept };
}

const DELETION = { state: "deleted", deletedAt: NOW, deletedBy: "support@acme" } as const;

describe.each(STORES)("a deleted key on %s", (_, open) => {
  it("is found by its id, its text, its start, its name and its owner, where that is asked for", async () => {
    const { store, keyring, apiId, made, kept } = await world(open());
    const { keyId, key } = made;
    const asked = { includeDeleted: true };
    const shown = await keyring.getKey({ keyId, ...asked });
    expect(shown).toMatchObject({ keyId, apiId, ...DELETION, identity: { externalId: "acme" } });
    expect(await keyring.whoami({ key, ...asked })).toEqual(shown);
    expect(await keyring.getKeys({ keyIds: [kept.keyId, keyId], ...asked })).toMatchObject({
      keys: [{ keyId: kept.keyId, state: "active" }, DELETION],
    });
    for (const narrowed of [{ search: keyId }, { search: shown.start }, { search: "SERVER" }, { search: "acme" }, {}])
      for (const externalId of [undefined, "acme"])
        for (const order of ["made", undefined] as const) {
          const body = { ...narrowed, ...(externalId && { externalId }), ...(order && { order }) };
          const { data } = await keyring.searchKeys({ ...body, state: "deleted" });
          expect(data, JSON.stringify(body)).toEqual([shown]);
        }
    await store.close();
  });

  it("is nowhere for whoever does not ask", async () => {
    const { store, keyring, apiId, made, kept } = await world(open());
    const { keyId, key } = made;
    for (const act of [
      () => keyring.getKey({ keyId }),
      () => keyring.getKey({ keyId, includeDeleted: false }),
      () => keyring.whoami({ key }),
    ])
      expect((await failure(act())).code).toBe("NOT_FOUND");
    expect(await keyring.getKeys({ keyIds: [keyId] })).toEqual({ keys: [], rest: [] });
    const lists = [keyring.listKeys({ apiId }), keyring.searchKeys(), keyring.searchKeys({ search: "acme" })];
    for (const { data } of await Promise.all(lists)) expect(data.map((one) => one.keyId)).toEqual([kept.keyId]);
    const mine = await forOwner(keyring, "acme", { apiId }).list();
    expect(mine.data.map((one) => one.keyId)).toEqual([kept.keyId]);
    await store.close();
  });

  it("cannot be changed, rotated, or verified, nor deleted by somebody else", async () => {
    const { store, keyring, made } = await world(open());
    const { keyId, key } = made;
    for (const act of [
      () => keyring.updateKey({ keyId, enabled: true }),
      () => keyring.updateCredits({ keyId, operation: "set", value: 5 }),
      () => keyring.rerollKey({ keyId, expiration: 0 }),
      () => keyring.addPermissions({ keyId, permissions: ["a"] }),
      () => createKeyring(store, { actor: "other" }).deleteKey({ keyId }),
    ])
      expect((await failure(act())).code).toBe("NOT_FOUND");
    const verifier = createVerifier(store);
    expect(await verifier.verify({ key })).toEqual({ valid: false, code: "NOT_FOUND" });
    await verifier.close();
    expect(await keyring.getKey({ keyId, includeDeleted: true })).toMatchObject(DELETION);
    await store.close();
  });

  it("explain says who deleted it and when, by id and by text; in other APIs and workspaces it says nothing", async () => {
    const { store, keyring, apiId, made } = await world(open());
    const { keyId, key } = made;
    const verifier = createVerifier(store, { clock: () => NOW });
    const { state: _, ...deletion } = DELETION;
    const told = {
      ...{ passes: false, refusal: "NOT_FOUND", checks: [] },
      ...{ keyId, apiId, deleted: true, ...deletion },
    };
    expect(await explain(verifier, { keyId })).toEqual(told);
    expect(await explain(verifier, { key })).toEqual(told);
    expect(await explain(verifier, { key }, { apiId })).toEqual(told);
    const nothing = { passes: false, refusal: "NOT_FOUND", checks: [] };
    expect(await explain(verifier, { keyId }, { apiId: "api_other" })).toEqual(nothing);
    expect(await explain(verifier, { keyId: "key_unknown" })).toEqual(nothing);
    const elsewhere = createVerifier(store, { workspaceId: "ws_other" });
    expect(await explain(elsewhere, { keyId })).toEqual(nothing);
    await keyring.deleteKey({ keyId, permanent: true });
    expect(await explain(verifier, { keyId })).toEqual(nothing);
    expect((await failure(keyring.getKey({ keyId, includeDeleted: true }))).code).toBe("NOT_FOUND");
    await Promise.all([verifier.close(), elsewhere.close()]);
    await store.close();
  });

  it("is one of a deleted API too, of which no list has any", async () => {
    const { store, keyring, apiId, kept } = await world(open());
    await keyring.deleteApi({ apiId });
    const { keyId, key } = kept;
    const found = await keyring.getKey({ keyId, includeDeleted: true });
    expect(found.state).toBe("deleted");
    expect([found.deletedAt, found.deletedBy]).toEqual([undefined, undefined]);
    expect(await keyring.whoami({ key, includeDeleted: true })).toEqual(found);
    expect((await keyring.searchKeys({ state: "deleted" })).data).toEqual([]);
    const verifier = createVerifier(store);
    expect(await explain(verifier, { key })).toEqual({
      ...{ passes: false, refusal: "NOT_FOUND", checks: [] },
      ...{ keyId, apiId, deleted: true },
    });
    await verifier.close();
    await store.close();
  });

  it("many are walked to their end in each order, page by page", async () => {
    const { store, keyring, apiId } = await world(open());
    const made: string[] = [];
    for (let n = 0; n < 12; n++) {
      const expires = n % 2 === 0 ? { expires: NOW + ((n * 5) % 12) * 1_000 } : {};
      const { keyId } = await keyring.createKey({ apiId, name: `many ${n}`, credits: { remaining: n }, ...expires });
      await keyring.deleteKey({ keyId });
      made.push(keyId);
    }
    for (const [order, count] of [
      ["made", 12],
      ["expires", 6],
      ["credits", 12],
      ["lastUsed", 0],
    ] as const) {
      const found: string[] = [];
      for (let cursor: string | undefined; ;) {
        const more = cursor === undefined ? {} : { cursor };
        const page = await keyring.searchKeys({ state: "deleted", search: "many", order, limit: 5, ...more });
        found.push(...page.data.map(({ keyId }) => keyId));
        cursor = page.pagination.cursor;
        if (cursor === undefined) break;
      }
      expect(new Set(found).size, order).toBe(count);
      expect(found.every((keyId) => made.includes(keyId))).toBe(true);
      if (order === "credits") expect(found).toEqual(made);
    }
    await store.close();
  });
});

it("deletedBy is the root key, subject or owner that asked, and its kind where it has no id", async () => {
  const { store, keyring, apiId } = await world(memoryStore());
  const context = contextOfKeyring(keyring)!;
  const may: Pick<Caller, "workspaceId" | "may" | "mayAny"> = {
    ...{ workspaceId: "ws_default", may: () => true, mayAny: () => true },
  };
  for (const [caller, expected] of [
    [{ ...may, kind: "rootKey", id: "rk_1" }, "rk_1"],
    [{ ...may, kind: "proxyToken", id: "user|7" }, "user|7"],
    [{ ...may }, "caller"],
  ] as const) {
    const { keyId } = await keyring.createKey({ apiId });
    await runCall({ context, operation: "deleteKey", caller }, (call) => deleteKey.act(call, { keyId }));
    expect(await keyring.getKey({ keyId, includeDeleted: true })).toMatchObject({ deletedBy: expected });
  }
  const owned = await keyring.createKey({ apiId, externalId: "acme" });
  await forOwner(keyring, "acme", { apiId }).revoke({ keyId: owned.keyId });
  expect(await keyring.getKey({ keyId: owned.keyId, includeDeleted: true })).toMatchObject({ deletedBy: "acme" });
  const plain = createKeyring(store, { clock: () => NOW });
  const { keyId } = await plain.createKey({ apiId });
  await plain.deleteKey({ keyId });
  expect(await plain.getKey({ keyId, includeDeleted: true })).toMatchObject({ deletedBy: "program" });
});

it("a store without the power search finds a deleted key by its id, and says why not by its text", async () => {
  const { store, keyring, made } = await world(memoryStore());
  const { search: _, ...powers } = store.powers;
  const { searchKeys: __, countKeys: ___, findKeyIds: ____, ...rest } = store;
  const without = createKeyring(changed(rest as Store, { powers }));
  expect(await without.getKey({ keyId: made.keyId, includeDeleted: true })).toMatchObject(DELETION);
  expect((await failure(without.whoami({ key: made.key, includeDeleted: true }))).code).toBe("STORE_POWER_MISSING");
  await keyring.close();
});
