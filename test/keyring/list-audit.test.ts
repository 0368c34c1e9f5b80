/** listAudit: what is found, newest first, in pages that end. */
import { describe, expect, it, vi } from "vitest";
import type { ListAuditRequestBody } from "../../src/keyring/schemas/requests.js";
import { createKeyring, memoryStore, type Store } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";

const STORES: readonly (readonly [string, () => Store])[] = [
  ["memory", memoryStore],
  ["SQLite", () => sqliteStore(":memory:")],
];

describe.each(STORES)("listAudit on %s", (_name, open) => {
  async function world() {
    const store = open();
    let now = Date.UTC(2026, 0, 1);
    const keyring = createKeyring(store, { clock: () => (now += 1_000), actor: "ann" });
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { keyId } = await keyring.createKey({ apiId });
    for (const name of ["one", "two", "three"]) await keyring.updateKey({ keyId, name });
    await createKeyring(store, { clock: () => (now += 1_000), actor: "ben" }).deleteKey({ keyId });
    const all = async (request: ListAuditRequestBody) => {
      const found: string[] = [];
      let pages = 0;
      for (let cursor: string | undefined; ; pages++) {
        const page = await keyring.listAudit({ ...request, ...(cursor !== undefined && { cursor }) });
        expect(page.data.length).toBeLessThanOrEqual(request.limit ?? 100);
        found.push(...page.data.map(({ operation }) => operation));
        cursor = page.pagination.cursor;
        expect(page.pagination.hasMore).toBe(cursor !== undefined);
        if (cursor === undefined) return { found, pages: pages + 1 };
      }
    };
    return { store, keyring, apiId, keyId, all };
  }
  const CHANGES = ["deleteKey", "updateKey", "updateKey", "updateKey", "createKey", "createApi"];

  it("walks from the newest to the oldest, whatever the pages", async () => {
    const { store, all } = await world();
    for (const limit of [1, 2, 6, 100]) expect((await all({ limit })).found).toEqual(CHANGES);
    await store.close();
  });

  it("finds those of an id, an actor, an operation and a time", async () => {
    const { store, keyring, apiId, keyId, all } = await world();
    expect((await all({ id: keyId, limit: 2 })).found).toEqual(CHANGES.slice(0, 5));
    expect((await all({ id: apiId })).found).toEqual(["createApi"]);
    expect((await all({ actor: "ben" })).found).toEqual(["deleteKey"]);
    expect((await all({ operation: "updateKey", limit: 1 })).found).toEqual(CHANGES.slice(1, 4));
    const [newest, second] = (await keyring.listAudit({ limit: 2 })).data;
    expect((await all({ from: newest!.time })).found).toEqual(["deleteKey"]);
    expect((await all({ from: second!.time })).found).toEqual(["deleteKey", "updateKey"]);
    expect(await createKeyring(store, { workspaceId: "ws_other" }).listAudit()).toMatchObject({ data: [] });
    await store.close();
  });

  it("a page ends after 80 ms, and the next one goes on; a cursor of another list is a 400", async () => {
    const { store, keyring, all } = await world();
    for (let n = 0; n < 1_200; n++) await keyring.createRole({ name: `role_${n}` });
    let now = 0;
    const clock = vi.spyOn(performance, "now").mockImplementation(() => (now += 100));
    try {
      const { found, pages } = await all({ operation: "createApi" });
      expect(found).toEqual(["createApi"]);
      expect(pages).toBe(2);
    } finally {
      clock.mockRestore();
    }
    const { pagination } = await keyring.listRoles({ limit: 1 });
    for (const cursor of [pagination.cursor!, "none"])
      await expect(keyring.listAudit({ cursor })).rejects.toMatchObject({ errors: [{ location: "body.cursor" }] });
    await store.close();
  });
});
